import { valuesOf } from '../http1/fields.ts';
import { type AdminResponse, errorResponse } from './response.ts';

/*
 * Requests that a browser sends on behalf of a page (contract section 7).
 *
 * Attack: cross-site request forgery. A page of another origin makes an operator's browser send a change, and the browser
 * adds the cookie, or the proxy adds the identity. SameSite=Strict alone does not keep out pages of other ports and of other
 * hosts of the same domain. So a change must come from a page of this listener, and as JSON, which no form can send.
 *
 * Sec-Fetch-Site is what browsers say themselves, and no page can set it. They send it to secure origins (https, localhost
 * and 127.0.0.1). Elsewhere Origin must be this listener's scheme and the Host of the request, to the letter. The scheme is that
 * of the listener even behind a proxy that ends TLS: browsers reach such a proxy over https and send Sec-Fetch-Site. To
 * accept the other scheme as well would let in whatever else the host serves there, such as a page on port 443 when the admin
 * listener has port 80.
 */

export interface BrowserRequest {
  readonly method: string;
  readonly rawHeaders: readonly string[];
  /** Whether the listener has TLS of its own. */
  readonly isTls: boolean;
}

/** @returns the response that refuses a request with a cookie or the identity of a proxy; null if it may be served */
export function crossOriginRefusal(request: BrowserRequest): AdminResponse | null {
  const site = valuesOf(request.rawHeaders, 'sec-fetch-site');
  if (request.method === 'GET' || request.method === 'HEAD') {
    return site.every((value) => value === 'same-origin' || value === 'none') ? null : refusal();
  }
  if (!isSameOrigin(request, site)) return refusal();
  const types = valuesOf(request.rawHeaders, 'content-type');
  const isJson = types.length === 1 && /^application\/(json|merge-patch\+json)[ \t]*(;|$)/i.test(types[0]!);
  return isJson
    ? null
    : errorResponse('cross_origin', 'With a session, a change needs Content-Type: application/json.');
}

/** @returns the response that refuses a sign-in from a page of another origin; null also for programs, which send no origin */
export function signInRefusal(request: BrowserRequest): AdminResponse | null {
  const fields = ['sec-fetch-site', 'origin'].flatMap((name) => valuesOf(request.rawHeaders, name));
  return fields.length === 0 || isSameOrigin(request, valuesOf(request.rawHeaders, 'sec-fetch-site'))
    ? null
    : refusal();
}

/** The origin of the page that sent a sign-in, as its browser says; null for programs, which send none. */
export function pageOriginOf({ rawHeaders }: BrowserRequest): string | null {
  const [origin, ...others] = valuesOf(rawHeaders, 'origin');
  const url = origin === undefined || others.length > 0 ? null : URL.parse(origin);
  return url !== null && /^https?:$/.test(url.protocol) ? url.origin : null;
}

function isSameOrigin({ rawHeaders, isTls }: BrowserRequest, site: readonly string[]): boolean {
  if (site.length > 0) return site.length === 1 && site[0] === 'same-origin';
  const [origins, hosts] = [valuesOf(rawHeaders, 'origin'), valuesOf(rawHeaders, 'host')];
  if (origins.length !== 1 || hosts.length !== 1) return false;
  const own = URL.parse(`${isTls ? 'https' : 'http'}://${hosts[0]}`);
  return own !== null && own.origin === origins[0];
}

function refusal(): AdminResponse {
  return errorResponse(
    'cross_origin',
    'The request comes from a page of another origin. Use the console of this gateway.',
  );
}
