import { setTimeout as delay } from 'node:timers/promises';
import manifest from '../../package.json' with { type: 'json' };
import { type AdminListener, type AdminListenerOptions, listenAdmin, type Readiness } from '../admin/listener.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { atOnce, type Steps } from '../config/steps.ts';
import type { ExitCode } from '../failure.ts';
import { Gateway } from '../gateway/gateway.ts';
import type { GatewayDeps } from '../gateway/gateway-deps.ts';
import { passingTrace } from '../gateway/trace-context.ts';
import { CLOCKS, clockWithSteps } from '../io/clocks.ts';
import { compactHeap } from '../io/compact-heap.ts';
import { ThreadTime } from '../io/thread-time.ts';
import { daysUntil } from '../io/time-text.ts';
import { HeapGuard, type MemoryUse, memoriesOf } from '../listen/heap-guard.ts';
import { OpenFiles, openFilesLimit } from '../listen/open-files.ts';
import { listenPublic, type PublicListener } from '../listen/public.ts';
import type { ProcessState } from '../operations/live/shapes.ts';
import { warnOfLostPlans } from '../operations/plans-in-use.ts';
import type { Route } from '../routing/router.ts';
import { type GatewayLog, openLog } from '../telemetry/log.ts';
import { createMetrics, type GatewayMetrics } from '../telemetry/metrics.ts';
import { RecentRequests } from '../telemetry/recent-requests.ts';
import type { TerminalLog } from '../telemetry/terminal-log.ts';
import {
  type AdminAccess,
  type AdminAddress,
  adminAddressOf,
  consoleOf,
  openAdminAccess,
  shareSignOuts,
} from './admin-access.ts';
import { adminApiOn, loadRecordOn, reportLoss } from './admin-api.ts';
import { connectionLimitOf, tooFewFiles } from './connection-limit.ts';
import {
  closeWebSocketsOfEndedKeys,
  gatewayDepsOf,
  openServices,
  type Services,
  TokenIssuers,
  Validators,
} from './dependencies.ts';
import { exposedFiles } from './exposed-files.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';
import { factsOf, GATEWAY_STOPS, identityOf, openFleet } from './live-parts.ts';
import { LiveSettings, type LiveSettingsOptions } from './live-settings.ts';
import { openPublicCertificates } from './public-certificates.ts';
import { Upstreams } from './upstreams.ts';
import type { WorkerContext } from './workers/worker-context.ts';

export interface RunningGateway extends AdminAddress {
  readonly host: string;
  readonly port: number;
  /** The scheme of the public listener. */
  readonly scheme: 'http' | 'https';
  /** Logs an uncaught exception or an unhandled rejection. */
  reportDefect(error: unknown): void;
  /**
   * Drains and closes everything (contract section 7).
   * @returns 0, or 1 if a worker did not end cleanly
   */
  stop(): Promise<ExitCode>;
}

export interface GatewayOptions {
  /** Null if this process is the whole gateway; else it is one of several workers, and does not listen itself. */
  readonly context?: WorkerContext | null;
  /** Whether one-time links alone keep the console on, as for `npm start`. */
  readonly hasSignInLinks?: boolean;
  /** False if the settings come from no files that could change. The process then keeps its own answer to SIGHUP. */
  readonly followsFiles?: boolean;
  /** Whether bans on the embedded store end when `Date` is set forward, as in a test that fakes it. */
  readonly followsDate?: boolean;
  /** Whether the embedded store may lack changes that it acknowledged (`--accept-rollback`). */
  readonly acceptsRollback?: boolean;
  /** Whether the process runs nothing but this gateway. Then what its start left behind is collected before it listens. */
  readonly ownsProcess?: boolean;
  /** The terminal that shows the log. Null if standard output gets the log as JSON. The caller closes it. */
  readonly terminal?: TerminalLog | null;
}

/** A gateway in this process. */
export interface OwnGateway extends RunningGateway {
  /** The stores that it serves from. What is changed there takes effect at its next request. */
  readonly stores: GatewayStores;
}

type Closer = () => Promise<void> | void;

/**
 * Starts one gateway: first the stores, then the listeners, so that it serves no request before everything is ready.
 * @throws Failure `store_owned`, `store_corrupt`, `pepper_mismatch`, `cannot_listen` and others, after closing what was open
 */
