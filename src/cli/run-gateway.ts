import { setTimeout as delay } from 'node:timers/promises';
import type { Plans } from '../admit/plan.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { listenAdmin, type Readiness } from '../listen/admin.ts';
import { listenPublic, type PublicListener } from '../listen/public.ts';
import { type GatewayLog, openLog } from '../telemetry/log.ts';
import { createMetrics, type GatewayMetrics } from '../telemetry/metrics.ts';
import { followCertificates, openCertificates } from './certificates.ts';
import { gatewayOf } from './gateway-parts.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';
import { tracing } from './tracing.ts';
import { openUpstreams } from './upstreams.ts';
import { keepWebSockets } from './web-sockets.ts';

export interface RunningGateway {
  readonly host: string;
  readonly port: number;
  /** What the public listener speaks. */
  readonly scheme: 'http' | 'https';
  readonly adminHost: string;
  readonly adminPort: number;
  /** Logs what was thrown and caught by nobody. */
  reportDefect(error: unknown): void;
  /** Drains and closes everything (contract section 7). */
  stop(): Promise<void>;
}

type Closer = () => Promise<void> | void;

/**
 * Brings one gateway up: stores first, then the listeners, so that nothing is served before everything stands.
 * @throws Failure `store_owned`, `store_corrupt`, `cannot_listen` …; what had been opened by then is closed again
 */
export async function runGateway(
  { settings, plans, warnings }: Configuration,
  env: NodeJS.ProcessEnv,
): Promise<RunningGateway> {
  const late: { metrics?: GatewayMetrics } = {};
  const log = openLog({
    level: settings.logLevel,
    ...settings.log,
    nowMs: () => Date.now(),
    onDrop: () => late.metrics?.logLineDropped(),
  });
  for (const warning of warnings) log.logger.warn(warning);
  if (settings.workers !== 1)
    log.logger.warn('WORKERS: this version runs one process; start more gateways on one Redis instead.');
  const closers: Closer[] = [() => log.close()];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const running = await bringUp(settings, plans, log, { late, closers, env });
    const reportDefect = (error: unknown) => log.logger.fatal({ err: error }, 'a defect that nobody caught');
    return { ...running, reportDefect, stop: () => running.drain().then(close) };
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
  const certificates = await openCertificates(settings.listen.tls);
  closers.push(() => certificates?.close());
  const stores = await openGatewayStores(settings, {
    onStoreChange: (state) =>
      log.logger[state === 'away' ? 'error' : 'info']({ store: state }, 'the store is %s', state),
    onFailure: (error) => log.logger.error({ err: error }, 'the store failed'),
  });
  closers.push(() => stores.close());
  const opened = openUpstreams(settings.upstreams, log);
  const upstreams = opened.byName;
  closers.push(() => opened.close());
  const webSockets = keepWebSockets(settings.websockets, stores);
  let listener: PublicListener | null = null;
  let gateway: Gateway | null = null;
  const metrics = createMetrics({
    connections: () => listener?.connections() ?? 0,
    inFlight: () => gateway?.inFlight ?? 0,
    webSockets: () => webSockets.open,
    upstreams: opened.states,
    store: () => (stores.state() === 'away' || stores.state() === 'never_reached' ? 0 : 1),
    certificateExpiresAtMs: () => certificates?.current.expiresAtMs ?? null,
  });
  late.metrics = metrics;
  let draining = false;
  const served = gatewayOf(settings, plans, stores, upstreams, {
    log,
    metrics,
    traceOf: await tracing(env, closers),
    isDraining: () => draining,
    webSockets,
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
    tls: certificates === null ? null : { ...settings.listen.tls!, certificates },
    handle: (...received) => served.handle(...received),
    mayUpgrade: (head) => served.mayUpgrade(head),
    breakOff: (socket, code) => served.breakOff(socket, code),
    onDrop: metrics.connectionDropped,
    onUnparsed: metrics.unparsed,
    onBadProxyHeader: metrics.proxyHeaderRefused,
    onHandshakeFailure: metrics.handshakeFailed,
    onSessionBroken: metrics.sessionBroken,
  });
  if (certificates !== null) followCertificates(certificates, log, metrics);
  const { host, port, stopAccepting, drained } = listener;
  log.logger.info({ host, port, admin: admin.port, store: stores.state() }, 'serving');
  const drain = async () => {
    draining = true;
    log.logger.info('draining');
    await delay(settings.listen.drainDelayMs);
    stopAccepting();
    const cut = setTimeout(() => webSockets.cut('drained'), settings.listen.drainTimeoutMs);
    await drained(settings.listen.drainTimeoutMs);
    clearTimeout(cut);
    log.logger.info('drained');
  };
  const scheme: RunningGateway['scheme'] = certificates === null ? 'http' : 'https';
  return { host, port, scheme, adminHost: admin.host, adminPort: admin.port, drain };
}

function readinessOf({ redis }: Settings, stores: GatewayStores, draining: boolean): Readiness {
  const store = stores.state();
  const decides = store !== 'never_reached' && (store !== 'away' || redis.onFailure !== 'closed');
  return { ready: !draining && decides, store, draining };
}
