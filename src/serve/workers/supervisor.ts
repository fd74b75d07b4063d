import { setTimeout as delay } from 'node:timers/promises';
import { type AdminListenerOptions, listenAdmin } from '../../admin/listener.ts';
import type { Configuration, Settings } from '../../config/settings.ts';
import { CLOCKS } from '../../io/clocks.ts';
import { type Arrival, type Entrance, openEntrance } from '../../io/entrance.ts';
import { ArrivalNetworks } from '../../listen/accept.ts';
import { OpenFiles, openFilesLimit } from '../../listen/open-files.ts';
import type { ProcessState } from '../../operations/live/shapes.ts';
import { JoinedMetrics } from '../../telemetry/joined-metrics.ts';
import { type GatewayLog, openLog } from '../../telemetry/log.ts';
import { PolicyReports } from '../../telemetry/policy-reports.ts';
import { type AdminAccess, adminAddressOf, consoleOf, openAdminAccess, shareSignOuts } from '../admin-access.ts';
import { adminApiAlone } from '../admin-api.ts';
import { connectionLimitOf, tooFewFiles, totalOf } from '../connection-limit.ts';
import type { GatewayOptions, RunningGateway } from '../gateway-process.ts';
import { factsOf, GATEWAY_STOPS, identityOf, openFleet } from '../live-parts.ts';
import { LiveSettings, type LiveSettingsOptions } from '../live-settings.ts';
import { LoadedPolicies } from '../loaded-policies.ts';
import { Dispatcher } from './dispatcher.ts';
import {
  countsOf,
  JoinedLines,
  joinReadiness,
  LinesToTerminal,
  type WorkerLines,
  type WorkerReport,
} from './joined-output.ts';
import { shareOf } from './worker-context.ts';
import { WorkerPool, type WorkerProcess } from './worker-pool.ts';
import { WorkersAsOne } from './workers-as-one.ts';

/** How long the supervisor waits for a worker's answer before it reports without it. */
const ANSWER_WITHIN_MS = 1_000;
/** How long a worker may take after `drainTimeout` to close its store and flush its log. */
const END_WITHIN_MS = 5_000;

/**
 * Starts and supervises a gateway of several worker processes. The supervisor accepts connections and hands them to the
 * workers, runs the admin listener, joins logs and metrics, and replaces workers that end. It serves no requests of callers.
 * @throws Failure as `runGateway` does, and `no_worker`
 */
