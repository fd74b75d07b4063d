import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { AdminApi } from '../admin/api.ts';
import { listenForCommands } from '../admin/command-listener.ts';
import { type AdminListener, type AdminListenerOptions, listenAdmin, type Readiness } from '../admin/listener.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { type ExitCode, reasonOrError } from '../failure.ts';
import type { Upstream } from '../forward/upstream/upstream.ts';
import { Gateway } from '../gateway/gateway.ts';
import type { OpenWebSockets } from '../gateway/open-web-sockets.ts';
import { CLOCKS, clockWithSteps } from '../io/clocks.ts';
import { compactHeap } from '../io/compact-heap.ts';
import { atOnce, inSlices } from '../io/steps.ts';
import { ThreadTime } from '../io/thread-time.ts';
import { HeapGuard, type MemoryUse, memoriesOf } from '../listen/heap-guard.ts';
import { OpenFiles, openFilesLimit } from '../listen/open-files.ts';
import { listenPublic, type PublicListener } from '../listen/public.ts';
import type { ProcessState } from '../operations/live/shapes.ts';
import { warnOfLostPlans } from '../operations/plans-in-use.ts';
import { type SecretCounts, watchPeppers } from '../operations/secret-counts.ts';
import type { StartLink } from '../operations/start-link.ts';
import { routerOf } from '../routing/host-router.ts';
import { type GatewayLog, openLog } from '../telemetry/log.ts';
import { createMetrics, type GatewayMetrics, type Gauges } from '../telemetry/metrics.ts';
import { atMostOnceAMinute, warnOfBrokenSessions, warnOfConnections } from '../telemetry/once-a-minute.ts';
import { PolicyReports } from '../telemetry/policy-reports.ts';
import { RecentRequests } from '../telemetry/recent-requests.ts';
import { StoredExplanations } from '../telemetry/stored-explanations.ts';
import type { TerminalLog } from '../telemetry/terminal-log.ts';
import {
  type AdminAccess,
  type AdminAddress,
  adminAddressOf,
  consoleOf,
  openAdminAccess,
  shareSignOuts,
} from './admin-access.ts';
import { type AdminApiTelemetry, adminApiOn, loadRecordOn, reportLoss } from './admin-api.ts';
import { connectionLimitOf, tooFewFiles } from './connection-limit.ts';
import {
  type GatewaySurroundings,
  gatewayDepsOf,
  openServices,
  type Services,
  TokenIssuers,
  Validators,
} from './dependencies.ts';
import { exposedFiles } from './exposed-files.ts';
import { type GatewayStores, openGatewayStores, type StoreEvents } from './gateway-stores.ts';
import { factsOf, GATEWAY_STOPS, identityOf, openFleet } from './live-parts.ts';
import { LiveSettings } from './live-settings.ts';
import { type GivenPolicies, LoadedPolicies } from './loaded-policies.ts';
import { openPublicCertificates, type PublicCertificates } from './public-certificates.ts';
import { warnOfSunsets } from './sunset-warnings.ts';
import { tracing } from './tracing.ts';
import { Upstreams } from './upstreams.ts';
import { closeWebSocketsOfEndedKeys } from './web-socket-ends.ts';
import type { WorkerContext } from './workers/worker-context.ts';

export interface RunningGateway extends AdminAddress {
  readonly host: string;
  readonly port: number;
  /** The scheme of the public listener. */
  readonly scheme: 'http' | 'https';
  /** Logs an uncaught exception or an unhandled rejection. */
  reportDefect(error: unknown): void;
  /** Logs and counts an uncaught error in what a policy has begun: a timer, or a promise that it neither returned nor caught. */
  reportStray(policy: string, error: unknown): void;
  /**
   * Drains and closes everything (contract section 7).
   * @returns 0, or 1 if a worker did not end cleanly
   */
  stop(): Promise<ExitCode>;
}

