import { Refused } from '../failure.ts';
import { isCustomerId } from '../model/record.ts';
import { OPERATIONS, STREAMS } from '../operations/catalogue/all.ts';
import type { Contexts } from '../operations/catalogue/contexts.ts';
import { hasQuery, lineOf, membersOf, readInput, readTexts } from '../operations/catalogue/input.ts';
import type { Done, Invocation, Stream } from '../operations/catalogue/operation.ts';
import { type AnyOperation, PLAINLY, perform } from '../operations/catalogue/perform.ts';
import { visible } from '../operations/operation-values.ts';
import type { Recording } from '../operations/recorded.ts';
import type { Call } from './call.ts';
import { type AdminResponse, changeResponse, etagOf, jsonResponse } from './response.ts';

// The paths below /admin, made of the operations of operators: which one a request asks for, its input, and the response to it.

/** What one method of one path does. */
export type Endpoint = AnyOperation | Stream;

export const ENDPOINTS: readonly Endpoint[] = [...OPERATIONS, ...STREAMS];

interface Path {
  /** `{id}` for a member of the input. */
  readonly template: readonly string[];
  readonly methods: ReadonlyMap<string, Endpoint>;
}

const PATHS: readonly Path[] = pathsOf(ENDPOINTS);

function pathsOf(endpoints: readonly Endpoint[]): readonly Path[] {
  const byPath = Map.groupBy(endpoints, ({ line }) => lineOf(line).path);
  return [...byPath].map(([path, of]) => ({
    template: path.split('/').slice(1),
    methods: new Map(of.map((one) => [lineOf(one.line).method, one])),
  }));
}

export interface Match {
  readonly methods: ReadonlyMap<string, Endpoint>;
  /** The members of the input that are in the path, in its order. */
  readonly members: Readonly<Record<string, string>>;
}

/** Finds what a path below `/admin` names. */
export function matchOf(path: string): Match | null {
  const parts = path.split('/').slice(2);
  for (const { template, methods } of PATHS) {
    if (template.length !== parts.length) continue;
    if (!template.every((part, i) => part.startsWith('{') || part === parts[i])) continue;
    const named = template.flatMap((part, i) =>
      part.startsWith('{') ? [[part.slice(1, -1), decoded(parts[i]!)]] : [],
    );
    if (named.every(([, text]) => text !== null)) return { methods, members: Object.fromEntries(named) };
  }
  return null;
}

/** The decoded segment of a path; null if it is empty, too long, or has a malformed escape. */
function decoded(part: string): string | null {
  try {
    const id = decodeURIComponent(part);
    return id === '' || id.length > 256 ? null : id;
  } catch {
    return null;
  }
}

/**
 * Does what a request asks for.
 * @param recording where a change is recorded
 * @throws Failure, Refused
 */
export async function respond(
  operation: AnyOperation,
  call: Call,
  contexts: Partial<Contexts>,
  recording: Recording | null,
): Promise<AdminResponse> {
  const target = targetOf(call);
  const done = await perform(operation, contexts, recording, target, () => invocationOf(operation, call));
  return responseTo(operation, done, call);
}

/** What of a path is the target of a change, as the record names it. */
export function targetOf({ members }: Pick<Match, 'members'>): string | null {
  return Object.values(members)[0] ?? null;
}

function invocationOf(
  operation: AnyOperation,
  call: Call,
): { readonly input: object; readonly invocation: Invocation } {
  const input = { ...inputOf(operation, call), ...call.members };
  const once = operation.once === true ? idempotencyKeyOf(call) : null;
  const { ifMatch } = fieldsOf(operation);
  const versions = ifMatch === null ? null : versionsOf(call);
  if (versions === undefined && ifMatch === 'required') {
    const message =
      'Send If-Match with the ETag of what is replaced, so that no change of another person is overwritten.';
    throw new Refused('precondition_required', message);
  }
  return {
    input,
    invocation: { ...PLAINLY, once, versions: versions ?? null, guard: guardOf(versions), body: call.body },
  };
}

/** The fields of HTTP that an operation has in requests and in responses. */
export function fieldsOf({ action, isVersioned, needsVersion }: AnyOperation) {
  const isNew = action?.endsWith('.create') === true;
  const isGone = action?.endsWith('.delete') === true;
  const isChanged = isVersioned === true && action !== undefined && !isNew;
  return {
    ifMatch: needsVersion === true ? 'required' : isChanged ? 'optional' : null,
    location: isNew,
    etag: isVersioned === true && !isGone,
  } as const;
}

/** Whether an endpoint takes a secret, and so could serve to guess one. */
export function takesSecret({ input }: Endpoint): boolean {
  return 'secret' in membersOf(input);
}

