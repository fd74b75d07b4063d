import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { ClientResponse } from '../../src/http1/client.ts';
import { OpenFiles } from '../../src/listen/open-files.ts';
import { listenPublic } from '../../src/listen/public.ts';
import { eventually } from '../support/conditions.ts';
import { Wire } from './fast-path/wire.ts';

const never = () => {
  throw new Error('this does not happen here');
};

/** A listener that is given one connection, and answers its requests at once. */
async function served(wire: Wire, writeTimeoutMs: number): Promise<ClientResponse[]> {
  const responses: ClientResponse[] = [];
  await listenPublic({
    ...{
      host: '127.0.0.1',
      port: 0,
      maxConnections: 10,
      maxConnectionsPerAddress: 10,
      openFiles: new OpenFiles(Number.POSITIVE_INFINITY),
      isShortOfMemory: () => false,
      onEvict: never,
      trustedProxies: [],
      proxyProtocol: false,
      tls: null,
      http2: null,
    },
    ...{ maxUrlBytes: 8_192, maxHeaderBytes: 16_384, maxBodyBytes: 1_024 },
    ...{ headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, idleTimeoutMs: 60_000, writeTimeoutMs },
    ...{
      onDrop: never,
      onUnparsed: never,
      onBadProxyHeader: never,
      onHandshakeFailure: never,
      onSessionBroken: never,
      onPlainHttp: never,
    },
    wallMs: () => 0,
    breakOff: () => false,
    handler: {
      mayUpgrade: () => false,
      read: (_, work) => work(),
      readLater: (_, work) => void setImmediate(work),
      handle: (_, response) => {
        responses.push(response);
        response.writeHead(200, ['Content-Length', '2']);
        response.end('{}');
      },
    },
    feed: { open: (take) => take(wire as unknown as Socket, false) },
  });
  return responses;
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
