import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Configuration, Settings } from '../../config/settings.ts';
import { type AdminListener, type AdminListenerOptions, listenAdmin } from '../../listen/admin.ts';
import { listening } from '../../listen/listening.ts';
import { OpenFiles, openFilesLimit } from '../../listen/open-files.ts';
import { JoinedMetrics } from '../../telemetry/joined-metrics.ts';
import { type GatewayLog, openLog } from '../../telemetry/log.ts';
import { adminApiAlone } from '../admin-api.ts';
import { fittingConnections, tooFewFiles, totalOf } from '../fitting-connections.ts';
import { LiveSettings, type LiveSettingsOptions } from '../live-settings.ts';
import type { RunningGateway } from '../run-gateway.ts';
import { Crew } from './crew.ts';
import { Dispatcher } from './dispatcher.ts';
import { countsOf } from './joined-counts.ts';
import { JoinedLines } from './joined-lines.ts';
import { joinReadiness, type WorkerReport } from './joined-readiness.ts';
import { shareOf } from './share.ts';
import type { WorkerProcess } from './worker-process.ts';

/** A worker that has not said within this how it is is left out of the answer. */
const ANSWER_WITHIN_MS = 1_000;
/** What a worker has to do behind `drainTimeout`: close its store, write out its log. */
const END_WITHIN_MS = 5_000;

/**
 * Brings one gateway up that runs in several processes, and supervises them. It accepts connections and hands them out, is
 * the one admin listener, joins logs and metrics, replaces workers that are lost, and does nothing of what a request needs.
 * @throws Failure as one process does
 */
