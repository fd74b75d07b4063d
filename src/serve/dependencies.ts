import { Admitter } from '../admit/admit.ts';
import type { Plans } from '../admit/plan.ts';
import { CorsFields } from '../annotate/cors.ts';
import { DeprecatedCallCounter } from '../annotate/deprecated-calls.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import type { Steps } from '../config/steps.ts';
import type { Upstream } from '../forward/upstream/upstream.ts';
import { Allowances } from '../gateway/allowances.ts';
import type { GatewayDeps } from '../gateway/gateway-deps.ts';
import { RequestIds } from '../gateway/request-ids.ts';
import { Usage } from '../gateway/usage.ts';
import { FieldNames } from '../http1/forwarded-fields.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { Identifier } from '../identify/identify.ts';
import { CLOCKS } from '../io/clocks.ts';
import { ClientAddresses } from '../listen/client/address.ts';
import { routerOf } from '../routing/router.ts';
import { USAGE } from '../routing/usage-route.ts';
import { LogAndMetrics } from '../telemetry/closing-records.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { GatewayStores } from './gateway-stores.ts';

/** The services that identify callers and know their quotas. They live as long as the gateway, through every reload. */
export interface Services {
  readonly identifier: Identifier;
  readonly admitter: Admitter;
  readonly failedAttempts: FailedAttempts;
  readonly usage: Usage;
  readonly deprecatedCalls: DeprecatedCallCounter;
}

/** Consumers whose last known state is kept in memory. */
const REMEMBERED = 100_000;

/** @param inForce the current plans and settings, read at each use because a reload changes them */
export function openServices(
  settings: Settings,
  inForce: { readonly plans: Plans; readonly settings: Settings },
  stores: GatewayStores,
  metrics: GatewayMetrics,
): Services {
  const onStoreFailure = () => metrics.storeFailed();
  const { onFailure, staleKeysMs, timeoutMs, url } = settings.redis;
  const identifier = new Identifier({
    keyStore: stores.keys,
    peppers: stores.peppers,
    isPepperRight: () => stores.pepperState() === 'right',
    formats: () => inForce.settings.keyFormats,
    staleKeysMs,
    onStoreFailure,
    ...CLOCKS,
  });
  const admitter = new Admitter({
    ledger: stores.ledger,
    reconciler: stores.reconciler,
    onFailure,
    // The embedded store answers within the same turn of the event loop, so it needs no deadline.
    ...(url === null ? {} : { timeoutMs }),
    remembered: REMEMBERED,
    onStoreFailure,
    onLocalDecision: metrics.decidedAlone,
    onReturned: metrics.givenBack,
    ...CLOCKS,
  });
  const usage = new Usage({
    ledger: stores.ledger,
    ...(url === null ? {} : { timeoutMs }),
    onStoreFailure,
    monotonicMs: CLOCKS.monotonicMs,
  });
  metrics.backlogSizeFrom(() => admitter.backlogSize);
  const failedAttempts = new FailedAttempts({
    counter: stores.attempts,
    ...(url === null ? {} : { timeoutMs }),
    limit: () => inForce.plans.failedAuthenticationPerMinute,
    ...CLOCKS,
  });
  stores.changes.subscribe(({ kind, keyId }) => {
    stores.applyLifts();
    if (kind !== 'ban') identifier.forget(keyId);
    if (kind !== 'key') admitter.forget();
  });
  const deprecatedCalls = new DeprecatedCallCounter({ store: stores.deprecatedCalls, wallMs: CLOCKS.wallMs });
  return { identifier, admitter, failedAttempts, usage, deprecatedCalls };
}

/**
 * The dependencies of a gateway that no reload changes.
 *
 * Requests call objects, so that a call goes straight to the code that does the work. The remaining functions depend on
 * a setting that a reload changes (`sample2xx` of the log), or on a module that is loaded only if it is configured
 * (`traceOf`).
 */
export interface GatewaySurroundings extends Pick<GatewayDeps, 'traceOf' | 'draining' | 'webSockets'> {
  readonly log: GatewayLog;
  readonly metrics: GatewayMetrics;
}

/** Builds the dependencies of requests under these settings and plans, in one step for each route. */
export function* gatewayDepsOf(
  { settings, plans }: Pick<Configuration, 'settings' | 'plans'>,
  services: Services,
  upstreams: ReadonlyMap<string, Upstream>,
  { log, metrics, ...surroundings }: GatewaySurroundings,
): Steps<Omit<GatewayDeps, 'jwt'>> {
  const { deprecatedCalls, ...deciding } = services;
  const router = yield* routerOf([USAGE, ...settings.routes]);
  const deprecated = new Set(settings.routes.flatMap((route) => (route.deprecated === null ? [] : route.path)));
  return {
    router,
    upstreams,
    ...deciding,
    ...surroundings,
    allowances: new Allowances(plans),
    rateLimitFields: new RateLimitFields(settings.headers.draft),
    cors: settings.cors === null ? null : new CorsFields(settings.cors),
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? settings.viaByDefault,
    allowedNames: new FieldNames(settings.headers.allow.map((name) => name.toLowerCase())),
    addresses: new ClientAddresses(settings.listen.trustedProxies),
    requestIds: new RequestIds(),
    webSocketIdleMs: settings.websockets.idleTimeoutMs,
    webSocketFinMs: settings.websockets.finTimeoutMs,
    records: new LogAndMetrics(log, metrics, deprecatedCalls, deprecated),
    ...CLOCKS,
  };
}
