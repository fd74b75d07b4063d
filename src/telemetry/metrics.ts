import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Exchange } from '../gateway/exchange.ts';
import { type ConnectionMetrics, connectionMetrics } from './connection-metrics.ts';
import { Durations } from './durations.ts';
import { type OutageMetrics, outageMetrics } from './outage-metrics.ts';
import { type SettingsMetrics, settingsMetrics, type Versions } from './settings-metrics.ts';
import { Tally } from './tally.ts';
import { tokenMetrics } from './token-metrics.ts';
import { type WebSocketMetrics, webSocketMetrics } from './web-socket-metrics.ts';

export interface GatewayMetrics extends ConnectionMetrics, WebSocketMetrics, SettingsMetrics, OutageMetrics {
  readonly registry: Registry;
  record(exchange: Exchange): void;
  /** A request whose head could not be parsed was answered with this error code. */
  unparsed(code: string): void;
  /** An upstream has sent bytes that answer no request. */
  unaskedAnswer(upstream: string): void;
  storeFailed(): void;
  /** A change that an operator made is not recorded, or not as it ended. */
  auditFailed(): void;
  logLineDropped(): void;
}

/** What is read at the moment when somebody asks for the metrics. */
export interface Gauges {
  readonly connections: () => number;
  readonly inFlight: () => number;
  /** Whether the gateway sheds load because memory is nearly used up; left out where nothing watches it. */
  readonly isShortOfMemory?: () => boolean;
  readonly upstreams: () => Iterable<UpstreamState>;
  /** 1 present, 0 away. */
  readonly store: () => number;
  /** Whether the peppers are not those of the store; left out where nothing checks them. */
  readonly isPepperWrong?: () => boolean;
  /** When the certificate in force expires, Unix milliseconds; null, or left out, where there is no TLS. */
  readonly certificateExpiresAtMs?: () => number | null;
  /** Of the settings and plans in force. */
  readonly versions?: () => Versions;
  /** Whether the keys of the tokens' issuer can be had; null, or left out, where no token is accepted. */
  readonly tokenKeysUp?: () => boolean | null;
  /** WebSockets that are open; left out where there can be none. */
  readonly webSockets?: () => number;
}

/** How an upstream and its targets are doing. */
export interface UpstreamState {
  readonly name: string;
  readonly inFlight: number;
  readonly targets: readonly { readonly name: string; readonly usable: boolean }[];
}

/** Counted by the supervisor; there from the start wherever there is none. */
export const WORKERS_LOST = {
  name: 'tollgate_workers_lost_total',
  help: 'Workers that stopped or ended without being told to.',
};
/** Counted by the supervisor where there are several workers. */
export const AUDIT_FAILURES = {
  name: 'tollgate_audit_failures_total',
  help: 'Changes by operators that are not recorded, or not as they ended.',
};
const STATUS_CLASSES = ['0xx', '1xx', '2xx', '3xx', '4xx', '5xx'];
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** An admitted request that leaves at most this share of its window is near the limit. */
const NEAR = 0.1;
/** Rungs told apart; higher ones are counted together. */
const RUNGS = 5;

/**
 * The metrics of one gateway. Every label is bounded by the settings: routes by pattern, plans by name, never a path,
 * a key or anything else that a client writes.
 */
export function createMetrics(gauges: Gauges): GatewayMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const recorders = [recordRequests(registry), recordDurations(registry, gauges.upstreams), recordQuotas(registry)];
  counter(registry, WORKERS_LOST.name, WORKERS_LOST.help);
  const storeFailures = counter(
    registry,
    'tollgate_store_failures_total',
    'Calls to the store that failed or were late.',
  );
  const auditFailures = counter(registry, AUDIT_FAILURES.name, AUDIT_FAILURES.help);
  const logDrops = counter(registry, 'tollgate_log_lines_dropped_total', 'Log lines dropped because nobody took them.');
  const unparsed = new Counter({
    name: 'tollgate_unparsed_requests_total',
    help: 'Requests refused before their head could be parsed, by error code.',
    labelNames: ['code'],
    registers: [registry],
  });
  const unasked = unaskedAnswers(registry, gauges.upstreams);
  addGauges(registry, gauges);
  tokenMetrics(registry, gauges.tokenKeysUp);
  return {
    registry,
    ...connectionMetrics(registry, gauges.certificateExpiresAtMs, gauges.isShortOfMemory),
    ...webSocketMetrics(registry, gauges.webSockets),
    ...settingsMetrics(registry, gauges.versions),
    record: (exchange) => {
      for (const record of recorders) record(exchange);
    },
    unparsed: (code) => unparsed.inc({ code }),
    unaskedAnswer: (upstream) => unasked.inc({ upstream }),
    storeFailed: () => storeFailures.inc(),
    auditFailed: () => auditFailures.inc(),
    ...outageMetrics(registry),
    logLineDropped: () => logDrops.inc(),
  };
}

type Recorder = (exchange: Exchange) => void;

