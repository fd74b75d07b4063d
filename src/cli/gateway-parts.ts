import { createHash } from 'node:crypto';
import { type Allowance, allowanceOf, type Limits, type Plan, type Plans } from '../admit/plan.ts';
import { CorsFields } from '../annotate/cors.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { FieldNames } from '../forward/field-names.ts';
import type { Upstream } from '../forward/upstream.ts';
import type { Parts } from '../gateway/parts.ts';
import { RequestIds } from '../gateway/request-ids.ts';
import { compileRoutes } from '../gateway/route.ts';
import { USAGE } from '../gateway/usage-route.ts';
import type { Consumer } from '../identify/identify.ts';
import { ClientAddresses } from '../listen/client-address.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { TokenIssuers } from './jwt.ts';
import type { Services } from './services.ts';

/** What surrounds a gateway, whatever its settings are. */
export interface Surroundings extends Pick<Parts, 'traceOf' | 'isDraining' | 'webSockets'> {
  readonly log: GatewayLog;
  readonly metrics: GatewayMetrics;
  readonly tokens: TokenIssuers;
}

/** What requests are served by under these settings and plans. */
export function partsOf(
  { settings, plans }: Pick<Configuration, 'settings' | 'plans'>,
  services: Services,
  upstreams: ReadonlyMap<string, Upstream>,
  { log, metrics, tokens, ...surroundings }: Surroundings,
): Parts {
  const addresses = new ClientAddresses(settings.listen.trustedProxies);
  const requestIds = new RequestIds();
  const { deprecatedCalls, ...deciding } = services;
  const deprecated = new Set(settings.routes.flatMap((route) => (route.deprecated === null ? [] : route.path)));
  return {
    router: compileRoutes([USAGE, ...settings.routes]),
    upstreams,
    ...deciding,
    ...surroundings,
    jwt: tokens.under(settings.jwt),
    allowanceFor: allowancesUnder(plans),
    rateLimitFields: new RateLimitFields(settings.headers.draft),
    cors: settings.cors === null ? null : new CorsFields(settings.cors),
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? viaOf(settings),
    allowedNames: new FieldNames(settings.headers.allow.map((name) => name.toLowerCase())),
    originOf: (request) => addresses.of(request),
    newRequestId: () => requestIds.next(),
    webSocketIdleMs: settings.websockets.idleTimeoutMs,
    webSocketFinMs: settings.websockets.finTimeoutMs,
    closeWebSocket: (closed) => {
      metrics.webSocketClosed(closed.end);
      log.webSocketClosed(closed);
    },
    close: (exchange) => {
      metrics.record(exchange);
      if (exchange.route !== null && exchange.judgement === 'admitted' && deprecated.has(exchange.route)) {
        deprecatedCalls.count(exchange.route, exchange.consumerId);
      }
      log.access(exchange);
    },
    onDefect: (error, requestId) => log.logger.error({ err: error, requestId }, 'a defect'),
    monotonicMs: () => performance.now(),
    wallMs: () => Date.now(),
  };
}

/**
 * Consumers without limits of their own share their plan's allowance: a million of them would fill memory with the same
 * few numbers, and what is asked of the store under one allowance is asked in one go. The others keep their identity from
 * request to request, so theirs is worked out once.
 */
function allowancesUnder({ plans }: Plans): (consumer: Consumer) => Allowance | null {
  const work = (plan: Plan | undefined, own: Limits) => {
    const found = plan === undefined ? null : allowanceOf(plan, own);
    return found === null || 'missing' in found ? null : found;
  };
  const shared = new Map([...plans].map(([name, plan]) => [name, work(plan, {})]));
  const own = new WeakMap<Consumer, Allowance | null>();
  return (consumer) => {
    if (!hasAny(consumer.limits)) return shared.get(consumer.plan) ?? null;
    const before = own.get(consumer);
    if (before !== undefined) return before;
    const allowance = work(plans.get(consumer.plan), consumer.limits);
    own.set(consumer, allowance);
    return allowance;
  };
}

function hasAny(limits: Limits): boolean {
  for (const _ in limits) return true;
  return false;
}

/** The same for every replica, so that each of them knows a request that one of them has forwarded. */
function viaOf({ routes, upstreams }: Settings): string {
  const what = JSON.stringify([routes.map(({ path }) => path), [...upstreams.values()].map(({ targets }) => targets)]);
  return `tollgate-${createHash('sha256').update(what).digest('hex').slice(0, 10)}`;
}
