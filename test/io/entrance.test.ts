import { createConnection, Server, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Arrival, type Entrance, openEntrance } from '../../src/io/entrance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { freePort } from '../support/free-port.ts';

const HOST = '127.0.0.1';

async function open(port: number, onArrival: (arrival: Arrival) => void = () => {}): Promise<Entrance> {
  const entrance = await openEntrance({ host: HOST, port, paused: false, onArrival });
  atEnd(() => entrance.close());
  return entrance;
}

/** What a client of a port gets: it is refused, or open, or was open and has been closed. */
function client(port: number): { readonly socket: Socket; fate: string } {
  const own = { socket: createConnection(port, HOST), fate: 'none' };
  own.socket.once('connect', () => {
    own.fate = 'open';
  });
  own.socket.once('error', (error: NodeJS.ErrnoException) => {
    own.fate = error.code ?? '';
  });
  own.socket.once('end', () => {
    own.fate = 'ended';
  });
  atEnd(() => own.socket.destroy());
  return own;
}

/** Calls `instead` in place of `listen` with the port that a listener shares. */
function onSharedListen(instead: (server: Server, listen: () => void) => void): void {
  const { listen } = Server.prototype;
  vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server, ...args: unknown[]) {
    const isShared = (args[0] as { readonly reusePort?: boolean }).reusePort === true;
    if (!isShared) return Reflect.apply(listen, this, args);
    instead(this, () => Reflect.apply(listen, this, args));
    return this;
  });
  onTestFinished(() => {
    vi.restoreAllMocks();
  });
}

// Fault: listeners that share a port do not find out that another gateway has it, which then gets a part of the connections.
test('of two gateways that start at once on one port one fails (reliability 314)', async () => {
  const port = await freePort();
  let isFirst = true;
  onSharedListen(async (_, listen) => {
    const turns = isFirst ? 100 : 0;
    isFirst = false;
    // The other one looks meanwhile whether the port is free.
    for (let i = 0; i < turns; i++) await turn();
    listen();
  });
  const settled = await Promise.allSettled([open(port), turn().then(() => open(port))]);
  const failed = settled.filter((it) => it.status === 'rejected');
  expect(failed.map(({ reason }) => reason)).toMatchObject([
    { code: 'cannot_listen', message: expect.stringContaining('it is in use') },
  ]);
});

test('gateways that choose their port have one each (reliability 314)', async () => {
  const entrances = await Promise.all(Array.from({ length: 20 }, () => open(0)));
  expect(new Set(entrances.map(({ port }) => port)).size).toBe(20);
});

test('a client that connects while the gateway starts is refused or served (reliability 314)', async () => {
  const port = await freePort();
  const opening = open(port, (arrival) => arrival.open());
  let isOpen = false;
  void opening.finally(() => {
    isOpen = true;
  });
  const clients = [client(port)];
  while (!isOpen) {
    await turn();
    clients.push(client(port));
  }
  await eventually(() => expect(clients.map(({ fate }) => fate)).not.toContain('none'));
  const last = client(port);
  await eventually(() => expect(last.fate).toBe('open'));
  expect(new Set(clients.map(({ fate }) => fate)).difference(new Set(['ECONNREFUSED', 'open']))).toEqual(new Set());
});

// Fault: some kernels and sandboxes have no SO_REUSEPORT.
test('without SO_REUSEPORT there is one listener (reliability 314)', async () => {
  onSharedListen((server) => {
    const error = Object.assign(new Error('setsockopt ENOPROTOOPT'), { code: 'ENOPROTOOPT' });
    process.nextTick(() => server.emit('error', error));
  });
  const arrivals: Arrival[] = [];
  const entrance = await open(0, (arrival) => arrivals.push(arrival));
  for (let i = 0; i < 10; i++) client(entrance.port);
  await eventually(() => expect(arrivals).toHaveLength(10));
  await expect(open(entrance.port)).rejects.toMatchObject({ code: 'cannot_listen' });
});
