import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { Deadlines, UNWATCHED } from '../../src/io/deadlines.ts';
import { STEPS_PER_SLICE } from '../../src/io/steps.ts';
import { Connections } from '../../src/listen/connections.ts';
import { eventually } from '../support/conditions.ts';
import { countTurns } from '../support/count-turns.ts';
import { atEnd } from '../support/endings.ts';
import { openListener } from '../support/listener.ts';
import { Wire } from './fast-path/wire.ts';

const CLIENTS = 200;

// Attack: 4,000 clients send half of a head at the same moment. To answer them all in one turn took 80 ms.
test('clients whose heads are late at the same moment get 408 in turns (reliability 416)', async () => {
  const counted = countTurns();
  const codes = new Set<string>();
  const { listener } = await openListener({
    headersTimeoutMs: 1_000,
    maxConnections: CLIENTS,
    maxConnectionsPerAddress: CLIENTS,
    onUnparsed: (code) => {
      codes.add(code);
      counted.done();
    },
  });
  let answers = 0;
  const sockets = Array.from({ length: CLIENTS }, (): Socket => {
    const socket = connect(listener.port, '127.0.0.1').on('error', () => {});
    atEnd(() => socket.destroy());
    socket.on('data', (bytes) => {
      if (bytes.toString('latin1').startsWith('HTTP/1.1 408 ')) answers++;
    });
    return socket;
  });
  for (const socket of sockets) socket.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-A: ');
  await eventually(() => expect(answers).toBe(CLIENTS));
  expect(codes).toEqual(new Set(['request_timeout']));
  expect(counted.all).toBe(CLIENTS);
  expect(counted.most).toBeLessThanOrEqual(8);
});

// Attack: 4,000 clients connect at the same moment and send nothing, or wait for services that do not answer.
test('deadlines that pass at the same moment are acted on for a millisecond in each turn, each once (reliability 416)', async () => {
  const counted = countTurns();
  let nowMs = 0;
  const deadlines = new Deadlines(() => nowMs);
  const times = new Map<number, number>();
  const watched = Array.from({ length: CLIENTS }, (_, i) => ({
    deadlineAtMs: i < CLIENTS - 1 ? 10 : Number.POSITIVE_INFINITY,
    slot: UNWATCHED,
    onDeadline: () => {
      times.set(i, (times.get(i) ?? 0) + 1);
      nowMs += 0.3;
      // Each second one is forgotten, as a connection is that ends.
      if (i % 2 === 0) deadlines.forget(watched[i]!);
      counted.done();
    },
  }));
  for (const one of watched) deadlines.watch(one);
  atEnd(() => {
    for (const one of watched) deadlines.forget(one);
  });
  nowMs = 10;
  await eventually(() => expect(counted.all).toBe(CLIENTS - 1));
  expect(new Set(times.values())).toEqual(new Set([1]));
  expect(counted.most).toBeLessThanOrEqual(4);
});

// Fault: the heap guard closed all idle connections in one turn.
test('connections that are closed because memory is short end in slices, each once (reliability 441)', async () => {
  const counted = countTurns();
  const limits = { maxConnections: 1_000, maxConnectionsPerAddress: 1_000 };
  const connections = new Connections(limits, () => performance.now());
  const sockets = Array.from({ length: 5 * CLIENTS }, () => new Wire() as unknown as Socket);
  for (const socket of sockets) connections.add(socket);
  for (let look = 0; look < 2; look++) connections.closeIdle(counted.done);
  await eventually(() => expect(connections.count).toBe(0));
  expect(counted.all).toBe(sockets.length);
  expect(counted.most).toBeLessThanOrEqual(STEPS_PER_SLICE);
});
