import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { atEnd } from './endings.ts';
import { countConnections, listen } from './listening.ts';

export { type RawRequest, type RawUpstream, startRawUpstream } from './raw-upstream.ts';

/** One request as it arrived at an upstream. It is recorded when its head is complete; its body grows. */
export interface RecordedRequest {
  readonly method: string;
  /** The raw request target. */
  readonly url: string;
  /** name, value, name, value, … as sent. */
  readonly rawHeaders: readonly string[];
  /** Connections count from 1. */
  readonly connection: number;
  /** What has arrived so far. */
  readonly body: Buffer;
  /** Resolves when the request is over: true when it was whole, false when its connection was lost in its middle. */
  readonly whole: Promise<boolean>;
  /** The values of a field, each line its own. */
  values(name: string): string[];
}

export type UpstreamHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  recorded: RecordedRequest,
) => unknown | Promise<unknown>;

export interface Upstream {
  readonly origin: string;
  readonly port: number;
  readonly requests: readonly RecordedRequest[];
  /** What the parser refused: a gateway that forwards it has been tricked. */
  readonly refused: readonly Error[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections open now. */
  readonly open: number;
  /** Cuts all connections and stops listening. At the end of the test it happens by itself. */
  close(): Promise<void>;
}

/**
 * An upstream that records every request. Without a handler it reads the request to its end and answers 200 with
 * `{"ok":true}`. The body is read and recorded for the handler; one that wants to leave it unread says `readBody: false`.
 */
export async function startUpstream(
  handler: UpstreamHandler = answerOk,
  { readBody = true, port = 0 }: { readonly readBody?: boolean; readonly port?: number } = {},
): Promise<Upstream> {
  const requests: RecordedRequest[] = [];
  const refused: Error[] = [];
  const numbers = new WeakMap<Socket, number>();
  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0, maxHeaderSize: 256 * 1024 });
  server.headersTimeout = 0;
  const connections = countConnections(server, (socket, number) => numbers.set(socket, number));
  server.on('clientError', (error, socket) => {
    refused.push(error);
    socket.destroy();
  });
  server.on('request', async (request, response) => {
    const recorded = record(request, numbers.get(request.socket) ?? 0, readBody);
    requests.push(recorded);
    await handler(request, response, recorded);
  });
  const address = await listen(server, port);
  const close = async () => {
    server.closeAllConnections();
    await connections.close();
  };
  atEnd(close);
  return {
    ...address,
    requests,
    refused,
    get connections() {
      return connections.accepted;
    },
    get open() {
      return connections.open;
    },
    close,
  };
}

async function answerOk(_request: IncomingMessage, response: ServerResponse, recorded: RecordedRequest): Promise<void> {
  if (!(await recorded.whole)) return;
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
}

function record(request: IncomingMessage, connection: number, readBody: boolean): RecordedRequest {
  const chunks: Buffer[] = [];
  if (readBody) request.on('data', (chunk: Buffer) => chunks.push(chunk));
  // Its connection was cut: `whole` tells.
  request.on('error', () => {});
  const whole = new Promise<boolean>((resolve) => {
    request.once('end', () => resolve(true));
    request.once('close', () => resolve(request.complete));
  });
  const { method = '', url = '', rawHeaders } = request;
  return {
    method,
    url,
    rawHeaders,
    connection,
    whole,
    get body() {
      return Buffer.concat(chunks);
    },
    values: (name) =>
      rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name.toLowerCase()),
  };
}
