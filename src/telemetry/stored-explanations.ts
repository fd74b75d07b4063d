import type { Exchange } from '../gateway/exchange.ts';
import { BackgroundWrites } from '../io/background-writes.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import { type Explanation, type ExplanationStore, HOUR_MS, MAX_EXPLANATION } from '../operations/explanation-store.ts';
import { CallerBudget } from './caller-budget.ts';
import { hasFailed, KeptRefusals } from './kept-refusals.ts';

/** How often explanations are written, and most of them at once. Further ones of this time are not kept in the store. */
const FLUSH_MS = 1_000;
const MAX_AT_ONCE = 50;
/** Those that the store has not taken wait, up to this number. */
const MAX_WAITING = 200;
/** Callers whose refusals of a window are known to be kept. */
const CALLERS = 10_000;
const DAY_MS = 86_400_000;
/**
 * Maximum explanations of one caller in an hour.
 *
 * Attack: a caller floods the gateway with failures, or has a refusal in each of many windows, to fill the store and to leave no room for
 * those of others.
 */
const REFUSALS_OF_CALLER = 24;
const FAILURES_OF_CALLER = 12;

interface Options {
  readonly store: ExplanationStore;
  /** The name of the host, by which the gateway is still known after it has ended. */
  readonly host: string;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
}

/**
 * Writes to the store, in the background, why the first request of a caller in a window was refused, and which requests failed. No
 * request waits for it, and no text is made while a request is served.
 */
export class StoredExplanations {
  readonly #options: Options;
  /** By consumer, and by window or `ban`: until when its refusals need no further explanation, Unix milliseconds. */
  readonly #until = new RecentlyUsed<Map<string, number>>(CALLERS);
  readonly #refusals = new CallerBudget(REFUSALS_OF_CALLER, HOUR_MS);
  readonly #failures = new CallerBudget(FAILURES_OF_CALLER, HOUR_MS);
  #noted = new KeptRefusals(MAX_AT_ONCE);
  #notedCount = 0;
  #waiting: Explanation[] = [];
  readonly writes = new BackgroundWrites(FLUSH_MS, (all) => this.#write(all ? MAX_WAITING : MAX_AT_ONCE));

  constructor(options: Options) {
    this.#options = options;
  }

  /** @param exchange of a request that was refused or failed @param nowMs Unix milliseconds */
  note(exchange: Exchange, nowMs: number): void {
    if (this.#notedCount === MAX_AT_ONCE || !this.#isWanted(exchange, nowMs)) return;
    this.#notedCount++;
    this.#noted.add(exchange, nowMs);
  }

  #isWanted(exchange: Exchange, nowMs: number): boolean {
    const { consumerId, code, window, retryAtMs, judgement } = exchange;
    const isOfLimit = code === 'rate_limit_exceeded' || code === 'api_key_banned';
    if (!isOfLimit) return hasFailed(exchange) && this.#failures.take(exchange, nowMs);
    if (consumerId === null) return false;
    const limit = judgement === 'banned' ? 'ban' : (window ?? '');
    const known = this.#until.get(consumerId);
    if (known !== undefined && nowMs < (known.get(limit) ?? 0)) return false;
    if (!this.#refusals.take(exchange, nowMs)) return false;
    const until = known ?? new Map<string, number>();
    if (known === undefined) this.#until.set(consumerId, until);
    until.set(limit, Math.min(retryAtMs ?? Number.POSITIVE_INFINITY, nowMs + DAY_MS));
    return true;
  }

  async #write(most: number): Promise<void> {
    this.#takeNoted();
    const some = this.#waiting.splice(0, most);
    if (some.length === 0) return;
    try {
      await this.#options.store.keep(some);
    } catch {
      this.#waiting.unshift(...some);
    }
  }

  #takeNoted(): void {
    if (this.#notedCount === 0) return;
    const { host, wallMs } = this.#options;
    for (const refusal of this.#noted.all(wallMs())) {
      const text = JSON.stringify({ ...refusal, gateway: host, gatewayHost: host });
      if (text.length > MAX_EXPLANATION || this.#waiting.length >= MAX_WAITING) continue;
      this.#waiting.push({ requestId: refusal.requestId, atMs: Date.parse(refusal.at), text });
    }
    this.#noted = new KeptRefusals(MAX_AT_ONCE);
    this.#notedCount = 0;
  }
}
