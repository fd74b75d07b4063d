import { BackgroundWrites } from '../io/background-writes.ts';
import { type DeprecatedCalls, dayOf, MAX_CONSUMERS, OTHERS, WITHOUT_KEY } from '../operations/deprecated-calls.ts';

const FLUSH_MS = 1_000;

interface DeprecatedCallCounterOptions {
  readonly store: Pick<DeprecatedCalls, 'add'>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
}

/** Counts calls of deprecated routes in memory and adds them to the store once a second. Bounded; no request waits for it. */
export class DeprecatedCallCounter {
  readonly #options: DeprecatedCallCounterOptions;
  /** Calls by consumer, for each `DAY ROUTE`. */
  #counts = new Map<string, Map<string, number>>();
  readonly writes = new BackgroundWrites(FLUSH_MS, () => this.#addToStore());

  constructor(options: DeprecatedCallCounterOptions) {
    this.#options = options;
  }

  /** @param route `countedAs` of its deprecation; @param consumerId null on routes without keys */
  count(route: string, consumerId: string | null): void {
    this.#add(`${dayOf(this.#options.wallMs())} ${route}`, consumerId ?? WITHOUT_KEY, 1);
  }

  async #addToStore(): Promise<void> {
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
