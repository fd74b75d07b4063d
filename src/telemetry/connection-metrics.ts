import { Counter, Gauge, type Registry } from 'prom-client';

/** What there was too little of: places for connections, places for those of one client address, memory, open files. */
export type Shortage = (typeof SHORTAGES)[number];

const SHORTAGES = ['connections', 'address', 'memory', 'descriptors'] as const;

/** Counted by the process that decides: a worker, or the supervisor where too many wait for one. */
export const CONNECTIONS_DROPPED = {
  name: 'tollgate_connections_dropped_total',
  help: 'Connections closed unanswered: too many, too many of one client address, or memory or open files nearly used up.',
  labelNames: ['reason'],
};

/** What is counted of connections before there is a request on them. */
export interface ConnectionMetrics {
  /** A connection was closed unanswered. */
  connectionDropped(reason: Shortage): void;
  /** A connection that waited for a request was closed to make room. */
  connectionEvicted(reason: Shortage): void;
  /** The files of the certificate have changed: a new one came into force, or what they hold cannot be used. */
  certificateRead(outcome: 'loaded' | 'refused'): void;
  handshakeFailed(): void;
  /** A trusted proxy did not begin its connection with a PROXY header. */
  proxyHeaderRefused(): void;
  /** A session was broken off for what its client did. */
  sessionBroken(reason: 'resets' | 'overhead' | 'protocol'): void;
}

/** @param expiresAtMs of the certificate in force, Unix milliseconds; null where there is none */
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
  new Gauge({
    name: 'tollgate_memory_short',
    help: '1 while the gateway takes no new connections because its heap is nearly full.',
    registers,
    collect() {
      this.set(isShortOfMemory() ? 1 : 0);
    },
  });
  const reloads = new Counter({
    name: 'tollgate_tls_reloads_total',
    help: 'Changes of the certificate or key: loaded, or refused because they cannot be used.',
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
    help: 'HTTP/2 connections broken off: too many resets, too much that was no request, or malformed.',
    labelNames: ['reason'],
    registers,
  });
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
  // A series that begins with its first count shows no increase of it.
  for (const reason of SHORTAGES) {
    dropped.inc({ reason }, 0);
    evicted.inc({ reason }, 0);
  }
  for (const outcome of ['loaded', 'refused']) reloads.inc({ outcome }, 0);
  for (const reason of ['resets', 'overhead', 'protocol']) sessions.inc({ reason }, 0);
  return {
    connectionDropped: (reason) => dropped.inc({ reason }),
    connectionEvicted: (reason) => evicted.inc({ reason }),
    certificateRead: (outcome) => reloads.inc({ outcome }),
    handshakeFailed: () => handshakes.inc(),
    proxyHeaderRefused: () => headers.inc(),
    sessionBroken: (reason) => sessions.inc({ reason }),
  };
}
