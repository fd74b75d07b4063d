// A pet: its form, its JSON, and how a new one is read from the body of a request.

/** An animal of the store (interface section 2). Ids are int64 and therefore `bigint` throughout. */
export interface Pet extends NewPet {
  readonly id: bigint;
}

/** The body of a request that adds an animal, with the default of `status` filled in (contract section 8). */
export interface NewPet {
  readonly name: string;
  readonly categoryId: bigint;
  readonly status: PetStatus;
}

export type PetStatus = (typeof PET_STATUSES)[number];

export const PET_STATUSES = ['available', 'pending', 'sold'] as const;

/** Whether a value is one of the three states of an animal (interface section 2, PetStatus). */
export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value);
}

/**
 * Parses an int64 in its canonical form: decimal digits with an optional minus sign. Null for everything else, such as
 * `1.0`, `1e3`, `-0`, `007`, quoted numbers, and numbers outside -2^63 to 2^63 - 1 (interface section 2, "integer,
 * int64"). `toJson` writes every accepted value back character for character.
 */
export function parseInt64(text: string): bigint | null {
  // Attack: a megabyte of digits, which BigInt() converts slowly. So at most 19 digits are converted.
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return null;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** JSON in which every `bigint` is a number with all its digits, also beyond 2^53 (contract section 8). */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_name, member) => (typeof member === 'bigint' ? JSON.rawJSON(String(member)) : member));
}

declare global {
  interface JSON {
    /** ECMAScript proposal "JSON.parse source text access": a value that JSON.stringify writes as exactly this text. */
    rawJSON(text: string): unknown;
  }
}

/** The result of checking a client's input: the value, or one sentence that names the field at fault. */
export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export function passed<T>(value: T): Checked<T> {
  return { ok: true, value };
}

export function fault(sentence: string): Checked<never> {
  return { ok: false, fault: sentence };
}

/** The longest name, in Unicode code points. The interface sets no bound; openapi.yaml states this one. */
const MAX_NAME_LENGTH = 255;

/**
 * Parses the body of `POST /v1/pets` (interface section 2, NewPet). Every accepted value can be stored and sent back
 * unchanged. A fault is a sentence about the first wrong field (contract section 8).
 */
export function parseNewPet(body: Uint8Array): Checked<NewPet> {
  const fields = readFields(body);
  if (!fields.ok) return fields;
  const name = parseName(fields.value.get('name'));
  if (!name.ok) return name;
  const categoryId = parseCategoryId(fields.value.get('categoryId'));
  if (!categoryId.ok) return categoryId;
  const status = parseStatus(fields.value.get('status'));
  if (!status.ok) return status;
  return passed({ name: name.value, categoryId: categoryId.value, status: status.value });
}

/** The JSON text of each field by its name. A Map, because a client may send a member named `__proto__`. */
function readFields(body: Uint8Array): Checked<ReadonlyMap<string, string>> {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    return fault('The body is not valid UTF-8.');
  }
  const members = membersOf(text);
  if (!members.ok) return members;
  const fields = new Map<string, string>();
  for (const { name, source } of members.value) {
    if (!FIELDS.includes(name)) {
      return fault(`${quoted(name)} is not a field of an animal; the fields are ${FIELDS.join(', ')}.`);
    }
    // Two parsers of one body could each use a different value, so a duplicate name is refused (RFC 8259 section 4).
    if (fields.has(name)) return fault(`${name} is given more than once in the body.`);
    fields.set(name, source);
  }
  return passed(fields);
}

function parseName(source: string | undefined): Checked<string> {
  if (source === undefined) return fault('name is required: the name of the animal, a string.');
  if (!source.startsWith('"')) return fault('name must be a string.');
  const name: string = JSON.parse(source);
  if (name === '') return fault('name must not be empty.');
  // A code point has at most two UTF-16 units, so the first comparison avoids counting the code points of a very long name.
  if (name.length > 2 * MAX_NAME_LENGTH || [...name].length > MAX_NAME_LENGTH) {
    return fault(`name must have at most ${MAX_NAME_LENGTH} characters.`);
  }
  // An unpaired surrogate has no UTF-8 form and would come back as another character. NUL ends strings in many programs.
  if (!name.isWellFormed()) return fault('name must not have an unpaired surrogate in it.');
  if (name.includes('\0')) return fault('name must not have a NUL character in it.');
  return passed(name);
}

function parseCategoryId(source: string | undefined): Checked<bigint> {
  if (source === undefined) return fault('categoryId is required: the identifier of the category, an integer.');
  const categoryId = parseInt64(source);
  if (categoryId !== null) return passed(categoryId);
  return fault(
    `categoryId must be an integer from ${INT64_MIN} to ${INT64_MAX}, a JSON number written in digits alone.`,
  );
}

function parseStatus(source: string | undefined): Checked<PetStatus> {
  if (source === undefined) return passed('available');
  const status: unknown = source.startsWith('"') ? JSON.parse(source) : undefined;
  return isPetStatus(status) ? passed(status) : fault(`status must be one of ${PET_STATUSES.join(', ')}.`);
}

/** A member name as a JSON string, shortened so that the size of the answer does not depend on the client. */
function quoted(name: string): string {
  return JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}...` : name);
}

const FIELDS: readonly string[] = ['name', 'categoryId', 'status'];

/** One member of a JSON object: its name with escapes resolved, and the source text of its value. */
interface Member {
  readonly name: string;
  readonly source: string;
}

/**
 * The members of the JSON object in `text`, in order, duplicates included. `JSON.parse` alone does not suffice: it
 * silently keeps the last of two equal names and rounds integers beyond 2^53.
 */
export function membersOf(text: string): Checked<readonly Member[]> {
  let whole: unknown;
  try {
    whole = JSON.parse(text);
  } catch {
    return fault('The body is not valid JSON.');
  }
  if (typeof whole !== 'object' || whole === null || Array.isArray(whole)) {
    return fault('The body must be a JSON object with name and categoryId.');
  }
  return passed(scanObject(text));
}

/** Splits an object whose syntax is known to be valid into its members. One pass, no recursion, no backtracking. */
function scanObject(text: string): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, text.indexOf('{') + 1);
  while (text[at] !== '}') {
    const nameEnd = endOfString(text, at);
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const valueEnd = endOfValue(text, valueStart);
    members.push({ name: JSON.parse(text.slice(at, nameEnd)), source: text.slice(valueStart, valueEnd).trimEnd() });
    at = text[valueEnd] === ',' ? skipSpace(text, valueEnd + 1) : valueEnd;
  }
  return members;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return at;
}

/** The index after the closing quote of the string that opens at `from`. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** The index of the comma or brace that ends the value at `from`. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  for (;;) {
    const character = text[at];
    if (depth === 0 && (character === ',' || character === '}')) return at;
    if (character === '{' || character === '[') depth += 1;
    if (character === '}' || character === ']') depth -= 1;
    at = character === '"' ? endOfString(text, at) : at + 1;
  }
}
