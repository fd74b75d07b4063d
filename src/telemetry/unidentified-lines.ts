import type { Exchange } from '../gateway/exchange.ts';
import { ClientNetworks } from '../identify/failed-attempts.ts';
import type { LoggedExchange } from './access-line.ts';

/** A client network gets at most one line in this long. */
const SECOND_MS = 1_000;
/** Client networks that are told apart at a time. */
const MOST_NETWORKS = 1_000;
/** The requests of all further ones, which share a line. */
const OTHERS = 'others';

/** The second that follows a line, and the requests in it that have no line yet. */
interface Second {
  readonly endsAtMs: number;
  count: number;
  /** The latest of them; null while there are none. */
  latest: Exchange | null;
}

/** Whether the gateway answered a request without having identified its caller or admitted it to a public route. */
export function isUnidentified({ consumerId, judgement }: Exchange): boolean {
  return consumerId === null && judgement !== 'admitted';
}

/**
 * Decides when the requests of unidentified callers are written to the log.
 *
 * Attack: anybody can send requests without a key, and a refusal of 27 bytes received was a line of 500: one connection
 * filled the disk and pushed the lines of real callers out of the buffer. So a client network (an IPv6 client is its /64)
 * has at most one line a second, with a count. The first request is written at once; those of the second that follows are
 * counted, and written as one line with the members of the latest when it is over. No request is left out of the counts.
 */
export class UnidentifiedLines {
  readonly #write: (exchange: LoggedExchange, count: number) => void;
  readonly #networks = new ClientNetworks(MOST_NETWORKS);
  /** By network, in the order of their ends. */
  readonly #seconds = new Map<string, Second>();

  /** @param write writes one line, which stands for `count` requests */
  constructor(write: (exchange: LoggedExchange, count: number) => void) {
    this.#write = write;
  }

  /** When the next second is over; null while nothing is held. */
  get dueAtMs(): number | null {
    return this.#seconds.values().next().value?.endsAtMs ?? null;
  }

  /** @param nowMs monotonic, as in all that follow */
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

  /** Writes the lines of the seconds that are over. */
  writeDue(nowMs: number): void {
    for (const [network, { endsAtMs, latest, count }] of this.#seconds) {
      if (endsAtMs > nowMs) return;
      this.#seconds.delete(network);
      if (latest !== null) this.#begin(network, latest, count, nowMs);
    }
  }

  /** Writes all that is held, whether its second is over or not. */
  writeAll(): void {
    for (const [network, { latest, count }] of this.#seconds)
      if (latest !== null) this.#writeLine(network, latest, count);
    this.#seconds.clear();
  }

  /** Writes a line, with which a second begins. */
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
