import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parse } from 'yaml';
import { Failure } from '../failure.ts';
import { refuse } from './answer.ts';
import { answerBrokenRequest, requestOf, send } from './exchange.ts';
import { operate } from './operations.ts';
import { openPetStore, type PetStore } from './store.ts';

export interface PetsSettings {
  readonly host: string;
  /** 0 takes any free port; the result tells which. */
  readonly port: number;
  /** Made, with its folder, when it is not there. */
  readonly databaseFile: string;
  /** Hears of defects that clients only see as 500. Default: standard error. */
  readonly report?: (error: unknown) => void;
  /** How long `close` lets running requests finish before it cuts them off. Default: 10 s. */
  readonly drainMs?: number;
}

export interface RunningPets {
  readonly host: string;
  readonly port: number;
  /** Stops listening, lets running requests finish (at most `drainMs`), closes the database. Calling it again waits too. */
  close(): Promise<void>;
}

/**
 * Starts the bundled pet service (contract section 8). It asks for no key: whoever reaches it may use it.
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
    const answer = refuse('expectation_failed', 'Expect may only be 100-continue.');
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

/** Idle connections outlive a gateway's idle pool, so that the gateway, not this service, is the one to close them. */
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
  // Ours to check because Node's own answer to it has no Error body (RFC 9112 section 3.2).
  if (incoming.httpVersion === '1.1' && incoming.headers.host === undefined) {
    return refuse('invalid_request', 'Host is missing in the head of the request.');
  }
  try {
    return await operate(requestOf(incoming), store, description);
  } catch (error) {
    report(error);
    return refuse('internal_error', 'The pet service failed to answer this request. Try again later.');
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
