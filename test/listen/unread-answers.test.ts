import { createConnection, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { ClientResponse } from '../../src/http1/client.ts';
import { reset } from '../../src/io/graceful-close.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { openListener, READING } from '../support/listener.ts';
import { Wire } from './fast-path/wire.ts';

/** A listener that is given one connection, and answers its requests at once. */
async function served(wire: Wire, writeTimeoutMs: number) {
  const feed = { open: (take: (socket: Socket, isFull: boolean) => void) => take(wire as unknown as Socket, false) };
  return (await openListener({ writeTimeoutMs, feed })).responses;
}

// Attack: a client asks and never reads, so that each of its connections costs one of maxConnections for ever.
test.each([
  ['that the fast path serves', ''],
  ['that Node’s parser reads', 'X-High: \xe9\r\n'],
])(
  'a client that does not take the answer to a request %s is given up after writeTimeout (reliability 63, 96)',
  async (_, field) => {
    const request = Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${field}\r\n`, 'latin1');
    const [stuck, slow] = [new Wire(), new Wire()];
    const all = [await served(stuck, 50), await served(slow, 60_000)];
    for (const wire of [stuck, slow]) {
      wire.takes = false;
      wire.push(request);
    }
    await eventually(() => expect(all.map(({ length }) => length)).toEqual([1, 1]));
    await eventually(() => expect(stuck.destroyed).toBe(true));
    expect(slow.destroyed).toBe(false);
    slow.go();
    slow.push(request);
    await eventually(() => expect(slow.text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2));
    slow.destroy();
  },
);

// Fault: Node cannot reset a connection whose own half is being closed, and never closes it after that: it stayed one of maxConnections.
test.each([
  ['that the fast path serves', ''],
  ['that Node’s parser reads', 'X-High: \xe9\r\n'],
])(
  'a client closes its half at the moment at which the answer to a request %s breaks off: its connection is closed (reliability 430)',
  async (_, field) => {
    const { promise: asked, resolve: handle } = Promise.withResolvers<ClientResponse>();
    const { listener } = await openListener({
      handler: { ...READING, mayUpgrade: () => false, handle: (_request, response) => handle(response) },
    });
    const client = createConnection(listener.port, '127.0.0.1').on('error', () => {});
    atEnd(() => client.destroy());
    client.write(`GET / HTTP/1.1\r\nHost: a\r\n${field}\r\n`, 'latin1');
    const response = await asked;
    response.writeHead(200, ['Content-Length', '100']);
    response.write(Buffer.from('half'));
    const socket = response.socket!;
    // Behind the listener's own, in the same turn of the event loop.
    socket.once('end', () => reset(socket));
    client.end();
    await eventually(() => expect(socket.readableEnded).toBe(true));
    await eventually(() => expect(listener.connections()).toBe(0));
  },
);
