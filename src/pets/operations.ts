import { type Body, bodyFault, MAX_BODY_BYTES } from './body.ts';
import { parseNewPet } from './new-pet.ts';
import { parseInt64 } from './pet.ts';
import { linkToNext, parseListQuery } from './query.ts';
import { errorResponse, jsonResponse, type PetResponse } from './response.ts';
import type { PetStore } from './store.ts';

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
      return errorResponse('not_found', 'There is nothing at this path. GET /openapi.json tells what there is.');
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
