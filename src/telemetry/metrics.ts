import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Exchange } from '../gateway/exchange.ts';

export interface GatewayMetrics {
  readonly registry: Registry;
  record(exchange: Exchange): void;
  /** A connection was closed unanswered because there were too many. */
  connectionDropped(): void;
  /** A request that could not be parsed was answered with this status code name. */
  unparsed(code: string): void;
  storeFailed(): void;
  logLineDropped(): void;
}

export interface Gauges {
  readonly connections: () => number;
  readonly upstreams: () => Iterable<readonly [name: string, inFlight: number]>;
  /** 1 present, 0 away. */
  readonly store: () => number;
}

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * The metrics of one gateway. Every label is bounded by the settings: routes by pattern, plans by name, never a path,
 * a key or anything else that a client writes.
 */
export function createMetrics(gauges: Gauges): GatewayMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: 'tollgate_requests_total',
    help: 'Requests that have ended, by route pattern, plan, judgement, status and error code.',
    labelNames: ['route', 'plan', 'judgement', 'status', 'code'],
    registers,
  });
  const duration = new Histogram({
    name: 'tollgate_request_duration_seconds',
    help: 'Time of a request: whole, waiting for the store, with the upstream, and the rest in the gateway itself.',
    labelNames: ['part'],
    buckets: SECONDS,
    registers,
  });
  const parts = {
    total: duration.labels('total'),
    store: duration.labels('store'),
    upstream: duration.labels('upstream'),
    gateway: duration.labels('gateway'),
  };
  const dropped = counter(
    registers,
    'tollgate_connections_dropped_total',
    'Connections closed unanswered: maxConnections.',
  );
  const storeFailures = counter(
    registers,
    'tollgate_store_failures_total',
    'Calls to the store that failed or were late.',
  );
  const logDrops = counter(
    registers,
    'tollgate_log_lines_dropped_total',
    'Log lines dropped because nobody took them.',
  );
  const unparsed = new Counter({
    name: 'tollgate_unparsed_requests_total',
    help: 'Requests refused before their head could be parsed, by error code.',
    labelNames: ['code'],
    registers,
  });
  addGauges(registers, gauges);
  return {
    registry,
    record: (exchange) => {
      requests.inc(labelsOf(exchange));
      const { totalMs, storeMs, upstreamMs } = exchange;
      parts.total.observe(totalMs / 1000);
      if (exchange.source !== 'memory') parts.store.observe(storeMs / 1000);
      if (upstreamMs > 0) parts.upstream.observe(upstreamMs / 1000);
      parts.gateway.observe(Math.max(totalMs - storeMs - upstreamMs, 0) / 1000);
    },
    connectionDropped: () => dropped.inc(),
    unparsed: (code) => unparsed.inc({ code }),
    storeFailed: () => storeFailures.inc(),
    logLineDropped: () => logDrops.inc(),
  };
}

function labelsOf({ route, plan, judgement, status, code }: Exchange) {
  return { route: route ?? 'none', plan: plan ?? 'none', judgement, status: String(status), code: code ?? 'none' };
}

function counter(registers: Registry[], name: string, help: string): Counter {
  return new Counter({ name, help, registers });
}

function addGauges(registers: Registry[], { connections, upstreams, store }: Gauges): void {
  new Gauge({
    name: 'tollgate_connections',
    help: 'Client connections that are open.',
    registers,
    collect() {
      this.set(connections());
    },
  });
  new Gauge({
    name: 'tollgate_upstream_in_flight',
    help: 'Requests with an upstream or waiting for a connection to it.',
    labelNames: ['upstream'],
    registers,
    collect() {
      for (const [name, inFlight] of upstreams()) this.set({ upstream: name }, inFlight);
    },
  });
  new Gauge({
    name: 'tollgate_store_up',
    help: '1 while the store answers, 0 while it is away.',
    registers,
    collect() {
      this.set(store());
    },
  });
}
