import type { ClientResponse } from '../../src/http1/client.ts';
import { OpenFiles } from '../../src/listen/open-files.ts';
import { listenPublic } from '../../src/listen/public.ts';

type ListenerOptions = Parameters<typeof listenPublic>[0];

const never = () => {
  throw new Error('this does not happen here');
};

/** Reads every piece of a body as it arrives. */
export const READING: Pick<ListenerOptions['handler'], 'read' | 'readLater'> = {
  read: (_, work) => {
    work();
    return true;
  },
  readLater: (_, work) => void setImmediate(work),
};

/** A public listener in the process of the test, and the responses that it has sent: each request is answered at once. */
export async function openListener(options: Partial<ListenerOptions> = {}) {
  const responses: ClientResponse[] = [];
  const listener = await listenPublic({
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
      feed: null,
    },
    ...{ maxUrlBytes: 8_192, maxHeaderBytes: 16_384, maxBodyBytes: 1_024 },
    ...{ headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, idleTimeoutMs: 60_000, writeTimeoutMs: 60_000 },
    ...{
      onDrop: never,
      onUnparsed: never,
      onBadProxyHeader: never,
      onHandshakeFailure: never,
      onTlsWaste: never,
      onSessionBroken: never,
      onPlainHttp: never,
    },
    wallMs: () => 0,
    breakOff: () => false,
    formed: ({ status, body }) => ({ status, fields: ['Content-Length', String(Buffer.byteLength(body))], body }),
    handler: {
      ...READING,
      mayUpgrade: () => false,
      handle: (_, response) => {
        responses.push(response);
        response.writeHead(200, ['Content-Length', '2']);
        response.end('{}');
      },
    },
    ...options,
  });
  return { listener, responses };
}
