import { createServer, type Socket } from 'node:net';
import { atEnd } from './endings.ts';
import { contentLengthOf, type Head, readChunked, readHead, readSized, valuesOf } from './http-message.ts';
import { countConnections, listen } from './listening.ts';

/** Which request a handler is called for: connections count from 1, and so do the requests on one. */
export interface RawRequest {
  readonly connection: number;
  readonly request: number;
}

export interface RawUpstream {
  readonly origin: string;
  readonly port: number;
  /** Everything that arrived, by connection. */
  readonly received: readonly Buffer[];
  /** What arrived and was no HTTP/1.1: a gateway that forwards it has been tricked. The connection is cut. */
  readonly refused: readonly unknown[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections open now. */
  readonly open: number;
  /** Cuts all connections and stops listening. At the end of the test it happens by itself. */
  close(): Promise<void>;
}

/**
 * An upstream that answers with whatever bytes the handler writes, or with none. The handler is called when the head of
 * a request has arrived, with all bytes of that request so far; a body is read past by its framing to find the next
 * head. When the gateway closes its half, so does the upstream.
 */
export async function startRawUpstream(
  handler: (socket: Socket, requestBytes: Buffer, which: RawRequest) => unknown,
): Promise<RawUpstream> {
  const received: Buffer[] = [];
  const refused: unknown[] = [];
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  const connections = countConnections(server, (socket, connection) => {
    const next = requestReader((bytes, request) => handler(socket, bytes, { connection, request }));
    received[connection - 1] = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      const bytes = Buffer.concat([received[connection - 1] as Buffer, chunk]);
      received[connection - 1] = bytes;
      try {
        next(bytes);
      } catch (error) {
        refused.push(error);
        socket.destroy();
      }
    });
    socket.on('end', () => socket.end());
  });
  const address = await listen(server);
  atEnd(connections.close);
  return {
    ...address,
    received,
    refused,
    get connections() {
      return connections.accepted;
    },
    get open() {
      return connections.open;
    },
    close: connections.close,
  };
}

/** @returns a function that is given all bytes of a connection each time there are more */
function requestReader(onRequest: (bytes: Buffer, request: number) => unknown): (bytes: Buffer) => void {
  let start = 0;
  let request = 0;
  let inBody = false;
  return (bytes) => {
    for (;;) {
      const head = readHead(bytes, start);
      if (head === null) return;
      if (!inBody) {
        request += 1;
        inBody = true;
        onRequest(bytes.subarray(start), request);
      }
      const end = endOfRequest(bytes, head);
      if (end === null) return;
      start = end;
      inBody = false;
    }
  };
}

function endOfRequest(bytes: Buffer, { fields, end }: Head): number | null {
  const body =
    valuesOf(fields, 'transfer-encoding').length > 0
      ? readChunked(bytes, end)
      : readSized(bytes, end, contentLengthOf(fields, bytes, end) ?? 0);
  return body?.end ?? null;
}