export async function runGateway(
  configuration: Configuration,
  env: NodeJS.ProcessEnv,
  {
    context = null,
    hasSignInLinks = false,
    followsFiles = true,
    followsDate = false,
    acceptsRollback = false,
    ownsProcess = false,
    terminal = null,
  }: GatewayOptions = {},
): Promise<OwnGateway> {
  const live = new LiveSettings(configuration);
  const { settings, warnings } = configuration;
  const metricsRef: { current?: GatewayMetrics } = {};
  const opened = openLog({
    level: settings.logLevel,
    sample2xx: () => live.settings.log.sample2xx,
    nowMs: CLOCKS.wallMs,
    monotonicMs: CLOCKS.monotonicMs,
    onDrop: () => metricsRef.current?.logLineDropped(),
    forTerminal: terminal !== null || context?.forTerminal === true,
    ...(terminal === null ? {} : { stream: terminal }),
  });
  const log = context === null ? opened : { ...opened, logger: opened.logger.child({ worker: context.worker }) };
  for (const warning of warnings) log.logger.warn(warning);
  const closers: Closer[] = [() => log.close()];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const running = await start(live, log, {
      metricsRef,
      closers,
      env,
      context,
      hasSignInLinks,
      followsFiles,
      followsDate,
      acceptsRollback,
      ownsProcess,
    });
    const reportDefect = (error: unknown) => log.logger.fatal({ err: error }, 'uncaught exception');
    const stop = async (): Promise<ExitCode> => {
      await running.drain();
      await close();
      return 0;
    };
    return { ...running, reportDefect, stop };
  } catch (error) {
    await close();
    throw error;
  }
}

interface StartOptions {
  /** Set once the metrics exist. The log and the stores are opened before them, and report events to them later. */
  readonly metricsRef: { current?: GatewayMetrics };
  readonly closers: Closer[];
  readonly env: NodeJS.ProcessEnv;
  readonly context: WorkerContext | null;
  readonly hasSignInLinks: boolean;
  readonly followsFiles: boolean;
  readonly followsDate: boolean;
  readonly acceptsRollback: boolean;
  readonly ownsProcess: boolean;
}