export async function supervise(
  configuration: Configuration,
  workers: number,
  env: NodeJS.ProcessEnv,
): Promise<RunningGateway> {
  const { settings, warnings } = configuration;
  const lines = new JoinedLines(process.stdout.fd);
  const log = openLog({
    level: settings.logLevel,
    sample2xx: () => 1,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onDrop: () => {},
    stream: lines,
  });
  for (const warning of warnings) log.logger.warn(warning);
  // Each worker has a table of open files of its own, with the limit of this process. Of all connections this one has only
  // those that are on their way to a worker.
  const limit = openFilesLimit();
  const partOf = (worker: number) => fittingConnections(shareOf(settings, worker, workers), limit);
  const parts = Array.from({ length: workers }, (_, i) => partOf(i + 1));
  const warning = tooFewFiles(settings, parts, limit);
  if (warning !== null) log.logger.warn(warning);
  const metrics = new JoinedMetrics();
  const dispatcher = new Dispatcher<WorkerProcess>({
    maxConnections: totalOf(parts),
    onDrop: () => metrics.connectionDropped('connections'),
    nowMs: () => performance.now(),
  });
  const live = new LiveSettings(configuration);
  const inForce = () => ({
    settings: live.settings,
    plans: live.plans,
    versions: live.versions,
    signature: live.signature,
    warnings: [],
  });
  const crew = crewOf({ workers, env, dispatcher, metrics, lines, log, configuration: inForce });
  const adminApi = adminApiAlone(live, { logger: log.logger, auditFailed: () => metrics.auditFailed() });
  const keys = async () => (await adminApi.stores()).keys;
  const leaves = [obeySignals(crew), followQuietly(live, { log, env, keys })];
  const close = async () => {
    for (const leave of leaves) await leave();
    await adminApi.close();
    await log.close();
    await lines.close();
  };
  try {
    const running = await bringUp(settings, { crew, dispatcher, metrics, log, api: adminApi.api });
    const stop = async () => {
      const isBroken = await running.drain();
      await close();
      return isBroken ? 1 : 0;
    };
    return {
      ...running,
      reportDefect: (error) => log.logger.fatal({ err: error }, 'a defect that nobody caught'),
      stop,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Parts {
  readonly crew: Crew;
  readonly dispatcher: Dispatcher<WorkerProcess>;
  readonly metrics: JoinedMetrics;
  readonly log: GatewayLog;
  readonly api: AdminListenerOptions['api'];
}

/** Admin listener, workers, public port: nothing is served before everything stands. */
async function bringUp(settings: Settings, { crew, dispatcher, metrics, log, api }: Parts) {
  // Until the port is open, as when it is about to be closed.
  let draining = true;
  const admin = await listenAdmin({
    ...settings.admin,
    readiness: () => readinessOf(crew, dispatcher, draining),
    metrics: () => countsOf(crew.running, metrics, ANSWER_WITHIN_MS),
    api,
  });
  const openFiles = new OpenFiles(openFilesLimit());
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (socket) => {
    if (openFiles.isShort(socket)) {
      socket.destroy();
      metrics.connectionDropped('descriptors');
    } else dispatcher.offer(socket);
  });
  try {
    await crew.start();
    await listening(server, settings.listen, 'PORT');
  } catch (error) {
    await crew.end(0);
    await admin.close();
    throw error;
  }
  const { address: host, port } = server.address() as AddressInfo;
  draining = false;
  log.logger.info({ host, port, admin: admin.port, workers: crew.slots.length }, 'serving');
  const drain = async () => {
    draining = true;
    log.logger.info('draining');
    crew.drain();
    await delay(settings.listen.drainDelayMs);
    server.close();
    await dispatcher.emptied(ANSWER_WITHIN_MS);
    const isBroken = await crew.end(settings.listen.drainTimeoutMs + END_WITHIN_MS);
    await admin.close();
    log.logger.info('drained');
    return isBroken;
  };
  return { host, port, scheme: schemeOf(settings), ...addressOf(admin), drain };
}

function schemeOf({ listen }: Settings): RunningGateway['scheme'] {
  return listen.tls === null ? 'http' : 'https';
}

function addressOf({ host, port }: AdminListener): Pick<RunningGateway, 'adminHost' | 'adminPort'> {
  return { adminHost: host, adminPort: port };
}

function crewOf({
  log: { logger },
  metrics,
  lines,
  ...options
}: Pick<Parts, 'log' | 'metrics' | 'dispatcher'> & {
  readonly lines: JoinedLines;
  readonly workers: number;
  readonly configuration: () => Configuration;
  readonly env: NodeJS.ProcessEnv;
}): Crew {
  return new Crew({
    ...options,
    onStarted: ({ output }) => lines.follow(output),
    onFailed: ({ worker, pid }, { message }) => logger.error({ worker, pid, why: message }, 'a worker cannot start'),
    onLost: ({ worker, pid }, end, pauseMs) => {
      metrics.workerLost();
      const how = end === null ? 'a worker stops by itself' : 'a worker ended';
      logger.error({ worker, pid, ...end, pauseMs }, `${how}, another takes its place`);
    },
    onEnd: ({ lastMetrics }) => metrics.keep(lastMetrics),
  });
}

/**
 * SIGHUP is for all. And however this process ends, but by a signal that nobody can catch, no worker is left behind;
 * behind that one they notice themselves.
 */
function obeySignals(crew: Crew): () => void {
  const passOn = () => {
    // One that is still starting would not survive it.
    for (const worker of crew.running) if (worker.state !== 'starting') worker.signal('SIGHUP');
  };
  const kill = () => crew.kill();
  process.on('SIGHUP', passOn).on('exit', kill);
  return () => {
    process.off('SIGHUP', passOn).off('exit', kill);
  };
}

/** The workers follow the files themselves, and tell of it. Those that are started later begin with what is in force then. */
function followQuietly(
  live: LiveSettings,
  { log, env, keys }: Pick<LiveSettingsOptions, 'log' | 'env' | 'keys'>,
): () => Promise<void> {
  const quiet = { ...log, logger: log.logger.child({}, { level: 'silent' }) };
  return live.follow({ env, log: quiet, keys, count: () => {} });
}

async function readinessOf(crew: Crew, dispatcher: Dispatcher<WorkerProcess>, draining: boolean) {
  const reports = await Promise.all(
    crew.slots.map(async ({ worker, current }) => {
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
  const told = reports.flatMap(({ readiness }) => readiness ?? []);
  return joinReadiness(
    told,
    reports.map(({ report }) => report),
    draining,
  );
}
