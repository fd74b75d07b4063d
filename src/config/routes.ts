import { createHash } from 'node:crypto';
import { plainAllowance } from '../admit/allowance.ts';
import { windowLimit } from '../admit/windows.ts';
import { namedConditions } from '../http1/field-conditions.ts';
import { fieldRulesOf } from '../http1/field-rules.ts';
import { WEBSOCKET } from '../http1/fields.ts';
import { announcementOf } from '../http1/own-fields.ts';
import { WINDOWS } from '../model/values.ts';
import { pathTemplateOf, patternAfter } from '../routing/path-template.ts';
import type { PassedForm, Route, RouteReply } from '../routing/route.ts';
import { shapeOf, withHead } from '../routing/router.ts';
import { chargeWith } from './charges.ts';
import type { GatewayFile } from './gateway-schema.ts';
import { metadataRoute } from './protected-resource.ts';
import { timesIn } from './tables.ts';

type RouteEntry = GatewayFile['routes'][number];
type UpstreamEntry = GatewayFile['upstreams'][string];

/** The routes of gateway.yaml, each joined with what its upstream says of all its routes. The file must have no fault. */
export function routesOf({
  routes: written,
  upstreams,
  tables,
  listen,
  jwt,
}: Pick<GatewayFile, 'routes' | 'upstreams' | 'tables' | 'jwt'> & {
  readonly listen: Pick<GatewayFile['listen'], 'maxBodyBytes'>;
}): readonly Route[] {
  const ofMetadata = metadataRoute({ jwt, routes: written });
  const routes = ofMetadata === null ? written : [...written, ofMetadata];
  const deprecated = storeNamesOf(routes.filter((entry) => entry.deprecated !== null));
  const keyless = storeNamesOf(routes.filter((entry) => entry.auth === 'none'));
  const timesOf = timesIn(tables);
  const all = routes.map((entry) => ({
    ...routeOf(entry, upstreams[entry.upstream]),
    charges: entry.cost.charges?.map((charge) => chargeWith(charge, timesOf)) ?? null,
    maxBodyBytes: entry.maxBodyBytes ?? listen.maxBodyBytes,
    deprecated: entry.deprecated && { ...entry.deprecated, countedAs: deprecated.get(entry)! },
    perAddress: entry.auth === 'none' ? perAddressOf(entry, keyless.get(entry)!) : null,
  }));
  const answering = all.filter((_, i) => routes[i]!.options === 'answer');
  if (answering.length === 0) return all;
  const alike = Map.groupBy(all, placeOf);
  return [...all, ...answering.map((route) => answeringOptions(route, alike.get(placeOf(route))!))];
}

function placeOf({ hosts, path }: Route): string {
  return `${hosts?.toSorted().join(' ')} ${shapeOf(path)}`;
}

/**
 * The route by which the gateway answers OPTIONS in place of another one (RFC 9110 section 9.3.7).
 * @param alike all routes with its path
 */
function answeringOptions(route: Route, alike: readonly Route[]): Route {
  const allow = [...new Set(alike.flatMap(({ methods }) => methods)), 'OPTIONS'].join(', ');
  const headers = fieldRulesOf('response', [{ set: { Allow: allow } }]);
  const reply: RouteReply = { kind: 'respond', status: 204, body: '', contentType: '', headers };
  return { ...route, methods: ['OPTIONS'], upgrades: [], retries: null, passes: null, description: null, reply };
}

/**
 * The names under which the store counts for these routes: the pattern, so that counts stay while a route changes, and with
 * the first host and the methods before it, and what the fields of a request must be after it, where several of them have that pattern.
 */
function storeNamesOf(entries: readonly RouteEntry[]): ReadonlyMap<RouteEntry, string> {
  const byPath = Map.groupBy(entries, ({ path }) => path);
  return new Map(
    entries.map((entry) => {
      const { hosts, path, methods, when } = entry;
      if (byPath.get(path)!.length === 1) return [entry, path];
      const conditions = when === null ? [] : [`(${namedConditions(when)})`];
      const first = (hosts ?? []).toSorted().slice(0, 1);
      return [entry, [...first, methods.toSorted().join(','), path, ...conditions].join(' ')];
    }),
  );
}

