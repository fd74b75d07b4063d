import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { Link } from '../../../tools/kit/link.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';

let link: Link;
/** What the server has heard of all connections. */
let heard: string;

beforeEach(async () => {
  heard = '';
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      heard += bytes;
      socket.write(`re:${bytes}`);
    });
  });
  const { port } = await listen(server);
  atEnd(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  link = await Link.open(port);
  atEnd(() => link.close());
});

/** A client of the link, and what it has been told. */
async function client() {
  const socket = createConnection(link.port, '127.0.0.1');
  atEnd(() => socket.destroy());
  const told = { text: '', ended: false, send: (text: string) => void socket.write(text) };
  socket.on('data', (bytes) => {
    told.text += bytes;
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    told.ended = true;
  });
  await once(socket, 'connect');
  return told;
}

test('passes bytes both ways', async () => {
  const it = await client();
  it.send('a');
  await eventually(() => expect(it.text).toBe('re:a'));
});

test('a delay lasts as long as it says each way, and bytes never overtake others when it changes', async () => {
  const it = await client();
  const sentAtMs = performance.now();
  link.become('pass', 60);
  for (const letter of 'abcdef') {
    it.send(letter);
    await delay(1);
  }
  link.become('pass');
  it.send('g');
  await eventually(() => expect(heard).toBe('abcdefg'));
  expect(performance.now() - sentAtMs).toBeGreaterThan(55);
});

test('a cut resets what is open and what comes, until it is healed', async () => {
  const before = await client();
  link.become('cut');
  await eventually(() => before.ended);
  const during = await client().catch(() => ({ ended: true }));
  await eventually(() => during.ended);
  link.become('pass');
  const after = await client();
  after.send('a');
  await eventually(() => expect(after.text).toBe('re:a'));
  expect(link.connections).toBe(1);
});

test('swallowed replies are lost although the server did what it was asked, and their connection with them', async () => {
  const [it, idle] = [await client(), await client()];
  link.become('swallow');
  it.send('a');
  await eventually(() => expect(heard).toBe('a'));
  expect([it.text, it.ended]).toEqual(['', false]);
  link.become('pass');
  await eventually(() => it.ended);
  idle.send('b');
  await eventually(() => expect(idle.text).toBe('re:b'));
});

test('what was half-open stays dead without a word when the link is healed, and new connections live', async () => {
  const [before, during] = [await client(), await client()];
  before.send('a');
  await eventually(() => expect(before.text).toBe('re:a'));
  link.become('halfOpen');
  const late = await client();
  link.become('pass');
  for (const dead of [before, during, late]) dead.send('x');
  const after = await client();
  after.send('b');
  await eventually(() => expect(after.text).toBe('re:b'));
  expect(heard).toBe('ab');
  expect([before.ended, during.ended, late.ended]).toEqual([false, false, false]);
});
