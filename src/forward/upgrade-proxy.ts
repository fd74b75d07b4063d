import { Agent, type ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { ProxyServer } from 'http-proxy-3';

/** What is asked of the upstream. */
export interface UpgradeAsk {
  /** Path and query, byte for byte as they were routed. */
  readonly target: string;
  /** What Host says. */
  readonly authority: string;
  /** All other fields, Connection and Upgrade among them: name and value in turn. */
  readonly fields: readonly string[];
}

/** A request for an upgrade that is on its way. Who asked listens for `upgrade`, `response` and `error` on it. */
export interface Asked {
  readonly request: ClientRequest;
  /**
   * Joins both connections, after the upstream has agreed: the head of the 101 goes to the client, then bytes flow.
   * @param fields of the 101 as the client is to get it, name and value in turn
   */
  join(answer: IncomingMessage, upstream: Socket, early: Buffer, fields: readonly string[]): void;
}

type Join = (answer: IncomingMessage, upstream: Socket, early: Buffer) => void;

/**
 * Sends the request through http-proxy-3, which also joins both sides in the end. In between, its 2.0.1 has faults that
 * are kept out here:
 * - it closes the client's connection when the upstream fails, relays any other answer without backpressure or a look at
 *   whether it is whole, and joins whatever claims to be a 101: its listeners for these are taken away before anything
 *   can have come, and its joining is called when the 101 has been found right;
 * - it throws where it stands (`ERR_INVALID_CHAR`), and emits `error` where nobody listens: there is a listener;
 * - it rewrites paths (`toProxy` leaves all but a `?` at the end) and copies every field of the request: it is given a
 *   request that has none, and the fields as `headers`;
 * - it takes only `Upgrade: websocket`; what may be upgraded is decided before, so that is what its request says;
 * - it writes the 101 as UTF-8, which would change bytes above 127.
 *
 * @param client whose reading is still in other hands
 * @param upstream connected
 * @throws Error where the request cannot be written as HTTP
 */
export function askForUpgrade(client: Socket, upstream: Socket, { target, authority, fields }: UpgradeAsk): Asked {
  const proxy = new ProxyServer();
  proxy.on('error', () => {});
  let sent: ClientRequest | null = null;
  proxy.once('proxyReqWs', (request) => {
    sent = request;
    // What it lost is put back; Node looks at a path only where a request is made.
    if (!/^[!-~]+$/.test(target)) throw new Error('a target that cannot be written');
    request.path = target;
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
    join: (answer, socket, early, told) => {
      answer.headers = grouped(told);
      client.setDefaultEncoding('latin1');
      // What it does when the upstream breaks: whoever watches both sides decides that.
      client.destroySoon = () => {};
      joins[0]!(answer, socket, early);
    },
  };
}

/** Gives the one request it is made for the connection that stands. */
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
  const request = new IncomingMessage(client);
  request.method = 'GET';
  request.url = target;
  request.httpVersion = '1.1';
  request.httpVersionMajor = 1;
  request.httpVersionMinor = 1;
  request.headers = { upgrade: 'websocket' };
  return request;
}

/** Fields by name, those that come several times as a list, in their order. */
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
