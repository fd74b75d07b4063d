import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { HANDSHAKES_PER_SECOND, HandshakeTurns } from '../../src/listen/handshake-turns.ts';

function turns() {
  const clock = { ms: 1_000 };
  const begun: Socket[] = [];
  let failed = 0;
  const made = new HandshakeTurns({
    timeoutMs: 5_000,
    begin: (socket) => begun.push(socket),
    onFailure: () => {
      failed++;
    },
    nowMs: () => clock.ms,
  });
  const arrive = (count: number, address: string | null) =>
    Array.from({ length: count }, () => {
      const socket = new Socket();
      made.take(socket, address);
      return socket;
    });
  const pass = (ms: number) => {
    clock.ms += ms;
    made.look();
  };
  return { begun, arrive, pass, failed: () => failed };
}

test('one address begins a number of handshakes a second, the oldest first, and another one does not wait (reliability 224)', () => {
  const { begun, arrive, pass } = turns();
  const flood = arrive(250, '192.0.2.1');
  expect(begun).toEqual(flood.slice(0, HANDSHAKES_PER_SECOND));
  const [other] = arrive(1, '192.0.2.2');
  expect(begun.at(-1)).toBe(other);
  pass(1_000);
  expect(begun.length).toBe(2 * HANDSHAKES_PER_SECOND + 1);
  pass(1_000);
  expect(begun.filter((socket) => socket !== other)).toEqual(flood);
});

test('a connection that waits too long is closed and counted, and one that is closed no longer waits', async () => {
  const { begun, arrive, pass, failed } = turns();
  const flood = arrive(HANDSHAKES_PER_SECOND + 800, '192.0.2.1');
  flood[HANDSHAKES_PER_SECOND]!.destroy();
  await new Promise(setImmediate);
  pass(5_000);
  expect(begun.length).toBe(HANDSHAKES_PER_SECOND);
  expect(failed()).toBe(799);
  expect(flood.at(-1)!.destroyed).toBe(true);
});

test('a trusted proxy, which connects for many clients, has no bound', () => {
  const { begun, arrive } = turns();
  arrive(500, null);
  expect(begun.length).toBe(500);
});
