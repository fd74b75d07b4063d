import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type ErrorCode, errorAnswer } from '../annotate/error.ts';
import { Failure } from '../failure.ts';
import { closeGently } from '../gateway/linger.ts';
import { type Head, type HeadFault, type HeadLimits, readHead } from './head.ts';
import { Turns } from './turns.ts';

export interface PublicListenerOptions extends HeadLimits {
  readonly host: string;
  readonly port: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly maxConnections: number;
  readonly handle: (request: IncomingMessage, response: ServerResponse, head: Head | HeadFault) => void;
  /** Ends the request that a connection is busy with; false when there is none that could still be answered. */
  readonly breakOff: (socket: Socket, code: 'request_timeout' | 'invalid_request') => boolean;
  /** A connection was closed unanswered because there were `maxConnections` already. */
  readonly onDrop: () => void;
  /** A request that could not be parsed was answered with this code. */
  readonly onUnparsed: (code: ErrorCode) => void;
}

export interface PublicListener {
  readonly host: string;
  readonly port: number;
  /** Connections that are open now. */
  connections(): number;
  /** Takes no new connection, closes idle ones at once and the others after their answer. */
  stopAccepting(): void;
  /** Resolves when the last connection has ended; those that have not by `deadlineMs` from now are cut. */
  drained(deadlineMs: number): Promise<void>;
}

/** Node counts the request line and the fields together; beyond this it gives up, and which was too long is told apart by us. */
const PARSER_SLACK_BYTES = 16 * 1024;
/** How often Node looks for connections whose deadline has passed. */
const CHECK_EVERY_MS = 100;

/**
 * Opens the public listener: HTTP/1.1 and 1.0, every wait with a deadline.
 * @throws Failure `cannot_listen`
 */
export async function listenPublic(options: PublicListenerOptions): Promise<PublicListener> {
  const server = createServer({
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    keepAliveTimeoutBuffer: 0,
    connectionsCheckingInterval: CHECK_EVERY_MS,
    maxHeaderSize: options.maxUrlBytes + options.maxHeaderBytes + PARSER_SLACK_BYTES,
    // A missing Host is refused in our own words, with the fields that every answer has.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    noDelay: true,
  });
  server.maxConnections = options.maxConnections;
  const connections = countConnections(server);
  const turns = new Turns((request, response) => {
    const { method = '', url = '', httpVersion, rawHeaders } = request;
    options.handle(request, response, readHead({ method, url, httpVersion, rawHeaders }, options));
  });
  const serve = (request: IncomingMessage, response: ServerResponse) => turns.take(request, response);
  server.on('request', serve);
  // Without these two Node would answer 100 and 417 by itself, before anybody was asked.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  server.on('connect', (request, stream) => {
    const socket = stream as Socket;
    const refuse = () => refuseConnect(request, socket, options);
    turns.end(socket, refuse, refuse);
  });
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    onClientError(error, socket as Socket, options, turns);
  });
  server.on('drop', options.onDrop);
  await listening(server, options);
  const { address, port } = server.address() as AddressInfo;
  return { host: address, port, connections, ...drainOf(server) };
}

/** Answers CONNECT like any other request that is refused. Node has let go of its connection, which ends here. */
function refuseConnect(request: IncomingMessage, socket: Socket, options: PublicListenerOptions): void {
  socket.on('error', () => socket.destroy());
  if (socket.destroyed) return;
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => {
    response.detachSocket(socket);
    closeGently(socket);
  });
  const { method = '', url = '', httpVersion, rawHeaders } = request;
  options.handle(request, response, readHead({ method, url, httpVersion, rawHeaders }, options));
}

/** Listens, or says in a sentence why that is not possible. */
export function listening(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why =
        error.code === 'EADDRINUSE'
          ? 'it is in use; stop what uses it or choose another port'
          : `${error.code ?? error.message}`;
      reject(new Failure('cannot_listen', `Cannot listen on ${host}:${port}: ${why}.`, error));
    });
    server.listen(port, host, 4096, resolve);
  });
}

