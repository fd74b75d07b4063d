import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { parse } from 'yaml';
import { Failure } from '../failure.ts';
import { announcesBody, errorResponse, operate, type PetRequest, type PetResponse, readBody } from './operations.ts';
import { openPetStore, type PetStore } from './store.ts';

export interface PetsSettings {
  readonly host: string;
  /** 0: any free port, which `RunningPets.port` then holds. */
  readonly port: number;
  /** Created, with its folder, if it does not exist. */
  readonly databaseFile: string;
  /** Called with errors for which the client gets only a 500. Default: prints them on standard error. */
  readonly report?: (error: unknown) => void;
  /** How long `close` waits for running requests before it closes their connections, milliseconds. Default: 10 s. */
  readonly drainMs?: number;
}

export interface RunningPets {
  readonly host: string;
  readonly port: number;
  /** Stops listening, lets running requests finish (at most `drainMs`), and closes the database. A second call waits too. */
  close(): Promise<void>;
}

/**
 * Starts the bundled pet service (contract section 8). It checks no key: every client that can connect may use it.
 * @throws Failure `cannot_listen`, `bad_settings` (database file) or `store_corrupt`
 */
export async function startPets(settings: PetsSettings): Promise<RunningPets> {
  const description: unknown = parse(readFileSync(new URL('openapi.yaml', import.meta.url), 'utf8'));
  const store = openPetStore(settings.databaseFile);
  const report = settings.report ?? ((error) => console.error(error));
  const server = createServer({ ...DEADLINES, requireHostHeader: false });
  let closing: Promise<void> | null = null;

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    outgoing.once('finish', () => closing !== null && setImmediate(() => server.closeIdleConnections()));
    const answer = await answerFor(incoming, store, description, report);
    if (answer !== null && !outgoing.destroyed) send(incoming, outgoing, answer, closing !== null);
  };
  server.on('request', serve);
  server.on('checkExpectation', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const answer = errorResponse('expectation_failed', 'Expect may only be 100-continue.');
    send(incoming, outgoing, answer, closing !== null);
  });
  server.on('clientError', answerBrokenRequest);

  try {
    await listen(server, settings);
  } catch (error) {
    store.close();
    throw error;
  }
  const { port } = server.address() as AddressInfo;
  return {
    host: settings.host,
    port,
    close: () => {
      closing ??= drain(server, settings.drainMs ?? DRAIN_MS).finally(() => store.close());
      return closing;
    },
  };
}

/** keepAliveTimeout is longer than a gateway keeps idle connections, so that the gateway closes them and not this service. */
const DEADLINES = {
  keepAliveTimeout: 75_000,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 1_000,
};
const SILENT_SOCKET_MS = 120_000;
const DRAIN_MS = 10_000;

async function answerFor(
  incoming: IncomingMessage,
  store: PetStore,
  description: unknown,
  report: (error: unknown) => void,
) {
  // Checked here and not by Node, whose answer would have no Error body (RFC 9112 section 3.2).
  if (incoming.httpVersion === '1.1' && incoming.headers.host === undefined) {
    return errorResponse('invalid_request', 'Host is missing in the head of the request.');
  }
  try {
    return await operate(requestOf(incoming), store, description);
  } catch (error) {
    report(error);
    return errorResponse('internal_error', 'The pet service failed to answer this request. Try again later.');
  }
}

async function listen(server: Server, { host, port }: PetsSettings): Promise<void> {
  server.timeout = SILENT_SOCKET_MS;
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === 'EADDRINUSE' ? 'another program has this port' : message;
    throw new Failure(
      'cannot_listen',
      `The pet service cannot listen on ${host}:${port}: ${why}. Stop what is there or choose another address ` +
        '(PORT and HOST for `tollgate pets`, PETS_PORT for `npm start`).',
      cause,
    );
  }
}

async function drain(server: Server, drainMs: number): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  const deadline = setTimeout(() => server.closeAllConnections(), drainMs);
  await closed;
  clearTimeout(deadline);
}

/** The parts of a request that operations need, without its socket. */
function requestOf(incoming: IncomingMessage): PetRequest {
  const { 'content-type': contentTypes = [], 'content-encoding': contentEncodings = [] } = incoming.headersDistinct;
  return {
    method: incoming.method ?? '',
    target: incoming.url ?? '',
    contentTypes,
    contentEncodings,
    readBody: () => readBody(incoming),
  };
}

/**
 * Sends an answer. For HEAD, Node omits the body and keeps its length (RFC 9110 section 9.3.2). If the request was not read
 * to its end, the connection closes after the answer.
 */
function send(incoming: IncomingMessage, outgoing: ServerResponse, answer: PetResponse, close: boolean): void {
  const unread = announcesBody(incoming) && !incoming.complete;
  outgoing.writeHead(answer.status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(answer.body),
    ...answer.headers,
    ...(close || unread ? { Connection: 'close' } : {}),
  });
  if (!unread) {
    outgoing.end(answer.body);
    return;
  }
  outgoing.write(answer.body);
  endWhenRead(incoming, outgoing);
}

/**
 * A server that closes while the client still sends resets the connection, and the client may lose the answer (RFC 9112
 * section 9.6). So the rest of the body is read and discarded, for at most 2 s and 4 MiB.
 */
function endWhenRead(incoming: IncomingMessage, outgoing: ServerResponse): void {
  let leftBytes = 4 * 1024 * 1024;
  const end = () => {
    clearTimeout(timer);
    outgoing.end();
  };
  const timer = setTimeout(end, 2_000);
  incoming.once('end', end).once('close', end);
  incoming.on('data', (chunk: Buffer) => {
    leftBytes -= chunk.length;
    if (leftBytes < 0) end();
  });
  incoming.resume();
}

/** Answers a request that Node could not parse, or that came too slowly, with the interface's Error body. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, body } = refusalOf(error.code);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

function refusalOf(code: string | undefined): PetResponse {
  if (code === 'HPE_HEADER_OVERFLOW')
    return errorResponse('headers_too_large', 'The head of the request is too large.');
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return errorResponse('request_timeout', 'The request came too slowly.');
  return errorResponse('invalid_request', 'The request is not valid HTTP.');
}
