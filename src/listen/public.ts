import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { plainError } from '../annotate/errors.ts';
import { UpgradeClient } from '../forward/websocket/upgrade.ts';
import type { ClientRequest, ClientResponse } from '../http1/client.ts';
import { FieldBlock } from '../http1/field-block.ts';
import { isNonConformingRequestLine } from '../http1/loose-request-line.ts';
import type { HeadLimits } from '../http1/request-framing.ts';
import { type Head, type HeadFault, readHead } from '../http1/request-head.ts';
import { Deadlines } from '../io/deadlines.ts';
import { closeAfter, closeGently } from '../io/graceful-close.ts';
import { HeldBytesBudget } from '../io/held-bytes.ts';
import { openLastResponse, parseFaultOf } from '../io/node-internals.ts';
import { endInTurn, SharedBufferSocket } from '../io/read-buffers.ts';
import { rawOf } from '../io/tls-carrier.ts';
import { type AcceptOptions, type Listener, openListener } from './accept.ts';
import { FastPath } from './fast-path/fast-path.ts';
import type { StreamServing } from './http2/session.ts';
import type { StreamRequest } from './http2/stream-request.ts';
import type { StreamResponse } from './http2/stream-response.ts';
import { type BodyReading, NEVER_MS, RequestFeed } from './node-http/request-feed.ts';
import {
  answerPlainHttp,
  onClientError,
  type ParseError,
  respondTooLate,
  type UnparsedOptions,
} from './node-http/unparsed.ts';

interface PublicListenerOptions extends UnparsedOptions, Omit<AcceptOptions, 'answerPlainHttp'> {
  readonly requestTimeoutMs: number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  readonly handler: RequestHandler;
}

/** Serves the requests that the listener has read. */
export interface RequestHandler {
  /** @param client the connection, if `mayUpgrade` returned true: it carries no further HTTP request */
  handle(request: ClientRequest, response: ClientResponse, head: Head | HeadFault, client?: UpgradeClient | null): void;
  /** Whether a request asks for another protocol on its connection, in valid form and where the gateway allows it. */
  mayUpgrade(head: Head): boolean;
  /**
   * Reads a piece of a body that has arrived on a connection, and charges that to the consumer of its request.
   * @returns false if the consumer is beyond its share of the thread, and the piece has to be read later
   */
  read(socket: Socket, work: () => void): boolean;
  /** Reads more of it later, when it is the consumer's turn. */
  readLater(socket: Socket, work: () => void): void;
}

export type PublicListener = Listener;

/**
 * Node limits the request line and the fields together. It refuses a head that exceeds the sum of both limits by this
 * much, and the packet in which it does so shows which of the two was too long. With the default limits the first
 * packet of a client on the same machine suffices, because it may have 32 KiB.
 */
const PARSER_SLACK_BYTES = 7.5 * 1024;

/**
 * Opens the public listener for HTTP/1.1 and 1.0, and for HTTP/2 over TLS. Every wait has a deadline.
 * @throws Failure `cannot_listen`
 */
export function listenPublic(options: PublicListenerOptions): Promise<PublicListener> {
  const { server, feeds } = createReader(options);
  const held = new HeldBytesBudget();
  const { handler, breakOff } = options;
  const bodies: BodyReading = {
    read: (socket, work) => handler.read(socket, work),
    readLater: (socket, work) => handler.readLater(socket, work),
    onTooManyChunks: (socket) => {
      if (!breakOff(socket, 'payload_too_large')) socket.destroy();
    },
  };
  const limits = {
    ...options,
    headersTimeoutMs: headersTimeoutOf(options),
    deadlines: new Deadlines(() => performance.now()),
  };
  const open = (socket: Socket) => {
    const feed = new RequestFeed(server, socket, held, bodies, limits);
    feeds.set(socket, feed);
    return feed;
  };
  const simple = new FastPath({
    ...limits,
    feed: open,
    held,
    onSilent: (socket) => respondTooLate(socket, options),
  });
  const accept = { ...options, answerPlainHttp: (socket: Socket) => answerPlainHttp(socket, options) };
  const streams: StreamServing = {
    date: () => simple.date(),
    serve: (request, response) => handler.handle(request, response, streamHeadOf(request, options)),
    late: (request, response) => answerLateStream(request, response, options),
  };
  return openListener(accept, simple, streams, server);
}

function streamHeadOf({ method, url, rawHeaders }: StreamRequest, limits: HeadLimits): Head | HeadFault {
  return readHead({ method, url, httpVersion: '1.1', fields: new FieldBlock(rawHeaders) }, limits);
}

/** Ends a request whose body has not arrived in time, or answers one that was not served, because it is not known whether it has a body. */
function answerLateStream(request: StreamRequest, response: StreamResponse, options: PublicListenerOptions): void {
  if (request.destroyed || options.breakOff(request.socket, 'request_timeout')) return;
  options.onUnparsed('request_timeout');
  if (response.headersSent) {
    request.destroy();
    return;
  }
  const { status, fields, body } = options.formed(plainError('request_timeout'), request.socket, request.rawHeaders);
  response.writeHead(status, fields);
  response.end(body);
}

interface NodeReader {
  readonly server: Server;
  /** By connection. */
  readonly feeds: WeakMap<object, RequestFeed>;
}

