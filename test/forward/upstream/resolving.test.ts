import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { type ConnectionWaiter, Upstream } from '../../../src/forward/upstream/upstream.ts';
import type { UpstreamConnection } from '../../../src/forward/upstream/upstream-connection.ts';
import type { ResponseHead } from '../../../src/http1/response-reader.ts';

// The service moves: its name gets another address, while the gateway has good connections to the old one.
test('a changed address is used at the latest when a connection is 30 s old, however busy it is', async () => {
  let nowMs = 0;
  let address = '127.0.0.1';
  const lookups: string[] = [];
  const seen: string[] = [];
  const serve = async (host: string, onPort: number) => {
    const server = createServer((socket: Socket) => {
      socket.on('data', () => {
        seen.push(host);
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      });
      socket.on('error', () => {});
    });
    server.listen(onPort, host);
    await once(server, 'listening');
    return server;
  };
  const old = await serve('127.0.0.1', 0);
  const { port } = old.address() as AddressInfo;
  const moved = await serve('127.0.0.2', port);
  const upstream = new Upstream({
    targets: [{ url: `http://pets.internal:${port}`, weight: 1 }],
    connectTimeoutMs: 1_000,
    responseTimeoutMs: 1_000,
    bodyTimeoutMs: 1_000,
    maxConnections: 1,
    maxQueue: 0,
    fairShare: 1,
    tls: null,
    monotonicMs: () => nowMs,
    lookup: (name, _options, callback) => {
      lookups.push(name);
      callback(null, [{ address, family: 4 }]);
    },
  });
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      const turn: ConnectionWaiter = {
        share: upstream.takePlace('key_1')!,
        place: null,
        onTarget: () => {},
        onConnecting: () => {},
        onNotConnected: reject,
        onConnected: (connection: UpstreamConnection) =>
          connection.carry(
            { method: 'GET', target: '/', lines: '', body: null },
            {
              share: {},
              onInformation: () => {},
              onHead: (_head: ResponseHead) => {},
              onData: () => {},
              onPause: () => {},
              onWhole: () => {},
              isBufferReleased: true,
              onBodySent: () => {},
              worked: () => {},
              onBroken: reject,
              onBodyFault: reject,
              onEnd: () => {},
              onFree: () => {
                upstream.leave(turn);
                resolve();
              },
            },
          ),
      };
      upstream.enter(turn);
    });
  await ask();
  address = '127.0.0.2';
  for (nowMs = 1_000; nowMs <= 30_000; nowMs += 1_000) await ask();
  expect(new Set(seen)).toEqual(new Set(['127.0.0.1']));
  expect(lookups).toHaveLength(1);
  nowMs = 31_000;
  await ask();
  await ask();
  expect(seen.at(-1)).toBe('127.0.0.2');
  expect(lookups).toEqual(['pets.internal', 'pets.internal']);
  upstream.close();
  old.close();
  moved.close();
});
