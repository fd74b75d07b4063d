import { Counter, Gauge, type Registry } from 'prom-client';
import type { TunnelEnd } from '../forward/tunnel.ts';

const OUTCOMES: readonly TunnelEnd[] = [
  'client_closed',
  'upstream_closed',
  'client_lost',
  'upstream_lost',
  'idle',
  'revoked',
  'expired',
  'drained',
];

export interface WebSocketMetrics {
  webSocketClosed(outcome: TunnelEnd): void;
}

/** @param open WebSockets that are open now */
export function webSocketMetrics(registry: Registry, open: () => number = () => 0): WebSocketMetrics {
  const registers = [registry];
  new Gauge({
    name: 'tollgate_websockets',
    help: 'WebSockets that are open.',
    registers,
    collect() {
      this.set(open());
    },
  });
  const ended = new Counter({
    name: 'tollgate_websockets_total',
    help: 'WebSockets that have ended, by how.',
    labelNames: ['outcome'],
    registers,
  });
  // A series that begins with its first count shows no increase of it.
  for (const outcome of OUTCOMES) ended.inc({ outcome }, 0);
  return { webSocketClosed: (outcome) => ended.inc({ outcome }) };
}