/** Whether an operation reads much of the store. */
export function readsMuch(operation: AnyOperation): boolean {
  return operation.readsMuch === true || isPaged(operation);
}

/** The input of an endpoint, from the query of a GET or DELETE or the body. A body that another thread parses is not looked at. */
export function inputOf({ line, input, ...rest }: Endpoint, { query, body }: Call): object {
  if (input === undefined || ('maxBytes' in rest && rest.maxBytes !== undefined)) return {};
  if (hasQuery(line)) return readTexts(input, textsOf(query, Object.keys(membersOf(input)))) as object;
  return readInput(input, body) as object;
}

/** The parameters of a query, each of which may come once. */
export function textsOf(query: URLSearchParams, names: readonly string[]): Record<string, string> {
  for (const name of query.keys()) {
    if (names.length === 0) throw new Refused('invalid_request', 'There are no parameters here.');
    if (!names.includes(name)) {
      throw new Refused('invalid_request', `There is no parameter "${visible(name)}"; there are ${names.join(', ')}.`);
    }
    if (query.getAll(name).length > 1) throw new Refused('invalid_request', `${name} is given more than once.`);
  }
  return Object.fromEntries(query);
}

function responseTo(operation: AnyOperation, done: Done<unknown>, { query }: Call): AdminResponse {
  const { change, record, version, isRepeated } = done;
  const output = done.output as Readonly<Record<string, unknown>>;
  const tag = record === undefined ? version && `"${version}"` : etagOf(record);
  const { etag, location } = fieldsOf(operation);
  const fields = {
    ...(etag && tag !== undefined ? { ETag: tag } : {}),
    ...(location ? { Location: `/admin${lineOf(operation.line).path}/${output.id}` } : {}),
    ...(isRepeated === true ? { 'Idempotency-Replayed': 'true' } : {}),
    ...(change?.outcome === 'unchanged' ? { 'Change-Outcome': 'unchanged' } : {}),
    ...(isPaged(operation) ? linkToNext(operation, query, output.cursor as string | null) : {}),
  };
  if (change === undefined) return jsonResponse(200, output, fields);
  return changeResponse(location ? 201 : 200, change, output, fields);
}

/** Whether an operation gives its output in pages. */
export function isPaged({ input }: Endpoint): boolean {
  return 'cursor' in membersOf(input);
}

/** The Link field with the URL of the next page (RFC 8288). */
function linkToNext({ line }: AnyOperation, query: URLSearchParams, cursor: string | null): Record<string, string> {
  if (cursor === null) return {};
  const next = new URLSearchParams(query);
  next.set('cursor', cursor);
  return { Link: `</admin${lineOf(line).path}?${next}>; rel="next"` };
}

/** Reads Idempotency-Key (draft-ietf-httpapi-idempotency-key-header). The quotes of a structured field are optional. */
function idempotencyKeyOf({ fields }: Call): string | null {
  const values = fields('idempotency-key');
  if (values.length === 0) return null;
  const [value] = values as [string];
  const name = /^"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"$/.exec(value)?.[1] ?? value;
  if (values.length === 1 && /^[\x21\x23-\x5b\x5d-\x7e][\x20\x21\x23-\x5b\x5d-\x7e]{0,254}$/.test(name)) return name;
  const message = 'Idempotency-Key must be sent once, with 1 to 255 visible ASCII characters.';
  throw new Refused('invalid_request', message);
}

/**
 * Reads If-Match (RFC 9110 section 13.1.1). Comparison is strong: a weak tag names no version.
 * @returns the versions that it names; null for `*`; undefined if it was not sent
 */
function versionsOf({ fields }: Call): readonly string[] | null | undefined {
  const sent = fields('if-match');
  if (sent.length === 0) return undefined;
  const text = sent.join(',').trim();
  if (text === '*') return null;
  const tags = text.split(',').map((tag) => tag.trim());
  if (!tags.every((tag) => /^(W\/)?"[\x21\x23-\x7e]*"$/.test(tag))) {
    const message = 'If-Match must be an ETag in its quotes, several with commas between them, or *.';
    throw new Refused('invalid_request', message);
  }
  return tags.filter((tag) => tag.startsWith('"')).map((tag) => tag.slice(1, -1));
}

/** A check that refuses any other version of a key; undefined if every version will do. */
function guardOf(versions: readonly string[] | null | undefined): Invocation['guard'] {
  if (versions === null || versions === undefined) return undefined;
  return (before) => {
    if (versions.includes(etagOf(before).slice(1, -1))) return;
    const what = isCustomerId(before.id) ? 'customer' : 'key';
    const message = `The ${what} has been changed since. Read it again and look at what has changed.`;
    throw new Refused('precondition_failed', message);
  };
}
