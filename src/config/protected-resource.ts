import { areAlike } from '../routing/router.ts';
import { type GatewayFile, routeEntry } from './gateway-schema.ts';

type RouteEntry = GatewayFile['routes'][number];

/** RFC 9728 section 3. */
const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** The path under which the metadata of a resource is, between its host and its path (RFC 9728 section 3.1). @param resource its URL */
function metadataPathOf(resource: URL): string {
  return WELL_KNOWN + (resource.pathname === '/' ? '' : resource.pathname.replace(/\/$/, ''));
}

/** Where the metadata of `jwt.resource` is, which `WWW-Authenticate` names (RFC 9728 section 5.1). */
export function metadataUrlOf(resource: string): string {
  const url = new URL(resource);
  return url.origin + metadataPathOf(url);
}

/**
 * The route by which the gateway says for what, and by whom, tokens are issued (RFC 9728), so that a client that knows nothing but the address of
 * the API finds where to sign in. Anyone may read it, and a route of gateway.yaml with the same path comes before it. Where routes are for the
 * host of the API, it is too, because those with `/**` come before routes for all hosts.
 * @returns null without `jwt.resource`
 */
export function metadataRoute({ jwt, routes }: Pick<GatewayFile, 'jwt' | 'routes'>): RouteEntry | null {
  if (jwt === null || jwt.resource === null) return null;
  const url = new URL(jwt.resource);
  const path = metadataPathOf(url);
  const isForHost = ({ hosts }: RouteEntry) => hosts?.some((host) => covers(host, url.hostname)) === true;
  const isOwn = (route: RouteEntry) => areAlike(route.path, path) && (route.hosts === null || isForHost(route));
  if (routes.some(isOwn)) return null;
  const scopes = [...new Set(routes.flatMap((route) => route.scopes ?? []))].sort();
  const metadata = {
    resource: jwt.resource,
    authorization_servers: [jwt.issuer],
    bearer_methods_supported: ['header'],
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
  };
  return routeEntry.parse({
    ...{ path, methods: ['GET'], auth: 'none', limits: { minute: 60 } },
    ...(routes.some(isForHost) ? { hosts: [url.hostname] } : {}),
    respond: {
      body: JSON.stringify(metadata),
      contentType: 'application/json',
      headers: { 'Cache-Control': 'max-age=3600' },
    },
  });
}

/** @param host a name, or `*.example.com` for all names below example.com */
function covers(host: string, name: string): boolean {
  return host.startsWith('*.') ? name.endsWith(host.slice(1)) : host === name;
}
