import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import manifest from '../../package.json' with { type: 'json' };
import { Admitter } from '../admit/admit.ts';
import { type Allowance, allowanceOf, type Plans } from '../admit/plan.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { Upstream } from '../forward/upstream.ts';
import { Gateway } from '../gateway/gateway.ts';
import type { Parts } from '../gateway/parts.ts';
import { compileRoutes } from '../gateway/route.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { type Consumer, Identifier } from '../identify/identify.ts';
import { listenAdmin, type Readiness } from '../listen/admin.ts';
import { ClientAddresses } from '../listen/client-address.ts';
import { listenPublic, type PublicListener } from '../listen/public.ts';
import { type GatewayLog, openLog } from '../telemetry/log.ts';
import { createMetrics, type GatewayMetrics } from '../telemetry/metrics.ts';
import { passingTrace } from '../telemetry/trace-context.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';

export interface RunningGateway {
  readonly host: string;
  readonly port: number;
  readonly adminHost: string;
  readonly adminPort: number;
  /** Drains and closes everything (contract section 7). */
  stop(): Promise<void>;
}

type Closer = () => Promise<void> | void;

/** Consumers whose last known state is kept in memory. */
const REMEMBERED = 100_000;

/**
 * Brings one gateway up: stores first, then the listeners, so that nothing is served before everything stands.
 * @throws Failure `store_owned`, `store_corrupt`, `cannot_listen` …; what had been opened by then is closed again
 */
export async function runGateway(
  { settings, plans, warnings }: Configuration,
  env: NodeJS.ProcessEnv,
): Promise<RunningGateway> {
  const late: { metrics?: GatewayMetrics } = {};
  const log = openLog({ level: settings.logLevel, ...settings.log, onDrop: () => late.metrics?.logLineDropped() });
  for (const warning of warnings) log.logger.warn(warning);
  if (settings.workers !== 1)
    log.logger.warn('WORKERS: this version runs one process; start more gateways on one Redis instead.');
  const closers: Closer[] = [() => log.close()];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const running = await bringUp(settings, plans, log, { late, closers, env });
    return { ...running, stop: () => running.drain().then(close) };
  } catch (error) {
    await close();
    throw error;
  }
}

async function bringUp(
  settings: Settings,
  plans: Plans,
  log: GatewayLog,
  { late, closers, env }: { late: { metrics?: GatewayMetrics }; closers: Closer[]; env: NodeJS.ProcessEnv },
) {
  const stores = await openGatewayStores(settings, {
    onStoreChange: (state) =>
      log.logger[state === 'away' ? 'error' : 'info']({ store: state }, 'the store is %s', state),
    onFailure: (error) => log.logger.error({ err: error }, 'the store failed'),
  });
  closers.push(() => stores.close());
  const upstreams = new Map([...settings.upstreams].map(([name, upstream]) => [name, upstreamOf(upstream)]));
  closers.push(async () => {
    for (const upstream of upstreams.values()) await upstream.close();
  });
  let listener: PublicListener | null = null;
  let gateway: Gateway | null = null;
  const metrics = createMetrics({
    connections: () => listener?.connections() ?? 0,
    inFlight: () => gateway?.inFlight ?? 0,
    upstreams: () => [...upstreams].map(([name, { inFlight }]) => [name, inFlight] as const),
    store: () => (stores.state() === 'away' || stores.state() === 'never_reached' ? 0 : 1),
  });
  late.metrics = metrics;
  let draining = false;
  const served = gatewayOf(settings, plans, stores, upstreams, {
    log,
    metrics,
    traceOf: await tracing(env, closers),
    isDraining: () => draining,
  });
  gateway = served;
  const admin = await listenAdmin({
    ...settings.admin,
    readiness: () => readinessOf(settings, stores, draining || listener === null),
    metrics: async () => ({ text: await metrics.registry.metrics(), contentType: metrics.registry.contentType }),
  });
  closers.push(() => admin.close());
  listener = await listenPublic({
    ...settings.listen,
    handle: (request, response, head) => served.handle(request, response, head),
    breakOff: (socket, code) => served.breakOff(socket, code),
    onDrop: metrics.connectionDropped,
    onUnparsed: metrics.unparsed,
  });
  const { host, port, stopAccepting, drained } = listener;
  log.logger.info({ host, port, admin: admin.port, store: stores.state() }, 'serving');
  const drain = async () => {
    draining = true;
    log.logger.info('draining');
    await delay(settings.listen.drainDelayMs);
    stopAccepting();
    await drained(settings.listen.drainTimeoutMs);
    log.logger.info('drained');
  };
  return { host, port, adminHost: admin.host, adminPort: admin.port, drain };
}

function gatewayOf(
  settings: Settings,
  plans: Plans,
  stores: GatewayStores,
  upstreams: ReadonlyMap<string, Upstream>,
  {
    log,
    metrics,
    traceOf,
    isDraining,
  }: Pick<Parts, 'traceOf' | 'isDraining'> & { log: GatewayLog; metrics: GatewayMetrics },
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
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? viaOf(settings),
    originOf: (request) => addresses.of(request),
    newRequestId: randomUUID,
    traceOf,
    isDraining,
    close: (exchange) => {
      metrics.record(exchange);
      log.access(exchange);
    },
    onDefect: (error, requestId) => log.logger.error({ err: error, requestId }, 'a defect'),
    ...clocks,
  });
}

/** Spans are exported where a collector is configured; what that needs is loaded only then. */
async function tracing(env: NodeJS.ProcessEnv, closers: Closer[]): Promise<Parts['traceOf']> {
  if (!env.OTEL_EXPORTER_OTLP_ENDPOINT && !env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return passingTrace;
  const { openTracing } = await import('../telemetry/trace.ts');
  const traces = openTracing(env, manifest.version);
  closers.push(() => traces.close());
  return traces.begin;
}

function upstreamOf({ targets, ...options }: Settings['upstreams'] extends ReadonlyMap<string, infer U> ? U : never) {
  return new Upstream({ ...options, target: targets[0]! });
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

function readinessOf({ redis }: Settings, stores: GatewayStores, draining: boolean): Readiness {
  const store = stores.state();
  const decides = store !== 'never_reached' && (store !== 'away' || redis.onFailure !== 'closed');
  return { ready: !draining && decides, store, draining };
}
