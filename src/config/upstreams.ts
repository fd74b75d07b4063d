import { resolve } from 'node:path';
import type { GatewayFile } from './gateway-file.ts';

/** One service behind the gateway. */
export interface Upstream {
  readonly name: string;
  /** Origins (`http://127.0.0.1:9000`) and sockets (`unix:/run/pets.sock`). At least one. */
  readonly targets: readonly string[];
  readonly connectTimeoutMs: number;
  /** From the request to the head of the answer. */
  readonly responseTimeoutMs: number;
  /** Longest pause between two pieces of the answer's body. */
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxQueue: number;
  /** The part of `maxConnections`, and of `maxQueue`, that one consumer may have: above 0, at most 1. */
  readonly fairShare: number;
  /** Null: no active checks. */
  readonly health: Health | null;
  /** Null: Node's defaults. */
  readonly tls: UpstreamTls | null;
}

/** The active health checks of an upstream's targets. */
export interface Health {
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly unhealthyAfter: number;
  readonly healthyAfter: number;
}

/** TLS to the targets of an upstream. `ca`, `cert` and `key` are absolute paths of PEM files. */
export interface UpstreamTls {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly serverName: string | null;
  readonly verify: boolean;
}

/** @param url UPSTREAM_URL, which replaces the targets; null if it is not set */
export function upstreamsOf(file: GatewayFile, url: string | null): ReadonlyMap<string, Upstream> {
  return new Map(
    Object.entries(file.upstreams).map(([name, upstream]): [string, Upstream] => [
      name,
      {
        name,
        targets: url === null ? upstream.targets : [url.startsWith('unix:') ? url : new URL(url).origin],
        connectTimeoutMs: upstream.connectTimeout,
        responseTimeoutMs: upstream.responseTimeout,
        bodyTimeoutMs: upstream.bodyTimeout,
        maxConnections: upstream.maxConnections,
        maxQueue: upstream.maxQueue,
        fairShare: upstream.fairShare,
        health: healthOf(upstream.health),
        tls: upstreamTlsOf(upstream.tls),
      },
    ]),
  );
}

type UpstreamEntry = GatewayFile['upstreams'][string];

function healthOf(health: UpstreamEntry['health']): Health | null {
  if (health === undefined) return null;
  const { interval, timeout, ...rest } = health;
  return { ...rest, intervalMs: interval, timeoutMs: timeout };
}

function upstreamTlsOf(tls: UpstreamEntry['tls']): UpstreamTls | null {
  if (tls === undefined) return null;
  const path = (file: string | undefined) => (file === undefined ? null : resolve(file));
  return {
    ca: path(tls.ca),
    cert: path(tls.cert),
    key: path(tls.key),
    serverName: tls.serverName ?? null,
    verify: tls.verify,
  };
}