async function start(
  live: LiveSettings,
  log: GatewayLog,
  {
    metricsRef,
    closers,
    env,
    context,
    hasSignInLinks,
    followsFiles,
    followsDate,
    acceptsRollback,
    ownsProcess,
  }: StartOptions,
) {
  const { settings } = live;
  const ownShareOf = (whole: Settings) => context?.share(whole) ?? whole;
  const access =
    context === null ? await openAdminAccess(settings.admin, { logger: log.logger, hasSignInLinks }) : null;
  closers.push(() => access?.close());
  const servicesRef: { current?: Services } = {};
  const stores = await openGatewayStores(
    settings,
    {
      onStoreChange: (state, { reason, lastsMs }) => {
        if (state === 'away')
          log.logger.error({ store: state, reason, onFailure: settings.redis.onFailure }, 'the store is away');
        else log.logger.info({ store: state, reason, awayMs: lastsMs }, 'the store is back');
      },
      onFailure: (error) => log.logger.error({ err: error }, 'the store failed'),
      onFailedWrite: () => metricsRef.current?.storeFailed(),
      onPepperMismatch: (failure) => {
        if (failure !== null) log.logger.error({ pepper: 'mismatch', reason: failure.message }, 'the pepper is wrong');
        else log.logger.info({ pepper: 'right' }, 'the pepper is right again');
      },
      onClockJump: () => {
        log.logger.warn('the clock of the store was set; remembered accounts are read again');
        servicesRef.current?.admitter.forget();
      },
      onReplicas: (trouble) => {
        for (const reason of trouble) log.logger.warn({ replicas: 'away', reason }, 'a replica is away');
        if (trouble.length === 0) log.logger.info({ replicas: 'in_sync' }, 'every replica is in sync again');
      },
      onLostChanges: (loss) =>
        reportLoss(loss, { logger: log.logger, changesLost: () => metricsRef.current?.changesLost() }),
      onWarning: (sentence) => log.logger.warn(sentence),
    },
    { acceptsRollback },
  );
  closers.push(() => stores.close());
  const certificates = await openPublicCertificates(settings.listen, stores, {
    log,
    metrics: () => metricsRef.current,
    listensForHttp: context === null || context.worker === 1,
  });
  closers.push(() => certificates?.close());
  // The store has created its files by now. One worker warns for all.
  if (context === null || context.worker === 1) for (const one of exposedFiles(env, settings)) log.logger.warn(one);
  const upstreams = new Upstreams(log, {
    onUnasked: (upstream) => metricsRef.current?.unaskedAnswer(upstream),
    onRetry: (upstream, outcome) => metricsRef.current?.retried(upstream, outcome),
  });
  closers.push(() => upstreams.close());
  const opened = atOnce(upstreams.open(ownShareOf(settings).upstreams));
  opened.use();
  const webSockets = closeWebSocketsOfEndedKeys(() => ownShareOf(live.settings).websockets, stores);
  const tokens = new TokenIssuers(log, { peek: (address) => services.failedAttempts.peek(address) });
  await tokens.load(settings.jwt);
  const validators = new Validators();
  closers.push(() => validators.bodyChecks.close());
  await validators.load(settings);
  let listener: PublicListener | null = null;
  let gateway: Gateway | null = null;
  const heap = new HeapGuard(
    {
      onChange: (isShort, use) => reportMemory(log, isShort, use),
      onShort: () => listener?.closeIdle(),
    },
    memoriesOf(context?.workers ?? 1),
  );
  closers.push(() => heap.close());
  const thread = new ThreadTime({
    monotonicMs: CLOCKS.monotonicMs,
    onLargest: ({ consumerId, part }) =>
      log.logger.warn(
        { consumerId, part: Math.round(part * 100) / 100 },
        'one consumer takes most of the serving thread, so its requests wait for their turn',
      ),
  });
  const metrics = createMetrics({
    thread,
    connections: () => listener?.connections() ?? 0,
    inFlight: () => gateway?.inFlight ?? 0,
    isShortOfMemory: () => heap.isShort,
    webSockets: () => webSockets.open,
    upstreams: () => upstreams.states(),
    versions: () => live.versions,
    refusedFiles: () => live.refusedFiles.map(({ file }) => file),
    tokenKeysUp: () => tokens.keysUp,
    store: () => (stores.state() === 'away' || stores.state() === 'never_reached' ? 0 : 1),
    isPepperWrong: () => stores.pepperState() === 'mismatch',
    storeClockDiffersByMs: () => Math.abs(stores.clock.aheadMs),
    replicasAway: () => stores.replicaTrouble().length,
    certificateExpiresAtMs: () => certificates?.source.current?.expiresAtMs ?? null,
  });
  metricsRef.current = metrics;
  const draining = { hasBegun: false };
  const services = openServices(
    settings,
    live,
    stores,
    metrics,
    thread,
    // The clock of a Redis is its own.
    followsDate && settings.redis.url === null ? clockWithSteps() : CLOCKS.monotonicMs,
  );
  servicesRef.current = services;
  closers.push(() => services.deprecatedCalls.close());
  closers.push(() => services.refusals.close());
  const traceOf = await tracing(env, closers);
  const isObserved = context?.isObserved ?? access?.authenticator.isOpen === true;
  const recent = isObserved ? new RecentRequests(CLOCKS.wallMs) : null;
  const surroundings = { log, metrics, recent, traceOf, draining, webSockets, validators };
  const deps = atOnce(gatewayDepsOf(live, services, opened.byName, surroundings));
  const served = new Gateway({ ...deps, jwt: tokens.verifierFor(settings.jwt) });
  gateway = served;
  const lacks = () => ({
    memory: heap.isShort,
    certificate: certificates !== null && certificates.source.current === null,
  });
  const readiness = () => readinessOf(live, stores, draining.hasBegun || listener === null, lacks());
  const state = (): ProcessState => ({
    certificateExpiresAtMs: certificates?.source.current?.expiresAtMs ?? null,
    connections: listener?.connections() ?? 0,
    inFlight: served.inFlight,
    upstreams: upstreams.states(),
  });
  const identity = identityOf(settings, 1, () => listener ?? settings.listen);
  const isAlone = context === null && recent !== null;
  const liveParts = isAlone
    ? openFleet(
        {
          ask: async (question) => ({
            facts: factsOf(identity(), readiness(), live.versions, state()),
            seen: recent.answer(question),
          }),
          decidedColumns: async () => [recent.decidedColumns()],
        },
        async () => stores.fleet,
        log.logger,
      )
    : null;
  if (access !== null && liveParts !== null) shareSignOuts(access, liveParts.fleet);
  closers.push(async () => liveParts?.fleet.close());
  const telemetry = { logger: log.logger, auditFailed: metrics.auditFailed, changesLost: metrics.changesLost };
  const known = { env, live: liveParts };
  const api = (access: AdminAccess) => adminApiOn(live, async () => stores, access, telemetry, known);
  const admin =
    access === null ? null : await adminOf(settings, metrics, { access, api: api(access), readiness }, closers);
  context?.show({
    readiness,
    metrics: () => metrics.registry.getMetricsAsJSON(),
    live: (question) => (recent === null ? null : { state: state(), seen: recent.answer(question) }),
    decidedColumns: () => recent?.decidedColumns() ?? null,
  });
  const limit = openFilesLimit();
  const fitting = connectionLimitOf(ownShareOf(settings), limit);
  // The supervisor warns for its workers.
  const tooFew = context === null ? tooFewFiles(settings, [fitting], limit) : null;
  if (tooFew !== null) log.logger.warn(tooFew);
  if (ownsProcess) compactHeap();
  listener = await listenPublic({
    ...ownShareOf(settings).listen,
    ...fitting,
    openFiles: new OpenFiles(limit),
    tls: certificates === null ? null : { ...settings.listen.tls!, ...certificates.ofListener },
    wallMs: CLOCKS.wallMs,
    handler: served,
    breakOff: (socket, code) => served.breakOff(socket, code),
    isShortOfMemory: () => heap.isShort,
    onDrop: metrics.connectionDropped,
    onEvict: metrics.connectionEvicted,
    onUnparsed: metrics.unparsed,
    onBadProxyHeader: metrics.proxyHeaderRefused,
    onHandshakeFailure: metrics.handshakeFailed,
    onSessionBroken: metrics.sessionBroken,
    feed: context?.feed ?? null,
  });
  await certificates?.begin().catch(async (error) => {
    listener?.stopAccepting();
    await listener?.drained(0);
    throw error;
  });
  const { host, port, stopAccepting, drained } = listener;
  // One worker warns for all.
  if (context === null || context.worker === 1) {
    closers.push(
      warnOfSunsets(
        () => live.settings.routes,
        log,
        () => Date.now(),
      ),
      warnOfLostPlans(() => live.plans, stores.keys, log.logger),
    );
  }
  function* build(next: Configuration): Steps<() => void> {
    const opening = yield* upstreams.open(ownShareOf(next.settings).upstreams);
    let isComplete = false;
    try {
      const deps = yield* gatewayDepsOf(next, services, opening.byName, surroundings);
      const jwt = tokens.verifierFor(next.settings.jwt);
      isComplete = true;
      return () => {
        opening.use();
        served.use({ ...deps, jwt });
      };
    } finally {
      if (!isComplete) opening.close();
    }
  }
  // One worker records for all. What another gateway has recorded already is not recorded again.
  const loads =
    followsFiles && (context === null || context.worker === 1) ? loadRecordOn(env, live, stores, telemetry) : null;
  closers.push(() => loads?.close());
  const reloading: LiveSettingsOptions = {
    env,
    log,
    load: (next) => loadBoth(tokens.load(next.settings.jwt), validators.load(next.settings)),
    build,
    keys: async () => stores.keys,
    events: {
      onTaken: (taken, versions) => {
        metrics.settingsRead('loaded');
        loads?.taken(taken, versions);
      },
      onRefused: (files, versions) => {
        metrics.settingsRead('refused');
        loads?.refused(files, versions);
      },
      onSame: (versions) => loads?.taken([], versions),
    },
  };
  if (followsFiles) closers.push(live.follow(reloading));
  const store = stores.state();
  if (admin !== null) log.logger.info({ host, port, admin: admin.port, store }, 'serving');
  else log.logger.info({ pid: process.pid, store }, 'worker serving');
  const drain = async () => {
    draining.hasBegun = true;
    await certificates?.stopOrdering();
    liveParts?.streams.end(GATEWAY_STOPS);
    log.logger.info('draining');
    await (context === null ? delay(settings.listen.drainDelayMs) : context.leave());
    stopAccepting();
    const cut = setTimeout(() => webSockets.cut('drained'), settings.listen.drainTimeoutMs);
    await drained(settings.listen.drainTimeoutMs);
    clearTimeout(cut);
    log.logger.info('drained');
  };
  const scheme: RunningGateway['scheme'] = certificates === null ? 'http' : 'https';
  return { host, port, scheme, stores, ...adminAddressOf(admin ?? settings.admin, access), drain };
}

