import { type ErrorResponse, insufficientScope } from '../annotate/errors.ts';
import type { ClientAddress, ClientCertificate } from '../http1/client.ts';
import type { Head } from '../http1/request-head.ts';
import type { OnlyFrom } from '../identify/known-customers.ts';
import { faultOfNetwork, Networks } from '../io/networks.ts';
import { comesFromOrigin } from '../model/origins.ts';
import type { Route } from '../routing/route.ts';
import type { Caller } from './exchange.ts';

// Who may call what: the rules of a caller and of a route that have nothing to do with how often it calls.

/** A request that does not come from where its route, or its key, may be used. It is a failed attempt of its address. */
export interface NotFromHere {
  readonly kind: 'not_from_here';
  readonly code: 'address_not_allowed' | 'origin_not_allowed';
  /** For operators only. */
  readonly cause: string;
}

/** A key or a token that is bound to another client certificate than that of the connection. It is refused as a wrong one is. */
interface WrongCertificate {
  readonly kind: 'unknown';
  readonly code: 'invalid_api_key';
  readonly token: 'certificate' | null;
  readonly cause: string;
}

/** The client's certificate; null without one, or if it has expired since the connection was opened. @param nowMs Unix milliseconds */
export function certificateOf({ certificate }: ClientAddress, nowMs: number): ClientCertificate | null {
  return certificate !== null && nowMs < certificate.endsAtMs ? certificate : null;
}

/** The lists of addresses of routes and callers, each compiled once. What no version so far has written into a record admits no address. */
export class AddressLists {
  readonly #compiled = new WeakMap<readonly string[], Networks>();

  /** @param address in its one form */
  has(list: readonly string[], address: string): boolean {
    let networks = this.#compiled.get(list);
    if (networks === undefined) {
      networks = new Networks(list.filter((text) => faultOfNetwork(text) === null));
      this.#compiled.set(list, networks);
    }
    return networks.has(address);
  }
}

interface Lists {
  readonly addressLists: AddressLists;
}

/** @returns why a request may not call a route from its address; null if it may */
export function routeFromElsewhere({ addressLists }: Lists, route: Route, origin: ClientAddress): NotFromHere | null {
  if (route.addresses === null || addressLists.has(route.addresses, origin.address)) return null;
  const cause = `the route ${route.path} may not be called from ${origin.address}`;
  return { kind: 'not_from_here', code: 'address_not_allowed', cause };
}

/**
 * What the caller's own record says and what its customer's says must both allow the request.
 * @returns why a caller may not be used from where the request comes; null if it may
 *
 * Attack: a key has leaked and is used from elsewhere. The client chooses no part of the address: it is that of the connection, or the
 * first from the right of X-Forwarded-For that no trusted proxy has.
 */
export function callerFromElsewhere(
  deps: Lists & { readonly wallMs: () => number },
  caller: Caller,
  origin: ClientAddress,
  head: Head,
): NotFromHere | WrongCertificate | null {
  const { consumer } = caller;
  if (consumer === null) return null;
  const { onlyFrom, customer } = consumer;
  const elsewhere = onlyFrom === null ? null : fromElsewhere(deps, onlyFrom, caller, origin, head);
  if (elsewhere !== null || customer === null || customer.onlyFrom === null) return elsewhere;
  return fromElsewhere(deps, customer.onlyFrom, { ...caller, id: customer.id }, origin, head);
}

function fromElsewhere(
  { addressLists, wallMs }: Lists & { readonly wallMs: () => number },
  { addresses, origins, boundTo }: OnlyFrom,
  caller: Pick<Caller, 'id' | 'tokenExpiresAtMs'>,
  origin: ClientAddress,
  head: Head,
): NotFromHere | WrongCertificate | null {
  // Like a wrong secret: someone without the certificate does not learn that the key exists (RFC 8705 section 3).
  if (boundTo !== undefined && certificateOf(origin, wallMs())?.thumbprint !== boundTo) {
    const token = caller.tokenExpiresAtMs === null ? null : 'certificate';
    return {
      kind: 'unknown',
      code: 'invalid_api_key',
      token,
      cause: `${caller.id} is bound to another client certificate`,
    };
  }
  if (addresses !== undefined && !addressLists.has(addresses, origin.address)) {
    const cause = `${caller.id} may not be used from ${origin.address}`;
    return { kind: 'not_from_here', code: 'address_not_allowed', cause };
  }
  if (origins !== undefined && !comesFromOrigin(origins, head.fields.rawHeaders, head.method)) {
    const cause = `${caller.id} may not be used by the page that sent the request`;
    return { kind: 'not_from_here', code: 'origin_not_allowed', cause };
  }
  return null;
}

/** What a caller may do: the scopes of its key or token, and those of its customer. A caller that is known by its address alone has no scope. */
export function scopesOf({ consumer }: Caller): readonly string[] {
  return consumer === null ? NONE : consumer.scopes;
}

const NONE: readonly string[] = Object.freeze([]);

/**
 * 403 if a caller lacks a scope that the route requires; null if it may call the route. The request has been admitted and
 * counted before, so trying routes is held to the caller's quota.
 * @param metadata the URL of the metadata of the protected resource (RFC 9728); null without `jwt.resource`
 */
export function scopeRefusal({ scopes }: Route, caller: Caller, metadata: string | null): ErrorResponse | null {
  if (scopes === null) return null;
  const own = scopesOf(caller);
  return scopes.every((scope) => own.includes(scope)) ? null : insufficientScope(scopes, metadata);
}
