import { METHODS } from 'node:http';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { faultOfFieldValue } from '../http1/field-rules.ts';
import { TOKEN_CHARACTER } from '../http1/fields.ts';
import { faultOfPath } from '../http1/request-line.ts';
import { WINDOWS, wholeNumber } from '../model/values.ts';
import { faultOfPattern } from '../routing/pattern.ts';

export { wholeNumber } from '../model/values.ts';

/** A setting that may be left out; null then. */
export function orNull<S extends z.ZodType>(schema: S) {
  return schema.optional().transform((value): z.output<S> | null => (value as z.output<S> | undefined) ?? null);
}

/** Text of a form. @param title its name in the reference */
function text(title: string, form: RegExp, message: string, isSound: (text: string) => boolean = () => true) {
  return z.string(message).regex(form, { error: message, abort: true }).refine(isSound, message).meta({ title });
}

/** Appends their unit to the names of durations and moments in a section: `timeout` becomes `timeoutMs`. */
export function inMs<const Name extends string>(...names: readonly Name[]) {
  const isNamed = (name: string) => names.some((other) => other === name);
  return <Section extends Readonly<Record<Name, unknown>>>(section: Section): InMs<Section, Name> => {
    const named = Object.entries(section).map(([name, value]) => [isNamed(name) ? `${name}Ms` : name, value]);
    return Object.fromEntries(named);
  };
}

type InMs<Section, Name> = {
  [Key in keyof Section as Key extends string & Name ? `${Key}Ms` : Key]: Section[Key];
};

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(0|[1-9][0-9]{0,11})(ms|s|m|h|d)$/;

/** A duration such as `250ms`, `10s`, `1m`, `24h` or `7d`, bounds inclusive; parsed to milliseconds (contract section 2). */
export function duration(least: string, most: string) {
  const message = `must be a duration from ${least} to ${most}, such as 250ms, 10s, 1m, 24h or 7d`;
  return z
    .string(message)
    .regex(DURATION, { error: message, abort: true })
    .refine((text) => durationMs(text) >= durationMs(least) && durationMs(text) <= durationMs(most), message)
    .transform(durationMs)
    .meta({ title: `duration from ${least} to ${most}` });
}

/** @returns milliseconds; NaN if the text is not a duration */
export function durationMs(text: string): number {
  const [, digits, unit] = DURATION.exec(text) ?? [];
  return digits === undefined ? Number.NaN : Number(digits) * UNIT_MS[unit as keyof typeof UNIT_MS];
}

/** Writes a duration as settings have it, in the largest unit without a fraction: `90s`, `1m`. */
export function writtenDuration(ms: number): string {
  const [unit, length] = Object.entries(UNIT_MS).findLast(([, each]) => ms % each === 0)!;
  return `${ms / length}${unit}`;
}

/** A timeout: above zero, and within the longest delay of a Node.js timer (2^31 - 1 ms). */
export const timeout = () => duration('1ms', '24d');

const UNIT_BYTES = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;
const SIZE = /^(0|[1-9][0-9]{0,14})(B|KiB|MiB|GiB)$/;

/** A size such as `16KiB` or `1MiB`, or a plain number of bytes; parsed to bytes (contract section 2). */
export function size(least: string, most: string) {
  const message = `must be a size from ${least} to ${most}, such as 16KiB, 1MiB or a whole number of bytes`;
  return z
    .union(
      [
        z.int(message).min(sizeBytes(least), message).max(sizeBytes(most), message),
        z.string(message).regex(SIZE, message),
      ],
      message,
    )
    .refine((value) => sizeBytes(value) >= sizeBytes(least) && sizeBytes(value) <= sizeBytes(most), message)
    .transform(sizeBytes)
    .meta({ title: `size from ${least} to ${most}` });
}

function sizeBytes(value: string | number): number {
  if (typeof value === 'number') return value;
  const [, digits, unit] = SIZE.exec(value) ?? [];
  return digits === undefined ? Number.NaN : Number(digits) * UNIT_BYTES[unit as keyof typeof UNIT_BYTES];
}

/** A TCP port; 0 lets the system choose one, which tests use. */
export const port = () => wholeNumber(0, 65_535);

/** The name of a plan or an upstream. It appears in headers, metrics and logs. */
export function name() {
  const message = 'must be 1 to 64 letters, digits, `_` or `-`, and start with a letter';
  return z.string(message).regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, message);
}

const HOST_NAME =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;

export const HOST_RULE = 'must be an address or host name to listen on, such as 127.0.0.1, 0.0.0.0, ::1 or localhost';

export const host = () => z.string(HOST_RULE).refine(isHost, HOST_RULE).meta({ title: 'address or host name' });