const PASSED_FORMS: readonly PassedForm[] = ['encodedSlashes', 'dotSegments', 'emptySegments'];

function passedBy(entry: RouteEntry): readonly PassedForm[] | null {
  const passes = PASSED_FORMS.filter((form) => entry[form] === 'pass');
  return passes.length > 0 && replyOf(entry) === null ? passes : null;
}

function upgradesOf({ websocket, upgrades }: RouteEntry): string[] {
  const names = upgrades.map((name) => name.toLowerCase());
  return websocket ? [WEBSOCKET, ...names] : names;
}

/**
 * What a route is by itself and by its upstream. Without an upstream, the gateway replies. A setting that is a member of `Route` by the same name
 * is that member, unless it is written here.
 */
function routeOf(
  entry: RouteEntry,
  upstream: UpstreamEntry | undefined,
): Omit<Route, 'charges' | 'deprecated' | 'perAddress'> {
  const { body, websocket, auth, limits, redirect, respond, headers, validate, deprecated, errors, ...others } = entry;
  const { sharedLimits, encodedSlashes, dotSegments, emptySegments, options, requestTimeout, idleTimeout, ...same } =
    others;
  const { path, cost, rewrite, timeouts, compression } = same;
  const reply = replyOf(entry);
  return {
    ...same,
    methods: withHead(methodsOf(entry)),
    announcement: announcementOf(entry),
    cost: cost.requests,
    allowsBody: body,
    upgrades: reply === null ? upgradesOf(entry) : [],
    passes: passedBy(entry),
    rewrite: changesPath(rewrite) ? pathTemplateOf(path, patternAfter(path, rewrite)) : null,
    strips: rewrite?.stripPrefix === undefined ? 0 : rewrite.stripPrefix.split('/').length - 1,
    returns: rewrite?.location === true ? (rewrite.addPrefix ?? '') : null,
    requestHeaders: fieldRulesOf('request', [upstream?.headers?.request, headers?.request]),
    responseHeaders: fieldRulesOf('response', [
      { remove: cost.removedFields },
      upstream?.headers?.response,
      headers?.response,
    ]),
    timeouts:
      timeouts === undefined || upstream === undefined
        ? null
        : {
            responseTimeoutMs: timeouts.response ?? upstream.responseTimeoutMs,
            bodyTimeoutMs: timeouts.body ?? upstream.bodyTimeoutMs,
          },
    requestTimeoutMs: requestTimeout,
    idleTimeoutMs: idleTimeout,
    retries: reply === null ? same.retries : null,
    cache: reply === null ? same.cache : null,
    description: (reply === null && (validate ?? upstream?.validate)) || null,
    errorForm: errors?.form ?? null,
    compression: (compression === undefined ? upstream?.compression : compression) ?? null,
    reply,
  };
}

function changesPath(rewrite: RouteEntry['rewrite']): rewrite is NonNullable<RouteEntry['rewrite']> {
  return rewrite !== null && [rewrite.stripPrefix, rewrite.addPrefix, rewrite.path].some((part) => part !== undefined);
}

/** The methods of a route, with OPTIONS where that is passed. */
export function methodsOf({ methods, options }: Pick<RouteEntry, 'methods' | 'options'>): readonly string[] {
  return options === 'pass' && !methods.includes('OPTIONS') ? [...methods, 'OPTIONS'] : methods;
}

function replyOf({ path: pattern, redirect, respond }: RouteEntry): RouteReply | null {
  if (redirect !== null) return { kind: 'redirect', ...redirect, path: pathTemplateOf(pattern, redirect.path) };
  return respond && { kind: 'respond', ...respond, headers: fieldRulesOf('response', [{ set: respond.headers }]) };
}

/** Each route has limits of its own, or shares them. The id under which the store counts them is the same on every replica. */
function perAddressOf({ limits = {}, sharedLimits }: RouteEntry, name: string): Route['perAddress'] {
  // No pattern begins without a slash.
  const counted = sharedLimits === null ? name : `shared ${sharedLimits}`;
  const id = `public-${createHash('sha256').update(counted).digest('hex').slice(0, 12)}`;
  const own = WINDOWS.flatMap((window) => {
    const limit = limits[window];
    return limit === undefined ? [] : [windowLimit(window, limit)];
  });
  return { id, allowance: plainAllowance('public', own) };
}