/** @returns null if nothing is to be waited for */
function loadBoth(one: Promise<void> | null, other: Promise<void> | null): Promise<void> | null {
  return one === null || other === null ? (one ?? other) : Promise.all([one, other]).then(() => {});
}

function reportMemory({ logger }: GatewayLog, isShort: boolean, { of, usedBytes, limitBytes }: MemoryUse): void {
  const mib = { usedMiB: Math.round(usedBytes / MIB), limitMiB: Math.round(limitBytes / MIB) };
  const what = of === 'heap' ? 'the heap' : 'the memory of the container';
  if (isShort) logger.error(mib, `${what} is nearly full: no new connections, idle ones are closed`);
  else logger.info(mib, `${what} has room again: connections are accepted`);
}

const MIB = 1024 * 1024;

async function adminOf(
  settings: Settings,
  { registry }: GatewayMetrics,
  { access, ...answering }: Pick<AdminListenerOptions, 'readiness' | 'api'> & { readonly access: AdminAccess },
  closers: Closer[],
): Promise<AdminListener> {
  const metrics = async () => ({ text: await registry.metrics(), contentType: registry.contentType });
  const { tls } = access;
  const admin = await listenAdmin({ ...settings.admin, ...answering, tls, console: consoleOf(access), metrics });
  closers.push(() => admin.close());
  return admin;
}

