import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { forward } from '../../../src/forward/forward.ts';
import { Upstream } from '../../../src/forward/upstream/upstream.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';
import { startRawUpstream } from '../../support/upstream.ts';

const REQUESTS = 100;

// Fault: a service ends, and its connections with it. All their requests were answered in one turn of the event loop.
test.each(['resetAndDestroy', 'end'] as const)(
  'requests whose connections a service closes at the same moment (%s) are ended in several turns (reliability 387)',
  async (close) => {
    const open: Socket[] = [];
    const { origin: target } = await startRawUpstream((socket) => void open.push(socket));
    const timeouts = { connectTimeoutMs: 60_000, responseTimeoutMs: 60_000, bodyTimeoutMs: 60_000 };
    const bounds = { maxConnections: REQUESTS, maxQueue: 0, fairShare: 1 };
    const pool = new Upstream({
      targets: [{ url: target, weight: 1 }],
      ...timeouts,
      ...bounds,
      tls: null,
      monotonicMs: () => performance.now(),
    });
    atEnd(() => pool.close());
    const ended: string[] = [];
    const perTurn: number[] = [];
    const turn = () => {
      perTurn.push(ended.length - perTurn.reduce((sum, count) => sum + count, 0));
      timer = setImmediate(turn);
    };
    let timer = setImmediate(() => {});
    const nothing = () => {};
    const server: Server = createServer((_request, response) => {
      forward(pool, pool.takePlace('any')!, { method: 'POST', target: '/', lines: '', body: null }, response, {
        ...{
          sent: nothing,
          record: { target: null, attempts: 1, isOverRetryBudget: false, bytesOut: 0 },
          time: { worked: nothing },
        },
        head: () => null,
        information: () => false,
        done: ({ kind }) => {
          ended.push(kind);
          response.end();
        },
        ...{ writeTimeoutMs: 1_000, timeouts: null, retries: null, reader: null },
      });
    });
    atEnd(() => server.closeAllConnections());
    const { origin } = await listen(server);
    const answers = Array.from({ length: REQUESTS }, () => fetch(origin).then((response) => response.text()));
    await eventually(() => expect(open).toHaveLength(REQUESTS));
    turn();
    atEnd(() => clearImmediate(timer));
    for (const socket of open) socket[close]();
    await Promise.all(answers);
    expect(ended).toEqual(Array.from({ length: REQUESTS }, () => 'failed'));
    await eventually(() => expect(perTurn.reduce((sum, count) => sum + count, 0)).toBe(REQUESTS));
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(8);
  },
);