function drainOf(server: Server): Pick<PublicListener, 'stopAccepting' | 'drained'> {
  let closed: Promise<void> = Promise.resolve();
  return {
    stopAccepting: () => {
      closed = new Promise((resolve) => server.close(() => resolve()));
    },
    drained: async (deadlineMs) => {
      // A connection that answered just before the drain began did not say that it would close.
      const sweep = setInterval(() => server.closeIdleConnections(), 50);
      const cut = setTimeout(() => server.closeAllConnections(), deadlineMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
    },
  };
}

/** The server's own `getConnections` answers only in a later turn. */
function countConnections(server: Server): () => number {
  let open = 0;
  server.on('connection', (socket: Socket) => {
    open++;
    socket.once('close', () => open--);
  });
  return () => open;
}

/** What could not be parsed has no request to answer: the connection gets the error and is closed. */
function onClientError(
  error: NodeJS.ErrnoException & { rawPacket?: Buffer },
  socket: Socket,
  options: PublicListenerOptions,
  turns: Turns,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error);
    return;
  }
  const [code, message] = meaningOf(error);
  const refuse = () => answerRaw(socket, code, message, options);
  const breakOff = () => {
    // The client left in the middle of its body: there is nobody to tell that it is malformed.
    if (error.code === 'HPE_INVALID_EOF_STATE') return socket.destroy();
    const isOfBody = code === 'request_timeout' || code === 'invalid_request';
    if (!isOfBody || !options.breakOff(socket, code)) refuse();
  };
  const waits = turns.end(socket, breakOff, refuse);
  // The client has closed its half in the middle of a further request: nobody waits for the answers before it.
  if (waits && error.code === 'HPE_INVALID_EOF_STATE') socket.destroy(error);
}

function meaningOf(error: NodeJS.ErrnoException & { rawPacket?: Buffer }): [ErrorCode, string] {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['request_timeout', 'The request did not arrive in time.'];
    case 'HPE_HEADER_OVERFLOW':
      return startsWithLongTarget(error.rawPacket)
        ? ['uri_too_long', 'The request target is too long.']
        : ['headers_too_large', 'The header fields are too large or too many.'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return ['payload_too_large', 'The chunk extensions are too large.'];
    case 'HPE_INVALID_VERSION':
      if (!hasOtherVersion(error.rawPacket)) break;
      return ['http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.'];
  }
  return ['invalid_request', 'This is not a well-formed HTTP/1.1 request.'];
}

/** Whether the request line is one of HTTP, of a version that is not spoken here; else its end is malformed. */
function hasOtherVersion(packet: Buffer | undefined): boolean {
  const line = packet?.subarray(0, Math.max(packet.indexOf('\r\n'), 0)).toString('latin1') ?? '';
  return / HTTP\/[0-9]\.[0-9]$/.test(line);
}

/** Whether it was the request line that did not end. */
function startsWithLongTarget(packet: Buffer | undefined): boolean {
  if (packet === undefined) return false;
  const lineEnd = packet.indexOf('\n');
  const line = packet.subarray(0, lineEnd === -1 ? packet.length : lineEnd);
  return line.length > PARSER_SLACK_BYTES && /^[A-Z]{3,20} [!-~]/.test(line.subarray(0, 24).toString('latin1'));
}

function answerRaw(socket: Socket, code: ErrorCode, message: string, options: PublicListenerOptions): void {
  options.onUnparsed(code);
  // Never a second status line on a connection where an answer has begun.
  if (!socket.writable || hasAnswerUnderWay(socket)) {
    socket.destroy();
    return;
  }
  const { status, body } = errorAnswer(code, message);
  socket.write(
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Error'}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\n\r\n${body}`,
  );
  closeGently(socket);
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  414: 'URI Too Long',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
  505: 'HTTP Version Not Supported',
};

function hasAnswerUnderWay(socket: Socket): boolean {
  const response = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage;
  return response?.headersSent === true;
}
