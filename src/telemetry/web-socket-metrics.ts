import { Counter, Gauge, type Registry } from 'prom-client';
import type { TunnelEnd } from '../forward/tunnel.ts';

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
  return { webSocketClosed: (outcome) => ended.inc({ outcome }) };
}
