import { Counter, Gauge, type Registry } from 'prom-client';

/** What is counted of connections before there is a request on them. */
export interface ConnectionMetrics {
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
): ConnectionMetrics {
  const registers = [registry];
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
  for (const outcome of ['loaded', 'refused']) reloads.inc({ outcome }, 0);
  for (const reason of ['resets', 'overhead', 'protocol']) sessions.inc({ reason }, 0);
  return {
    certificateRead: (outcome) => reloads.inc({ outcome }),
    handshakeFailed: () => handshakes.inc(),
    proxyHeaderRefused: () => headers.inc(),
    sessionBroken: (reason) => sessions.inc({ reason }),
  };
}