function recordRequests(registry: Registry): Recorder {
  const requests = new Tally(
    registry,
    'tollgate_requests_total',
    'Requests that have ended, by route pattern, plan, judgement, status class, error code and who decided.',
    ['route', 'plan', 'judgement', 'status', 'code', 'source'],
  );
  return ({ route, plan, judgement, status, code, source }) =>
    requests.count(
      route ?? 'none',
      plan ?? 'none',
      judgement,
      status === 499 ? '499' : STATUS_CLASSES[Math.floor(status / 100)]!,
      code ?? 'none',
      source ?? 'none',
    );
}

function recordDurations(registry: Registry, upstreams: Gauges['upstreams']): Recorder {
  const durations = new Durations(registry, {
    name: 'tollgate_request_duration_seconds',
    help: 'Time of a request: total, waiting for the store, with the upstream, and the rest in the gateway itself.',
    bounds: SECONDS,
    parts: ['total', 'store', 'upstream', 'gateway'],
    upstreams,
    monotonicMs: () => performance.now(),
  });
  return ({ totalMs, storeMs, upstreamMs, source, upstream, target }) => {
    const parts = durations.of(upstream, target);
    parts.total.add(totalMs / 1000);
    if (source === 'store') parts.store.add(storeMs / 1000);
    if (upstreamMs > 0) parts.upstream.add(upstreamMs / 1000);
    parts.gateway.add(Math.max(totalMs - storeMs - upstreamMs, 0) / 1000);
  };
}

function recordQuotas(registry: Registry): Recorder {
  const near = new Counter({
    name: 'tollgate_quota_near_limit_total',
    help: 'Admitted requests that left at most a tenth of the window that binds.',
    labelNames: ['plan', 'window'],
    registers: [registry],
  });
  const over = new Tally(
    registry,
    'tollgate_quota_refusals_total',
    'Requests refused for the quota or under a ban, by the window that refused.',
    ['plan', 'window', 'judgement'],
  );
  const bans = new Counter({
    name: 'tollgate_bans_total',
    help: 'Bans imposed, by their rung on the ladder; the highest label counts all from there on.',
    labelNames: ['plan', 'rung'],
    registers: [registry],
  });
  const shadows = new Tally(
    registry,
    'tollgate_shadow_refusals_total',
    'Requests that limits which are only watched would have refused, by their window; they were served all the same.',
    ['plan', 'window', 'judgement'],
  );
  return ({ plan, window, judgement, limits, remaining, imposedBan, shadow }) => {
    if (plan !== null && shadow?.window) shadows.count(plan, shadow.window, shadow.judgement);
    if (plan === null || window === null) return;
    if (judgement === 'refused' || judgement === 'banned') over.count(plan, window, judgement);
    if (imposedBan !== null) bans.inc({ plan, rung: imposedBan < RUNGS ? String(imposedBan) : `${RUNGS}+` });
    if (judgement !== 'admitted') return;
    for (let i = 0; i < limits.length; i++) {
      if (limits[i]!.window === window && remaining[i]! <= limits[i]!.limit * NEAR) near.inc({ plan, window });
    }
  };
}

function unaskedAnswers(registry: Registry, upstreams: Gauges['upstreams']): Counter<'upstream'> {
  return new Counter({
    name: 'tollgate_upstream_unasked_answers_total',
    help: 'Connections to an upstream closed because it sent bytes on them that answer no request.',
    labelNames: ['upstream'],
    registers: [registry],
    collect() {
      // A series that begins with its first count shows no increase of it.
      for (const { name } of upstreams()) this.inc({ upstream: name }, 0);
    },
  });
}

function counter(registry: Registry, name: string, help: string): Counter {
  return new Counter({ name, help, registers: [registry] });
}

function addGauges(registry: Registry, { connections, inFlight, upstreams, store, isPepperWrong }: Gauges): void {
  gauge(registry, 'tollgate_connections', 'Client connections that are open.', connections);
  gauge(registry, 'tollgate_in_flight', 'Requests that have not ended.', inFlight);
  gauge(registry, 'tollgate_store_up', '1 while the store answers, 0 while it is away.', store);
  gauge(registry, 'tollgate_pepper_mismatch', '1 while KEY_PEPPER is not the pepper of the store, else 0.', () =>
    isPepperWrong?.() === true ? 1 : 0,
  );
  gauge(registry, 'tollgate_workers', 'Processes that serve.', () => 1);
  new Gauge({
    name: 'tollgate_upstream_in_flight',
    help: 'Requests with an upstream or waiting for a connection to it.',
    labelNames: ['upstream'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, inFlight } of upstreams()) this.set({ upstream: name }, inFlight);
    },
  });
  new Gauge({
    name: 'tollgate_upstream_target_up',
    help: '1 while a target of an upstream is used, 0 while it is left out.',
    labelNames: ['upstream', 'target'],
    registers: [registry],
    collect() {
      // One that a reload took away while it was left out would look left out for ever.
      this.reset();
      for (const { name, targets } of upstreams()) {
        for (const target of targets) this.set({ upstream: name, target: target.name }, target.usable ? 1 : 0);
      }
    },
  });
}

function gauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}
