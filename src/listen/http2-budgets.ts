/** A store of tokens that fills up by itself: `burst` at once, then `perSecond`. */
export class Budget {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #atMs: number;

  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#atMs = nowMs;
  }

  /** Takes so many, or puts some back. @returns false when there is less than nothing left */
  spend(count: number, nowMs: number): boolean {
    const filled = this.#left + ((nowMs - this.#atMs) / 1000) * this.#perSecond;
    this.#atMs = nowMs;
    this.#left = Math.min(filled, this.#burst) - count;
    return this.#left >= 0;
  }
}

/** What one session has moved so far, in bytes. */
export interface Traffic {
  /** All that came. */
  readonly read: number;
  /** What of it was fields and bodies of requests. */
  readonly payload: number;
  readonly written: number;
}

const BURST_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 32 * 1024;
/** A client says for every so many bytes of an answer, in one byte or less, that it can take more. */
const WRITTEN_PER_READ = 100;

/**
 * Bounds what a session may send that is no request.
 *
 * Attack: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown frames and padding cost the client a few bytes each
 * and the server the work of reading them, without a request that a limit could count (CVE-2019-9511 to 9518). So their
 * bytes are counted whatever they are called: what came, less the requests in it, less what answers ask for.
 */
export class OverheadBudget {
  readonly #budget: Budget;
  #before: Traffic = { read: 0, payload: 0, written: 0 };

  constructor(nowMs: number) {
    this.#budget = new Budget(BURST_BYTES, BYTES_PER_SECOND, nowMs);
  }

  /** @returns false when too much has come that was no request */
  look(traffic: Traffic, nowMs: number): boolean {
    const { read, payload, written } = this.#before;
    this.#before = traffic;
    const useful = traffic.payload - payload + (traffic.written - written) / WRITTEN_PER_READ;
    return this.#budget.spend(Math.max(0, traffic.read - read - useful), nowMs);
  }
}
