import { Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { ProxyServer } from 'http-proxy-3';
import { interceptDestroySoon, requestOn, setTarget } from '../../io/node-internals.ts';

/** The request that is sent to the upstream. */
export interface UpgradeAsk {
  /** Path and query, exactly as they were routed. */
  readonly target: string;
  /** The value of Host. */
  readonly authority: string;
  /** All other fields, including Connection and Upgrade: names and values alternating. */
  readonly fields: readonly string[];
}

/** A request for an upgrade that has been sent. The caller listens for `upgrade`, `response` and `error` on it. */
export interface Asked {
  readonly request: ClientRequest;
  /**
   * Joins both connections after the upstream has agreed: writes the head of the 101 to the client, then lets bytes
   * flow.
   * @param fields of the 101 that the client gets, names and values alternating
   */
  join(answer: IncomingMessage, upstream: Socket, early: Buffer, fields: readonly string[]): void;
}

type Join = (answer: IncomingMessage, upstream: Socket, early: Buffer) => void;

/**
 * Sends the request through http-proxy-3, which in the end also joins both sides. Version 2.0.1 has faults that are
 * worked around here:
 * - it closes the client's connection when the upstream fails, relays any other response without backpressure or a
 *   check that it is complete, and joins on any response that claims to be a 101. So its listeners for these events are
 *   removed before a response can arrive, and its listener that joins is called once the 101 has been checked;
 * - it throws synchronously (`ERR_INVALID_CHAR`), and emits `error` even without a listener, so there is a listener;
 * - it rewrites paths (`toProxy` keeps all but a final `?`) and copies every field of the request. So it gets a request
 *   without fields, and the fields as `headers`;
 * - it accepts only `Upgrade: websocket`, so its request has that. Whether the request may be upgraded has already been
 *   decided;
 * - it writes the 101 as UTF-8, which would change bytes above 127.
 *
 * @param client the client's socket, which `UpgradeClient` is still reading
 * @param upstream connected
 * @throws Error if the request cannot be written as HTTP
 */
export function askForUpgrade(client: Socket, upstream: Socket, { target, authority, fields }: UpgradeAsk): Asked {
  const proxy = new ProxyServer();
  proxy.on('error', () => {});
  let sent: ClientRequest | null = null;
  proxy.once('proxyReqWs', (request) => {
    sent = request;
    // Restores the path that http-proxy-3 rewrote. Node checks a path only when a request is created.
    if (!/^[!-~]+$/.test(target)) throw new Error('a target that cannot be written');
    setTarget(request, target);
  });
  const headers = grouped(['Host', authority, ...fields]);
  const options = {
    target: { protocol: 'http:', host: authority, port: 80 },
    agent: new OneConnection(upstream),
    toProxy: true,
    changeOrigin: false,
    xfwd: false,
    headers,
  };
  proxy.ws(bareRequest(client, target), client, Buffer.alloc(0), options, () => {});
  const request = sent as ClientRequest | null;
  const joins = (request?.listeners('upgrade') ?? []) as Join[];
  if (request === null || joins.length !== 1) throw new Error('http-proxy-3 has not asked');
  for (const event of ['upgrade', 'response', 'error']) request.removeAllListeners(event);
  return {
    request,
    join: (answer, socket, early, responseFields) => {
      answer.headers = grouped(responseFields);
      client.setDefaultEncoding('latin1');
      // http-proxy-3 would end the client's connection when the upstream's breaks. The tunnel decides that instead.
      interceptDestroySoon(client, () => {});
      joins[0]!(answer, socket, early);
    },
  };
}

/** An agent that gives its only request a connection that is already open. */
class OneConnection extends Agent {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    return this.#socket;
  }
}

function bareRequest(client: Socket, target: string): IncomingMessage {
  const request = requestOn(client);
  request.method = 'GET';
  request.url = target;
  request.httpVersion = '1.1';
  request.httpVersionMajor = 1;
  request.httpVersionMinor = 1;
  request.headers = { upgrade: 'websocket' };
  return request;
}

/** Fields by name; the values of a repeated field become a list, in their order. */
function grouped(fields: readonly string[]): Record<string, string | string[]> {
  const byName = new Map<string, { readonly name: string; readonly values: string[] }>();
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    const known = byName.get(name.toLowerCase());
    if (known === undefined) byName.set(name.toLowerCase(), { name, values: [fields[i + 1]!] });
    else known.values.push(fields[i + 1]!);
  }
  return Object.fromEntries(
    [...byName.values()].map(({ name, values }) => [name, values.length === 1 ? values[0]! : values]),
  );
}
