import { type Checked, fault, passed } from './checked.ts';
import { INT64_MAX, INT64_MIN, parseInt64 } from './int64.ts';
import { membersOf } from './members.ts';
import { isPetStatus, type NewPet, PET_STATUSES, type PetStatus } from './pet.ts';

/** The longest name that is kept, in Unicode code points (ours to set; openapi.yaml tells it to clients). */
export const MAX_NAME_LENGTH = 255;

/**
 * Reads the body of `POST /v1/pets` (interface section 2, NewPet). Every value that comes out can be stored and sent
 * back unchanged. The first fault found is told in a sentence that names the field (contract section 8).
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

/** Field names to the JSON text of their values. A Map, because a client may name a member `__proto__`. */
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
    // Two readers of one body could each believe a different value, so neither is taken (RFC 8259 section 4).
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
  // A code point is at most two units, so the first comparison spares counting a very long name.
  if (name.length > 2 * MAX_NAME_LENGTH || [...name].length > MAX_NAME_LENGTH) {
    return fault(`name must have at most ${MAX_NAME_LENGTH} characters.`);
  }
  // Half a surrogate pair has no UTF-8 and would come back as another name; NUL ends strings in too many tools.
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

/** A member name as a JSON string, cut so that an answer never grows with what was sent. */
function quoted(name: string): string {
  return JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}...` : name);
}

const FIELDS: readonly string[] = ['name', 'categoryId', 'status'];
