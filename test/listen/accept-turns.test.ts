import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { Arrival } from '../../src/io/entrance.ts';
import { AcceptTurns } from '../../src/listen/accept-turns.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { openListener } from '../support/listener.ts';

/** Turns, and the connections that they have opened and dropped, in order. None of them ends. */
function turns(limits = { maxConnections: 10_000, maxConnectionsPerAddress: 50 }, highest = Number.POSITIVE_INFINITY) {
  const opened: string[] = [];
  const dropped: string[] = [];
  const turns = new AcceptTurns({
    ...limits,
    count: () => opened.length,
    open: ({ remoteAddress }) => opened.push(remoteAddress),
    onDrop: () => {},
    isShort: (descriptor) => descriptor >= highest,
    nowMs: () => 0,
  });
  const take = (client: string, network: string | null = client, descriptor = 0) => {
    const remoteAddress = client;
    const arrival: Arrival = {
      ...{ remoteAddress, descriptor },
      open: () => expect.unreachable(),
      drop: () => dropped.push(client),
    };
    turns.take(arrival, network);
  };
  return { take, opened, dropped, waiting: () => turns.waiting, hold: (isHeld: boolean) => turns.hold(isHeld) };
}

const turn = () => new Promise(setImmediate);

// Attack: one address, without a key, opens connections as fast as it can.
test('a new connection is opened in the next turn, however many of another client wait (reliability 320)', async () => {
  const { take, opened, waiting } = turns();
  for (let i = 0; i < 20; i++) take('flood');
  await turn();
  expect(opened).toEqual(['flood']);
  take('calm');
  await turn();
  expect(opened).toEqual(['flood', 'flood', 'calm']);
  while (waiting() > 0) await turn();
  expect(opened).toHaveLength(21);
});

// Fault: a client that is answered with `Connection: close` connects again at once, so that the listener never closes with an empty queue.
test('what arrives while the listeners close is opened once they are closed (reliability 318)', async () => {
  const { take, opened, hold } = turns();
  hold(true);
  take('client');
  await turn();
  expect(opened).toEqual([]);
  hold(false);
  await turn();
  expect(opened).toEqual(['client']);
});

test('each connection of a trusted proxy has its own turn', async () => {
  const { take, opened } = turns();
  for (let i = 0; i < 3; i++) take('proxy', null);
  await turn();
  expect(opened).toEqual(['proxy', 'proxy', 'proxy']);
});

test.each([
  [600, 600],
  [2, 512],
])(
  'with maxConnectionsPerAddress %i, %i of a client wait, and further ones are dropped (reliability 320)',
  async (maxConnectionsPerAddress, most) => {
    const { take, dropped, waiting } = turns({ maxConnections: 10_000, maxConnectionsPerAddress });
    for (let i = 0; i < most; i++) take('flood');
    expect([waiting(), dropped]).toEqual([most, []]);
    take('flood');
    take('calm');
    expect([waiting(), dropped]).toEqual([most + 1, ['flood']]);
    while (waiting() > 0) await turn();
  },
);

test('those that wait and those that are open are not more than maxConnections: the next ones are opened at once (reliability 320)', async () => {
  const { take, opened, waiting } = turns({ maxConnections: 3, maxConnectionsPerAddress: 2 });
  for (const client of ['a', 'a', 'b']) take(client);
  expect([waiting(), opened]).toEqual([3, []]);
  take('c');
  expect([waiting(), opened]).toEqual([0, ['a', 'b', 'c', 'a']]);
});

test('while the process has few descriptors left, none wait (reliability 320)', () => {
  const { take, opened, waiting } = turns(undefined, 10);
  take('flood', 'flood', 8);
  take('flood', 'flood', 9);
  expect(waiting()).toBe(2);
  take('calm', 'calm', 10);
  expect([waiting(), opened]).toEqual([0, ['flood', 'calm', 'flood']]);
});

// Attack: while one turn of the event loop is long, thousands of connections arrive, of which Node accepts one in each turn.
test.runIf(process.platform === 'linux')(
  'many connections that arrive within one turn are accepted in a few (reliability 320)',
  async () => {
    const limits = { maxConnections: 1_000, maxConnectionsPerAddress: 1_000 };
    const { listener } = await openListener(limits);
    const ports = new Set<Socket>();
    atEnd(() => {
      for (const socket of ports) socket.destroy();
    });
    const open = (localAddress: string) => {
      const socket = createConnection({ port: listener.port, host: '127.0.0.1', localAddress });
      ports.add(socket.on('error', () => {}));
      return socket;
    };
    for (let i = 0; i < 300; i++) open('127.0.0.2');
    // Node connects in the next tick, and accepts nothing before it has polled.
    await new Promise(process.nextTick);
    const calm = open('127.0.0.3');
    calm.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(calm, 'data');
    // Those of the flood still wait, one is opened in each turn.
    expect(listener.connections()).toBeLessThan(150);
    await eventually(() => expect(listener.connections()).toBe(301));
  },
);

// Fault: sockets that share a port do not find out that another program has it, which then gets a part of the connections.
test('a port that is in use is refused, although listeners share it', async () => {
  const { listener } = await openListener();
  await expect(openListener({ port: listener.port })).rejects.toMatchObject({
    code: 'cannot_listen',
    message: expect.stringContaining('it is in use'),
  });
});
