import { type Answer, answer, refuse } from './answer.ts';
import { type Body, bodyFault, MAX_BODY_BYTES } from './body.ts';
import { parseInt64 } from './int64.ts';
import { parseNewPet } from './new-pet.ts';
import { linkToNext, parseListQuery } from './query.ts';
import { matchRoute } from './routes.ts';
import type { PetStore } from './store.ts';

/** A request without its socket. `target` is the request target as it came; `readBody` is called at most once. */
export interface PetRequest {
  readonly method: string;
  readonly target: string;
  readonly contentTypes: readonly string[];
  readonly contentEncodings: readonly string[];
  readBody(): Promise<Body>;
}

/**
 * Answers one request. Null when the client left before its body was whole: nothing was done and nobody is listening.
 * Throws what the store throws.
 * @param description the OpenAPI description as a plain value, served at /openapi.json
 */
export async function operate(request: PetRequest, store: PetStore, description: unknown): Promise<Answer | null> {
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
      return refuse(
        'not_implemented',
        'The interface names store orders but does not describe them, so there are none.',
      );
    case 'health':
      return answer(200, { status: 'ok' });
    case 'describe':
      return answer(200, description);
    case 'wrong_method':
      return refuse('method_not_allowed', `This path answers ${match.allow}.`, { Allow: match.allow });
    case 'unknown_path':
      return refuse('not_found', 'There is nothing at this path. GET /openapi.json tells what there is.');
  }
}

function listPets(store: PetStore, search: string): Answer {
  const query = parseListQuery(search);
  if (!query.ok) return refuse('invalid_request', query.fault);
  const { pets, nextId } = store.list(query.value);
  return answer(200, pets, nextId === null ? {} : { Link: linkToNext(query.value, nextId) });
}

async function createPet(store: PetStore, request: PetRequest): Promise<Answer | null> {
  // Read before anything is refused: an answer over an unread body would cost the gateway its pooled connection.
  const body = await request.readBody();
  if (body.kind === 'gone') return null;
  if (body.kind === 'too_large') {
    return refuse('payload_too_large', `The body must have at most ${MAX_BODY_BYTES} bytes.`);
  }
  const wrongForm = bodyFault(request.contentTypes, request.contentEncodings);
  if (wrongForm !== null) return refuse('invalid_request', wrongForm);
  const wanted = parseNewPet(body.bytes);
  if (!wanted.ok) return refuse('invalid_request', wanted.fault);
  const pet = store.add(wanted.value);
  return answer(201, pet, { Location: `/v1/pets/${pet.id}` });
}

/** A petId that is no int64 is the id of no animal: 404 as for any other (contract section 8). */
function getPet(store: PetStore, petId: string): Answer {
  const id = parseInt64(petId);
  const pet = id === null ? null : store.get(id);
  return pet === null ? refuse('pet_not_found', 'There is no animal with this petId.') : answer(200, pet);
}

/** Path and query of a request target. The absolute form must be understood too (RFC 9112 section 3.2.2). */
function splitTarget(target: string): { readonly path: string; readonly search: string } {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  return mark === -1 ? { path: local, search: '' } : { path: local.slice(0, mark), search: local.slice(mark + 1) };
}
