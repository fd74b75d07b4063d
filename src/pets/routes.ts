/** What a request line asks for. `petId` is still text: whether it is an int64 is the operation's question. */
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
export function matchRoute(method: string, path: string): Match {
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
