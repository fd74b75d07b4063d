import type { FieldValues } from '../http1/fields.ts';
import { BodyReader } from './body-reader.ts';
import {
  AMOUNT,
  type BodySource,
  type ChosenRows,
  type CostReading,
  type CostSource,
  factorIn,
  MAX_AMOUNT,
  PART,
  type PlainSource,
  paidPart,
  rowIn,
  type SumSource,
  type Table,
  type Value,
} from './cost.ts';
import { type Decoding, isDecodable } from './decoders.ts';
import { weightedSum } from './factor.ts';
import { LINE_END, RECORD_BEGIN } from './json-lines.ts';
import type { NumberReading } from './json-number.ts';

/** Begins to decompress an answer, as `Decoders.start` does. @param read returns false if no more is needed */
export type StartDecoding = (coding: string, first: number, read: (bytes: Buffer) => boolean) => Decoding;

/** JSON texts with a byte in front of each, in place of a line each (RFC 7464). */
const JSON_SEQUENCE = 'application/json-seq';

/** What each kind of body has as its media type. JSON has every other type that ends in `+json` as well. */
const KINDS: ReadonlyMap<string, BodySource['kind']> = new Map([
  ['application/json', 'json'],
  ['text/json', 'json'],
  ['text/event-stream', 'sse'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['application/jsonlines', 'ndjson'],
  ['application/x-jsonlines', 'ndjson'],
  ['application/stream+json', 'ndjson'],
  [JSON_SEQUENCE, 'ndjson'],
]);

/** How a value is found: read already, or in the body. */
type PlainWay =
  | { readonly kind: 'read'; readonly found: NumberReading }
  | { readonly kind: 'body'; readonly reader: BodyReader };

/** How the cost in a unit is found: a value, the sum of several, or measured. */
type Way =
  | PlainWay
  | { readonly kind: 'sum'; readonly parts: readonly PartWay[] }
  | { readonly kind: 'bytes' | 'milliseconds' };

interface PartWay {
  readonly part: SumSource['parts'][number];
  readonly way: PlainWay;
}

/** What is known of an answer from its head. */
interface AnswerHead {
  readonly fields: FieldValues;
  /** The media type, null if it has none. */
  readonly type: string | null;
}

type Measured = Readonly<Record<'bytes' | 'milliseconds', number>>;
type Readings = readonly CostReading[];
type Unknown = Extract<CostReading, { kind: 'unknown' }>;

/** A unit: the sources of its cost. They are alternatives, see `AnswerReader`. */
interface MeteredUnit {
  readonly sources: readonly CostSource[];
}

/**
 * Reads what a request cost, in each unit, from the service's answer while it passes. Call `chunk` for each piece of the
 * body, and `end`, which is called exactly once and may come at any time.
 *
 * Of the sources of a unit a header field wins if it is there. Otherwise the number in the body counts whose kind has the
 * answer's media type; an answer without a media type, or with `text/plain`, may have any, if the unit has sources of one kind
 * only. Otherwise the length or the duration counts, if it is a source. A sum has the kinds of its parts.
 *
 * A compressed body is decompressed by a thread, on the side. Any other is read at once, with some nanoseconds for each byte. Neither
 * has a longest length that is read.
 *
 * Attack: a client asks for an answer that is longer than what the gateway reads, so that its cost is not found.
 */
export class AnswerReader {
  readonly #decode: StartDecoding;
  /** By unit. */
  #ways: readonly Way[];
  /** Of each table whose row the answer names. */
  #rows: ReadonlyMap<Table, PlainWay>;
  /** The rows that the request has chosen. */
  readonly #requestRows: ChosenRows | null;
  /** Those that read the body. */
  #readers: readonly BodyReader[] = [];
  /** How many of them are not over. */
  #reading = 0;
  /** The Content-Encoding of one coding; null if the body is sent as it is. */
  readonly #coding: string | null;
  #decoding: Decoding | null = null;
  /** Why the body cannot be read; null if it can. */
  #fault: Unknown['why'] | null = null;
  /** The length of the body so far. */
  #bytes = 0;

  /**
   * @param fields of the final response
   * @param rows of the tables whose rows the request names; null for none
   */
  constructor(
    units: readonly MeteredUnit[],
    fields: FieldValues,
    decode: StartDecoding,
    rows: ChosenRows | null = null,
  ) {
    this.#decode = decode;
    this.#requestRows = rows;
    const head = { fields, type: mediaTypeOf(fields) };
    const codings = codingsOf(fields);
    this.#coding = codings[0] ?? null;
    if (codings.length > 1 || (this.#coding !== null && !isDecodable(this.#coding))) this.#fault = 'undecodable';
    this.#ways = units.map(({ sources }) => wayOf(sources, head));
    this.#rows = rowWaysOf(this.#ways, head);
    if (this.#fault !== null) return;
    this.#readers = readersOf(this.#ways, this.#rows);
    this.#reading = this.#readers.length;
  }

  /** A piece of the body as the service sends it. Its memory may be reused after the call. */
  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#reading === 0 || bytes.length === 0) return;
    if (this.#coding === null) {
      this.#read(bytes);
      return;
    }
    this.#decoding ??= this.#decode(this.#coding, bytes[0]!, (decoded) => this.#read(decoded));
    this.#decoding.add(bytes);
  }

  /** Whether the body is decompressed to be read. */
  get isCompressed(): boolean {
    return this.#reading > 0 && this.#coding !== null;
  }

  /** Whether the body arrives faster than it is decompressed, so that the next piece should wait. */
  get isBehind(): boolean {
    return this.#decoding?.isBehind === true;
  }

  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void {
    this.#decoding?.whenCaughtUp(next);
  }

  /**
   * Attack: a client leaves as soon as it has the last event of a compressed stream, while that is still being decompressed. So
   * all that has arrived is read.
   * @param isWhole false if the answer broke off, or the client left
   * @param elapsedMs how long the request was at the service
   * @returns by unit, in their order; a promise, which never rejects, only while a thread still decompresses
   */
  end(isWhole: boolean, elapsedMs: number): Readings | Promise<Readings> {
    if (this.#decoding === null || this.#decoding.isOver) return this.#take(isWhole, elapsedMs);
    return this.#decoding.end(isWhole).then(() => this.#take(isWhole, elapsedMs));
  }

  /** @returns whether any reader reads on */
  #read(bytes: Buffer): boolean {
    for (const reader of this.#readers) {
      if (reader.isOver) continue;
      reader.add(bytes);
      if (reader.isOver) this.#reading--;
    }
    return this.#reading > 0;
  }

  /** Takes the readings and frees all that is kept. */
  #take(isWhole: boolean, elapsedMs: number): Readings {
    const fault = this.#decoding?.fault ?? this.#fault;
    const measured = { bytes: this.#bytes, milliseconds: Math.ceil(elapsedMs) };
    const rows = this.#rows.size === 0 ? this.#requestRows : this.#chosenRows(isWhole && fault === null);
    const readings = this.#ways.map((way): CostReading => {
      // What a field says is known however much of the body came.
      if (!isWhole && !isKnown(way)) return unknown('cut', seenBy(way, measured, rows));
      if (fault !== null && hasBody(way)) return unknown(fault, seenBy(way, measured, rows));
      return readingBy(way, measured, rows);
    });
    this.#ways = [];
    this.#rows = NO_ROWS;
    this.#readers = [];
    this.#reading = 0;
    this.#decoding = null;
    return readings;
  }

  /** The rows that the request and its answer have chosen. A name that is missing counts as one that the table lacks. */
  #chosenRows(isWhole: boolean): ChosenRows {
    const chosen = new Map(this.#requestRows);
    for (const [table, way] of this.#rows) {
      const found = isWhole ? foundBy(way) : seenInWay(way);
      chosen.set(table, typeof found === 'number' ? found : table.rows.size);
    }
    return chosen;
  }
}

const NO_ROWS: ReadonlyMap<Table, PlainWay> = new Map();

function rowWaysOf(ways: readonly Way[], head: AnswerHead): ReadonlyMap<Table, PlainWay> {
  if (!ways.some((way) => way.kind === 'sum')) return NO_ROWS;
  const rows = new Map<Table, PlainWay>();
  for (const way of ways) {
    for (const { part } of way.kind === 'sum' ? way.parts : []) {
      const table = 'table' in part.times ? part.times.table : null;
      if (table === null || table.by.of !== 'answer' || rows.has(table)) continue;
      rows.set(table, plainWayOf(table.by.sources, head, rowIn(table)) ?? ABSENT);
    }
  }
  return rows;
}

function readersOf(ways: readonly Way[], rows: ReadonlyMap<Table, PlainWay>): readonly BodyReader[] {
  const readers: BodyReader[] = [];
  for (const way of ways) {
    if (way.kind === 'body') readers.push(way.reader);
    else if (way.kind === 'sum')
      for (const part of way.parts) if (part.way.kind === 'body') readers.push(part.way.reader);
  }
  if (rows.size > 0) for (const way of rows.values()) if (way.kind === 'body') readers.push(way.reader);
  return readers;
}

const ABSENT: PlainWay = { kind: 'read', found: 'absent' };

function wayOf(sources: readonly CostSource[], head: AnswerHead): Way {
  for (const source of sources) {
    const way = source.kind === 'header' ? fieldWayOf(source.name, head, AMOUNT) : null;
    if (way !== null) return way;
  }
  const kind = bodyKindOf(sources, head);
  for (const source of sources) {
    if (source.kind === 'sum') {
      const parts = source.parts.flatMap((part) => {
        const way =
          part.source.kind === 'header'
            ? fieldWayOf(part.source.name, head, PART)
            : bodyWayOf(part.source, kind, head, PART);
        return way === null ? [] : [{ part, way }];
      });
      if (parts.length > 0) return { kind: 'sum', parts };
    } else if ('pointer' in source) {
      const way = bodyWayOf(source, kind, head, AMOUNT);
      if (way !== null) return way;
    }
  }
  return measuredWay(sources);
}

/** The way of a value that is no sum; null if the answer cannot have it. */
function plainWayOf(sources: readonly PlainSource[], head: AnswerHead, value: Value): PlainWay | null {
  const kind = bodyKindOf(sources, head);
  for (const source of sources) {
    const way = source.kind === 'header' ? fieldWayOf(source.name, head, value) : null;
    if (way !== null) return way;
  }
  for (const source of sources) {
    const way = source.kind === 'header' ? null : bodyWayOf(source, kind, head, value);
    if (way !== null) return way;
  }
  return null;
}

function fieldWayOf(name: string, { fields }: AnswerHead, { read }: Value): PlainWay | null {
  const values = fields.values(name);
  if (values.length === 0) return null;
  return { kind: 'read', found: (values.length === 1 ? read(values[0]!) : null) ?? 'invalid' };
}

/** @param kind of the body of the answer, null if it has none */
function bodyWayOf(
  source: BodySource,
  kind: BodySource['kind'] | null,
  { type }: AnswerHead,
  value: Value,
): PlainWay | null {
  if (source.kind !== kind) return null;
  return { kind: 'body', reader: new BodyReader(source, type === JSON_SEQUENCE ? RECORD_BEGIN : LINE_END, value) };
}

/** The way of an answer of which nothing but its length and its duration can be known. */
function measuredWay(sources: readonly CostSource[]): Way {
  const source = sources.find(({ kind }) => kind === 'bytes' || kind === 'milliseconds');
  return source?.kind === 'bytes' || source?.kind === 'milliseconds'
    ? { kind: source.kind }
    : { kind: 'read', found: 'absent' };
}

/** Which kind of source reads the body of the answer; null for none. */
function bodyKindOf(sources: readonly CostSource[], { type }: AnswerHead): BodySource['kind'] | null {
  if (type !== null && type !== 'text/plain') return KINDS.get(type) ?? (type.endsWith('+json') ? 'json' : null);
  let only: BodySource['kind'] | null = null;
  for (const one of sources) {
    for (const source of one.kind === 'sum' ? one.parts.map((part) => part.source) : [one]) {
      if (!('pointer' in source) || source.kind === only) continue;
      if (only !== null) return null;
      only = source.kind;
    }
  }
  return only;
}

/** The media type in lower case, without parameters; null without a Content-Type field, and empty if it has several. */
function mediaTypeOf(fields: FieldValues): string | null {
  const types = fields.values('content-type');
  if (types.length === 0) return null;
  if (types.length > 1) return '';
  const type = types[0]!;
  return KINDS.has(type) ? type : type.split(';', 1)[0]!.trim().toLowerCase();
}

/** The codings of a body in lower case, without those that change nothing. */
function codingsOf(fields: FieldValues): readonly string[] {
  const values = fields.values('content-encoding');
  if (values.length === 0) return values;
  return values
    .join(',')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
}

function foundBy(way: PlainWay): NumberReading {
  return way.kind === 'read' ? way.found : way.reader.end();
}

/** Whether all of a cost is in fields. */
function isKnown(way: Way): boolean {
  if (way.kind === 'sum') return way.parts.every((part) => isKnown(part.way));
  return way.kind === 'read' && typeof way.found === 'number';
}

function hasBody(way: Way): boolean {
  return way.kind === 'sum' ? way.parts.some((part) => hasBody(part.way)) : way.kind === 'body';
}

function readingBy(way: Way, measured: Measured, rows: ChosenRows | null): CostReading {
  if (way.kind === 'sum') return sumOf(way.parts, rows);
  const found = way.kind === 'read' || way.kind === 'body' ? foundBy(way) : measured[way.kind];
  if (typeof found !== 'number') return unknown(found === 'no_json' ? 'invalid' : found, seenBy(way, measured, rows));
  return found <= MAX_AMOUNT ? { kind: 'known', amount: found } : unknown('too_large', null);
}

/** A part that is absent is 0 if another one is there. One that cannot be read makes the whole sum unknown. */
function sumOf(ways: readonly PartWay[], rows: ChosenRows | null): CostReading {
  const found = ways.map(({ part, way }) => ({ part, amount: foundBy(way) }));
  const isInvalid = found.some(({ amount }) => amount === 'invalid' || amount === 'no_json');
  const there = found.filter((one): one is typeof one & { amount: number } => typeof one.amount === 'number');
  if (isInvalid || there.length === 0) return unknown(isInvalid ? 'invalid' : 'absent', seenInParts(ways, rows));
  const amount = weightedSum(there.map(({ part, amount: of }) => ({ amount: of, factor: factorIn(part.times, rows) })));
  if (amount > MAX_AMOUNT) return unknown('too_large', null);
  return { kind: 'known', amount, parts: there.map(({ part, amount: of }) => paidPart(part, of, rows)) };
}

/** The last amount that has been read; null if none has. */
function seenBy(way: Way, measured: Measured, rows: ChosenRows | null): number | null {
  if (way.kind === 'sum') return seenInParts(way.parts, rows);
  if (way.kind === 'read' || way.kind === 'body') return seenInWay(way);
  return Math.min(measured[way.kind], MAX_AMOUNT);
}

function seenInWay(way: PlainWay): number | null {
  if (way.kind === 'read') return typeof way.found === 'number' ? way.found : null;
  return way.reader.seen;
}

function seenInParts(ways: readonly PartWay[], rows: ChosenRows | null): number | null {
  const terms = ways.flatMap(({ part, way }) => {
    const amount = seenInWay(way);
    return amount === null ? [] : [{ amount, factor: factorIn(part.times, rows) }];
  });
  return terms.length === 0 ? null : Math.min(weightedSum(terms), MAX_AMOUNT);
}

function unknown(why: Unknown['why'], seen: number | null): CostReading {
  return { kind: 'unknown', why, seen };
}
