import { createHash, randomUUID } from 'node:crypto';
import { Admitter } from '../admit/admit.ts';
import { type Allowance, allowanceOf, type Plans } from '../admit/plan.ts';
import { CorsFields } from '../annotate/cors.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Settings } from '../config/settings.ts';
import type { Upstream } from '../forward/upstream.ts';
import { Gateway } from '../gateway/gateway.ts';
import type { Parts } from '../gateway/parts.ts';
import { compileRoutes } from '../gateway/route.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { type Consumer, Identifier } from '../identify/identify.ts';
import { ClientAddresses } from '../listen/client-address.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { GatewayStores } from './gateway-stores.ts';

/** Consumers whose last known state is kept in memory. */
const REMEMBERED = 100_000;

/** Puts the gateway together from the settings and what has been opened for it. */
export function gatewayOf(
  settings: Settings,
  plans: Plans,
  stores: GatewayStores,
  upstreams: ReadonlyMap<string, Upstream>,
  {
    log,
    metrics,
    traceOf,
    isDraining,
    webSockets,
  }: Pick<Parts, 'traceOf' | 'isDraining' | 'webSockets'> & { log: GatewayLog; metrics: GatewayMetrics },
): Gateway {
  const monotonicMs = () => performance.now();
  const wallMs = () => Date.now();
  const clocks = { monotonicMs, wallMs };
  const onStoreFailure = () => metrics.storeFailed();
  const { onFailure, staleKeysMs } = settings.redis;
  const identifier = new Identifier({
    keyStore: stores.keys,
    peppers: stores.peppers,
    staleKeysMs,
    onStoreFailure,
    ...clocks,
  });
  const admitter = new Admitter({
    ledger: stores.ledger,
    onFailure,
    remembered: REMEMBERED,
    onStoreFailure,
    ...clocks,
  });
  const failedAttempts = new FailedAttempts({
    counter: stores.attempts,
    limit: () => plans.failedAuthenticationPerMinute,
    ...clocks,
  });
  stores.changes.subscribe(({ kind, keyId }) => {
    stores.applyLifts();
    if (kind !== 'ban') identifier.forget(keyId);
    if (kind !== 'key') admitter.forget();
  });
  const addresses = new ClientAddresses(settings.listen.trustedProxies);
  return new Gateway({
    router: compileRoutes(settings.routes),
    upstreams,
    identifier,
    failedAttempts,
    admitter,
    allowanceFor: allowancesUnder(plans),
    rateLimitFields: new RateLimitFields(settings.headers.draft),
    cors: settings.cors === null ? null : new CorsFields(settings.cors),
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? viaOf(settings),
    originOf: (request) => addresses.of(request),
    newRequestId: randomUUID,
    traceOf,
    isDraining,
    webSockets,
    webSocketIdleMs: settings.websockets.idleTimeoutMs,
    closeWebSocket: (closed) => {
      metrics.webSocketClosed(closed.end);
      log.webSocketClosed(closed);
    },
    close: (exchange) => {
      metrics.record(exchange);
      log.access(exchange);
    },
    onDefect: (error, requestId) => log.logger.error({ err: error, requestId }, 'a defect'),
    ...clocks,
  });
}

/** Consumers keep their identity from request to request, so their allowance is worked out once. */
function allowancesUnder({ plans }: Plans): (consumer: Consumer) => Allowance | null {
  const known = new WeakMap<Consumer, Allowance | null>();
  return (consumer) => {
    const before = known.get(consumer);
    if (before !== undefined) return before;
    const plan = plans.get(consumer.plan);
    const found = plan === undefined ? null : allowanceOf(plan, consumer.limits);
    const allowance = found === null || 'missing' in found ? null : found;
    known.set(consumer, allowance);
    return allowance;
  };
}

/** The same for every replica, so that each of them knows a request that one of them has forwarded. */
function viaOf({ routes, upstreams }: Settings): string {
  const what = JSON.stringify([routes.map(({ path }) => path), [...upstreams.values()].map(({ targets }) => targets)]);
  return `tollgate-${createHash('sha256').update(what).digest('hex').slice(0, 10)}`;
}
