import type { Plan, Plans } from '../../model/plan.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import type { GatewayFile } from '../gateway-schema.ts';
import type { ImportedKong } from './imported-kong.ts';
import type { Kong, KongConsumer, KongPlugin, KongRoute } from './kong-file.ts';
import { patternOf } from './kong-plans.ts';
import type { RouteHere } from './kong-routes.ts';
import { guardsOf, isCountedApart, limitOf, listIn, pluginFor, sizeOf } from './kong-rules.ts';

// What a request gets in Kong, as its file says, beside what it gets here, as the written files say.

interface Written {
  readonly gateway: GatewayFile;
  readonly plans: Plans;
}

type Row = readonly string[];

/** A row for each route of Kong that is moved: its name, its first path, and what a request gets. */
export function routeRows(kong: Kong, { routes }: ImportedKong, written: Written): readonly Row[] {
  const byKong = Map.groupBy(routes.keys(), (index) => routes[index]!.kong);
  return [...byKong].map(([route, [index]]) => {
    const here = routes[index!]!;
    const methods = route.methods.length === 0 ? 'any' : here.methods.join(',');
    const place = `${methods} ${here.hosts[0] ?? ''}${here.path}`;
    return [route.name, place, inKong(kong, route), inTollgate(here, written.gateway.routes[index!]!, written.plans)];
  });
}

/** A row for each consumer: its name, its keys, and what its requests get. */
export function consumerRows(kong: Kong, { planOf, routes }: ImportedKong, { plans }: Written): readonly Row[] {
  return kong.consumers.map((consumer) => {
    const plan = planOf.get(consumer)!;
    const limited = limitsIn(kong, consumer, routes).map((plugin) => limitText(plugin));
    const { limits, groups = [] } = plans.plans.get(plan)!;
    const of = groups.map((group) => `${windowsText(group.limits)} in ${group.name}`);
    const here = [...(limits.minute === 'unlimited' ? [] : [windowsText(limits)]), ...of];
    return [
      consumer.name,
      String(consumer.keys.length),
      limited.join('; ') || 'no limit',
      `${plan}: ${here.join('; ') || 'no limit'}`,
    ];
  });
}

/** The rate limits of a consumer on the routes that need a key. */
function limitsIn(kong: Kong, consumer: KongConsumer, routes: readonly RouteHere[]): readonly KongPlugin[] {
  const found = routes.flatMap((route) =>
    pluginFor(kong, 'key-auth', route.kong, null) === null
      ? []
      : (pluginFor(kong, 'rate-limiting', route.kong, consumer) ?? []),
  );
  return [...new Set(found)];
}

function inKong(kong: Kong, route: KongRoute): string {
  const of = (name: string) => pluginFor(kong, name, route, null);
  const [acl, limit, size, addresses] = [
    of('acl'),
    of('rate-limiting'),
    of('request-size-limiting'),
    of('ip-restriction'),
  ];
  const groups = acl === null ? [] : listIn(acl, 'allow', 'whitelist');
  const denied = acl === null ? [] : listIn(acl, 'deny', 'blacklist');
  const from = addresses === null ? [] : listIn(addresses, 'allow', 'whitelist');
  return [
    of('key-auth') === null
      ? guardsOf(kong, route)
          .map(({ name }) => name)
          .join(' and ') || 'no key'
      : 'a key',
    ...(groups.length === 0 ? [] : [`group ${groups.join(' or ')}`]),
    ...(denied.length === 0 ? [] : [`not group ${denied.join(' or ')}`]),
    ...(limit === null ? ['no limit'] : [limitText(limit, of('key-auth') === null)]),
    ...(size === null ? [] : [`bodies up to ${sizeText(sizeOf(size))}`]),
    ...(from.length === 0 ? [] : [`from ${from.join(', ')}`]),
  ].join('; ');
}

const WHOM: ReadonlyMap<string, string> = new Map(
  Object.entries({
    consumer: 'each consumer',
    credential: 'each key',
    ip: 'each address',
    service: 'all callers together',
    header: 'each value of a header field',
    path: 'one path',
  }),
);

/** @param isOpen whether requests have no key: Kong counts their address then */
function limitText(plugin: KongPlugin, isOpen = false): string {
  const { by, limits, year } = limitOf(plugin);
  const where = plugin.route !== null ? 'on this route' : plugin.service !== null ? 'on this service' : 'on all routes';
  const windows = [windowsText(limits), ...(year === null ? [] : [`${year} a year`])].filter((text) => text !== '');
  const whom = isOpen && (by === 'consumer' || by === 'credential') ? 'ip' : by;
  return `${windows.join(', ')} for ${plugin.consumer === null ? (WHOM.get(whom) ?? `each ${whom}`) : 'the consumer'} ${isCountedApart(plugin) ? where : 'on all routes'}`;
}

function inTollgate(here: RouteHere, route: GatewayFile['routes'][number], plans: Plans): string {
  const isOpen = route.auth === 'none';
  if (route.respond !== null) return '503, until you write what is in its place';
  return [
    isOpen ? 'no key' : 'a key',
    ...(route.scopes ?? []).map((scope) => `scope ${scope}`),
    isOpen
      ? `${windowsText(route.limits ?? {})} for each address${route.sharedLimits === null ? ' on this path' : ''}`
      : planText(here, plans.plans.get('default')!),
    ...(route.maxBodyBytes === null ? [] : [`bodies up to ${sizeText(route.maxBodyBytes)}`]),
    ...(route.addresses === null ? [] : [`from ${route.addresses.join(', ')}`]),
  ].join('; ');
}

function planText(here: RouteHere, { limits, groups = [] }: Plan): string {
  const group = groups.find(({ routes }) => routes.includes(patternOf(here)));
  if (group !== undefined) return `${windowsText(group.limits)} for each customer in ${group.name}`;
  return limits.minute === 'unlimited' ? 'no limit' : `${windowsText(limits)} for each customer on all routes`;
}

function windowsText(limits: Readonly<Partial<Record<WindowName, unknown>>>): string {
  return WINDOWS.flatMap((window) =>
    limits[window] === undefined ? [] : [`${String(limits[window])} ${window === 'hour' ? 'an' : 'a'} ${window}`],
  ).join(', ');
}

function sizeText(bytes: number): string {
  return bytes % 2 ** 20 === 0
    ? `${bytes / 2 ** 20} MiB`
    : bytes % 1024 === 0
      ? `${bytes / 1024} KiB`
      : `${bytes} bytes`;
}
