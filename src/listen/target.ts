/** A request target in origin form. */
export interface Target {
  readonly kind: 'target';
  /** Path and query exactly as received: what is routed is what is sent. */
  readonly target: string;
  /** The target up to the query. */
  readonly path: string;
}

export interface TargetFault {
  readonly kind: 'fault';
  readonly message: string;
}

/**
 * Reads a request target (RFC 9112 section 3.2). Nothing is decoded, normalised or repaired.
 *
 * Attack: `/v1/pets/../admin`, `/v1/%2e%2e/admin`, `//admin`, `/v1\admin` or `/v1%2fadmin` look like one path to the
 * router and like another to the service behind it. So every path of which that can be seen without its route is refused;
 * one that is of another route when it is decoded is refused by the router.
 *
 * @param host the Host field; absolute-form is reduced only where its authority is the same
 */
export function readTarget(url: string, method: string, host: string | null): Target | TargetFault {
  if (url === '*') {
    return method === 'OPTIONS' ? { kind: 'target', target: '*', path: '*' } : fault('Only OPTIONS may ask for *.');
  }
  const target = url.startsWith('/') ? url : originForm(url, host);
  if (target === null) {
    return fault('The request target must be a path, or a URL of the host that the Host field names.');
  }
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  if (!VISIBLE.test(target)) return fault('The request target has a character that a URL must not have.');
  if (target.includes('#')) return fault('The request target must not have a fragment.');
  const message = pathFault(path);
  return message === null ? { kind: 'target', target, path } : fault(message);
}

const VISIBLE = /^[\x21-\x7e]+$/;
/** What most paths are: nothing that has to be looked at twice. */
const PLAIN_PATH = /^(?:\/[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+\/?$/;
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|;|%3b|$)/i;

function pathFault(path: string): string | null {
  if (PLAIN_PATH.test(path) || path === '/') return null;
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return 'The path has a % that is not followed by two hexadecimal digits.';
  if (/%(?:2f|5c)|\\/i.test(path)) return 'The path must not have a backslash, nor an encoded slash or backslash.';
  if (/%(?:[01][0-9a-f]|7f)/i.test(path)) return 'The path must not have an encoded control character.';
  if (path.includes('//')) return 'The path must not have an empty segment.';
  if (DOT_SEGMENT.test(path)) return 'The path must not have a segment of dots.';
  return null;
}

/** Reduces `http://authority/path` to `/path`, where the authority is the Host. */
function originForm(url: string, host: string | null): string | null {
  const parts = /^https?:\/\/([^/?#\\@]+)(\/.*)?$/i.exec(url);
  if (parts === null || host === null || parts[1]!.toLowerCase() !== host.toLowerCase()) return null;
  return parts[2] ?? '/';
}

function fault(message: string): TargetFault {
  return { kind: 'fault', message };
}
