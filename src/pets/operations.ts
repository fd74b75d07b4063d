import type { IncomingMessage } from 'node:http';
import {
  type Checked,
  fault,
  INT64_MIN,
  isPetStatus,
  PET_STATUSES,
  parseInt64,
  parseNewPet,
  passed,
  toJson,
} from './pet.ts';
import type { ListQuery, PetStore } from './store.ts';

// One request to the pet service: its operation, its query and body, its response.

/** A request without its socket. `target` is the raw request target; `readBody` is called at most once. */
export interface PetRequest {
  readonly method: string;
  readonly target: string;
  readonly contentTypes: readonly string[];
  readonly contentEncodings: readonly string[];
  readBody(): Promise<Body>;
}

/**
 * Answers one request. Rejects with the errors of the store.
 * @param description the OpenAPI description as a plain value, served at /openapi.json
 * @returns null if the client disconnected before it had sent the whole body; nothing was done then
 */
export async function operate(request: PetRequest, store: PetStore, description: unknown): Promise<PetResponse | null> {
  const { path, search } = splitTarget(request.target);
  const match = matchRoute(request.method, path);
  switch (match.kind) {
    case 'listPets':
      return listPets(store, search);
    case 'createPet':
      return createPet(store, request);
    case 'getPet':
      return getPet(store, match.petId);
    case 'listOrders':
      return errorResponse(
        'not_implemented',
        'The interface names store orders but does not describe them, so there are none.',
      );
    case 'health':
      return jsonResponse(200, { status: 'ok' });
    case 'describe':
      return jsonResponse(200, description);
    case 'wrong_method':
      return errorResponse('method_not_allowed', `This path answers ${match.allow}.`, { Allow: match.allow });
    case 'unknown_path':
      return errorResponse('not_found', 'There is nothing at this path. GET /openapi.json lists the paths.');
  }
}

function listPets(store: PetStore, search: string): PetResponse {
  const query = parseListQuery(search);
  if (!query.ok) return errorResponse('invalid_request', query.fault);
  const { pets, nextId } = store.list(query.value);
  return jsonResponse(200, pets, nextId === null ? {} : { Link: linkToNext(query.value, nextId) });
}

async function createPet(store: PetStore, request: PetRequest): Promise<PetResponse | null> {
  // The body is read before anything is refused: an answer to an unread body would close the gateway's pooled connection.
  const body = await request.readBody();
  if (body.kind === 'gone') return null;
  if (body.kind === 'too_large') {
    return errorResponse('payload_too_large', `The body must have at most ${MAX_BODY_BYTES} bytes.`);
  }
  const wrongForm = bodyFault(request.contentTypes, request.contentEncodings);
  if (wrongForm !== null) return errorResponse('invalid_request', wrongForm);
  const wanted = parseNewPet(body.bytes);
  if (!wanted.ok) return errorResponse('invalid_request', wanted.fault);
  const pet = store.add(wanted.value);
  return jsonResponse(201, pet, { Location: `/v1/pets/${pet.id}` });
}

/** A petId that is not an int64 gets the same 404 as an unknown id (contract section 8). */
function getPet(store: PetStore, petId: string): PetResponse {
  const id = parseInt64(petId);
  const pet = id === null ? null : store.get(id);
  return pet === null ? errorResponse('pet_not_found', 'There is no animal with this petId.') : jsonResponse(200, pet);
}

/** The path and query of a request target, which may be in absolute form (RFC 9112 section 3.2.2). */
function splitTarget(target: string): { readonly path: string; readonly search: string } {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  return mark === -1 ? { path: local, search: '' } : { path: local.slice(0, mark), search: local.slice(mark + 1) };
}

/** The operation that a request line selects. `petId` is the raw text; the operation checks whether it is an int64. */
export type Match =
  | { readonly kind: Operation }
  | { readonly kind: 'getPet'; readonly petId: string }
  | { readonly kind: 'wrong_method'; readonly allow: string }
  | { readonly kind: 'unknown_path' };

type Operation = 'listPets' | 'createPet' | 'listOrders' | 'health' | 'describe';

/**
 * Finds the operation of a method and a path. GET brings HEAD (RFC 9110 section 9.3.2); paths are compared raw and
 * case-sensitively, as the gateway does (contract section 2).
 */
function matchRoute(method: string, path: string): Match {
  const asked = method === 'HEAD' ? 'GET' : method;
  const petId = /^\/v1\/pets\/([^/]+)$/.exec(path)?.[1];
  if (petId !== undefined) return asked === 'GET' ? { kind: 'getPet', petId } : { kind: 'wrong_method', allow: READ };
  const operations = PATHS.get(path);
  if (operations === undefined) return { kind: 'unknown_path' };
  const kind = asked === 'GET' ? operations.GET : asked === 'POST' ? operations.POST : undefined;
  if (kind !== undefined) return { kind };
  return { kind: 'wrong_method', allow: operations.POST === undefined ? READ : `${READ}, POST` };
}

const READ = 'GET, HEAD';

