import { setTimeout as delay } from 'node:timers/promises';
import type { Configuration, Settings } from '../config/settings.ts';
import { atOnce, type Steps } from '../config/steps.ts';
import { Gateway } from '../gateway/gateway.ts';
import { type AdminListener, type AdminListenerOptions, listenAdmin, type Readiness } from '../listen/admin.ts';
import { HeapGuard, type HeapUse } from '../listen/heap-guard.ts';
import { OpenFiles, openFilesLimit } from '../listen/open-files.ts';
import { listenPublic, type PublicListener } from '../listen/public.ts';
import { type GatewayLog, openLog } from '../telemetry/log.ts';
import { createMetrics, type GatewayMetrics } from '../telemetry/metrics.ts';
import { adminApiOn } from './admin-api.ts';
import { followCertificates, openCertificates } from './certificates.ts';
import type { ExitCode } from './command.ts';
import { exposedFiles } from './exposed-files.ts';
import { fittingConnections, tooFewFiles } from './fitting-connections.ts';
import { partsOf } from './gateway-parts.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';
import { TokenIssuers } from './jwt.ts';
import { LiveSettings, type LiveSettingsOptions } from './live-settings.ts';
import { warnOfLostPlans } from './lost-plans.ts';
import { openServices } from './services.ts';
import { warnOfSunsets } from './sunset-warnings.ts';
import { tracing } from './tracing.ts';
import { Upstreams } from './upstreams.ts';
import { keepWebSockets } from './web-sockets.ts';
import type { Place } from './workers/place.ts';

export interface RunningGateway {
  readonly host: string;
  readonly port: number;
  /** What the public listener speaks. */
  readonly scheme: 'http' | 'https';
  readonly adminHost: string;
  readonly adminPort: number;
  /** Logs what was thrown and caught by nobody. */
  reportDefect(error: unknown): void;
  /**
   * Drains and closes everything (contract section 7).
   * @returns 0, or 1 where something broke on the way
   */
  stop(): Promise<ExitCode>;
}

type Closer = () => Promise<void> | void;

/**
 * Brings one gateway up: stores first, then the listeners, so that nothing is served before everything stands.
 * @param place null: this process is the whole gateway; else it is one worker of several, which listens for nothing itself
 * @throws Failure `store_owned`, `store_corrupt`, `pepper_mismatch`, `cannot_listen` …; what had been opened by then is closed again
 */
