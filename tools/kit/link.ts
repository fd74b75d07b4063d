import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Server, type Socket } from 'node:net';

/**
 * What a link does with bytes:
 * - `pass`: carries them, after `delayMs` each way;
 * - `cut`: resets every connection, and every new one;
 * - `swallow`: carries requests and drops the replies. When that ends, connections that lost something are reset: a
 *   stream with a hole in it would be another fault than a lost reply;
 * - `halfOpen`: carries nothing more, and says nothing: what is open stays open for ever, as behind a firewall that
 *   has forgotten it. Connections from before and from then stay dead, new ones after it live.
 */
export type LinkMode = 'pass' | 'cut' | 'swallow' | 'halfOpen';

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  dead: boolean;
  lost: boolean;
}

/** A TCP proxy between gateways and their Redis. */
export class Link {
  readonly port: number;
  readonly #server: Server;
  readonly #target: number;
  readonly #pairs = new Set<Pair>();
  #mode: LinkMode = 'pass';
  #delayMs = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#carry(client));
  }

  /** Listens on a free port of 127.0.0.1 and carries to `target`, a port of the same address. */
  static async open(target: number): Promise<Link> {
    const server = createServer({ noDelay: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Link(server, target);
  }

  get connections(): number {
    return this.#pairs.size;
  }

  become(mode: LinkMode, delayMs = 0): void {
    const before = this.#mode;
    this.#mode = mode;
    this.#delayMs = delayMs;
    for (const pair of this.#pairs) {
      if (mode === 'halfOpen') pair.dead = true;
      if (mode === 'cut' || (before === 'swallow' && pair.lost)) reset(pair);
    }
  }

  async close(): Promise<void> {
    for (const pair of this.#pairs) reset(pair);
    this.#server.close();
    await once(this.#server, 'close');
  }

  #carry(client: Socket): void {
    if (this.#mode === 'cut') {
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    const server = createConnection({ port: this.#target, host: '127.0.0.1', noDelay: true });
    const pair: Pair = { client, server, dead: this.#mode === 'halfOpen', lost: false };
    this.#pairs.add(pair);
    this.#pump(pair, client, server, false);
    this.#pump(pair, server, client, true);
  }

  #pump(pair: Pair, from: Socket, to: Socket, isReply: boolean): void {
    const lane = new Lane((bytes) => {
      if (!pair.dead && !to.destroyed) to.write(bytes);
    });
    from.on('data', (bytes: Buffer) => {
      if (isReply && this.#mode === 'swallow') pair.lost = true;
      else lane.carry(bytes, this.#delayMs);
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#pairs.delete(pair);
      // A dead link tells nobody that the other end has gone, until that one asks the kernel itself.
      if (pair.dead && isReply) return;
      to.destroy();
    });
  }
}

/** One direction of a connection. Bytes never overtake others, whatever timers do and however the delay changes. */
class Lane {
  readonly #deliver: (bytes: Buffer) => void;
  readonly #waiting: { readonly bytes: Buffer; readonly dueAtMs: number }[] = [];

  constructor(deliver: (bytes: Buffer) => void) {
    this.#deliver = deliver;
  }

  carry(bytes: Buffer, delayMs: number): void {
    if (delayMs === 0 && this.#waiting.length === 0) {
      this.#deliver(bytes);
      return;
    }
    this.#waiting.push({ bytes, dueAtMs: performance.now() + delayMs });
    if (this.#waiting.length === 1) this.#wait();
  }

  #wait(): void {
    const [first] = this.#waiting;
    if (first === undefined) return;
    setTimeout(
      () => {
        this.#waiting.shift();
        this.#deliver(first.bytes);
        this.#wait();
      },
      Math.max(first.dueAtMs - performance.now(), 0),
    );
  }
}

function reset({ client, server }: Pair): void {
  client.resetAndDestroy();
  server.destroy();
}
