import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type EventStream, EventStreams, MAX_STREAMS } from '../../src/admin/event-streams.ts';
import { send } from '../../src/admin/response.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { followEvents } from './event-reader.ts';

/** A server whose every request opens a stream of events. */
async function streamServer(signal?: AbortSignal) {
  const clock = { nowMs: 0 };
  const streams = new EventStreams(() => clock.nowMs, 50);
  const open: EventStream[] = [];
  let ended = 0;
  const server = createServer((request, response) => {
    const begin = (stream: EventStream) => {
      open.push(stream);
      return () => {
        ended++;
      };
    };
    const refusal = streams.serve(request, response, { begin, signal, person: request.url! }, 'id');
    if (refusal !== null) send(request, response, refusal, 'id');
  });
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { clock, streams, open, ended: () => ended, adminPort: (server.address() as AddressInfo).port };
}

/** Opens a stream and never reads from it. */
async function deafReader({ adminPort, open }: Awaited<ReturnType<typeof streamServer>>): Promise<EventStream> {
  const socket = connect({ host: '127.0.0.1', port: adminPort });
  atEnd(() => socket.destroy());
  socket.on('error', () => {});
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  return eventually(() => {
    expect(open).toHaveLength(1);
    return open[0]!;
  });
}

/** Fills what the system holds for a reader that does not read, and not much more. */
async function fill(stream: EventStream): Promise<void> {
  while (!stream.hasUnread) {
    stream.send('now', JSON.stringify('x'.repeat(20_000)));
    await setImmediate();
  }
}

test('a reader that does not read is cut before a megabyte more than the system holds is held for it', async () => {
  const server = await streamServer();
  const stream = await deafReader(server);
  const data = JSON.stringify('x'.repeat(100_000));
  let sent = 0;
  await eventually(
    () => {
      for (let i = 0; i < 5 && stream.isOpen; i++) {
        stream.send('now', data);
        sent += data.length;
      }
      expect(stream.isOpen).toBe(false);
    },
    { withinMs: 10_000 },
  );
  expect(sent).toBeLessThan(30_000_000);
  await eventually(() => expect(server.ended()).toBe(1));
});

test('a reader that leaves a few bytes unread is cut after 30 s', async () => {
  const server = await streamServer();
  const stream = await deafReader(server);
  await fill(stream);
  server.clock.nowMs = 30_000;
  stream.beat();
  expect(stream.isOpen).toBe(true);
  server.clock.nowMs = 30_001;
  stream.beat();
  expect(stream.isOpen).toBe(false);
});

test('a reader that does not read loses its place soon after its stream has ended (reliability 169)', async () => {
  const session = new AbortController();
  const server = await streamServer(session.signal);
  const stream = await deafReader(server);
  await fill(stream);
  session.abort();
  await eventually(() => expect(server.ended()).toBe(1), { withinMs: 3_000 });
});

test('a stream ends with its reason when the session ends that it was opened by', async () => {
  const session = new AbortController();
  const server = await streamServer(session.signal);
  const reader = await followEvents(server, '/');
  server.open[0]!.send('now', '{}');
  session.abort();
  await eventually(() => expect(reader.hasEnded()).toBe(true));
  expect(reader.events).toEqual([
    { event: 'now', data: {} },
    { event: 'end', data: { reason: 'The session has ended.' } },
  ]);
  expect(server.ended()).toBe(1);
  const late = await followEvents(server, '/');
  await eventually(() => expect(late.hasEnded()).toBe(true));
  expect(server.open).toHaveLength(1);
});

test('a stream beats every 2 s, so that a reader notices a gateway that hangs', async () => {
  const server = await streamServer();
  const reader = await followEvents(server, '/');
  await eventually(() => expect(reader.beats()).toBeGreaterThan(1), { withinMs: 8_000 });
  expect(reader.events).toEqual([]);
});

test('an event that is sent after the end of a stream is dropped', async () => {
  const server = await streamServer();
  const reader = await followEvents(server, '/');
  server.streams.end('over');
  server.open[0]!.send('now', '{}');
  server.open[0]!.end('again');
  await eventually(() => expect(reader.hasEnded()).toBe(true));
  expect(reader.events).toEqual([{ event: 'end', data: { reason: 'over' } }]);
});

test('one person cannot hold all streams: for another one the oldest of who has most ends (reliability 239)', async () => {
  const { adminPort, open, ended } = await streamServer();
  const many: Awaited<ReturnType<typeof followEvents>>[] = [];
  for (let i = 0; i < MAX_STREAMS; i++) many.push(await followEvents({ adminPort }, '/many'));
  expect((await followEvents({ adminPort }, '/many')).status).toBe(429);
  const others: typeof many = [];
  for (let i = 1; i < MAX_STREAMS / 2; i++) {
    const other = await followEvents({ adminPort }, '/other');
    others.push(other);
    expect(other.status).toBe(200);
    await eventually(() => expect(many[i - 1]!.hasEnded()).toBe(true));
    expect(many[i - 1]!.events).toMatchObject([{ event: 'end', data: { reason: expect.stringMatching(/most/) } }]);
  }
  // The shares are equal with the next one, and after that nobody takes anything from the other.
  expect((await followEvents({ adminPort }, '/other')).status).toBe(200);
  for (const person of ['/many', '/other']) expect((await followEvents({ adminPort }, person)).status).toBe(429);
  expect(others.some((other) => other.hasEnded())).toBe(false);
  expect(open.filter(({ isOpen }) => isOpen)).toHaveLength(MAX_STREAMS);
  expect(ended()).toBe(MAX_STREAMS / 2);
});