/** A host name that clients use for a listener: the Host field without the port. */
export function reachedAs() {
  const message = 'must be a host name without scheme and port, such as gateway-1 or gateway.internal';
  return z.string(message).refine(isHost, message).meta({ title: 'host name' });
}

export function isHost(text: string): boolean {
  // Digits and dots that are no IP address, such as 127.0.0.256, would be looked up in DNS.
  return isIP(text) !== 0 || (HOST_NAME.test(text) && !/^[0-9.]+$/.test(text));
}

/** An address or network whose X-Forwarded-For is believed. */
export function network() {
  const message = 'must be an IP address or network, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8';
  return z.string(message).refine(isNetwork, message).meta({ title: 'IP address or network' });
}

function isNetwork(text: string): boolean {
  // ipaddr.js alone also accepts 10 and 0x7f.1, which are typing errors here.
  const [address = '', bits, more] = text.split('/');
  if (isIP(address) === 0 || address.includes('%') || more !== undefined) return false;
  return bits === undefined ? ipaddr.isValid(address) : /^[0-9]{1,3}$/.test(bits) && ipaddr.isValidCIDR(text);
}

/** A token of RFC 9110 section 5.6.2: a field name, or this gateway's pseudonym in `Via` (section 7.6.3). */
export function token() {
  const message = "must be 1 to 64 letters, digits or any of !#$%&'*+-.^_`|~";
  return text('token of HTTP', new RegExp(`^${TOKEN_CHARACTER}{1,64}$`), message);
}

/** What begins names of limits otherwise, or is such a name. */
const NAMES_OF_LIMITS = new Set<string>([...WINDOWS, 'customer', 'key', 'in-flight']);

/** The name of a group of routes, or of a unit: what precedes the window in names of limits. @param taken further names that it must not be */
export function limitName(what: 'group' | 'unit', taken: readonly string[] = []) {
  const reserved = [...taken, 'customer', 'key', 'in-flight'].map((name) => `\`${name}\``).join(', ');
  const rule = `must be the name of a ${what}: 1 to 32 lower-case letters, digits and \`-\`, starting with a letter, and neither a window nor ${reserved} or \`customer-…\``;
  const isFree = (name: string) => !NAMES_OF_LIMITS.has(name) && !name.startsWith('customer-') && !taken.includes(name);
  return z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, rule)
    .refine(isFree, rule);
}

/** The path of a file, parsed to an absolute one: a relative path is resolved against the working directory. */
export const file = () => fileAsWritten().overwrite((path) => resolve(path));

/** The path of a file, for one that messages name as the operator wrote it. */
export const fileAsWritten = () => text('path of a file', /^[^\0]{1,4096}$/, 'must be the path of a file');

/** The methods that a route may have. */
export const ROUTABLE_METHODS: readonly string[] = METHODS.filter((name) => name !== 'CONNECT' && name !== 'TRACE');

/**
 * A request method (RFC 9110 section 9.1). CONNECT and TRACE are never forwarded: CONNECT would open a tunnel, and the
 * answer to TRACE would echo the key.
 */
export function method() {
  const message = 'must be a method in upper case, such as GET, POST or DELETE (CONNECT and TRACE cannot be routed)';
  return z
    .string(message)
    .regex(/^(?!CONNECT$|TRACE$)[A-Z][A-Z-]*$/, { error: message, abort: true })
    .refine((text) => METHODS.includes(text), message)
    .meta({ title: 'method in upper case' });
}

/** A host that a route serves. */
export function routeHost() {
  const message =
    'must be a host name without scheme and port, such as api.example.com, or *.example.com for all names below it';
  return z
    .string(message)
    .refine(
      (text) => (text.startsWith('*.') ? HOST_NAME.test(text.slice(2)) : isHost(text) && !text.includes(':')),
      message,
    )
    .transform((text) => text.toLowerCase())
    .meta({ title: 'host name', pattern: '^(\\*\\.)?[A-Za-z0-9.-]+$' });
}

/** A route pattern. The router's own rules decide whether it is valid. */
export function pattern() {
  return z
    .string('must be a path such as /v1/pets, /v1/pets/{petId} or /files/**')
    .superRefine((text, context) => {
      const fault = faultOfPattern(text);
      if (fault !== null) context.addIssue({ code: 'custom', message: fault });
    })
    .meta({
      title: 'route pattern',
      pattern:
        '^(?!.*/:[A-Za-z_])/([^*{}/?#\\s]+/|\\{[A-Za-z_][A-Za-z0-9_]*\\}/)*([^*{}/?#\\s]*|\\{[A-Za-z_][A-Za-z0-9_]*\\}|\\*\\*)$',
    });
}

