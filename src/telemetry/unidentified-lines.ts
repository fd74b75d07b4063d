import type { Exchange } from '../gateway/exchange.ts';
import { ClientNetworks } from '../identify/failed-attempts.ts';
import type { LoggedExchange } from './access-line.ts';

/** A client network gets at most one line in this time. */
const SECOND_MS = 1_000;
/** How many client networks have a line of their own at a time. */
const MOST_NETWORKS = 1_000;
/** All further client networks, which share a line. */
const OTHERS = 'others';

/** The second after a line, and the requests in it that have no line yet. */
interface Second {
  readonly endsAtMs: number;
  count: number;
  /** The latest of these requests; null while there are none. */
  latest: Exchange | null;
}

/** Whether the gateway neither identified the caller of a request nor admitted the request to a public route. */
export function isUnidentified({ consumerId, judgement }: Exchange): boolean {
  return consumerId === null && judgement !== 'admitted';
}

/**
 * Decides when the requests of unidentified callers are written to the log.
 *
 * Attack: a client without a key sends requests of 27 bytes, each of which would be logged with 500 bytes. One connection
 * could fill the disk, and push the lines of real callers out of the buffer. So each client network (the /64 of an IPv6
 * address) gets at most one line a second, with a count. The first request is written at once. The requests of the second
 * after it are counted, and at its end written as one line with the members of the latest. Every request is counted.
 */
export class UnidentifiedLines {
  readonly #write: (exchange: LoggedExchange, count: number) => void;
  readonly #networks = new ClientNetworks(MOST_NETWORKS);
  /** By network, in the order in which they end. */
  readonly #seconds = new Map<string, Second>();

  /** @param write writes one line, which stands for `count` requests */
  constructor(write: (exchange: LoggedExchange, count: number) => void) {
    this.#write = write;
  }

  /** When the next second ends, in monotonic milliseconds; null while no request is held. */
  get dueAtMs(): number | null {
    return this.#seconds.values().next().value?.endsAtMs ?? null;
  }

  /** @param nowMs monotonic milliseconds */
  add(exchange: Exchange, nowMs: number): void {
    this.writeDue(nowMs);
    const network = this.#networkOf(exchange.clientAddress);
    const second = this.#seconds.get(network);
    if (second === undefined) this.#begin(network, exchange, 1, nowMs);
    else {
      second.count++;
      second.latest = exchange;
    }
  }

  /** Writes the lines of the seconds that have ended. */
  writeDue(nowMs: number): void {
    for (const [network, { endsAtMs, latest, count }] of this.#seconds) {
      if (endsAtMs > nowMs) return;
      this.#seconds.delete(network);
      if (latest !== null) this.#begin(network, latest, count, nowMs);
    }
  }

  /** Writes the lines of all held requests, whether or not their second has ended. */
  writeAll(): void {
    for (const [network, { latest, count }] of this.#seconds)
      if (latest !== null) this.#writeLine(network, latest, count);
    this.#seconds.clear();
  }

  /** Writes a line and begins the second after it. */
  #begin(network: string, exchange: Exchange, count: number, nowMs: number): void {
    this.#seconds.set(network, { endsAtMs: nowMs + SECOND_MS, count: 0, latest: null });
    this.#writeLine(network, exchange, count);
  }

  #writeLine(network: string, exchange: Exchange, count: number): void {
    this.#write(network === OTHERS ? { ...exchange, clientAddress: null } : exchange, count);
  }

  #networkOf(clientAddress: string): string {
    const network = this.#networks.of(clientAddress);
    return this.#seconds.size < MOST_NETWORKS || this.#seconds.has(network) ? network : OTHERS;
  }
}