/** Creates a node:http server that does not listen, but reads requests from the connections handed to it. */
function createReader(options: PublicListenerOptions): NodeReader {
  const heads: UpgradeHeads = new WeakMap();
  const server = createServer({
    keepAliveTimeout: options.idleTimeoutMs,
    keepAliveTimeoutBuffer: NEVER_MS,
    maxHeaderSize: options.maxUrlBytes + options.maxHeaderBytes + PARSER_SLACK_BYTES,
    // The gateway refuses a missing Host itself, with the body and fields that all its refusals have.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    shouldUpgradeCallback: (request) => mayUpgrade(request, options, heads),
  });
  const feeds: NodeReader['feeds'] = new WeakMap();
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (!feeds.get(request.socket)!.announced(request, response)) return;
    const head = isNonConformingRequestLine(request) ? NON_CONFORMING_LINE : headOf(request, options, heads);
    // Node's parser drops the bytes that follow an upgrade request in the same packet and continues with the next
    // packet, which may begin in the middle of a message.
    if (head.kind === 'head' && head.connectionNames.has('upgrade')) closeAfter(response, true);
    destroyIfUnread(response, options);
    options.handler.handle(request, response, head);
  };
  server.on('request', serve);
  // Without these two listeners Node would send 100 or 417 itself, before the gateway sees the request.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  server.on('connect', (request, stream) => {
    const { socket } = request;
    feeds.get(socket)?.release();
    // For a CONNECT with a body Node wraps the socket in a stream of its own and passes the socket's errors to that
    // stream.
    stream.on('error', () => {});
    serveLast(request, socket, options, headOf(request, options, heads), null);
  });
  server.on('upgrade', (request, _stream, early) => {
    const { socket } = request;
    const following = feeds.get(socket)?.release() ?? NOTHING;
    const client = new UpgradeClient(socket, Buffer.concat([early, following]));
    serveLast(request, socket, options, headOf(request, options, heads), client);
  });
  server.on('clientError', (error: ParseError, stream) => {
    const socket = stream as Socket;
    const feed = feeds.get(socket) ?? null;
    const answer = () => onClientError(error, socket, options, feed);
    if (parseFaultOf(error) === 'late') answerInTurn(socket, feed, answer);
    else answer();
  });
  return { server, feeds };
}

/** Attack: 4,000 clients send half of a head at the same moment, and all of them are late in one turn of the event loop. */
function answerInTurn(socket: Socket, feed: RequestFeed | null, answer: () => void): void {
  feed?.stop();
  const raw = rawOf(socket);
  const { owner, weight } = raw instanceof SharedBufferSocket ? raw : { owner: raw, weight: 1 };
  endInTurn(owner, weight, answer);
}

/** One that is longer than the request timeout could never take effect. */
function headersTimeoutOf({ headersTimeoutMs, requestTimeoutMs }: PublicListenerOptions): number {
  return Math.min(headersTimeoutMs, requestTimeoutMs);
}

const NOTHING = Buffer.alloc(0);

const NON_CONFORMING_LINE: HeadFault = {
  kind: 'fault',
  code: 'invalid_request',
  message: 'The request line must be a method, a target and HTTP/1.1, with one space between them.',
};

/** The heads of upgrade requests. They are read before node:http decides which event it emits for the request. */
type UpgradeHeads = WeakMap<IncomingMessage, Head | HeadFault>;

function headOf(request: IncomingMessage, limits: HeadLimits, heads: UpgradeHeads): Head | HeadFault {
  return heads.get(request) ?? readHeadOf(request, limits);
}

function readHeadOf({ method = '', url = '', httpVersion, rawHeaders }: IncomingMessage, limits: HeadLimits) {
  return readHead({ method, url, httpVersion, fields: new FieldBlock(rawHeaders) }, limits);
}

/** Disconnects a client that does not read the rest of a response in time. */
function destroyIfUnread(response: ServerResponse, { writeTimeoutMs }: PublicListenerOptions): void {
  // Emitted once the whole response has been written.
  response.once('prefinish', () => {
    // Nearly always the operating system has accepted all of it by now.
    const { socket } = response;
    if (socket === null || socket.writableLength === 0) return;
    const timer = setTimeout(() => response.destroy(), writeTimeoutMs);
    // The response to a CONNECT never emits `close`, because node:http has released its connection; the socket does. A kept socket
    // outlives its responses, so it must keep nothing of them.
    const closed = () => {
      clearTimeout(timer);
      response.removeListener('close', closed);
      socket.removeListener('close', closed);
    };
    response.on('close', closed);
    socket.on('close', closed);
  });
}

/**
 * Whether node:http should release the connection for another protocol. A malformed request for an upgrade is served,
 * or refused, like any other request.
 */
function mayUpgrade(request: IncomingMessage, options: PublicListenerOptions, heads: UpgradeHeads): boolean {
  if (isNonConformingRequestLine(request)) return false;
  const head = readHeadOf(request, options);
  heads.set(request, head);
  return head.kind === 'head' && options.handler.mayUpgrade(head);
}

/**
 * Serves a CONNECT or a request for an upgrade like any other request. Node has released the connection, which ends
 * with the response unless it switches to another protocol.
 */
function serveLast(
  request: IncomingMessage,
  socket: Socket,
  options: PublicListenerOptions,
  head: Head | HeadFault,
  client: UpgradeClient | null,
): void {
  if (socket.destroyed) return;
  const response = openLastResponse(request, socket, () => closeGently(socket));
  destroyIfUnread(response, options);
  options.handler.handle(request, response, head, client);
}
