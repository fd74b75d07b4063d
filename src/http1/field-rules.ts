import { hasPunctuation, RESPONSE_FIELDS_NOT_FORWARDED, reservedByFolding } from './forwarded-fields.ts';
import { reservedField } from './own-fields.ts';

/*
 * The header fields that an operator sets, adds and removes (`headers` in gateway.yaml), on the way to the service and
 * on the way back.
 */

/** What the gateway knows about a request and can write into a field. */
const VARIABLES = [
  ...(['consumer.id', 'consumer.name', 'customer.id', 'customer.name'] as const),
  ...(['plan', 'request.id', 'client.address'] as const),
] as const;
type PlainVariable = (typeof VARIABLES)[number];
/** The prefix of the name of a pair of the consumer's metadata. */
const META = 'consumer.meta.';
/** The name of a pair of metadata, as part of a pattern. */
export const META_NAME = '[a-z][a-z0-9_-]{0,31}';
const OF_META = new RegExp(`^consumer\\.meta\\.${META_NAME}$`);
type Variable = PlainVariable | `${typeof META}${string}`;

/** The value of each variable; null if the request has no value for it. */
export type Variables = Readonly<Record<PlainVariable, string | null>> & {
  /** The metadata of the consumer. */
  readonly meta: Readonly<Record<string, string>>;
};

interface FieldWrite {
  readonly name: string;
  /** Texts, and names of variables. */
  readonly value: readonly (string | { readonly variable: Variable })[];
}

/** The changes of the fields of a message, as plain data. The gateway makes them when it reads the settings. */
export interface FieldRules {
  /** The names of fields that are dropped, in the form of `direction`. */
  readonly drops: readonly string[];
  readonly writes: readonly FieldWrite[];
  readonly direction: 'request' | 'response';
}

/** As in gateway.yaml. */
interface FieldChanges {
  readonly set?: Readonly<Record<string, string>> | undefined;
  readonly add?: Readonly<Record<string, string>> | undefined;
  readonly remove?: readonly string[] | undefined;
}

/**
 * Joins changes into rules. Each is applied to the result of the one before; within one, `remove` comes first, then
 * `set`, then `add`.
 * @returns null if there is nothing to do
 */
export function fieldRulesOf(
  direction: FieldRules['direction'],
  changes: readonly (FieldChanges | undefined)[],
): FieldRules | null {
  const drops = new Set<string>();
  let writes: FieldWrite[] = [];
  const drop = (name: string) => {
    drops.add(comparable(name, direction));
    writes = writes.filter((write) => comparable(write.name, direction) !== comparable(name, direction));
  };
  for (const { set = {}, add = {}, remove = [] } of changes.filter((one) => one !== undefined)) {
    for (const name of remove) drop(name);
    for (const [name, value] of Object.entries(set)) {
      drop(name);
      writes.push({ name, value: partsOf(value) });
    }
    for (const [name, value] of Object.entries(add)) writes.push({ name, value: partsOf(value) });
  }
  return drops.size === 0 && writes.length === 0 ? null : { drops: [...drops], writes, direction };
}

/**
 * The fields after the rules. A field with a variable that the request lacks is not written at all, and the client's
 * or service's own is gone nevertheless: half a value could be read as another one.
 * @param fields names and values alternating
 */
export function withRules(fields: readonly string[], rules: FieldRules, variables: Variables): string[] {
  const kept = withoutDropped(fields, rules);
  for (const { name, value } of rules.writes) {
    const text = textOf(value, variables);
    if (text !== null) kept.push(name, text);
  }
  return kept;
}

/**
 * The fields of a request with others in place of those of the same names, which are compared as above. Their values are taken
 * as they are, without variables.
 * @param fields names and values alternating
 */
export function withFields(fields: readonly string[], others: Readonly<Record<string, string>>): string[] {
  const drops = Object.keys(others).map((name) => comparable(name, 'request'));
  return [...withoutDropped(fields, { drops, direction: 'request' }), ...Object.entries(others).flat()];
}

/** The fields without those that the rules drop, for an interim response, which gets no others. */
export function withoutDropped(
  fields: readonly string[],
  { drops, direction }: Pick<FieldRules, 'drops' | 'direction'>,
): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (!drops.includes(comparable(fields[i]!, direction))) kept.push(fields[i]!, fields[i + 1]!);
  }
  return kept;
}

/**
 * Attack: an operator sets `X-Tenant: {consumer.id}`, and a client sends `X_Tenant`, which `headers.allow` lets pass
 * and a service that folds punctuation reads as the same field. So names of requests are compared as such a service
 * would compare them.
 */
export function comparable(name: string, direction: FieldRules['direction']): string {
  const lower = name.toLowerCase();
  return direction === 'request' && hasPunctuation(lower) ? lower.replace(/[^0-9a-z]/g, '-') : lower;
}

