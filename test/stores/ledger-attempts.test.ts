import { expect, test } from 'vitest';
import { Circuit } from '../../src/stores/redis/circuit.ts';
import type { RedisClient } from '../../src/stores/redis/connection.ts';
import type { DurableWrites } from '../../src/stores/redis/durable-writes.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { replyOf } from '../../tools/kit/message-pack.ts';
import { allowance } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

const byTheDay = allowance({ day: 5 }, null, { day: { calendar: { unit: 'day', zone: 'UTC', anchor: 1 } } });
const TIMEOUT_MS = 100;

/** A ledger on a connection that gives these replies in turn, each after so many milliseconds. */
function ledgerOn(replies: readonly { readonly afterMs: number; readonly value: string | Error }[]) {
  const sent: string[] = [];
  const sendCommand = ({
    name,
    resolve,
    reject,
  }: {
    name: string;
    resolve(reply: Buffer): void;
    reject(e: Error): void;
  }) => {
    const { afterMs, value } = replies[sent.push(name) - 1]!;
    setTimeout(() => (value instanceof Error ? reject(value) : resolve(replyOf(value))), afterMs);
  };
  const redis = { sendCommand } as unknown as RedisClient;
  const circuit = new Circuit({ timeoutMs: TIMEOUT_MS, failures: 3, probeEveryMs: 100, probe: async () => 'PONG' });
  const ledger = new RedisLedger({ redis, circuit, publish: async () => {}, writes: null as unknown as DurableWrites });
  let outcome = 'waits';
  ledger.decide([{ consumerId: 'a', allowance: byTheDay, cost: 1, n: 1 }]).then(
    ([decided]) => {
      outcome = `admitted ${decided?.admitted}`;
    },
    (error) => {
      outcome = error.constructor.name;
    },
  );
  return { sent, outcome: () => outcome };
}

test('a call that is repeated with other periods has one deadline in total', async () => {
  const pass = holdTime();
  const nowMs = Date.now() + 90 * 86_400_000;
  const inTime = ledgerOn([
    { afterMs: 60, value: `${nowMs}` },
    { afterMs: 30, value: `${nowMs} 3 1 1 ${nowMs + 1_000}` },
  ]);
  const late = ledgerOn([
    { afterMs: 60, value: `${nowMs}` },
    { afterMs: 60, value: `${nowMs} 3 1 1 ${nowMs + 1_000}` },
  ]);
  await pass(TIMEOUT_MS + 2);
  expect(inTime.outcome()).toBe('admitted 1');
  expect(late.outcome()).toBe('Late');
});

test('nothing more is sent for a call that was given up', async () => {
  const pass = holdTime();
  const unknown = ledgerOn([{ afterMs: 120, value: new Error('NOSCRIPT No matching script.') }]);
  const undecided = ledgerOn([{ afterMs: 120, value: `${Date.now() + 90 * 86_400_000}` }]);
  await pass(200);
  expect([unknown.outcome(), undecided.outcome()]).toEqual(['Late', 'Late']);
  expect([unknown.sent, undecided.sent]).toEqual([['evalsha'], ['evalsha']]);
});

test('a reply that is no number fails the call and not the connection', async () => {
  const pass = holdTime();
  const { outcome } = ledgerOn([{ afterMs: 1, value: 'nonsense' }]);
  await pass(2);
  expect(outcome()).toBe('Failure');
});
