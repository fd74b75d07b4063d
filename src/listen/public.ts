import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { ClientRequest, ClientResponse } from '../forward/client.ts';
import type { ClientFault } from '../forward/faults.ts';
import { UpgradeClient } from '../forward/upgrade-client.ts';
import { closeGently } from '../gateway/linger.ts';
import { closeAfter } from '../gateway/reply.ts';
import { type Entry, type EntryOptions, openEntry } from './entry.ts';
import { FastPath } from './fast-path/fast-path.ts';
import { type Head, type HeadFault, type HeadLimits, readHead } from './head.ts';
import { HeldBytesBudget } from './held-bytes.ts';
import { RequestFeed } from './request-feed.ts';
import { isLooseRequestLine } from './request-line.ts';
import { answerLate, onClientError, type ParseError } from './unparsed.ts';

export interface PublicListenerOptions extends HeadLimits, EntryOptions {
  readonly requestTimeoutMs: number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** @param client the connection, where `mayUpgrade` was true: it carries no further request of HTTP */
  readonly handle: (
    request: ClientRequest,
    response: ClientResponse,
    head: Head | HeadFault,
    client: UpgradeClient | null,
  ) => void;
  /** Whether a request asks, in the right form and where it may, for another protocol on its connection. */
  readonly mayUpgrade: (head: Head) => boolean;
  /** Ends the request that a connection is busy with; false when there is none that could still be answered. */
  readonly breakOff: (socket: Socket, code: ClientFault) => boolean;
}

export type PublicListener = Entry;

/**
 * Node counts the request line and the fields together; this much beyond both limits it gives up, and which was too long
 * is told by the packet with which it did. With the limits as they come that is the first one of a client on the same
 * machine, whose packets begin at 32 KiB.
 */
const PARSER_SLACK_BYTES = 7.5 * 1024;
/** How often Node looks for connections whose deadline has passed. */
const CHECK_EVERY_MS = 100;

/**
 * Opens the public listener: HTTP/1.1 and 1.0, HTTP/2 where it is encrypted, every wait with a deadline.
 * @throws Failure `cannot_listen`, `unsupported_node`
 */
export function listenPublic(options: PublicListenerOptions): Promise<PublicListener> {
  const [connections, streams] = [createReader(options), createReader(options)];
  const held = new HeldBytesBudget();
  const open = (socket: Socket) => {
    const feed = new RequestFeed(connections.server, socket, held, () => performance.now());
    connections.feeds.set(socket, feed);
    return feed;
  };
  // What it relies on in node:http is tried before the first client comes.
  const probe = new Socket();
  open(probe);
  probe.destroy();
  const simple = new FastPath({
    ...options,
    headersTimeoutMs: headersTimeoutOf(options),
    feed: open,
    held,
    serve: (request, response, head) => options.handle(request, response, head, null),
    onSilent: (socket) => answerLate(socket, options),
  });
  return openEntry(options, simple, { connections: connections.server, streams: streams.server });
}

interface NodeReader {
  readonly server: Server;
  /** By connection. A stream of HTTP/2 has none: it carries one request. */
  readonly feeds: WeakMap<object, RequestFeed>;
}

/** Reads requests from what it is given: it does not listen itself. */
function createReader(options: PublicListenerOptions): NodeReader {
  const server = createServer({
    headersTimeout: headersTimeoutOf(options),
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    keepAliveTimeoutBuffer: 0,
    connectionsCheckingInterval: CHECK_EVERY_MS,
    maxHeaderSize: options.maxUrlBytes + options.maxHeaderBytes + PARSER_SLACK_BYTES,
    // A missing Host is refused in our own words, with the fields that every answer has.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    shouldUpgradeCallback: (request) => mayUpgrade(request, options),
  });
  const feeds: NodeReader['feeds'] = new WeakMap();
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (feeds.get(request.socket)?.announced(request, response) === false) return;
    const head = isLooseRequestLine(request) ? LOOSE_LINE : headOf(request, options);
    // Node's parser drops what stands behind a request that asks for an upgrade in its packet, and reads on in the next:
    // what that finds may be the middle of anything.
    if (head.kind === 'head' && head.connectionNames.has('upgrade')) closeAfter(response, true);
    giveUpUnread(response, options);
    options.handle(request, response, head, null);
  };
  server.on('request', serve);
  // Without these two Node would answer 100 and 417 by itself, before anybody was asked.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  server.on('connect', (request, stream) => {
    const { socket } = request;
    feeds.get(socket)?.release();
    // Of a CONNECT with a body Node hands out a stream of its own around the socket, and passes the socket's errors to it.
    stream.on('error', () => {});
    serveLast(request, socket, options, null);
  });
  server.on('upgrade', (request, _stream, early) => {
    const { socket } = request;
    const behind = feeds.get(socket)?.release() ?? NOTHING;
    serveLast(request, socket, options, new UpgradeClient(socket, Buffer.concat([early, behind])));
  });
  server.on('clientError', (error: ParseError, stream) => {
    const socket = stream as Socket;
    onClientError(error, socket, options, feeds.get(socket) ?? null);
  });
  return { server, feeds };
}

/** Node refuses to start with one that is longer than that of the request, which could never come into effect. */
function headersTimeoutOf({ headersTimeoutMs, requestTimeoutMs }: PublicListenerOptions): number {
  return Math.min(headersTimeoutMs, requestTimeoutMs);
}

const NOTHING = Buffer.alloc(0);

const LOOSE_LINE: HeadFault = {
  kind: 'fault',
  code: 'invalid_request',
  message: 'The request line must be a method, a target and HTTP/1.1, with one space between them.',
};

function headOf({ method = '', url = '', httpVersion, rawHeaders }: ClientRequest, limits: HeadLimits) {
  return readHead({ method, url, httpVersion, rawHeaders }, limits);
}

/** A client that does not take the rest of an answer in time loses its connection. */
function giveUpUnread(response: ServerResponse, { writeTimeoutMs }: PublicListenerOptions): void {
  // All of it has been written.
  response.once('prefinish', () => {
    // Nearly always the system has taken it by now.
    const { socket } = response;
    if (socket === null || socket.writableLength === 0) return;
    const timer = setTimeout(() => response.destroy(), writeTimeoutMs);
    // The answer to a CONNECT, which node:http has let go of, never closes by itself.
    for (const ending of [response, socket]) ending.once('close', () => clearTimeout(timer));
  });
}

/**
 * Whether Node is to take the connection from HTTP. Anything that is not asked for as it must be is served, or refused,
 * like every other request.
 */
function mayUpgrade(request: IncomingMessage, options: PublicListenerOptions): boolean {
  if (isLooseRequestLine(request)) return false;
  const head = headOf(request, options);
  return head.kind === 'head' && options.mayUpgrade(head);
}

/**
 * Serves CONNECT, or a request for an upgrade, like any other request. Node has let go of its connection, which ends with
 * the answer, unless the client gets it for another protocol.
 */
function serveLast(
  request: IncomingMessage,
  socket: Socket,
  options: PublicListenerOptions,
  client: UpgradeClient | null,
): void {
  if (socket.destroyed) return;
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  giveUpUnread(response, options);
  response.once('finish', () => {
    response.detachSocket(socket);
    closeGently(socket);
  });
  options.handle(request, response, headOf(request, options), client);
}
