import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { busyFor } from '../support/busy-for.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';
import { admitterOn, kindOf } from './admitter.ts';

const TIMEOUT_MS = 100;

/** A connection on which replies are read when this thread turns, as those of Redis. `reply` sends one. */
async function repliesOver() {
  const server = createServer();
  const client = connect((await listen(server)).port, '127.0.0.1');
  const [service] = (await once(server, 'connection')) as [Socket];
  atEnd(() => {
    client.destroy();
    service.destroy();
    server.close();
  });
  return { reply: () => service.write('reply'), read: () => once(client, 'data') };
}

// Attack: a gateway starts cold, or collects garbage, while requests of a key wait for the reply to the one before them. The store has
// answered at once, and has one unit left.
test('requests that wait for a call are decided by the store although this thread stalls for longer than the timeout (reliability 436)', async () => {
  const { reply, read } = await repliesOver();
  const { admitter, ledger } = admitterOn(undefined, { timeoutMs: TIMEOUT_MS });
  const plan = allowance({ minute: 2 });
  ledger.onTheWay = async () => {
    ledger.onTheWay = () => {};
    await read();
  };
  const first = admitter.admit('a', plan, 1);
  await new Promise(setImmediate);
  const behind = [admitter.admit('a', plan, 1), admitter.admit('a', plan, 1)];
  await new Promise(setImmediate);
  reply();
  busyFor(1.5 * TIMEOUT_MS);
  const admissions = await Promise.all([first, ...behind]);
  expect(admissions.map((it) => [kindOf(it), it.kind === 'decided' && it.source])).toEqual([
    ['admitted', 'store'],
    ['admitted', 'store'],
    ['refused', 'store'],
  ]);
});
