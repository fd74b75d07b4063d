/** A request target in origin form. */
interface RequestTarget {
  readonly kind: 'target';
  /** Path and query exactly as received, so that what is routed is what is forwarded. */
  readonly target: string;
  /** The target without its query. */
  readonly path: string;
  /** Why the path is refused unless its route passes such paths (`encodedSlashes` and the like); null for most paths. */
  readonly oddity: string | null;
}

interface TargetFault {
  readonly kind: 'fault';
  readonly message: string;
}

/**
 * Reads a request target (RFC 9112 section 3.2). Nothing is decoded, normalised or repaired.
 *
 * Attack: `/v1/pets/../admin`, `/v1/%2e%2e/admin`, `//admin`, `/v1\admin` or `/v1%2fadmin` look like one path to the
 * router and like another to the service behind it. So a path that is ambiguous on any route is refused, here or, if a route
 * may pass it, by the router (`passes`); one that would match a different route once it is decoded is refused by the router.
 *
 * @param host the Host field; a target in absolute form is accepted only if its authority is the same
 */
export function readRequestTarget(url: string, method: string, host: string | null): RequestTarget | TargetFault {
  if (url === '*') {
    return method === 'OPTIONS'
      ? { kind: 'target', target: '*', path: '*', oddity: null }
      : fault('Only OPTIONS may have * as its target.');
  }
  const target = url.startsWith('/') ? url : originForm(url, host);
  if (target === null) {
    return fault('The request target must be a path, or a URL of the host that the Host field names.');
  }
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  if (!VISIBLE.test(target)) return fault(FOREIGN_CHARACTER);
  if (target.includes('#')) return fault('The request target must not have a fragment.');
  if (PLAIN_PATH.test(path)) return { kind: 'target', target, path, oddity: null };
  const message = unreadableIn(path);
  return message === null ? { kind: 'target', target, path, oddity: oddityOf(path) } : fault(message);
}

export const FOREIGN_CHARACTER =
  'The request target has a character that is not allowed in a URL, such as a blank or one beyond ASCII. Percent-encode it: é is %C3%A9.';
const VISIBLE = /^[\x21-\x7e]+$/;
/** Matches most paths: those without anything that needs a closer look. */
const PLAIN_PATH = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+\/?$/;
/**
 * A segment that a service may take for an empty one, for `.` or for `..`.
 *
 * Attack: `/v1/users/;x` is `/v1/users/` to Tomcat, Jetty and Spring, which drop what follows a `;`, and so is
 * `/v1/users/%20` to Spring before 4.3, which trims segments. Windows drops the blanks at the end of a name, so that
 * `..%20` may climb. A name with more than these passes: whether `/v1/users/7;x` is another path is for the
 * service to say.
 */
export const EMPTY_TO_SERVICES = /\/(?:;|%3b|(?:(?:%20)+|(?:%20)*(?:\.|%2e){1,2}(?:%20)*)(?:\/|;|%3b|$))/i;

/** Why a path is refused, as a sentence; null if it is accepted. @param path visible ASCII that begins with a slash */
export function faultOfPath(path: string): string | null {
  return PLAIN_PATH.test(path) ? null : (unreadableIn(path) ?? oddityOf(path));
}

/** Why a path is refused on every route. */
function unreadableIn(path: string): string | null {
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return 'The path has a % that is not followed by two hexadecimal digits.';
  if (path.includes('\\')) return 'The path must not have a backslash.';
  if (/%(?:[01][0-9a-f]|7f)/i.test(path)) return 'The path must not have an encoded control character.';
  return null;
}

function oddityOf(path: string): string | null {
  if (path === '/') return null;
  if (/%(?:2f|5c)/i.test(path)) return 'The path must not have an encoded slash or backslash.';
  if (path.includes('//')) return 'The path must not have an empty segment.';
  if (EMPTY_TO_SERVICES.test(path)) {
    return 'The path must not have a segment `.` or `..`, nor one of nothing but blanks or path parameters (`;…`).';
  }
  return null;
}

/** Reduces `http://authority/path` to `/path` if the authority is the Host. */
function originForm(url: string, host: string | null): string | null {
  const parts = /^https?:\/\/([^/?#\\@]+)(\/.*)?$/i.exec(url);
  if (parts === null || host === null || parts[1]!.toLowerCase() !== host.toLowerCase()) return null;
  return parts[2] ?? '/';
}

function fault(message: string): TargetFault {
  return { kind: 'fault', message };
}

/** The methods that change nothing (RFC 9110 section 9.2.1, RFC 10008). TRACE is not forwarded. */
export const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'QUERY']);

/** The methods that may be sent twice (RFC 9110 section 9.2.2, RFC 10008). */
export const IDEMPOTENT: ReadonlySet<string> = new Set([...SAFE, 'PUT', 'DELETE']);
