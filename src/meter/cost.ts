import { type Factor, largestOf, numberOf, smallestOf } from './factor.ts';

/*
 * What a request cost, as the service's answer states it: where it stands, what it is multiplied by, and what is known of it.
 */

/**
 * Where the cost of an answer stands. `bytes`: the length of its body as the service sends it. `milliseconds`: how long the
 * request was at the service. `sum`: numbers that are multiplied and added. `pointer`: the tokens of a JSON Pointer, see `pointerOf`.
 * @typeParam T what a part of a sum is multiplied by
 */
export type CostSource<T = Times> =
  | PlainSource
  | { readonly kind: 'bytes' }
  | { readonly kind: 'milliseconds' }
  | SumSource<T>;

/** Where one value of an answer stands. */
export type PlainSource = { readonly kind: 'header'; readonly name: string /* in lower case */ } | BodySource;

/** A value in a JSON text: the whole body, the data of an event of an event stream, or a line of newline-delimited JSON. */
export interface BodySource {
  readonly kind: 'json' | 'sse' | 'ndjson';
  readonly pointer: readonly string[];
}

/** A part that the answer does not have is 0 if it has another one. The sum is rounded up. */
export interface SumSource<T = Times> {
  readonly kind: 'sum';
  readonly parts: readonly Part<T>[];
}

interface Part<T> {
  readonly source: PlainSource;
  /** The field or the pointer, as reports name it. */
  readonly of: string;
  readonly times: T;
}

/** What a part of a sum is multiplied by: a number, or one of a column of a table. */
export type Times = Factor | TableColumn;

/** A column of a table of gateway.yaml (`tables`). */
export interface TableColumn {
  readonly table: Table;
  /** By row, in the order of the table; the last one is for names that it lacks: its default, or else the largest of the column. */
  readonly factors: readonly Factor[];
}

/** The rows of a table, and which value of a request or of its answer names the row. */
export interface Table {
  readonly by: RowChoice;
  /** The index of each row. */
  readonly rows: ReadonlyMap<string, number>;
  /** Whether it has a row for names that it lacks. */
  readonly hasDefault: boolean;
}

export type RowChoice =
  | {
      readonly of: 'request';
      readonly source:
        | { readonly kind: 'header'; readonly name: string }
        | { readonly kind: 'json'; readonly pointer: readonly string[] };
    }
  | { readonly of: 'answer'; readonly sources: readonly PlainSource[] };

/** The index of the row that a name has in a table: that of its default, behind all others, for one that it lacks. */
export function rowOf({ rows }: Table, name: string): number {
  return rows.get(name) ?? rows.size;
}

/** The rows that a request and its answer have chosen, by table. */
export type ChosenRows = ReadonlyMap<Table, number>;

/** @param rows with that of the table */
export function factorIn(times: Times, rows: ChosenRows | null): Factor {
  return 'digits' in times ? times : times.factors[rows?.get(times.table) ?? times.factors.length - 1]!;
}

/** The smallest and the largest number that a part may be multiplied by. */
export function leastTimes(times: Times): Factor {
  return 'digits' in times ? times : smallestOf(times.factors);
}

export function mostTimes(times: Times): Factor {
  return 'digits' in times ? times : largestOf(times.factors);
}

/** A part of a cost as reports show it. */
export interface PaidPart {
  readonly of: string;
  readonly amount: number;
  readonly times: number;
  /** The row of a table that `times` is from: its name, `default`, or `largest` for a name that a table without default lacks. */
  readonly row?: string;
}

export function paidPart({ of, times }: Part<Times>, amount: number, rows: ChosenRows | null): PaidPart {
  const paid = { of, amount, times: numberOf(factorIn(times, rows)) };
  if ('digits' in times) return paid;
  const { table } = times;
  const index = rows?.get(table) ?? table.rows.size;
  const named = table.rows.entries().find(([, row]) => row === index)?.[0];
  return { ...paid, row: named ?? (table.hasDefault ? 'default' : 'largest') };
}

/**
 * What is known of the cost in one unit. Amounts are whole numbers from 0 to `MAX_AMOUNT`.
 *
 * - `absent`: the answer does not state it
 * - `invalid`: it states it twice, or not as an amount
 * - `too_large`: what was measured, or the sum, is above `MAX_AMOUNT`
 * - `undecodable`: the Content-Encoding is unknown, or the body is not in it
 * - `busy`: the gateway stopped while the body was being decompressed
 * - `cut`: the answer did not arrive whole
 */
export type CostReading =
  | {
      readonly kind: 'known';
      readonly amount: number;
      /** What a sum was made of; left out for any other cost. */
      readonly parts?: readonly PaidPart[];
    }
  | {
      readonly kind: 'unknown';
      readonly why: 'absent' | 'invalid' | 'too_large' | 'undecodable' | 'busy' | 'cut';
      /** The last amount that was read nevertheless; null if there is none. */
      readonly seen: number | null;
    };

/** The largest cost of one request in one unit. */
export const MAX_AMOUNT = 1_000_000_000_000;

/** The longest text of an amount, in characters. */
const MAX_DIGITS = 40;
const JSON_NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** The same of a text that is too long: a number from 0, as far as its beginning says. */
const LONG_NUMBER = /^[0-9][-+.0-9eE]*$/;

/** @returns Infinity for one of more than 40 characters, which need not be whole; null if it is no JSON number from 0 */
function jsonNumberOf(text: string): number | null {
  if (text.length > MAX_DIGITS) return LONG_NUMBER.test(text) ? Infinity : null;
  const number = JSON_NUMBER.test(text) ? Number(text) : -1;
  // `+ 0` turns -0 into 0.
  return number >= 0 ? number + 0 : null;
}

/**
 * Reads the text of a JSON number from 0 as a whole number; a fraction is rounded up.
 * @returns Infinity for one of more than 40 characters, which need not be whole; null if it is no such number
 */
export function wholeNumberOf(text: string): number | null {
  const number = jsonNumberOf(text);
  return number === null ? null : Math.ceil(number);
}

/** The same as an amount. @returns null unless it is between 0 and `MAX_AMOUNT`, in at most 40 characters */
export function amountOf(text: string): number | null {
  const number = wholeNumberOf(text);
  return number !== null && number <= MAX_AMOUNT ? number : null;
}

/** The same as a part of an amount, which is not rounded. */
export function partOf(text: string): number | null {
  const number = jsonNumberOf(text);
  return number !== null && number <= MAX_AMOUNT ? number : null;
}

/** What is read at a pointer: a number, of which `read` gets at most 41 characters, or a text of any characters. */
export interface Value {
  readonly isText: boolean;
  /** @returns null for a text that is no such value */
  read(text: string): number | null;
}

export const AMOUNT: Value = { isText: false, read: amountOf };
export const PART: Value = { isText: false, read: partOf };

/** The name of a row: its index. */
export function rowIn(table: Table): Value {
  return { isText: true, read: (name) => rowOf(table, name) };
}

/**
 * The tokens of a JSON Pointer (RFC 6901) such as `/usage/total_tokens`, with their escapes decoded.
 * @returns null if it is malformed, or the empty pointer, which names the whole text
 */
export function pointerOf(text: string): readonly string[] | null {
  if (!text.startsWith('/') || !text.isWellFormed() || /~(?![01])/.test(text)) return null;
  return text
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Writes what `pointerOf` reads. */
export function pointerText(tokens: readonly string[]): string {
  return tokens.map((token) => `/${token.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