const PATHS: ReadonlyMap<string, { readonly GET: Operation; readonly POST?: Operation }> = new Map([
  ['/v1/pets', { GET: 'listPets', POST: 'createPet' }],
  ['/v1/store/orders', { GET: 'listOrders' }],
  ['/healthz', { GET: 'health' }],
  ['/openapi.json', { GET: 'describe' }],
]);

/**
 * Parses the query of `GET /v1/pets` (interface section 4.1: limit 1 to 100, default 20; contract section 8: cursor).
 * A parameter that is given twice is refused as ambiguous. Unknown parameters are ignored: the interface does not forbid
 * them, and clients add their own (cache busters, tracking).
 * @param search the query without its question mark, or the empty string
 */
function parseListQuery(search: string): Checked<ListQuery> {
  const given = new URLSearchParams(search);
  for (const name of ['limit', 'status', 'cursor']) {
    if (given.getAll(name).length > 1) return fault(`${name} is given more than once in the query.`);
  }
  const limit = given.get('limit') ?? '20';
  if (!/^(?:[1-9]\d?|100)$/.test(limit)) return fault('limit must be an integer from 1 to 100.');
  const status = given.get('status');
  if (status !== null && !isPetStatus(status)) return fault(`status must be one of ${PET_STATUSES.join(', ')}.`);
  const cursor = given.get('cursor');
  const firstId = cursor === null ? INT64_MIN : decodeCursor(cursor);
  if (firstId === null) return fault('cursor is not one that this service gave out; begin again without it.');
  return passed({ limit: Number(limit), status, firstId });
}

/**
 * The Link field that leads to the next page (RFC 8288). The reference is a path without a host, so that it also works
 * behind a gateway, and it keeps the limit and the filter of the present page.
 * @param nextId the first id of the next page
 */
function linkToNext(query: ListQuery, nextId: bigint): string {
  const next = new URLSearchParams({ limit: String(query.limit) });
  if (query.status !== null) next.set('status', query.status);
  next.set('cursor', encodeCursor(nextId));
  return `</v1/pets?${next}>; rel="next"`;
}

/**
 * The cursor of a page: the id of its first animal, in an opaque form. It has base64url characters only, so it needs no
 * escaping in a query.
 */
export function encodeCursor(firstId: bigint): string {
  return Buffer.from(`pet:${firstId}`).toString('base64url');
}

/** The id in a cursor; null for a text that `encodeCursor` did not make. */
export function decodeCursor(cursor: string): bigint | null {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const firstId = text.startsWith('pet:') ? parseInt64(text.slice('pet:'.length)) : null;
  // Node decodes base64url leniently (padding, spaces, stray bits), but a cursor has one form only.
  return firstId !== null && encodeCursor(firstId) === cursor ? firstId : null;
}

/** A whole request body, or why it could not be read. */
type Body =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  | { readonly kind: 'too_large' }
  /** The client disconnected, or sent broken framing, before the end of the body. */
  | { readonly kind: 'gone' };

const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Reads a body of at most `MAX_BODY_BYTES`. It stops as soon as a body is known to be longer (with Content-Length, before
 * the first byte); the caller must drain the rest.
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return { kind: 'too_large' };
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // destroyOnReturn would destroy the socket before a client that sent too much could get its response.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) return { kind: 'too_large' };
      chunks.push(chunk);
    }
  } catch {
    // The iterator throws when the connection ends before the body does.
    return { kind: 'gone' };
  }
  return { kind: 'whole', bytes: Buffer.concat(chunks) };
}

/** Whether the head announces a body (RFC 9112 section 6.3). */
export function announcesBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

/** Why a body with these fields cannot be read, or null. JSON is UTF-8 (RFC 8259 section 8.1), so no other charset is allowed. */
function bodyFault(contentTypes: readonly string[], contentEncodings: readonly string[]): string | null {
  // A request without Content-Type is read as JSON, the only type supported.
  const [type = 'application/json'] = contentTypes;
  const parts = /^application\/json[ \t]*(;.*)?$/i.exec(type);
  if (contentTypes.length > 1 || parts === null) return 'Content-Type must be application/json, given at most once.';
  const charset = /;[ \t]*charset=(?:"([^"]*)"|([^;\s]*))/i.exec(parts[1] ?? '');
  if (charset !== null && (charset[1] ?? charset[2])?.toLowerCase() !== 'utf-8') {
    return 'Content-Type must name no charset other than utf-8.';
  }
  const coded = contentEncodings.some((coding) => coding.toLowerCase() !== 'identity');
  return coded ? 'Content-Encoding must be left out: send the JSON as it is.' : null;
}

/** A complete answer. `body` is JSON text. */
export interface PetResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function jsonResponse(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): PetResponse {
  return { status, headers, body: toJson(value) };
}

/** An answer with the interface's Error body (section 7): code, message, status. */
export function errorResponse(
  code: RefusalCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): PetResponse {
  const status = STATUS[code];
  return jsonResponse(status, { code, message, status }, headers);
}

type RefusalCode = keyof typeof STATUS;

/** The gateway's codes (contract section 4) where it has one for the case. */
const STATUS = {
  invalid_request: 400,
  not_found: 404,
  pet_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  payload_too_large: 413,
  expectation_failed: 417,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
} as const;