export async function supervise(
  configuration: Configuration,
  workers: number,
  env: NodeJS.ProcessEnv,
  { startLink = null, terminal = null }: Pick<GatewayOptions, 'startLink' | 'terminal'> = {},
): Promise<RunningGateway> {
  const { settings } = configuration;
  // Each worker loads them too. A fault is found here, once and before there are workers.
  const policies = new LoadedPolicies();
  await policies.load(settings);
  const lines = terminal === null ? new JoinedLines(process.stdout.fd) : new LinesToTerminal(terminal);
  const log = logTo(lines, configuration);
  const access = await openAdminAccess(settings.admin, { logger: log.logger, startLink }).catch(async (error) => {
    await log.close();
    await lines.close();
    throw error;
  });
  const metrics = new JoinedMetrics();
  const dispatcher = new Dispatcher<WorkerProcess>({
    maxConnections: connectionsOf(settings, workers, log),
    maxConnectionsPerAddress: settings.listen.maxConnectionsPerAddress,
    onDrop: (shortage) => metrics.connectionDropped(shortage),
    nowMs: () => performance.now(),
  });
  const live = new LiveSettings(configuration);
  const { isOpen: isObserved } = access.authenticator;
  const pool = poolOf({
    ...{ workers, silenceLimitMs: settings.watchdog.limitMs, isObserved, forTerminal: terminal !== null, env },
    ...{ dispatcher, metrics, lines, log },
    configuration: () => inForce(live),
  });
  const running: Supervised = { settings, live, pool, dispatcher, metrics, log, access, draining: { hasBegun: true } };
  const adminApi = adminApiOf(running, env);
  const load = (next: Configuration) => policies.load(next.settings);
  const leaves = [forwardSignals(pool), followSilently(live, { log, env, planUsers: adminApi.stores, load })];
  // The workers count what policies do.
  const policyReports = new PolicyReports(log.logger, { policyRan: () => {}, policyStrayed: () => {} });
  const close = async () => {
    for (const leave of leaves) await leave();
    policyReports.close();
    access.close();
    await adminApi.close();
    await log.close();
    await lines.close();
  };
  try {
    const { drain, ...started } = await start(running, adminApi.api);
    const stop = async () => {
      adminApi.live?.streams.end(GATEWAY_STOPS);
      const isBroken = await drain();
      await close();
      return isBroken ? 1 : 0;
    };
    const reportDefect = (error: unknown) => log.logger.fatal({ err: error }, 'uncaught exception');
    return { ...started, reportDefect, reportStray: (policy, error) => policyReports.strayed(policy, error), stop };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What the supervisor has open. */
interface Supervised {
  readonly settings: Settings;
  readonly live: LiveSettings;
  readonly pool: WorkerPool;
  readonly dispatcher: Dispatcher<WorkerProcess>;
  readonly metrics: JoinedMetrics;
  readonly log: GatewayLog;
  readonly access: AdminAccess;
  /** True until the port is open, and while the gateway drains: `/readyz` is 503. */
  readonly draining: { hasBegun: boolean };
  /** Where the public port is. Set when it is open. */
  publicPort?: Pick<Entrance, 'address' | 'port'>;
}

function logTo(stream: WorkerLines, { settings, warnings }: Configuration): GatewayLog {
  const log = openLog({
    level: settings.logLevel,
    sample2xx: () => 1,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onDrop: () => {},
    stream,
  });
  for (const warning of warnings) log.logger.warn(warning);
  return log;
}

/**
 * How many connections the workers may have together. Each worker has its own limit of open files, the same as this process. The
 * supervisor itself holds only the connections that no worker has taken yet.
 */
function connectionsOf(settings: Settings, workers: number, { logger }: GatewayLog): number {
  const limit = openFilesLimit();
  const parts = Array.from({ length: workers }, (_, i) => connectionLimitOf(shareOf(settings, i + 1, workers), limit));
  const warning = tooFewFiles(settings, parts, limit);
  if (warning !== null) logger.warn(warning);
  return totalOf(parts);
}

/** The settings for a worker that starts now. */
function inForce({ settings, plans, versions, plansText, signature }: LiveSettings): Configuration {
  return { settings, plans, versions, plansText, signature, warnings: [] };
}

/** The admin API of the supervisor, on a store of its own. */
function adminApiOf(supervised: Supervised, env: NodeJS.ProcessEnv) {
  const { settings, live, pool, dispatcher, metrics, log, access, draining } = supervised;
  const telemetry = {
    logger: log.logger,
    auditFailed: () => metrics.auditFailed(),
    changesLost: () => metrics.changesLost(),
  };
  return adminApiAlone(live, access, telemetry, (store) => {
    if (!access.authenticator.isOpen) return { env, live: null };
    const identity = identityOf(settings, pool.slots.length, () => supervised.publicPort ?? settings.listen);
    const readiness = () => readinessOf(pool, dispatcher, draining.hasBegun);
    const facts = async (state: ProcessState) => factsOf(identity(), await readiness(), live.versions, state);
    const local = new WorkersAsOne(pool.running, ANSWER_WITHIN_MS, facts, CLOCKS.wallMs);
    const opened = openFleet(local, store, log.logger);
    shareSignOuts(access, opened.fleet);
    return { env, live: opened };
  });
}

/** Starts the admin listener, then the workers, then the public port, so that no request comes before a worker serves. */
async function start(supervised: Supervised, api: AdminListenerOptions['api']) {
  const { settings, pool, dispatcher, metrics, log, access, draining } = supervised;
  const admin = await listenAdmin({
    ...settings.admin,
    readiness: () => readinessOf(pool, dispatcher, draining.hasBegun),
    isTurning: () => pool.isTurning,
    metrics: () => countsOf(pool.running, metrics, ANSWER_WITHIN_MS),
    api,
    tls: access.tls,
    console: consoleOf(access),
  });
  const openFiles = new OpenFiles(openFilesLimit());
  const networks = new ArrivalNetworks(settings.listen.trustedProxies);
  const onArrival = (arrival: Arrival) => {
    if (openFiles.isShort(arrival.descriptor)) {
      arrival.drop();
      metrics.connectionDropped('descriptors');
    } else dispatcher.offer(arrival, networks.of(arrival));
  };
  let entrance: Entrance;
  try {
    await pool.start();
    entrance = await openEntrance({ ...settings.listen, paused: true, onArrival });
  } catch (error) {
    await pool.end(0);
    await admin.close();
    throw error;
  }
  supervised.publicPort = entrance;
  const { address: host, port } = entrance;
  draining.hasBegun = false;
  log.logger.info({ host, port, admin: admin.port, workers: pool.slots.length }, 'serving');
  const drain = async () => {
    draining.hasBegun = true;
    log.logger.info('draining');
    pool.drain();
    await delay(settings.listen.drainDelayMs);
    // As in a gateway of one process: those that are answered now would connect again.
    dispatcher.hold(true);
    await entrance.close();
    dispatcher.hold(false);
    await dispatcher.emptied(ANSWER_WITHIN_MS);
    const isBroken = await pool.end(settings.listen.drainTimeoutMs + END_WITHIN_MS);
    await admin.close();
    log.logger.info('drained');
    return isBroken;
  };
  return { host, port, scheme: schemeOf(settings), ...adminAddressOf(admin, access), drain };
}

function schemeOf({ listen }: Settings): RunningGateway['scheme'] {
  return listen.tls === null ? 'http' : 'https';
}

function poolOf({
  log: { logger },
  metrics,
  lines,
  ...options
}: Pick<Supervised, 'log' | 'metrics' | 'dispatcher'> & {
  readonly lines: WorkerLines;
  readonly workers: number;
  readonly silenceLimitMs: number | null;
  readonly isObserved: boolean;
  readonly forTerminal: boolean;
  readonly configuration: () => Configuration;
  readonly env: NodeJS.ProcessEnv;
}): WorkerPool {
  return new WorkerPool({
    ...options,
    onStarted: ({ output }) => lines.follow(output),
    onFailed: ({ worker, pid }, { message }) => logger.error({ worker, pid, why: message }, 'a worker cannot start'),
    onLost: ({ worker, pid }, end, pauseMs) => {
      metrics.workerLost();
      const how = end === null ? 'a worker stops by itself' : 'a worker ended';
      logger.error({ worker, pid, ...end, pauseMs }, `${how}, another takes its place`);
    },
    onStuck: ({ worker, pid }, silentMs) => {
      metrics.workerStuck();
      logger.error({ worker, pid, silentMs }, 'a worker no longer turns, and is killed');
    },
    onEnd: ({ lastMetrics }) => metrics.keep(lastMetrics),
  });
}

/**
 * Forwards SIGHUP to the workers, and kills them when this process exits. If SIGKILL ends this process, the workers notice
 * it themselves and stop.
 */
function forwardSignals(pool: WorkerPool): () => void {
  const forward = () => {
    // SIGHUP would end a worker that has not installed its handler yet.
    for (const worker of pool.running) if (worker.state !== 'starting') worker.signal('SIGHUP');
  };
  const kill = () => pool.kill();
  process.on('SIGHUP', forward).on('exit', kill);
  return () => {
    process.off('SIGHUP', forward).off('exit', kill);
  };
}

/**
 * Reloads the settings without logging or counting it, because the workers reload, log and count themselves. A worker that
 * is started later gets the settings that are in force then.
 */
function followSilently(
  live: LiveSettings,
  { log, env, planUsers, load }: Required<Pick<LiveSettingsOptions, 'log' | 'env' | 'planUsers' | 'load'>>,
): () => Promise<void> {
  const silentLog = { ...log, logger: log.logger.child({}, { level: 'silent' }) };
  return live.follow({ env, log: silentLog, planUsers, load });
}

async function readinessOf(pool: WorkerPool, dispatcher: Dispatcher<WorkerProcess>, draining: boolean) {
  const reports = await Promise.all(
    pool.slots.map(async ({ worker, current }) => {
      const readiness = current?.state === 'serving' ? await current.ask('readiness', ANSWER_WITHIN_MS) : null;
      const state: WorkerReport['state'] =
        current === null || current.state === 'leaving'
          ? 'replaced'
          : current.state === 'starting'
            ? 'starting'
            : readiness === null
              ? 'silent'
              : 'serving';
      const connections = current === null ? 0 : dispatcher.openOf(current);
      return { readiness, report: { worker, pid: current?.pid ?? null, state, connections } };
    }),
  );
  const answers = reports.flatMap(({ readiness }) => readiness ?? []);
  return joinReadiness(
    answers,
    reports.map(({ report }) => report),
    draining,
  );
}
