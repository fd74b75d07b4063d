import { isIP } from 'node:net';
import { onlyValue, valuesOf } from '../http1/fields.ts';

/*
 * Origins of web pages (RFC 6454) in a list: `https://app.example.com`, or `https://*.example.com` for all subdomains.
 */

const FORM =
  'must be an origin as browsers send it, such as https://app.example.com, https://*.example.com or http://localhost:3000';
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(\*\.)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?$/;

/** What is wrong with an origin of a list, as the end of a sentence; null if nothing is. */
export function faultOfOrigin(text: string): string | null {
  const url = URL.parse(text.replace('://*.', '://'));
  if (url !== null && url.origin !== 'null') {
    const right = text.includes('://*.') ? url.origin.replace('://', '://*.') : url.origin;
    if (right !== text && url.username === '' && ORIGIN.test(right))
      return `must be written as browsers send it: ${right}`;
  }
  const [, star, host = ''] = ORIGIN.exec(text) ?? [];
  if (host === '' || text.length > 300) return FORM;
  // All subdomains of com, or of an IP address, are a typing error.
  const hasSubdomains = host === 'localhost' || (host.includes('.') && isIP(host) === 0);
  return star !== undefined && !hasSubdomains ? FORM : null;
}

/** The labels of a host below a domain. */
const SUBDOMAIN = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** @param origin of a request; @param list without a fault (`faultOfOrigin`) */
function isListed(list: readonly string[], origin: string): boolean {
  return list.some((one) => {
    const star = one.indexOf('*.');
    if (star === -1) return one === origin;
    const [before, after] = [one.slice(0, star), one.slice(star + 1)];
    // Attack: `https://evil.example/.example.com` ends like a subdomain.
    return (
      origin.startsWith(before) && origin.endsWith(after) && SUBDOMAIN.test(origin.slice(before.length, -after.length))
    );
  });
}

/**
 * Whether a request comes from a page of one of these origins, by its Origin, or for GET and HEAD without Origin by its Referer:
 * browsers send no Origin with such requests to the origin of the page itself. A request with several Origin fields comes from none.
 *
 * Attack: a page elsewhere uses the key that it has read in a page of the owner. A browser sends the page's own origin, and no page
 * can change that. A program can send any Origin: this rule does not hold it off.
 */
export function comesFromOrigin(list: readonly string[], rawHeaders: readonly string[], method: string): boolean {
  const origins = valuesOf(rawHeaders, 'origin');
  if (origins.length > 0) return origins.length === 1 && isListed(list, origins[0]!);
  if (method !== 'GET' && method !== 'HEAD') return false;
  const referer = onlyValue(rawHeaders, 'referer');
  const page = referer === null ? null : URL.parse(referer);
  return page !== null && isListed(list, page.origin);
}
