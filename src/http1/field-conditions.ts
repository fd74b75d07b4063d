import type { FieldBlock } from './field-block.ts';
import { comparable } from './field-rules.ts';
import { valuesOf } from './fields.ts';
import { hasPunctuation, reservedByFolding } from './forwarded-fields.ts';
import { trimmed } from './response-head.ts';

/*
 * Conditions on the header fields of a request (`when` in the settings).
 */

/** What a header field of a request must be. */
export interface FieldCondition {
  /** The name, in lower case. */
  readonly header: string;
  /** The values of which it must have one, compared as they are written; null if the field only has to be there. */
  readonly is: readonly string[] | null;
}

/** The fields of a request that are compared: those that Connection lists belong to the connection, and no service gets them. */
export interface ComparedFields {
  readonly fields: Pick<FieldBlock, 'rawHeaders'>;
  /** Lower-case names that Connection lists. */
  readonly connectionNames: ReadonlySet<string>;
}

/** `unclear`: the field has several values, and only some of them fit, or too many. */
type Outcome = { readonly kind: 'holds' | 'fails' } | { readonly kind: 'unclear'; readonly header: string };

const HOLDS: Outcome = { kind: 'holds' };
const FAILS: Outcome = { kind: 'fails' };
/** A field with more values is unclear, so that what a client sends does not decide what a comparison costs. */
const MAX_VALUES = 16;

/** Compares the fields of one request with any number of conditions. Each field is read once. */
export class FieldComparison {
  readonly #of: ComparedFields;
  readonly #values = new Map<string, readonly string[] | null>();

  constructor(of: ComparedFields) {
    this.#of = of;
  }

  /** Whether all of these conditions hold. */
  check(conditions: readonly FieldCondition[]): Outcome {
    let outcome = HOLDS;
    for (const condition of conditions) {
      const one = this.#check(condition);
      if (one.kind === 'fails') return FAILS;
      if (one.kind === 'unclear') outcome = one;
    }
    return outcome;
  }

  #check({ header, is }: FieldCondition): Outcome {
    const values = this.#valuesOf(header);
    if (values === null) return FAILS;
    if (is === null) return HOLDS;
    if (values.length > MAX_VALUES) return { kind: 'unclear', header };
    const fitting = values.filter((value) => is.includes(value)).length;
    if (fitting === 0) return FAILS;
    return fitting === values.length ? HOLDS : { kind: 'unclear', header };
  }

  /**
   * The elements of all lines of a field together (RFC 9110 sections 5.2 and 5.6.1); null if it is not there. An empty one counts, because it
   * is the value for a service that takes the first line or element.
   *
   * Attack: `X-Version: v1, v2`, in one line or in two. Some services take the first value, some the last, and some the whole text, so the
   * rules of the route for one of them would hold for the work of the other.
   */
  #valuesOf(header: string): readonly string[] | null {
    const known = this.#values.get(header);
    if (known !== undefined) return known;
    const { fields, connectionNames } = this.#of;
    const lines = connectionNames.has(header) ? [] : valuesOf(fields.rawHeaders, header);
    const elements = lines.flatMap((line) => line.split(',')).map((text) => trimmed(text, 0, text.length));
    const values = lines.length === 0 ? null : elements;
    this.#values.set(header, values);
    return values;
  }
}

/**
 * The fields as a service reads them that folds punctuation in their names (`Mcp_Name`); null if no name has any. Also those that
 * `headers.allow` does not let pass are there.
 */
export function foldedFields({ fields: { rawHeaders }, connectionNames }: ComparedFields): ComparedFields | null {
  const names = rawHeaders.filter((_, i) => i % 2 === 0);
  if (!names.some(hasPunctuation)) return null;
  const sent = names.flatMap((name, i) =>
    connectionNames.has(name.toLowerCase()) ? [] : [comparable(name, 'request'), rawHeaders[2 * i + 1]!],
  );
  return { fields: { rawHeaders: sent }, connectionNames: new Set() };
}

/** Whether a request may fit both, although they are equally specific: they name the same fields, and have values of each in common. */
export function isContested(one: readonly FieldCondition[] | null, other: readonly FieldCondition[] | null): boolean {
  const [all, others] = [one ?? [], other ?? []];
  if (all.length !== others.length) return false;
  return all.every(({ header, is }) => {
    const same = others.find((condition) => condition.header === header);
    if (same === undefined || (same.is === null) !== (is === null)) return false;
    return is === null || is.some((value) => same.is!.includes(value));
  });
}

/**
 * Texts of which conditions have one in common if they are contested, so that thousands of routes need not be compared with each other: the
 * fields, and each value of one of them.
 */
export function contestedBy(conditions: readonly FieldCondition[] | null): readonly string[] {
  const sorted = (conditions ?? []).toSorted((a, b) => (a.header < b.header ? -1 : 1));
  const fields = sorted.map(({ header, is }) => (is === null ? header : `${header}=`)).join(' ');
  const values = sorted.find(({ is }) => is !== null)?.is ?? [''];
  return values.map((value) => `${fields} ${value}`);
}

/** Compares two lists of conditions for sorting, the more specific first: exact values before presence, and more fields before fewer. */
export function bySpecificity(one: readonly FieldCondition[] | null, other: readonly FieldCondition[] | null): number {
  const exact = (conditions: readonly FieldCondition[] | null) =>
    conditions?.filter(({ is }) => is !== null).length ?? 0;
  return exact(other) - exact(one) || (other?.length ?? 0) - (one?.length ?? 0);
}

/** Names conditions in logs and metrics, each with its first value: `x-version: v2, mcp-name`. */
export function namedConditions(conditions: readonly FieldCondition[]): string {
  return conditions.map(({ header, is }) => (is === null ? header : `${header}: ${is[0]}`)).join(', ');
}

/** Fields that carry a credential, and none of which the gateway writes itself. */
const CREDENTIALS = /^(?:cookie|proxy-authorization|authorization)$/;

/**
 * Why a condition may not be about a field, as the end of a sentence that starts with its name; null if it may.
 *
 * Attack: the service gets another value of such a field than the gateway has compared, or logs and metrics have a part of a credential.
 */
export function faultOfConditionField(name: string): string | null {
  const folded = comparable(name, 'request');
  if (folded === 'host') return 'is compared by `hosts` of a route; use that';
  if (CREDENTIALS.test(folded)) return 'carries credentials, which are not compared; name another field';
  if (reservedByFolding(name) === null && !/^(?:sec-websocket-.*|max-forwards|close)$/.test(folded)) return null;
  return `belongs to the connection or to the gateway, and services do not get it as it was sent (${folded}); name another field`;
}
