import type { Socket } from 'node:net';
import { networkOf } from '../identify/failed-attempts.ts';
import type { HandshakePayer } from '../io/tls-carrier.ts';
import { TokenBucket } from '../io/token-bucket.ts';

/** TLS handshakes that one client address may begin in a second, and at once after a pause. */
export const HANDSHAKES_PER_SECOND = 100;
/** One that takes longer counts as several. */
const HANDSHAKE_MS = 2;
const LOOK_EVERY_MS = 20;

interface HandshakeTurnsOptions {
  /** How long a connection may wait. */
  readonly timeoutMs: number;
  /** Begins the handshake of a connection. @param payer left out for a trusted proxy */
  readonly begin: (socket: Socket, payer?: HandshakePayer) => void;
  /** A connection is closed that has waited too long. */
  readonly onFailure: () => void;
  /** A monotonic clock, milliseconds. */
  readonly nowMs: () => number;
}

class Client implements HandshakePayer {
  readonly #nowMs: () => number;
  readonly bucket: TokenBucket;
  /** With the instants at which they have waited too long, the oldest first. */
  readonly waiting = new Map<Socket, number>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.bucket = new TokenBucket(HANDSHAKES_PER_SECOND, HANDSHAKES_PER_SECOND, nowMs());
  }

  get isBroke(): boolean {
    return this.bucket.debt(this.#nowMs()) > HANDSHAKES_PER_SECOND;
  }

  pay(ms: number): void {
    if (ms > HANDSHAKE_MS) this.bucket.spend(ms / HANDSHAKE_MS - 1, this.#nowMs());
  }
}

/**
 * Bounds the TLS handshakes of each client address.
 *
 * Attack: a client without a key sends a recorded ClientHello again and again, and computes nothing. Each cost the gateway
 * six times what it cost the client, on the thread that serves all. So an address begins a number of handshakes a second, and
 * the others wait unread, the oldest first, for no longer than a handshake may take.
 *
 * Attack: with `clientCa`, a client without a key shows a chain of certificates whose signatures cost 25 ms to check. So a handshake is
 * charged for its processor time. Those that have begun are not known to be dear, so they end once the client owes a second.
 */
export class HandshakeTurns {
  readonly #options: HandshakeTurnsOptions;
  readonly #clients = new Map<string, Client>();
  #timer: NodeJS.Timeout | null = null;

  constructor(options: HandshakeTurnsOptions) {
    this.#options = options;
  }

  /** @param address of the client; null for a trusted proxy, which connects for many clients */
  take(socket: Socket, address: string | null): void {
    if (address === null) {
      this.#options.begin(socket);
      return;
    }
    const nowMs = this.#options.nowMs();
    const client = this.#clientOf(networkOf(address));
    const { bucket, waiting } = client;
    if (waiting.size === 0 && bucket.hasOne(nowMs)) {
      bucket.spend(1, nowMs);
      this.#options.begin(socket, client);
      return;
    }
    waiting.set(socket, nowMs + this.#options.timeoutMs);
    socket.once('close', () => waiting.delete(socket));
  }

  /** Begins the handshakes whose turn it is. Called regularly while there are clients. */
  look(): void {
    const nowMs = this.#options.nowMs();
    for (const [network, client] of this.#clients) {
      const { bucket, waiting } = client;
      for (const [socket, untilMs] of waiting) {
        if (nowMs >= untilMs) {
          waiting.delete(socket);
          this.#options.onFailure();
          socket.destroy();
        } else if (bucket.hasOne(nowMs)) {
          bucket.spend(1, nowMs);
          waiting.delete(socket);
          this.#options.begin(socket, client);
        } else break;
      }
      if (waiting.size === 0 && bucket.isFull(nowMs)) this.#clients.delete(network);
    }
    if (this.#clients.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #clientOf(network: string): Client {
    let client = this.#clients.get(network);
    if (client === undefined) {
      client = new Client(this.#options.nowMs);
      this.#clients.set(network, client);
      this.#timer ??= setInterval(() => this.look(), LOOK_EVERY_MS).unref();
    }
    return client;
  }
}
