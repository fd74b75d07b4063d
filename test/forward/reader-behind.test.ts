import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { ForwardResult } from '../../src/forward/faults.ts';
import { forward } from '../../src/forward/forward.ts';
import { Upstream } from '../../src/forward/upstream/upstream.ts';
import { type Timed, UNWATCHED } from '../../src/io/deadlines.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';
import { startRawUpstream } from '../support/upstream.ts';

// Fault: the cost of an answer is read in the turns of its consumer, and the client was disconnected for it.
test('an answer whose reader is behind waits for it beyond writeTimeout: the client is not late (reliability 292)', async () => {
  let service: Socket | null = null;
  const { origin: target } = await startRawUpstream((socket) => {
    service = socket;
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na');
  });
  const clock = { nowMs: 0 };
  const timeouts = { connectTimeoutMs: 5_000, responseTimeoutMs: 5_000, bodyTimeoutMs: 5_000 };
  const bounds = { maxConnections: 10, maxQueue: 0, fairShare: 1 };
  const pool = new Upstream({
    targets: [{ url: target, weight: 1 }],
    ...timeouts,
    ...bounds,
    tls: null,
    monotonicMs: () => clock.nowMs,
  });
  atEnd(() => pool.close());
  const results: ForwardResult[] = [];
  const waiting: (() => void)[] = [];
  const reader = { isBehind: true, chunk: () => {}, whenCaughtUp: (next: () => void) => waiting.push(next) };
  const nothing = () => {};
  const server: Server = createServer((_request, response) => {
    forward(pool, pool.takePlace('any')!, { method: 'GET', target: '/', lines: '', body: null }, response, {
      ...{
        sent: nothing,
        record: { target: null, attempts: 1, isOverRetryBudget: false, bytesOut: 0 },
        time: { worked: nothing },
      },
      head: () => {
        response.writeHead(200, { 'content-length': 2 });
        return null;
      },
      information: () => false,
      done: (result) => results.push(result),
      ...{ writeTimeoutMs: 1_000, timeouts: null, retries: null, reader },
    });
  });
  atEnd(() => server.closeAllConnections());
  const { origin } = await listen(server);
  const answer = fetch(origin).then((response) => response.text());
  answer.catch(nothing);
  await eventually(() => expect(waiting).toHaveLength(1));
  clock.nowMs = 60_000;
  // All deadlines are checked at once.
  await new Promise<void>((onDeadline) => {
    const last: Timed = { deadlineAtMs: 0, slot: UNWATCHED, onDeadline };
    pool.deadlines.watch(last);
    atEnd(() => pool.deadlines.forget(last));
  });
  expect(results).toEqual([]);
  reader.isBehind = false;
  waiting[0]!();
  service!.write('b');
  expect(await answer).toBe('ab');
  expect(results).toEqual([{ kind: 'answered' }]);
});
