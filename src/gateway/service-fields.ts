import { addressOf } from '../forward/upstream/dial.ts';
import { visibleText } from '../http1/field-rules.ts';
import type { Head } from '../http1/request-head.ts';
import { hasForeign, hasOwnForm } from '../identify/api-key.ts';
import { authorizationOf, isJwtForm } from '../identify/bearer.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/*
 * What a service learns of the caller and of its own place behind the gateway, and what its answers say of that place: Authorization, the
 * fields of Kong, the prefix of its path, Location and cookies.
 */

/**
 * Whether the service gets the client's Authorization, on a route that says so or where the gateway does not read it: as the route says or,
 * if it does not, where nothing in it may be a key.
 */
export function passesAuthorization(
  deps: Pick<GatewayDeps, 'keyFormats' | 'jwt'>,
  { route }: Match,
  { fields }: Head,
): boolean {
  if (route.authorization !== null) return route.authorization === 'pass';
  const sent = fields.derived(authorizationOf);
  return typeof sent === 'string' && !mayBeKey(deps, sent);
}

const SCHEME_BASIC = /^basic[^\w+/-]/i;

/**
 * Attack: a client sends its key, or its token, where the gateway does not look at it, and the service of a route without keys, which may be
 * anybody's, uses it elsewhere. Services also take `Token KEY`, `token="KEY"`, a key alone, and one as the user of Basic.
 */
function mayBeKey(deps: Pick<GatewayDeps, 'keyFormats' | 'jwt'>, authorization: string): boolean {
  if (!SCHEME_BASIC.test(authorization)) return hasKeyOrToken(deps, authorization);
  return authorization.split(/[^\w+/=-]+/).some((part) => {
    const decoded = Buffer.from(part, 'base64').toString('latin1');
    const isPair = decoded.includes(':') && /^[ -~]*$/.test(decoded);
    return hasKeyOrToken(deps, decoded) || (!isPair && hasKeyOrToken(deps, part));
  });
}

/** Whether any part of a text may be a key or a token. The parts of a token for the service itself are no keys. */
function hasKeyOrToken({ keyFormats, jwt }: Pick<GatewayDeps, 'keyFormats' | 'jwt'>, text: string): boolean {
  if (jwt === null && keyFormats.length === 0) return hasOwnForm(text);
  const parts = text.split(/([^\w.~+/-]+)/);
  if (jwt !== null && parts.some(isJwtForm)) return true;
  const others = parts.map((part) => (isJwtForm(part) ? ' ' : part)).join('');
  return hasOwnForm(text) || hasForeign(others, keyFormats);
}

/**
 * The fields besides X-Consumer-Id by which Kong says who calls. Its consumer is the customer of a key or, without one, the key itself.
 * Names and values alternating.
 */
export function fieldsOfKong({ consumer }: Caller): readonly string[] {
  if (consumer === null) return ['X-Anonymous-Consumer', 'true'];
  const { customer, name, meta, scopes } = consumer;
  const username = customer === null ? name : customer.name;
  const fields = ['X-Credential-Identifier', consumer.id];
  if (username !== null) fields.push('X-Consumer-Username', visibleText(username));
  if (Object.hasOwn(meta, 'custom_id')) fields.push('X-Consumer-Custom-Id', visibleText(meta.custom_id!));
  if (scopes.length > 0) fields.push('X-Consumer-Groups', scopes.join(', '));
  return fields;
}

/** The first segments of a path, as it was sent. */
export function prefixOf(path: string, segments: number): string {
  let end = 0;
  for (let i = 0; i < segments && end !== -1; i++) end = path.indexOf('/', end + 1);
  return end === -1 ? path : path.slice(0, end);
}

/** How the place of a service looks from outside, to rewrite what it says of it. */
interface ServicePlace {
  /** The names of the service, without ports, in lower case: that of the target and the one that Host has given it. */
  readonly hosts: readonly string[];
  /** The client's Host, without its port, in lower case; null if it has sent none. */
  readonly clientHost: string | null;
  /** What stands before the path at the service, and before that of the client in its place. */
  readonly inside: string;
  readonly outside: string;
}

/** @param target as in gateway.yaml */
export function servicePlaceOf(
  target: string,
  host: string | null,
  { path, host: clientHost }: Head,
  { strips, returns }: Pick<Match['route'], 'strips' | 'returns'>,
): ServicePlace {
  const { authority, base } = addressOf(target);
  const hosts = [authority, ...(host === null ? [] : [host])].map(withoutPort);
  return {
    hosts,
    clientHost: clientHost === null ? null : withoutPort(clientHost),
    inside: base + (returns ?? ''),
    outside: strips === 0 ? '' : prefixOf(path, strips),
  };
}

function withoutPort(authority: string): string {
  return authority.replace(/:\d*$/, '').toLowerCase();
}

/** Rewrites Location, and the domains and paths of cookies, for the client. @param fields names and values alternating */
export function returnedFields(fields: readonly string[], place: ServicePlace): string[] {
  return fields.map((value, i) => {
    if (i % 2 === 0) return value;
    const name = fields[i - 1]!.toLowerCase();
    if (name === 'location') return returnedLocation(value, place);
    return name === 'set-cookie' ? returnedCookie(value, place) : value;
  });
}

const ABSOLUTE = /^(?:https?:)?\/\/([^/?#\\@]*)([/?#].*)?$/i;

/** A URL of the service becomes a path of the client's; every other one stays. */
function returnedLocation(url: string, place: ServicePlace): string {
  const [, authority, after = '/'] = ABSOLUTE.exec(url) ?? [];
  if (authority === undefined) return url.startsWith('/') ? (pathOutside(url, place) ?? url) : url;
  const host = withoutPort(authority);
  if (!place.hosts.includes(host) && host !== place.clientHost) return url;
  return pathOutside(after.startsWith('/') ? after : `/${after}`, place) ?? url;
}

/**
 * Attack: a service answers `Location: http://10.0.0.7/base//evil.example`. Without the beginning this is the URL of another host, to
 * which the browser would go. Browsers also take `\\` for `/`, and drop tabs.
 * @returns null if it is no path below that of the service, or none that may be sent
 */
function pathOutside(path: string, { inside, outside }: ServicePlace): string | null {
  const rest = path.slice(inside.length);
  if (!path.startsWith(inside) || !/^(?:$|[/?#])/.test(rest)) return null;
  const written = outside + rest;
  const whole = written.startsWith('/') ? written : `/${written}`;
  return /^\/(?![/\\])[!-~]*$/.test(whole) ? whole : null;
}

/** A Set-Cookie without the domain of the service, and with its path as the client has it. */
function returnedCookie(cookie: string, place: ServicePlace): string {
  const [pair, ...attributes] = cookie.split(';');
  const kept = attributes.flatMap((attribute) => {
    const equals = attribute.indexOf('=');
    const [name, value] = [attribute.slice(0, equals).trim().toLowerCase(), attribute.slice(equals + 1).trim()];
    if (name === 'domain') return isOfService(value, place) ? [] : [attribute];
    const path = name === 'path' && value.startsWith('/') ? pathOutside(value, place) : null;
    return [path === null ? attribute : ` Path=${path}`];
  });
  return [pair, ...kept].join(';');
}

/** Whether a domain is one of the service, and none of the host that the client has asked for. */
function isOfService(domain: string, { hosts, clientHost }: ServicePlace): boolean {
  const name = domain.replace(/^\./, '').toLowerCase();
  const covers = (host: string) => host === name || host.endsWith(`.${name}`);
  return hosts.some(covers) && (clientHost === null || !covers(clientHost));
}