function readinessOf(
  { settings: { redis }, faults }: LiveSettings,
  stores: GatewayStores,
  draining: boolean,
  lacks: { readonly memory: boolean; readonly certificate: boolean },
): Readiness {
  const store = stores.state();
  const decides = store !== 'never_reached' && (store !== 'away' || redis.onFailure !== 'closed');
  const outage = stores.outage();
  const isPepperWrong = stores.pepperState() === 'mismatch';
  const replicas = stores.replicaTrouble();
  return {
    ready: !draining && decides && !lacks.memory && !lacks.certificate && !isPepperWrong,
    store,
    draining,
    ...(outage === null ? {} : { outage }),
    ...(faults.length > 0 ? { settings: 'refused', faults } : {}),
    ...(isPepperWrong ? { pepper: 'mismatch' } : {}),
    ...(stores.clock.differs ? { clock: 'differs' } : {}),
    ...(replicas.length > 0 ? { replicas } : {}),
    ...(lacks.memory ? { memory: 'short' } : {}),
    ...(lacks.certificate ? { certificate: 'missing' } : {}),
  };
}

const CHECK_SUNSETS_EVERY_MS = 3_600_000;
/** How many days before a sunset the warnings begin. */
const NEAR_DAYS = 30;

/**
 * Logs a warning for each deprecated route whose sunset is near: now, and once a day. A route that a reload adds is found
 * within an hour.
 * @param routes returns the routes in force
 * @returns a function that stops the checks
 */
export function warnOfSunsets(
  routes: () => readonly Route[],
  { logger }: GatewayLog,
  wallMs: () => number,
): () => void {
  /** By route, the sunset and the days left of the last warning. */
  const warned = new Map<string, string>();
  const check = () => {
    for (const { path, methods, deprecated } of routes()) {
      if (deprecated === null || deprecated.sunsetMs === null) continue;
      const { countedAs, sunsetMs } = deprecated;
      const days = daysUntil(sunsetMs, wallMs());
      if (days < 1 || days > NEAR_DAYS) continue;
      const sunset = new Date(sunsetMs).toISOString();
      if (warned.get(countedAs) === `${sunset} ${days}`) continue;
      warned.set(countedAs, `${sunset} ${days}`);
      logger.warn(
        { route: path, methods, sunset, days },
        'a route will be removed soon; `tollgate deprecations` lists its callers',
      );
    }
  };
  check();
  const timer = setInterval(check, CHECK_SUNSETS_EVERY_MS).unref();
  return () => clearInterval(timer);
}

/** Exports spans if a collector is configured. OpenTelemetry is imported only then. */
export async function tracing(
  env: NodeJS.ProcessEnv,
  closers: (() => Promise<void> | void)[],
): Promise<GatewayDeps['traceOf']> {
  if (!env.OTEL_EXPORTER_OTLP_ENDPOINT && !env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return passingTrace;
  const { openTracing } = await import('../telemetry/trace.ts');
  const traces = openTracing(env, manifest.version);
  closers.push(() => traces.close());
  return traces.begin;
}