export async function runGateway(
  configuration: Configuration,
  env: NodeJS.ProcessEnv,
  place: Place | null = null,
): Promise<RunningGateway> {
  const live = new LiveSettings(configuration);
  const { settings, warnings } = configuration;
  const late: { metrics?: GatewayMetrics } = {};
  const opened = openLog({
    level: settings.logLevel,
    sample2xx: () => live.settings.log.sample2xx,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onDrop: () => late.metrics?.logLineDropped(),
  });
  const log = place === null ? opened : { ...opened, logger: opened.logger.child({ worker: place.worker }) };
  for (const warning of warnings) log.logger.warn(warning);
  const closers: Closer[] = [() => log.close()];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const running = await bringUp(live, log, { late, closers, env, place });
    const reportDefect = (error: unknown) => log.logger.fatal({ err: error }, 'a defect that nobody caught');
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

interface Beginning {
  readonly late: { metrics?: GatewayMetrics };
  readonly closers: Closer[];
  readonly env: NodeJS.ProcessEnv;
  readonly place: Place | null;
}

async function bringUp(live: LiveSettings, log: GatewayLog, { late, closers, env, place }: Beginning) {
  const { settings } = live;
  const ownOf = (whole: Settings) => place?.share(whole) ?? whole;
  const certificates = await openCertificates(settings.listen.tls);
  closers.push(() => certificates?.close());
  const stores = await openGatewayStores(settings, {
    onStoreChange: (state, { reason, lastsMs }) => {
      if (state === 'away')
        log.logger.error({ store: state, reason, onFailure: settings.redis.onFailure }, 'the store is away');
      else log.logger.info({ store: state, reason, awayMs: lastsMs }, 'the store is back');
    },
    onFailure: (error) => log.logger.error({ err: error }, 'the store failed'),
    onFailedWrite: () => late.metrics?.storeFailed(),
    onPepperMismatch: (failure) => {
      if (failure !== null) log.logger.error({ pepper: 'mismatch', reason: failure.message }, 'the pepper is wrong');
      else log.logger.info({ pepper: 'right' }, 'the pepper is right again');
    },
    onWarning: (sentence) => log.logger.warn(sentence),
  });
  closers.push(() => stores.close());
  // Of several workers one says it; the store has made its files by now.
  if (place === null || place.worker === 1) for (const one of exposedFiles(env, settings)) log.logger.warn(one);
  const upstreams = new Upstreams(log, (upstream) => late.metrics?.unaskedAnswer(upstream));
  closers.push(() => upstreams.close());
  const opened = atOnce(upstreams.opening(ownOf(settings).upstreams));
  opened.use();
  const webSockets = keepWebSockets(() => ownOf(live.settings).websockets, stores);
  const tokens = new TokenIssuers(log);
  await tokens.loading(settings.jwt);
  let listener: PublicListener | null = null;
  let gateway: Gateway | null = null;
  const heap = new HeapGuard({
    onChange: (isShort, use) => reportMemory(log, isShort, use),
    onShort: () => listener?.closeIdle(),
  });
  closers.push(() => heap.close());
  const metrics = createMetrics({
    connections: () => listener?.connections() ?? 0,
    inFlight: () => gateway?.inFlight ?? 0,
    isShortOfMemory: () => heap.isShort,
    webSockets: () => webSockets.open,
    upstreams: () => upstreams.states(),
    versions: () => live.versions,
    tokenKeysUp: () => tokens.keysUp,
    store: () => (stores.state() === 'away' || stores.state() === 'never_reached' ? 0 : 1),
    isPepperWrong: () => stores.pepperState() === 'mismatch',
    certificateExpiresAtMs: () => certificates?.current.expiresAtMs ?? null,
  });
  late.metrics = metrics;
  let draining = false;
  const services = openServices(settings, live, stores, metrics);
  closers.push(() => services.deprecatedCalls.close());
  const traceOf = await tracing(env, closers);
  const surroundings = { log, metrics, traceOf, isDraining: () => draining, webSockets };
  const parts = atOnce(partsOf(live, services, opened.byName, surroundings));
  const served = new Gateway({ ...parts, jwt: tokens.under(settings.jwt) });
  gateway = served;
  const readiness = () => readinessOf(live, stores, draining || listener === null, heap.isShort);
  const api = adminApiOn(live, async () => stores, { logger: log.logger, auditFailed: metrics.auditFailed });
  const admin = place === null ? await adminOf(settings, metrics, { readiness, api }, closers) : settings.admin;
  place?.show({ readiness, metrics: () => metrics.registry.getMetricsAsJSON() });
  const limit = openFilesLimit();
  const fitting = fittingConnections(ownOf(settings), limit);
  // Of workers, the supervisor speaks for all.
  const tooFew = place === null ? tooFewFiles(settings, [fitting], limit) : null;
  if (tooFew !== null) log.logger.warn(tooFew);
  listener = await listenPublic({
    ...ownOf(settings).listen,
    ...fitting,
    openFiles: new OpenFiles(limit),
    tls: certificates === null ? null : { ...settings.listen.tls!, certificates },
    wallMs: () => Date.now(),
    handle: (...received) => served.handle(...received),
    mayUpgrade: (head) => served.mayUpgrade(head),
    breakOff: (socket, code) => served.breakOff(socket, code),
    isShortOfMemory: () => heap.isShort,
    onDrop: metrics.connectionDropped,
    onEvict: metrics.connectionEvicted,
    onUnparsed: metrics.unparsed,
    onBadProxyHeader: metrics.proxyHeaderRefused,
    onHandshakeFailure: metrics.handshakeFailed,
    onSessionBroken: metrics.sessionBroken,
    feed: place?.feed ?? null,
  });
  if (certificates !== null) followCertificates(certificates, log, metrics);
  const { host, port, stopAccepting, drained } = listener;
  // One process speaks for all.
  if (place === null || place.worker === 1) {
    closers.push(
      warnOfSunsets(
        () => live.settings.routes,
        log,
        () => Date.now(),
      ),
      warnOfLostPlans(() => live.plans, stores.keys, log.logger),
    );
  }
  function* making(next: Configuration): Steps<() => void> {
    const opening = yield* upstreams.opening(ownOf(next.settings).upstreams);
    let isWhole = false;
    try {
      const parts = yield* partsOf(next, services, opening.byName, surroundings);
      const jwt = tokens.under(next.settings.jwt);
      isWhole = true;
      return () => {
        opening.use();
        served.use({ ...parts, jwt });
      };
    } finally {
      if (!isWhole) opening.close();
    }
  }
  const following: LiveSettingsOptions = {
    env,
    log,
    loading: (next) => tokens.loading(next.settings.jwt),
    making,
    keys: async () => stores.keys,
    count: metrics.settingsRead,
  };
  closers.push(live.follow(following));
  const store = stores.state();
  if (place === null) log.logger.info({ host, port, admin: admin.port, store }, 'serving');
  else log.logger.info({ pid: process.pid, store }, 'worker serving');
  const drain = async () => {
    draining = true;
    log.logger.info('draining');
    await (place === null ? delay(settings.listen.drainDelayMs) : place.leave());
    stopAccepting();
    const cut = setTimeout(() => webSockets.cut('drained'), settings.listen.drainTimeoutMs);
    await drained(settings.listen.drainTimeoutMs);
    clearTimeout(cut);
    log.logger.info('drained');
  };
  const scheme: RunningGateway['scheme'] = certificates === null ? 'http' : 'https';
  return { host, port, scheme, adminHost: admin.host, adminPort: admin.port, drain };
}

function reportMemory({ logger }: GatewayLog, isShort: boolean, { usedBytes, limitBytes }: HeapUse): void {
  const mib = { usedMiB: Math.round(usedBytes / MIB), limitMiB: Math.round(limitBytes / MIB) };
  if (isShort) logger.error(mib, 'the heap is nearly full: no new connections, idle ones are closed');
  else logger.info(mib, 'the heap has room again: connections are taken');
}

const MIB = 1024 * 1024;

async function adminOf(
  settings: Settings,
  { registry }: GatewayMetrics,
  answering: Pick<AdminListenerOptions, 'readiness' | 'api'>,
  closers: Closer[],
): Promise<AdminListener> {
  const metrics = async () => ({ text: await registry.metrics(), contentType: registry.contentType });
  const admin = await listenAdmin({ ...settings.admin, ...answering, metrics });
  closers.push(() => admin.close());
  return admin;
}

function readinessOf(
  { settings: { redis }, isRefused }: LiveSettings,
  stores: GatewayStores,
  draining: boolean,
  isShortOfMemory: boolean,
): Readiness {
  const store = stores.state();
  const decides = store !== 'never_reached' && (store !== 'away' || redis.onFailure !== 'closed');
  const outage = stores.outage();
  const isPepperWrong = stores.pepperState() === 'mismatch';
  return {
    ready: !draining && decides && !isShortOfMemory && !isPepperWrong,
    store,
    draining,
    ...(outage === null ? {} : { outage }),
    ...(isRefused ? { settings: 'refused' } : {}),
    ...(isPepperWrong ? { pepper: 'mismatch' } : {}),
    ...(isShortOfMemory ? { memory: 'short' } : {}),
  };
}
