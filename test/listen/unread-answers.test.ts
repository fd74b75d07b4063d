import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openListener } from '../support/listener.ts';
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
