import { isUtf8 } from 'node:buffer';
import { EMPTY_TO_SERVICES } from '../http1/request-line.ts';

/*
 * The form of a route's pattern, and what a path may mean to a service.
 */

/** What is wrong with a pattern, as the end of a sentence that starts with its name; null if it is valid. */
export function faultOfPattern(path: string): string | null {
  if (!path.startsWith('/')) return 'must start with `/`';
  if (path.length > 1024) return 'must not be longer than 1024 characters';
  const segments = path.slice(1).split('/');
  const names = new Set<string>();
  for (const [i, segment] of segments.entries()) {
    const last = i === segments.length - 1;
    const fault = faultOfSegment(segment, last);
    if (fault !== null) return fault;
    if (segment.startsWith('{') && names.has(segment))
      return `uses the name ${segment} twice; each name must be used once`;
    names.add(segment);
  }
  return null;
}

// Braces must enclose whole segments: `/a{b}` would look like a pattern and match only itself.
const NAME = /^\{[A-Za-z_][A-Za-z0-9_]{0,63}\}$/;
// The syntax of other routers and frameworks for one segment.
const COLON = /^:[A-Za-z_][A-Za-z0-9_]{0,63}/;
// pchar of RFC 3986 section 3.3 without `*`, which is reserved for `/**`.
const LITERAL = /^(?:[A-Za-z0-9._~!$&'()+,;=:@-]|%[0-9A-Fa-f]{2})*$/;

function faultOfSegment(segment: string, last: boolean): string | null {
  if (segment === '**')
    return last ? null : 'has `**` in the middle; it may only be the last segment, as in `/files/**`';
  if (segment.includes('*')) return 'has a `*` that is not a last segment `/**`; one segment is written `{name}`';
  if (NAME.test(segment)) return null;
  const colon = COLON.exec(segment)?.[0].slice(1);
  if (colon !== undefined) return `has \`:${colon}\`, which matches only itself; one segment is written \`{${colon}}\``;
  if (/[{}]/.test(segment)) return 'has braces that are not a whole segment `{name}` of letters, digits and `_`';
  if (segment === '' && !last) return 'has an empty segment `//`';
  if (EMPTY_TO_SERVICES.test(`/${segment}`)) {
    return 'has a segment `.` or `..`, or one of nothing but blanks or path parameters, which no request can have when it is routed';
  }
  if (!LITERAL.test(segment)) return 'has a character that no path can have; percent-encode it as the client sends it';
  return null;
}

/** What a pattern matched of a path, percent-decoded. */
interface Matched {
  /** The segment of each `{name}`. An object without a prototype, frozen. */
  readonly names: Readonly<Record<string, string>>;
  /** What the last `/**` matched, without the slash before it; null if the pattern has none. */
  readonly rest: string | null;
}

/** @param path without a query, as it was sent; it has matched the pattern */
export function matchedBy(pattern: string, path: string): Matched {
  const names: Record<string, string> = Object.create(null);
  const segments = path.slice(1).split('/');
  const parts = pattern.slice(1).split('/');
  for (const [i, part] of parts.entries()) {
    if (part === '**') return { names: Object.freeze(names), rest: decoded(segments.slice(i).join('/')) };
    if (part.startsWith('{')) names[part.slice(1, -1)] = decoded(segments[i]!);
  }
  return { names: Object.freeze(names), rest: null };
}

/** A text that is not UTF-8 when it is decoded stays as it was sent. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/*
 * What a path may mean to a service.
 *
 * Attack: `/v1/Admin`, `/v1/admin;x`, `/v1/admin%3Bx`, `/v1/admin.` and `/v1/admin%20` are `/v1/admin` to many services: they ignore
 * capitals, drop path parameters before or after they decode, or drop dots and blanks at the end of a name. So all of this is taken
 * off in one place, and a path counts as whatever one of its readings is: for groups (`PathGroups`), and for routes with
 * stricter rules (`routerOf`). Two texts that are the same to a service which does some of this are the same when all of it is done.
 */

/** Matches a path that may have another reading. Most have none, and then nothing more is done. */
const HAS_OTHER_READING = /[%;A-Z]|\.(?:\/|$)|\/\//;

export function mayBeReadOtherwise(path: string): boolean {
  return HAS_OTHER_READING.test(path);
}

/**
 * A segment in its plainest form: decoded once, as UTF-8 if it is, without path parameters, dots and blanks at its ends, in small letters.
 *
 * Attack: a service that ignores capitals takes the Kelvin sign (`%E2%84%AA`) for `k` and `%C5%BF` for `s`. The former has only a small
 * letter and the latter only a capital one, so both mappings are applied.
 */
export function plainSegment(segment: string): string {
  const decoded = asUtf8(decode(segment));
  const mark = decoded.indexOf(';');
  const name = mark < 0 ? decoded : decoded.slice(0, mark);
  let [from, to] = [0, name.length];
  while (name[to - 1] === '.' || name[to - 1] === ' ') to--;
  while (name[from] === ' ') from++;
  // Nothing but dots and blanks is no end of a name.
  return (to === 0 ? name : name.slice(from, to)).toUpperCase().toLowerCase();
}

/** @param bytes each as one character */
function asUtf8(bytes: string): string {
  if (!/[\x80-\xff]/.test(bytes)) return bytes;
  const buffer = Buffer.from(bytes, 'latin1');
  return isUtf8(buffer) ? buffer.toString() : bytes;
}

export function plainPath(path: string): string {
  return path.split('/').map(plainSegment).join('/');
}

/** Decodes every percent-encoding once, byte by byte. Whether the bytes are UTF-8 is not checked. */
export function decode(segment: string): string {
  if (!segment.includes('%')) return segment;
  return segment.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