/** Where a redirect leads: a path, or an origin and a path. */
export function redirectTarget() {
  const message = 'must be a path such as /v2/{id}, or https://host and a path, without query and fragment';
  return text('path, or https:// URL, with names', REDIRECT, message);
}

const REDIRECT = /^(https?:\/\/[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?)?(\/[!"$->@-~]{0,1023})$/;

/** The parts of a redirect's target; the origin is empty for a path alone. */
export function redirectParts(text: string): { readonly origin: string; readonly path: string } {
  const [, origin = '', path = '/'] = REDIRECT.exec(text) ?? [];
  return { origin, path };
}

/** The value of a header field that an operator sets: text with variables such as `{consumer.id}`. */
export function fieldValue() {
  return z
    .string('is no text; put it between quotes')
    .superRefine((text, context) => {
      const fault = faultOfFieldValue(text);
      if (fault !== null) context.addIssue({ code: 'custom', message: fault });
    })
    .meta({ title: 'value of a field', minLength: 1, maxLength: 4096 });
}

/** The URL of a page, to which a fragment is added. */
export function pageUrl() {
  const form = /^https?:\/\/(?:[A-Za-z0-9._~:/?[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,2000}$/;
  const message = 'must be the URL of a page without a fragment, such as https://docs.example.com/errors';
  return text('URL of a page', form, message, (url) => URL.canParse(url));
}

/** A path of a rewrite, or a part of one. Whether it fits the route's pattern is checked with the route. */
export const path = () => text('path', /^\/[!"$->@-~]{0,1023}$/, 'must be a path such as /v1 or /shop/{shop}/**');

/** How long a client on a line of 10 Mbit/s takes for a body, in seconds. One that takes longer than its timeout is refused for its time. */
export function bodySeconds(bytes: number): number {
  return Math.ceil(bytes / 1_250_000);
}

/** A Host: a name or an address, with a port or without, or `keep`. */
export function hostField() {
  const form = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$/;
  return text('host', form, 'must be `keep`, or a host such as shop.internal or shop.internal:8080');
}

/** A DNS name, as it stands in a certificate. */
export function serverName() {
  const form = /^(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*$/;
  return text('DNS name', form, 'must be a name such as pets.internal');
}

/**
 * A domain that TLS-ALPN-01 and HTTP-01 can prove: a full DNS name. Those challenges cannot prove a wildcard, and authorities issue
 * nothing to IP addresses and names without a dot.
 */
export function provableDomain() {
  const message = 'must be a full domain name such as api.example.com';
  return z
    .string(message)
    .superRefine((text, context) => {
      const issue = (why: string) => context.addIssue({ code: 'custom', message: why });
      if (text.startsWith('*.')) issue('must be one domain: neither tls-alpn-01 nor http-01 can prove a wildcard');
      else if (isIP(text) !== 0) issue('must be a domain name: no certificate is ordered for an IP address');
      else if (!HOST_NAME.test(text) || !/\.[A-Za-z][A-Za-z0-9-]*$/.test(text)) issue(message);
    })
    .transform((text) => text.toLowerCase())
    .meta({ title: 'domain name' });
}

/** The URL of an ACME directory. */
export function directoryUrl() {
  const message = 'must be an https:// URL such as https://acme-v02.api.letsencrypt.org/directory';
  return text('https:// URL', /^https:\/\/[^@\s#]{1,1000}$/, message, (url) => URL.canParse(url));
}

/** The target of a health check: a path, with a query or without. */
export function healthPath() {
  return text('path, with or without a query', /^\/[!"$-~]{0,1023}$/, 'must be a path such as /healthz');
}

/** No operating system supports a longer socket path. */
const SOCKET = /^unix:\/[^\0]{1,106}$/;
/** An origin, with a base path or without. */
const ADDRESS = /^(https?:\/\/[^/?#@\\\s]+)((?:\/(?:[A-Za-z0-9._~!$&'()+,;=:@-]|%[0-9A-Fa-f]{2})+)*)\/?$/;

const TARGET_RULE =
  'must be an address such as http://127.0.0.1:9000, https://pets.internal or unix:/run/pets.sock, alone or as `url` beside its `weight`';

/** A target of an upstream: its address alone, or with its weight. */
export function target() {
  const weighted = z.strictObject({
    url: targetUrl().describe('Address of the target.'),
    weight: wholeNumber(0, 1_000)
      .prefault(1)
      .describe('The part of the requests that it gets, beside the weights of the other targets. 0 takes it out.'),
  });
  return z
    .union([targetUrl(), weighted], TARGET_RULE)
    .transform((given) => (typeof given === 'string' ? { url: given, weight: 1 } : given));
}

/**
 * The address of an upstream: an origin, perhaps with a base path, parsed to `scheme://host:port/base` without a
 * trailing slash, or `unix:/path`.
 */
function targetUrl() {
  return z
    .string(TARGET_RULE)
    .superRefine((text, context) => {
      const fault = faultOfTarget(text);
      if (fault !== null) context.addIssue({ code: 'custom', message: fault });
    })
    .meta({ pattern: `${ADDRESS.source}|${SOCKET.source}` })
    .transform(targetOf)
    .meta({ title: 'http:// or https:// address, or unix:/path' });
}

/** A target in its normal form. @param text without a fault (`faultOfTarget`) */
export function targetOf(text: string): string {
  const parts = ADDRESS.exec(text);
  return parts === null ? text : new URL(parts[1]!).origin + parts[2]!;
}

/** What is wrong with an upstream's address, without quoting it, since it may contain a password. Null if it is valid. */
export function faultOfTarget(text: string): string | null {
  if (SOCKET.test(text)) return null;
  if (/^(unix|http\+unix):/i.test(text)) return 'is no path of a Unix socket: it must be such as unix:/run/pets.sock';
  const allowed =
    'it must be http:// or https:// with a host, at most a port and a path, such as http://127.0.0.1:9000 or http://127.0.0.1:9000/store';
  if (!/^https?:\/\//.test(text)) return `is no address of an HTTP server: ${allowed}`;
  if (text.includes('@')) return `has credentials: ${allowed}`;
  const parts = ADDRESS.exec(text);
  if (parts === null) return `has a path that no request can have, a query, a fragment or white space: ${allowed}`;
  const [, origin, base] = parts;
  // The base path is put in front of paths that were checked, so it must be one that would be accepted itself.
  if (base !== '' && faultOfPath(base!) !== null) return `has a path that no request can have: ${allowed}`;
  const url = URL.parse(origin!);
  if (url === null || url.port === '0') return `has a host or port that cannot exist: ${allowed}`;
  return null;
}

/** A date (midnight UTC) or an RFC 3339 time with seconds, parsed to Unix milliseconds. */
export function instant() {
  const message = 'must be a date such as 2030-12-05, or a time such as 2030-12-05T00:00:00Z';
  return z
    .string(message)
    .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))?$/, {
      error: message,
      abort: true,
    })
    .refine((text) => Date.parse(text) >= 0 && isCalendarDay(text.slice(0, 10)), message)
    .transform((text) => Date.parse(text))
    .meta({ title: 'date or RFC 3339 time' });
}

/** `Date.parse` accepts 30 February as 2 March. */
function isCalendarDay(day: string): boolean {
  const atMs = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(day);
}

/**
 * A URI reference (RFC 3986) for a Link field, where it stands between `<` and `>`. Only the ASCII characters of the URI
 * grammar are allowed, so that no setting can end the field or begin another.
 */
export function uriReference() {
  const form = /^(?:[A-Za-z0-9._~:/?#[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,2048}$/;
  const message = 'must be a URL or path of visible ASCII without spaces and < > " \\ ^ ` { | }, such as /v2/pets';
  return text('URL or path', form, message, (reference) => URL.canParse(reference, 'http://gateway.invalid'));
}

/** The last moment that RFC 3339 can express, with its four-digit years. A time with an offset may be later in UTC. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * Reads a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds; null for any other text
 */
export function momentOf(text: string): number | null {
  // RFC 3339 allows a fraction of a second, and the times that Tollgate prints have one.
  const [, seconds, fraction = '', zone = ''] = /^([^.]*)(?:(\.[0-9]{1,9})(Z|[+-].*))?$/.exec(text) ?? [];
  if (seconds === undefined || !instant().safeParse(seconds + zone).success) return null;
  const atMs = Date.parse(seconds + fraction + zone);
  return atMs > LAST_MS ? null : atMs;
}

/** Plain data that cannot be changed. */
export type Frozen<T> =
  T extends ReadonlyMap<infer Key, infer Value>
    ? ReadonlyMap<Key, Frozen<Value>>
    : T extends object
      ? { readonly [Key in keyof T]: Frozen<T[Key]> }
      : T;

/** Freezes a value and everything in it: a reload replaces the settings and never edits them. @returns the same value */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const inner of value.values()) deepFreeze(inner);
    // Object.freeze does not protect the entries of a Map, so the methods that write are replaced.
    const refuse = () => {
      throw new TypeError('This map is frozen.');
    };
    for (const method of ['set', 'delete', 'clear']) Object.defineProperty(value, method, { value: refuse });
  } else {
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return Object.freeze(value);
}
