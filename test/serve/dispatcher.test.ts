import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { Arrival } from '../../src/io/entrance.ts';
import { Dispatcher } from '../../src/serve/workers/dispatcher.ts';

/** A dispatcher with one worker, and what it has handed over and dropped, in order. */
function dispatcher(maxConnections = 10_000) {
  const dropped: string[] = [];
  const dispatcher = new Dispatcher({
    maxConnections,
    maxConnectionsPerAddress: 600,
    onDrop: (shortage) => dropped.push(shortage),
    nowMs: () => 0,
  });
  const handed: string[] = [];
  const worker = { hand: (socket: Socket) => handed.push(socket.remoteAddress!) };
  dispatcher.join(worker);
  const offer = (remoteAddress: string) => {
    const drop = () => dropped.push(remoteAddress);
    const socket = Object.assign(new EventEmitter(), { remoteAddress, destroy: drop }) as unknown as Socket;
    const arrival: Arrival = { remoteAddress, descriptor: 0, open: () => socket, drop };
    dispatcher.offer(arrival, remoteAddress);
  };
  return { dispatcher, worker, handed, dropped, offer };
}

// Attack: one address opens connections faster than the workers take them, and all others wait behind them.
test('the client addresses take turns, whoever has more connections waiting (reliability 320)', () => {
  const { dispatcher: fair, worker, handed, offer } = dispatcher();
  for (let i = 0; i < 100; i++) offer('flood');
  offer('calm');
  for (let i = 0; i < 2; i++) fair.taken(worker);
  expect(handed).toEqual(['flood', 'flood', 'calm']);
});

test('a connection that a worker has not taken when it ends is the next', () => {
  const { dispatcher: fair, worker, handed, offer } = dispatcher();
  for (const client of ['first', 'second']) offer(client);
  fair.leave(worker);
  fair.join(worker);
  expect(handed).toEqual(['first', 'first']);
});

test('of one client only so many wait, and while all are full the newest of the client with most is dropped (reliability 320)', () => {
  const one = dispatcher();
  for (let i = 0; i < 602; i++) one.offer('flood');
  expect(one.dropped).toEqual(['flood', 'address']);
  const all = dispatcher(10);
  for (let i = 0; i < 65; i++) all.offer('flood');
  all.offer('calm');
  expect(all.dropped).toEqual(['flood', 'connections']);
});
