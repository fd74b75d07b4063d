import { type Allowance, allowanceOf, type Limits, type Plan, type Plans } from '../admit/plan.ts';
import { CorsFields } from '../annotate/cors.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Configuration } from '../config/settings.ts';
import type { Steps } from '../config/steps.ts';
import { FieldNames } from '../forward/field-names.ts';
import type { Upstream } from '../forward/upstream.ts';
import type { Parts } from '../gateway/parts.ts';
import { RequestIds } from '../gateway/request-ids.ts';
import { routerOf } from '../gateway/route.ts';
import { USAGE } from '../gateway/usage-route.ts';
import type { Consumer } from '../identify/identify.ts';
import { ClientAddresses } from '../listen/client-address.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { Services } from './services.ts';

/** What surrounds a gateway, whatever its settings are. */
export interface Surroundings extends Pick<Parts, 'traceOf' | 'isDraining' | 'webSockets'> {
  readonly log: GatewayLog;
  readonly metrics: GatewayMetrics;
}

/** What requests are served by under these settings and plans: a step for each route. */
export function* partsOf(
  { settings, plans }: Pick<Configuration, 'settings' | 'plans'>,
  services: Services,
  upstreams: ReadonlyMap<string, Upstream>,
  { log, metrics, ...surroundings }: Surroundings,
): Steps<Omit<Parts, 'jwt'>> {
  const addresses = new ClientAddresses(settings.listen.trustedProxies);
  const requestIds = new RequestIds();
  const { deprecatedCalls, ...deciding } = services;
  const router = yield* routerOf([USAGE, ...settings.routes]);
  const deprecated = new Set(settings.routes.flatMap((route) => (route.deprecated === null ? [] : route.path)));
  return {
    router,
    upstreams,
    ...deciding,
    ...surroundings,
    allowanceFor: allowancesUnder(plans),
    rateLimitFields: new RateLimitFields(settings.headers.draft),
    cors: settings.cors === null ? null : new CorsFields(settings.cors),
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? settings.viaByDefault,
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
  const work = (plan: Plan, own: Limits) => {
    const found = allowanceOf(plan, own);
    return 'missing' in found ? null : found;
  };
  const shared = new Map<Plan, Allowance | null>();
  const own = new WeakMap<Consumer, Allowance | null>();
  return (consumer) => {
    const plan = plans.get(consumer.plan);
    if (plan === undefined) return null;
    const isOwn = hasAny(consumer.limits);
    const before = isOwn ? own.get(consumer) : shared.get(plan);
    if (before !== undefined) return before;
    const allowance = work(plan, consumer.limits);
    if (isOwn) own.set(consumer, allowance);
    else shared.set(plan, allowance);
    return allowance;
  };
}

function hasAny(limits: Limits): boolean {
  for (const _ in limits) return true;
  return false;
}
