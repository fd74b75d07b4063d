import { WINDOWS, type WindowName } from '../../model/values.ts';
import type { Kong, KongConsumer, KongPlugin, KongRoute } from './kong-file.ts';

/*
 * What Kong does with a request, as its documentation says: which of several plugins of one name runs, and what a rate limit counts
 * (https://developer.konghq.com/gateway/entities/plugin/#plugin-precedence, https://developer.konghq.com/plugins/rate-limiting/).
 */

/**
 * The plugin of a name that runs for a request: the most specific one alone.
 * @param consumer null for a request without a consumer
 */
export function pluginFor(
  { pluginsOf }: Pick<Kong, 'pluginsOf'>,
  name: string,
  route: KongRoute,
  consumer: KongConsumer | null,
): KongPlugin | null {
  const all = pluginsOf.get(name);
  if (all === undefined) return null;
  let best: KongPlugin | null = null;
  for (const plugin of [route, route.service, consumer, null].flatMap((one) => all.get(one) ?? [])) {
    if (plugin.isForGroup) continue;
    if (plugin.route !== null && plugin.route !== route) continue;
    if (plugin.service !== null && plugin.service !== route.service) continue;
    if (plugin.consumer !== null && plugin.consumer !== consumer) continue;
    if (best === null || rankOf(plugin) < rankOf(best)) best = plugin;
  }
  return best;
}

/** Plugins that are moved, or that refuse no request: without them a route is not more open. */
const PASSING = [
  ...[
    'key-auth',
    'rate-limiting',
    'acl',
    'request-size-limiting',
    'cors',
    'rate-limiting-advanced',
    'response-ratelimiting',
  ],
  ...[
    'prometheus',
    'correlation-id',
    'file-log',
    'http-log',
    'tcp-log',
    'udp-log',
    'syslog',
    'loggly',
    'statsd',
    'datadog',
  ],
  ...['zipkin', 'opentelemetry', 'request-transformer', 'response-transformer', 'request-transformer-advanced'],
  ...['response-transformer-advanced', 'proxy-cache', 'proxy-cache-advanced', 'grpc-gateway', 'grpc-web'],
];

/**
 * The plugins that may refuse a request of a route without a key, and that are not moved.
 *
 * Attack: a route whose requests needed a token in Kong is written without that, and is open to everyone.
 */
export function guardsOf(kong: Kong, route: KongRoute): readonly KongPlugin[] {
  if (pluginFor(kong, 'key-auth', route, null) !== null) return [];
  return [...kong.pluginsOf.keys()].flatMap((name) => {
    const plugin = PASSING.includes(name) ? null : pluginFor(kong, name, route, null);
    if (plugin === null) return [];
    return name === 'ip-restriction' && listIn(plugin, 'deny', 'blacklist').length === 0 ? [] : [plugin];
  });
}

/** The order of precedence: the lowest runs. */
function rankOf({ route, service, consumer }: KongPlugin): number {
  const of = `${route === null ? '' : 'r'}${service === null ? '' : 's'}${consumer === null ? '' : 'c'}`;
  return ['rsc', 'rc', 'sc', 'rs', 'c', 'r', 's', ''].indexOf(of);
}

/** Whom a rate limit counts: all keys of a consumer, each key, each address, or something else. */
type CountedBy = 'consumer' | 'credential' | 'ip' | 'service' | 'header' | 'path';

interface KongLimit {
  readonly by: CountedBy;
  readonly limits: Readonly<Partial<Record<WindowName, number>>>;
  /** Kong can also limit a year. */
  readonly year: number | null;
}

/** What a plugin `rate-limiting` limits. */
export function limitOf({ config }: KongPlugin): KongLimit {
  const numberOf = (name: string) => (typeof config[name] === 'number' ? config[name] : null);
  const limits = WINDOWS.flatMap((window) => {
    const limit = numberOf(window);
    return limit === null ? [] : [[window, limit] as const];
  });
  const by = typeof config.limit_by === 'string' ? config.limit_by : 'consumer';
  return { by: by as CountedBy, limits: Object.fromEntries(limits), year: numberOf('year') };
}

/** Whether a plugin counts by itself for one route or service. One that does not counts the requests of all routes together. */
export function isCountedApart({ route, service }: KongPlugin): boolean {
  return route !== null || service !== null;
}

/** A list of texts in the configuration of a plugin, under the first of several names that has one. */
export function listIn({ config }: KongPlugin, ...names: readonly string[]): readonly string[] {
  for (const name of names) {
    const value = config[name];
    if (Array.isArray(value)) return value.filter((one): one is string => typeof one === 'string');
  }
  return [];
}

/** The size that `request-size-limiting` allows, in bytes. */
export function sizeOf({ config }: KongPlugin): number {
  const unit = config.size_unit === 'bytes' ? 1 : config.size_unit === 'kilobytes' ? 1024 : 1024 * 1024;
  return Math.floor((typeof config.allowed_payload_size === 'number' ? config.allowed_payload_size : 128) * unit);
}
