import { type DeprecatedCalls, MAX_CONSUMERS, NOBODY, OTHERS } from './deprecated-calls.ts';

const FLUSH_MS = 1_000;
const DAY_MS = 86_400_000;

export interface DeprecatedCallCounterOptions {
  readonly store: Pick<DeprecatedCalls, 'add'>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
}

/** Counts calls of deprecated routes here and brings them to the store once a second. Bounded; no request waits for it. */
export class DeprecatedCallCounter {
  readonly #options: DeprecatedCallCounterOptions;
  /** By day and route, `DAY ROUTE`. */
  #counts = new Map<string, Map<string, number>>();
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> = Promise.resolve();

  constructor(options: DeprecatedCallCounterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  /** @param consumerId null where the route asks for no key */
  count(route: string, consumerId: string | null): void {
    this.#add(`${dayOf(this.#options.wallMs())} ${route}`, consumerId ?? NOBODY, 1);
  }

  /** Brings what has been counted to the store; what it does not take now is kept for the next time. Never rejects. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#bring());
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  async #bring(): Promise<void> {
    const counts = this.#counts;
    this.#counts = new Map();
    for (const [name, calls] of counts) {
      const space = name.indexOf(' ');
      try {
        await this.#options.store.add(name.slice(0, space), name.slice(space + 1), calls);
      } catch {
        for (const [consumerId, n] of calls) this.#add(name, consumerId, n);
      }
    }
  }

  #add(name: string, consumerId: string, n: number): void {
    let calls = this.#counts.get(name);
    if (calls === undefined) {
      calls = new Map();
      this.#counts.set(name, calls);
    }
    const known = calls.has(consumerId) || calls.size < MAX_CONSUMERS ? consumerId : OTHERS;
    calls.set(known, (calls.get(known) ?? 0) + n);
  }
}

/** @param ms Unix milliseconds */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The last so many days, the latest first. */
export function lastDays(nowMs: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => dayOf(nowMs - i * DAY_MS));
}
