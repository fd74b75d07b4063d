/*
 * Header fields one by one: the characters of names and values, reading single fields from a list of alternating names
 * and values, and writing fields as lines. Lists such as `rawHeaders` of node:http are read and not its `headers`, which
 * join or drop the values of repeated fields.
 */

/** A scope (scope-token of RFC 6749 section 3.3), of at most 128 characters. */
export const SCOPE_TOKEN = /^[!#-[\]-~]{1,128}$/;

/** A character of a token (RFC 9110 section 5.6.2), as part of a pattern. */
export const TOKEN_CHARACTER = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
/** A token: the name of a field, a method, the name of a protocol. */
export const TOKEN = new RegExp(`^${TOKEN_CHARACTER}+$`);
/** The protocol of RFC 6455, as it is compared: in lower case. */
export const WEBSOCKET = 'websocket';
/** A protocol of Upgrade, mostly without a version: `websocket`, `irc/6.9` (RFC 9110 section 7.8). */
export const PROTOCOL = new RegExp(`^${TOKEN_CHARACTER}+(?:/${TOKEN_CHARACTER}+)?$`);
/** A field value (RFC 9110 section 5.5). */
export const VALUE = /^[\t -~\x80-\xff]*$/;
/** The largest integer of a structured field (RFC 9651 section 3.3.1). */
export const MAX_INTEGER = 999_999_999_999_999;

/** The fields of a message, found by their names. */
export interface FieldValues {
  /** The values of a field in their order. @param name in lower case */
  values(name: string): readonly string[];
}

/** The values of a field in their order, one for each time that the client sent it. @param name in lower case */
export function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) if (isNamed(rawHeaders[i]!, name)) values.push(rawHeaders[i + 1]!);
  return values;
}

/** The fields but those of these names. @param fields names and values alternating @param names in lower case */
export function fieldsWithout(fields: readonly string[], names: ReadonlySet<string>): string[] {
  return fields.flatMap((name, i) => (i % 2 === 1 || names.has(name.toLowerCase()) ? [] : [name, fields[i + 1]!]));
}

/** The fields of a list, found by their names. @param rawHeaders names and values alternating */
export function fieldValues(rawHeaders: readonly string[]): FieldValues {
  return { values: (name) => valuesOf(rawHeaders, name) };
}

/** The only value of a field; null if the field is missing or repeated. @param name in lower case */
export function onlyValue(rawHeaders: readonly string[], name: string): string | null {
  let value: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!isNamed(rawHeaders[i]!, name)) continue;
    if (value !== null) return null;
    value = rawHeaders[i + 1]!;
  }
  return value;
}

/** The name that a Host field gives, as settings and certificates write it: without its port and the dot of the root, in lower case. */
export function hostNameOf(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** Fields by their names, without a prototype, because one may have the name `constructor`. @param fields names and values in turn */
export function valuesByName(fields: readonly string[]): Record<string, string[]> {
  const values: Record<string, string[]> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) values[fields[i]!] = [...(values[fields[i]!] ?? []), fields[i + 1]!];
  return values;
}

/** The lengths are compared first, so that most fields are skipped without a copy of their name. */
function isNamed(fieldName: string, name: string): boolean {
  return fieldName.length === name.length && fieldName.toLowerCase() === name;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id; null unless it sent exactly one, in valid form. */
export function requestIdOf(rawHeaders: readonly string[]): string | null {
  const id = onlyValue(rawHeaders, 'x-request-id');
  return id !== null && REQUEST_ID.test(id) ? id : null;
}

/**
 * Fields as lines, each with its CRLF. Attack: a line break in a field would begin another field, or a whole message,
 * of an attacker's choosing (splitting). Fields were checked when they were read; this is the last check.
 * @param fields names and values alternating
 * @throws TypeError if a character cannot be sent, or would be read as another one
 */
export function linesOf(fields: readonly string[]): string {
  for (let i = 0; i < fields.length; i += 2) assertSendable(fields[i]!, fields[i]!);
  return responseLinesOf(fields);
}

/**
 * The same without a check of the names, which takes a third of the time. For names that are the gateway's own or have
 * been checked.
 */
export function responseLinesOf(fields: readonly string[]): string {
  let lines = '';
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i]!, fields[i + 1]!];
    assertSendable(value, name);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

function assertSendable(text: string, name: string): void {
  if (!VALUE.test(text)) throw new TypeError(`a control byte or a wide character in ${name}`);
}