export interface GatewayOptions {
  /** Null if this process is the whole gateway; else it is one of several workers, and does not listen itself. */
  readonly context?: WorkerContext | null;
  /** The link of `npm start`, which keeps the console on without a token. */
  readonly startLink?: StartLink | null;
  /** False if the settings come from no files that could change. The process then keeps its own answer to SIGHUP. */
  readonly followsFiles?: boolean;
  /** Whether keys and bans on the embedded store end when `Date` is set forward, as in a test that fakes it. */
  readonly followsDate?: boolean;
  /** Whether the embedded store may lack changes that it acknowledged (`--accept-rollback`). */
  readonly acceptsRollback?: boolean;
  /** Whether the process runs nothing but this gateway. Then what its start left behind is collected before it listens. */
  readonly ownsProcess?: boolean;
  /** The policies that routes name, of a program that runs the gateway in its own process. */
  readonly policies?: GivenPolicies;
  /** The terminal that shows the log. Null if standard output gets the log as JSON. The caller closes it. */
  readonly terminal?: Pick<TerminalLog, 'write'> | null;
}

/** A gateway in this process. */
export interface OwnGateway extends RunningGateway {
  /** The stores that it serves from. What is changed there takes effect at its next request. */
  readonly stores: GatewayStores;
}

type Closer = () => Promise<void> | void;

/** How long a gateway that stops waits for the costs of requests that have ended, milliseconds. */
const CLOSING_MS = 2_000;

/**
 * Starts one gateway: first the stores, then the listeners, so that it serves no request before everything is ready.
 * @throws Failure `store_owned`, `store_corrupt`, `pepper_mismatch`, `cannot_listen` and others, after closing what was open
 */
