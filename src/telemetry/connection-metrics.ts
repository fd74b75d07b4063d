import type { MetricRegistry } from './metric-registry.ts';

/** Which bound a connection met: all connections, those of one client address, memory, or open files. */
export type Shortage = (typeof SHORTAGES)[number];

const SHORTAGES = ['connections', 'address', 'memory', 'descriptors'] as const;

/** A worker counts the connections that it drops, and the supervisor those that it drops before a worker has them. */
export const CONNECTIONS_DROPPED = [
  'tollgate_connections_dropped_total',
  'Connections closed unanswered: too many, too many of one client address, or memory or open files nearly used up.',
  'reason',
] as const;

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
  registry: MetricRegistry,
  expiresAtMs: () => number | null = () => null,
  isShortOfMemory: () => boolean = () => false,
): ConnectionMetrics {
  registry.gauge(
    'tollgate_memory_short',
    '1 while the gateway takes no new connections because its heap, or the memory of its container, is nearly full.',
    () => (isShortOfMemory() ? 1 : 0),
  );
  registry.gauge(
    'tollgate_tls_certificate_expiry_timestamp_seconds',
    'When the certificate in force expires; of several, the first that does.',
    () => {
      const atMs = expiresAtMs();
      return atMs === null ? null : atMs / 1000;
    },
  );
  return {
    connectionDropped: registry.counted(...CONNECTIONS_DROPPED, SHORTAGES),
    connectionEvicted: registry.counted(
      'tollgate_connections_evicted_total',
      'Idle connections closed to make room for a new one, or because memory or open files are nearly used up.',
      'reason',
      SHORTAGES,
    ),
    certificateRead: registry.counted(
      'tollgate_tls_reloads_total',
      'Changes of the certificate or key: loaded, or refused because they cannot be used.',
      'outcome',
      ['loaded', 'refused'],
    ),
    certificateOrdered: registry.counted(
      'tollgate_acme_orders_total',
      'Orders of a certificate by ACME (listen.tls.acme): issued, or failed.',
      'outcome',
      ['issued', 'failed'],
    ),
    handshakeFailed: registry.events(
      'tollgate_tls_handshake_failures_total',
      'TLS handshakes that failed or were late.',
    ),
    tlsWasted: registry.events(
      'tollgate_tls_connections_broken_total',
      'TLS connections broken off because the records of the client brought nothing.',
    ),
    proxyHeaderRefused: registry.events(
      'tollgate_proxy_headers_refused_total',
      'Connections from trusted proxies closed because no PROXY header came, or a malformed one.',
    ),
    sessionBroken: registry.counted(
      'tollgate_http2_sessions_broken_total',
      'HTTP/2 connections broken off: too many resets, too much besides requests, malformed, or not read.',
      'reason',
      ['resets', 'overhead', 'protocol', 'unread'],
    ),
  };
}
