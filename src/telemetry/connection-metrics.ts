import { Counter, Gauge, type Registry } from 'prom-client';

/** Which bound a connection met: all connections, those of one client address, memory, or open files. */
export type Shortage = (typeof SHORTAGES)[number];

const SHORTAGES = ['connections', 'address', 'memory', 'descriptors'] as const;

/** A worker counts the connections that it drops, and the supervisor those that it drops before a worker has them. */
export const CONNECTIONS_DROPPED = {
  name: 'tollgate_connections_dropped_total',
  help: 'Connections closed unanswered: too many, too many of one client address, or memory or open files nearly used up.',
  labelNames: ['reason'],
};

/** Counts events of connections outside requests. */
export interface ConnectionMetrics {
  /** A connection was closed unanswered. */
  connectionDropped(reason: Shortage): void;
  /** An idle connection was closed to make room. */
  connectionEvicted(reason: Shortage): void;
  /** The files of the certificate have changed: the new certificate is in force, or it cannot be used. */
  certificateRead(outcome: 'loaded' | 'refused'): void;
  /** This process has ordered a certificate by ACME: it was issued, or the attempt failed. */
  certificateOrdered(outcome: 'issued' | 'failed'): void;
  handshakeFailed(): void;
  /** A trusted proxy did not begin its connection with a PROXY header. */
  proxyHeaderRefused(): void;
  /** An HTTP/2 session was closed because of what its client sent. */
  sessionBroken(reason: 'resets' | 'overhead' | 'protocol' | 'unread'): void;
}

/** @param expiresAtMs when the certificate in force expires, in Unix milliseconds; null without TLS */
export function connectionMetrics(
  registry: Registry,
  expiresAtMs: () => number | null = () => null,
  isShortOfMemory: () => boolean = () => false,
): ConnectionMetrics {
  const registers = [registry];
  const dropped = new Counter({ ...CONNECTIONS_DROPPED, registers });
  const evicted = new Counter({
    name: 'tollgate_connections_evicted_total',
    help: 'Idle connections closed to make room for a new one, or because memory or open files are nearly used up.',
    labelNames: ['reason'],
    registers,
  });
  memoryGauge(registers, isShortOfMemory);
  const reloads = new Counter({
    name: 'tollgate_tls_reloads_total',
    help: 'Changes of the certificate or key: loaded, or refused because they cannot be used.',
    labelNames: ['outcome'],
    registers,
  });
  const orders = new Counter({
    name: 'tollgate_acme_orders_total',
    help: 'Orders of a certificate by ACME (listen.tls.acme): issued, or failed.',
    labelNames: ['outcome'],
    registers,
  });
  const handshakes = new Counter({
    name: 'tollgate_tls_handshake_failures_total',
    help: 'TLS handshakes that failed or were late.',
    registers,
  });
  const headers = new Counter({
    name: 'tollgate_proxy_headers_refused_total',
    help: 'Connections from trusted proxies closed because no PROXY header came, or a malformed one.',
    registers,
  });
  const sessions = new Counter({
    name: 'tollgate_http2_sessions_broken_total',
    help: 'HTTP/2 connections broken off: too many resets, too much that was no request, malformed, or not read.',
    labelNames: ['reason'],
    registers,
  });
  certificateGauge(registers, expiresAtMs);
  // Without a zero at the start, Prometheus sees no increase at the first count.
  for (const reason of SHORTAGES) {
    dropped.inc({ reason }, 0);
    evicted.inc({ reason }, 0);
  }
  for (const outcome of ['loaded', 'refused']) reloads.inc({ outcome }, 0);
  for (const outcome of ['issued', 'failed']) orders.inc({ outcome }, 0);
  for (const reason of ['resets', 'overhead', 'protocol', 'unread']) sessions.inc({ reason }, 0);
  return {
    connectionDropped: (reason) => dropped.inc({ reason }),
    connectionEvicted: (reason) => evicted.inc({ reason }),
    certificateRead: (outcome) => reloads.inc({ outcome }),
    certificateOrdered: (outcome) => orders.inc({ outcome }),
    handshakeFailed: () => handshakes.inc(),
    proxyHeaderRefused: () => headers.inc(),
    sessionBroken: (reason) => sessions.inc({ reason }),
  };
}

function memoryGauge(registers: Registry[], isShortOfMemory: () => boolean): void {
  new Gauge({
    name: 'tollgate_memory_short',
    help: '1 while the gateway takes no new connections because its heap, or the memory of its container, is nearly full.',
    registers,
    collect() {
      this.set(isShortOfMemory() ? 1 : 0);
    },
  });
}

function certificateGauge(registers: Registry[], expiresAtMs: () => number | null): void {
  new Gauge({
    name: 'tollgate_tls_certificate_expiry_timestamp_seconds',
    help: 'When the certificate in force expires.',
    registers,
    collect() {
      const atMs = expiresAtMs();
      if (atMs === null) this.remove();
      else this.set(atMs / 1000);
    },
  });
}