export async function runGateway(
  configuration: Configuration,
  env: NodeJS.ProcessEnv,
  options: GatewayOptions = {},
): Promise<OwnGateway> {
  const run = begin(configuration, env, options);
  const { log, closers } = run;
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const opened = await open(run);
    const assembly = await wire(run, opened);
    const { drain, ...listening } = await serve(run, opened, assembly);
    const stop = async (): Promise<ExitCode> => {
      await drain();
      await close();
      return 0;
    };
    const reportDefect = (error: unknown) => log.logger.fatal({ err: error }, 'uncaught exception');
    const reportStray = (policy: string, error: unknown) => assembly.surroundings.policyReports.strayed(policy, error);
    return { ...listening, stores: opened.stores, reportDefect, reportStray, stop };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A start of a gateway, and what all of its stages use. */
interface Run extends Required<Omit<GatewayOptions, 'terminal'>> {
  readonly env: NodeJS.ProcessEnv;
  readonly live: LiveSettings;
  readonly log: GatewayLog;
  /** Close what was opened, called in reverse order. */
  readonly closers: Closer[];
  readonly later: Later;
  /** The monotonic clock by which what is known of the store ages, milliseconds. The clock of a Redis is its own. */
  readonly storeMs: () => number;
  /** Whether this process warns and records. Of several workers one does, for all. */
  readonly speaks: boolean;
  /** Returns the part of the settings that this process has of several workers. */
  readonly shareOf: (settings: Settings) => Settings;
}

/** What is opened later than other parts that report to it or read from it. */
interface Later {
  metrics?: GatewayMetrics;
  services?: Services;
  gateway?: Gateway;
  listener?: PublicListener;
  secretPeppers?: SecretCounts['peppers'];
}

const DEFAULTS = {
  context: null,
  startLink: null,
  followsFiles: true,
  followsDate: false,
  acceptsRollback: false,
  ownsProcess: false,
  policies: {},
  terminal: null,
} as const;

/** Opens the log. */
function begin(configuration: Configuration, env: NodeJS.ProcessEnv, options: GatewayOptions): Run {
  const { terminal, ...given }: Required<GatewayOptions> = { ...DEFAULTS, ...options };
  const { context } = given;
  const live = new LiveSettings(configuration);
  const later: Later = {};
  const opened = openLog({
    level: configuration.settings.logLevel,
    sample2xx: () => live.settings.log.sample2xx,
    nowMs: CLOCKS.wallMs,
    monotonicMs: CLOCKS.monotonicMs,
    onDrop: () => later.metrics?.logLineDropped(),
    forTerminal: terminal !== null || context?.forTerminal === true,
    ...(terminal === null ? {} : { stream: terminal }),
  });
  const log = context === null ? opened : { ...opened, logger: opened.logger.child({ worker: context.worker }) };
  for (const warning of configuration.warnings) log.logger.warn(warning);
  const speaks = context === null || context.worker === 1;
  const isEmbedded = configuration.settings.redis.url === null;
  const storeMs = given.followsDate && isEmbedded ? clockWithSteps() : CLOCKS.monotonicMs;
  const shareOf = (settings: Settings) => context?.share(settings) ?? settings;
  return { ...given, env, live, log, later, closers: [() => log.close()], storeMs, speaks, shareOf };
}

/** What a gateway stands on: the store, certificates, the connections to services, the keys of tokens. */
interface Foundation {
  /** Null in a worker: the supervisor has the admin listener. */
  readonly access: AdminAccess | null;
  readonly stores: GatewayStores;
  /** Null without TLS. */
  readonly certificates: PublicCertificates | null;
  readonly upstreams: Upstreams;
  /** The upstreams of the first settings. */
  readonly firstUpstreams: ReadonlyMap<string, Upstream>;
  readonly webSockets: OpenWebSockets;
  readonly tokens: TokenIssuers;
  readonly validators: Validators;
  readonly policies: LoadedPolicies;
}

async function open(run: Run): Promise<Foundation> {
  const { env, context, live, log, closers, later, shareOf, startLink, acceptsRollback, storeMs } = run;
  const { settings } = live;
  const policies = new LoadedPolicies(run.policies);
  await policies.load(settings);
  const access = context === null ? await openAdminAccess(settings.admin, { logger: log.logger, startLink }) : null;
  closers.push(() => access?.close());
  const stores = await openGatewayStores(settings, storeEvents(run), { acceptsRollback, monotonicMs: storeMs });
  closers.push(() => stores.close());
  const certificates = await openPublicCertificates(settings.listen, stores, {
    log,
    metrics: () => later.metrics,
    listensForHttp: run.speaks,
  });
  closers.push(() => certificates?.close());
  // The store has created its files by now.
  if (run.speaks) for (const one of exposedFiles(env, settings)) log.logger.warn(one);
  const upstreams = new Upstreams(log, {
    onUnasked: (upstream) => later.metrics?.unaskedAnswer(upstream),
    onRetry: (upstream, outcome) => later.metrics?.retried(upstream, outcome),
  });
  closers.push(() => upstreams.close());
  const first = upstreams.open(shareOf(settings).upstreams);
  first.use();
  const webSockets = closeWebSocketsOfEndedKeys(() => shareOf(live.settings).websockets, stores);
  const attempts = { peek: (address: string) => later.services!.failedAttempts.peek(address) };
  const tokens = new TokenIssuers(log, attempts, { of: (id) => later.services!.customers.of(id) });
  const validators = new Validators();
  closers.push(() => validators.bodyChecks.close());
  return {
    access,
    stores,
    certificates,
    upstreams,
    firstUpstreams: first.byName,
    webSockets,
    tokens,
    validators,
    policies,
  };
}

/** Logs and counts what happens to the store. */
function storeEvents({ live, log: { logger }, later }: Run): StoreEvents {
  const { onFailure } = live.settings.redis;
  return {
    onStoreChange: (state, { reason, lastsMs }) => {
      if (state === 'away') logger.error({ store: state, reason, onFailure }, 'the store is away');
      else logger.info({ store: state, reason, awayMs: lastsMs }, 'the store is back');
    },
    onFailure: (error) => logger.error(reasonOrError(error), 'the store failed'),
    onFailedWrite: () => later.metrics?.storeFailed(),
    onPepperMismatch: (failure) => {
      if (failure !== null) logger.error({ pepper: 'mismatch', reason: failure.message }, 'the pepper is wrong');
      else logger.info({ pepper: 'right' }, 'the pepper is right again');
    },
    onClockJump: () => {
      logger.warn('the clock of the store was set; remembered accounts are read again');
      later.services?.admitter.forget();
    },
    onReplicas: (trouble) => {
      for (const reason of trouble) logger.warn({ replicas: 'away', reason }, 'a replica is away');
      if (trouble.length === 0) logger.info({ replicas: 'in_sync' }, 'every replica is in sync again');
    },
    onLostChanges: (loss) => reportLoss(loss, { logger, changesLost: () => later.metrics?.changesLost() }),
    onWarning: (sentence) => logger.warn(sentence),
  };
}

/** The gateway itself, which serves once a listener hands it requests. */
interface Assembly {
  readonly gateway: Gateway;
  readonly services: Services;
  readonly surroundings: GatewaySurroundings;
  /** Whether the gateway has begun to stop: it is not ready any more. */
  readonly draining: { hasBegun: boolean };
  readonly metrics: GatewayMetrics;
  readonly heap: HeapGuard;
  readonly telemetry: AdminApiTelemetry;
}

async function wire(run: Run, opened: Foundation): Promise<Assembly> {
  const { env, context, live, log, closers, later, storeMs } = run;
  const { settings } = live;
  const { access, stores, tokens, webSockets, validators, policies } = opened;
  const heap = new HeapGuard(
    {
      onChange: (isShort, use) => reportMemory(log, isShort, use),
      onShort: () => later.listener?.closeIdle(),
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
  const metrics = createMetrics(gaugesOf(run, opened, heap, thread));
  later.metrics = metrics;
  const onUndecided = atMostOnceAMinute<string>(CLOCKS.monotonicMs, (consumerId) => {
    log.logger.error({ consumerId }, 'the store has no decision about a consumer: each gateway decides alone');
  });
  const services = openServices(settings, live, stores, metrics, thread, storeMs, onUndecided, warnOfLostTraffic(log));
  later.services = services;
  const { deprecatedCalls, secretUses, networks, traffic, refusals } = services;
  for (const { writes } of [deprecatedCalls, secretUses, networks, traffic, refusals])
    closers.push(() => writes.close());
  const traceOf = await tracing(env, closers);
  const isObserved = context?.isObserved ?? access?.authenticator.isOpen === true;
  const explained = isObserved
    ? new StoredExplanations({ store: stores.explanations, host: hostname(), wallMs: CLOCKS.wallMs })
    : null;
  closers.push(() => explained?.writes.close());
  const recent = isObserved ? new RecentRequests(CLOCKS.wallMs, explained) : null;
  const draining = { hasBegun: false };
  const policyReports = new PolicyReports(log.logger, metrics);
  closers.push(() => policyReports.close());
  const surroundings = { log, metrics, recent, traceOf, draining, webSockets, validators, policies, policyReports };
  const deps = gatewayDepsOf(live, services, atOnce(routerOf(settings.routes)), surroundings);
  const gateway = new Gateway({ ...deps, upstreams: opened.firstUpstreams, jwt: tokens.verifierFor(settings.jwt) });
  later.gateway = gateway;
  // After the drain: what the last requests cost may still be read from compressed answers.
  closers.push(async () => {
    await Promise.race([gateway.closed(), delay(CLOSING_MS, null, { ref: false })]);
    services.decoders.giveUp();
    await gateway.closed();
    await services.admitter.flush();
  });
  const telemetry = { logger: log.logger, auditFailed: metrics.auditFailed, changesLost: metrics.changesLost };
  return { gateway, services, surroundings, draining, metrics, heap, telemetry };
}

function gaugesOf({ live, later }: Run, opened: Foundation, heap: HeapGuard, thread: ThreadTime): Gauges {
  const { stores, certificates, upstreams, tokens, webSockets } = opened;
  return {
    thread,
    connections: () => later.listener?.connections() ?? 0,
    inFlight: () => later.gateway?.inFlight ?? 0,
    isShortOfMemory: () => heap.isShort,
    webSockets: () => webSockets.open,
    upstreams: () => upstreams.states(),
    versions: () => live.versions,
    policies: () => live.settings.routes.flatMap(({ policies }) => policies ?? []),
    refusedFiles: () => live.refusedFiles.map(({ file }) => file),
    tokenKeysUp: () => tokens.keysUp,
    store: () => (stores.state() === 'away' || stores.state() === 'never_reached' ? 0 : 1),
    isPepperWrong: () => stores.pepperState() === 'mismatch',
    secretPeppers: () => later.secretPeppers ?? null,
    storeClockDiffersByMs: () => Math.abs(stores.clock.aheadMs),
    replicasAway: () => stores.replicaTrouble().length,
    certificateExpiresAtMs: () => certificates?.expiresAtMs() ?? null,
  };
}

/** Opens the admin listener, then the public one, and follows the settings from then on. */
async function serve(run: Run, opened: Foundation, assembly: Assembly) {
  const { context, live, log, later, closers } = run;
  const { settings } = live;
  const { access, stores, certificates } = opened;
  const { admin, streams } = await openAdmin(run, opened, assembly);
  const listener = await listen(run, opened, assembly);
  const { host, port } = listener;
  if (run.speaks) {
    const routes = () => live.settings.routes;
    closers.push(
      warnOfSunsets(routes, log, CLOCKS.wallMs),
      warnOfLostPlans(() => live.plans, stores, log.logger),
      watchPeppers({ ...stores, nowMs: CLOCKS.wallMs }, (counts) => {
        later.secretPeppers = counts;
      }),
    );
  }
  if (run.followsFiles) follow(run, opened, assembly);
  const store = stores.state();
  if (admin !== null) log.logger.info({ host, port, admin: admin.port, store }, 'serving');
  else log.logger.info({ pid: process.pid, store }, 'worker serving');
  const drain = async () => {
    assembly.draining.hasBegun = true;
    await certificates?.stopOrdering();
    streams?.end(GATEWAY_STOPS);
    log.logger.info('draining');
    await (context === null ? delay(settings.listen.drainDelayMs) : context.leave());
    listener.stopAccepting();
    const cut = setTimeout(() => opened.webSockets.cut('drained'), settings.listen.drainTimeoutMs);
    await listener.drained(settings.listen.drainTimeoutMs);
    clearTimeout(cut);
    log.logger.info('drained');
  };
  const scheme: RunningGateway['scheme'] = certificates === null ? 'http' : 'https';
  return { host, port, scheme, ...adminAddressOf(admin ?? settings.admin, access), drain };
}

/** Opens the admin listener. A worker has none, and answers what its supervisor asks instead. */
async function openAdmin(
  run: Run,
  opened: Foundation,
  { gateway, services, metrics, heap, draining, surroundings, telemetry }: Assembly,
) {
  const { env, context, live, log, closers, later } = run;
  const { settings } = live;
  const { access, stores, certificates, upstreams } = opened;
  const { recent } = surroundings;
  const lacks = () => ({
    memory: heap.isShort,
    certificate: certificates !== null && certificates.source.current === null,
  });
  const readiness = () => readinessOf(live, stores, draining.hasBegun || later.listener === undefined, lacks());
  const state = (): ProcessState => ({
    certificateExpiresAtMs: certificates?.expiresAtMs() ?? null,
    connections: later.listener?.connections() ?? 0,
    inFlight: gateway.inFlight,
    callsWithoutNetwork: services.networks.uncounted,
    cache: services.caches.bytes === null ? null : { bytes: services.caches.bytes, ...metrics.cacheUses },
    upstreams: upstreams.states(),
  });
  const identity = identityOf(settings, 1, () => later.listener ?? settings.listen);
  const liveParts =
    context === null && recent !== null
      ? openFleet(
          {
            ask: async (question) => ({
              facts: factsOf(identity(), readiness(), live.versions, state()),
              seen: recent.answer(question),
            }),
            decidedColumns: async () => [recent.decidedColumns()],
          },
          async () => stores,
          log.logger,
        )
      : null;
  if (access !== null && liveParts !== null) shareSignOuts(access, liveParts.fleet);
  closers.push(async () => liveParts?.fleet.close());
  const apiOn = (access: AdminAccess) =>
    adminApiOn(live, async () => stores, access, telemetry, { env, live: liveParts });
  const api = access === null ? null : apiOn(access);
  if (api !== null) await serveCommands(stores, api, run);
  const admin =
    access === null || api === null ? null : await adminOf(settings, metrics, { access, api, readiness }, closers);
  context?.show({
    readiness,
    metrics: () => metrics.registry.getMetricsAsJSON(),
    live: (question) => (recent === null ? null : { state: state(), seen: recent.answer(question) }),
    decidedColumns: () => recent?.decidedColumns() ?? null,
  });
  return { admin, streams: liveParts?.streams ?? null };
}

/**
 * Does what commands on the embedded store ask for. Without that, such as on a file system without sockets, commands read the store and cannot
 * change it.
 */
async function serveCommands(stores: GatewayStores, api: AdminApi, { closers, log: { logger } }: Run): Promise<void> {
  const socket = stores.commandSocket;
  if (socket === null) return;
  try {
    const { path, closeToOthers, close } = socket.make();
    closers.push(close);
    closers.push(await listenForCommands(path, api));
    closeToOthers();
  } catch (error) {
    logger.warn(reasonOrError(error), 'commands cannot reach this gateway, and change nothing while it runs');
  }
}

/** Opens the public listener. */
async function listen(
  run: Run,
  { certificates }: Foundation,
  { gateway, metrics, heap }: Assembly,
): Promise<PublicListener> {
  const { context, live, log, later, shareOf } = run;
  const { settings } = live;
  const limit = openFilesLimit();
  const fitting = connectionLimitOf(shareOf(settings), limit);
  // The supervisor warns for its workers.
  const tooFew = context === null ? tooFewFiles(settings, [fitting], limit) : null;
  if (tooFew !== null) log.logger.warn(tooFew);
  if (run.ownsProcess) compactHeap();
  const warnOfBroken = warnOfBrokenSessions(log.logger, CLOCKS.monotonicMs);
  // Such as a flood of KeyUpdate.
  const waste = 'a TLS connection was broken off: its records brought nothing';
  const warnOfWaste = warnOfConnections(log.logger, CLOCKS.monotonicMs, waste);
  const listener = await listenPublic({
    ...shareOf(settings).listen,
    ...fitting,
    openFiles: new OpenFiles(limit),
    tls: certificates === null ? null : { ...settings.listen.tls!, ...certificates.ofListener },
    wallMs: CLOCKS.wallMs,
    handler: gateway,
    breakOff: (socket, code) => gateway.breakOff(socket, code),
    formed: (error, socket, rawHeaders) => gateway.formed(error, socket, rawHeaders),
    isShortOfMemory: () => heap.isShort,
    onDrop: metrics.connectionDropped,
    onEvict: metrics.connectionEvicted,
    onUnparsed: metrics.unparsed,
    onBadProxyHeader: metrics.proxyHeaderRefused,
    onHandshakeFailure: metrics.handshakeFailed,
    onTlsWaste: (address) => {
      metrics.tlsWasted();
      warnOfWaste(address);
    },
    // Usually a client or a proxy is configured with `http://` in place of `https://`.
    onPlainHttp: warnOfConnections(log.logger, CLOCKS.monotonicMs, 'plain HTTP was sent to the port of HTTPS'),
    onSessionBroken: (reason, address) => {
      metrics.sessionBroken(reason);
      warnOfBroken(reason, address);
    },
    feed: context?.feed ?? null,
  });
  later.listener = listener;
  await certificates?.begin().catch(async (error) => {
    listener.stopAccepting();
    await listener.drained(0);
    throw error;
  });
  return listener;
}

/** Puts changed settings in force from now on. */
function follow(run: Run, { stores, upstreams, tokens, policies }: Foundation, assembly: Assembly): void {
  const { env, live, log, closers, shareOf } = run;
  const { gateway, services, surroundings, metrics, telemetry } = assembly;
  const build = async (next: Configuration, signal: AbortSignal) => {
    const router = await inSlices(routerOf(next.settings.routes), signal);
    const deps = gatewayDepsOf(next, services, router, surroundings);
    const opening = upstreams.open(shareOf(next.settings).upstreams);
    const jwt = tokens.verifierFor(next.settings.jwt);
    return () => {
      opening.use();
      gateway.use({ ...deps, upstreams: opening.byName, jwt });
    };
  };
  // What another gateway has recorded already is not recorded again.
  const { onPlansAdded, stop } = lateUsers(live, stores, log);
  const loads = run.speaks ? loadRecordOn(env, live, stores, telemetry, onPlansAdded) : null;
  closers.push(() => loads?.close().then(stop));
  const stopFollowing = live.follow({
    env,
    log,
    load: ({ settings }) => policies.load(settings),
    build,
    planUsers: async () => stores,
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
  });
  closers.push(stopFollowing);
}

/**
 * Looks again for keys and customers of removed plans.
 *
 * Fault: another gateway made a key of a plan after this one had looked for its keys, and before the history of plans showed that the
 * plan was removed.
 */
function lateUsers(live: LiveSettings, stores: GatewayStores, { logger }: GatewayLog) {
  let before = live.plans;
  let stop = () => {};
  const onPlansAdded = () => {
    const removes = [...before.plans.keys()].some((name) => !live.plans.plans.has(name));
    before = live.plans;
    if (!removes) return;
    stop();
    stop = warnOfLostPlans(() => live.plans, stores, logger, Number.POSITIVE_INFINITY);
  };
  return { onPlansAdded, stop: () => stop() };
}

/** @returns reports the requests of a minute of traffic that was dropped */
function warnOfLostTraffic({ logger }: GatewayLog): (requests: number) => void {
  return atMostOnceAMinute(CLOCKS.monotonicMs, (requests: number) => {
    logger.error(
      { requests },
      'the store is away for long: the oldest minute of traffic is dropped and counted as lost',
    );
  });
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
