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
  /** A TLS connection was closed because its records brought nothing. */
  tlsWasted(): void;
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
  const dropped = counted(registry, CONNECTIONS_DROPPED.name, CONNECTIONS_DROPPED.help, 'reason', SHORTAGES);
  const evicted = counted(
    registry,
    'tollgate_connections_evicted_total',
    'Idle connections closed to make room for a new one, or because memory or open files are nearly used up.',
    'reason',
    SHORTAGES,
  );
  new Gauge({
    name: 'tollgate_memory_short',
    help: '1 while the gateway takes no new connections because its heap, or the memory of its container, is nearly full.',
    registers,
    collect() {
      this.set(isShortOfMemory() ? 1 : 0);
    },
  });
  const headers = new Counter({
    name: 'tollgate_proxy_headers_refused_total',
    help: 'Connections from trusted proxies closed because no PROXY header came, or a malformed one.',
    registers,
  });
  const sessions = counted(
    registry,
    'tollgate_http2_sessions_broken_total',
    'HTTP/2 connections broken off: too many resets, too much besides requests, malformed, or not read.',
    'reason',
    ['resets', 'overhead', 'protocol', 'unread'] as const,
  );
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
  return {
    connectionDropped: dropped,
    connectionEvicted: evicted,
    ...tlsMetrics(registry),
    proxyHeaderRefused: () => headers.inc(),
    sessionBroken: sessions,
  };
}

type TlsMetrics = Pick<ConnectionMetrics, 'certificateRead' | 'certificateOrdered' | 'handshakeFailed' | 'tlsWasted'>;

function tlsMetrics(registry: Registry): TlsMetrics {
  const certificateRead = counted(
    registry,
    'tollgate_tls_reloads_total',
    'Changes of the certificate or key: loaded, or refused because they cannot be used.',
    'outcome',
    ['loaded', 'refused'] as const,
  );
  const certificateOrdered = counted(
    registry,
    'tollgate_acme_orders_total',
    'Orders of a certificate by ACME (listen.tls.acme): issued, or failed.',
    'outcome',
    ['issued', 'failed'] as const,
  );
  const handshakes = new Counter({
    name: 'tollgate_tls_handshake_failures_total',
    help: 'TLS handshakes that failed or were late.',
    registers: [registry],
  });
  const wasted = new Counter({
    name: 'tollgate_tls_connections_broken_total',
    help: 'TLS connections broken off because the records of the client brought nothing.',
    registers: [registry],
  });
  return {
    certificateRead,
    certificateOrdered,
    handshakeFailed: () => handshakes.inc(),
    tlsWasted: () => wasted.inc(),
  };
}

/**
 * Makes a counter of one label that is zero for each value at the start. Without that, Prometheus sees no increase at the first
 * count.
 * @returns a function that counts an event with this value
 */
function counted<V extends string>(
  registry: Registry,
  name: string,
  help: string,
  label: string,
  values: readonly V[],
): (value: V) => void {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  for (const value of values) counter.inc({ [label]: value }, 0);
  return (value) => counter.inc({ [label]: value });
}