/**
 * Attack: a name of a key with a line break begins another field, or a whole message. Only visible ASCII is written as it
 * is; everything else of a variable is percent-encoded, as is `%` itself, so that no two values become one.
 */
function textOf(value: FieldWrite['value'], variables: Variables): string | null {
  let text = '';
  for (const part of value) {
    if (typeof part === 'string') text += part;
    else {
      const known = variableValue(part.variable, variables);
      if (known === null) return null;
      text += visibleText(known);
    }
  }
  return text;
}

/** A text with everything but visible ASCII percent-encoded, and `%` itself. */
export function visibleText(text: string): string {
  return text.toWellFormed().replace(/[^!-$&-~]+/g, encodeURIComponent);
}

function variableValue(variable: Variable, variables: Variables): string | null {
  if (!isOfMeta(variable)) return variables[variable];
  const name = variable.slice(META.length);
  // The name is the operator's, and `constructor` is one as well.
  return Object.hasOwn(variables.meta, name) ? variables.meta[name]! : null;
}

function isOfMeta(variable: Variable): variable is `${typeof META}${string}` {
  return variable.startsWith(META);
}

/** The same for a text without variables, such as that of a policy. */
export function faultOfText(text: string): string | null {
  if (VALUE.test(text) && text.length <= 4096) return null;
  return 'is empty, longer than 4096 characters, begins or ends with a blank, or has a character other than visible ASCII';
}

const VARIABLE = new RegExp(`\\{([a-z]+(?:\\.[a-z]+)*|consumer\\.meta\\.${META_NAME})\\}`, 'g');
/** The same, and what is meant as the name of a pair of metadata and can be none. */
const MEANT = /\{([a-z]+(?:\.[a-z]+)*|consumer\.meta\.[^{}]*)\}/g;
/** Visible ASCII, with blanks and tabs inside. */
const VALUE = /^[!-~](?:[\t -~]*[!-~])?$/;

/**
 * What is wrong with a value, as the end of a sentence; null if it is valid. It does not begin with `must be`, so that
 * the fault does not quote the value, which may be a credential.
 */
export function faultOfFieldValue(text: string): string | null {
  const fault = faultOfText(text);
  if (fault !== null) return fault;
  const unknown = [...text.matchAll(MEANT)].find(([, name]) => !isVariable(name!));
  const known = [...VARIABLES, `${META}NAME`].map((name) => `{${name}}`).join(', ');
  return unknown === undefined ? null : `has ${unknown[0]}, which the gateway does not know; it knows ${known}`;
}

function partsOf(text: string): FieldWrite['value'] {
  return text
    .split(VARIABLE)
    .map((part, i) => (i % 2 === 0 ? part : { variable: part as Variable }))
    .filter((part) => part !== '');
}

function isVariable(name: string): name is Variable {
  return (VARIABLES as readonly string[]).includes(name) || OF_META.test(name);
}

/** Fields of requests that are reserved besides those that `reservedByFolding` names. */
const RESERVED_IN_REQUESTS = /^(?:sec-websocket-.*|max-forwards|close)$/;
/** Fields of responses that belong to framing, or to a family of the gateway's own fields (`OWN_FIELDS`). */
const RESERVED_IN_RESPONSES =
  /^(?:(?:x-ratelimit|ratelimit|x-consumer-|x-forwarded-|sec-websocket-|access-control-).*|via|date|content-length|host|close)$/;
const NOT_FORWARDED = new Set(RESPONSE_FIELDS_NOT_FORWARDED);

/**
 * Why an operator may not set, add or remove a field, as the end of a sentence that starts with its name; null if it
 * may.
 *
 * Attack: a typing error or a copied recipe makes a service believe in a consumer, an address or a length that is not
 * true. So the fields in which the gateway states who calls, how often, and where a message ends cannot be changed, under
 * any name that folds into one of them. `Authorization` is free: many services ask the gateway for a credential of its own.
 */
export function faultOfRequestField(name: string): string | null {
  const reserved = reservedByFolding(name);
  if (name.toLowerCase() === 'authorization') return null;
  const folded = reserved ?? name.toLowerCase().replace(/[^0-9a-z]/g, '-');
  if (reserved === null && !RESERVED_IN_REQUESTS.test(folded)) return null;
  return `is a field that only the gateway sets in requests (${folded}); leave it out`;
}

export function faultOfResponseField(name: string): string | null {
  const lower = name.toLowerCase();
  const own = reservedField(lower);
  if (own === undefined && !NOT_FORWARDED.has(lower) && !RESERVED_IN_RESPONSES.test(lower)) return null;
  const setting = lower.startsWith('access-control-') ? 'cors' : own?.replaces;
  const advice = setting === undefined || setting === 'always' ? 'leave it out' : `use \`${setting}\``;
  return `is a field that only the gateway sets in responses; ${advice}`;
}
