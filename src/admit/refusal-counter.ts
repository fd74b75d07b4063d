import { BackgroundWrites } from '../io/background-writes.ts';
import { type HistoryStore, MAX_REFUSED, type Refusals, type RefusedConsumer } from './history-store.ts';

const REPORT_MS = 1_000;

/** Counts refusals in memory and reports them to the store once a second. It is bounded, and no request waits for it. */
export class RefusalCounter {
  readonly #store: Pick<HistoryStore, 'addRefusals'>;
  #counts = new Map<string, { -readonly [K in keyof Refusals]: Refusals[K] }>();
  readonly writes = new BackgroundWrites(REPORT_MS, () => this.#report());

  constructor(store: Pick<HistoryStore, 'addRefusals'>) {
    this.#store = store;
  }

  count(refusal: RefusedConsumer): void {
    const known = this.#counts.get(refusal.consumerId);
    if (known !== undefined) {
      known[refusal.kind]++;
      known.kind = refusal.kind;
      known.plan = refusal.plan;
      known.window = refusal.window;
      known.cost = refusal.cost;
      known.untilMs = refusal.untilMs;
    } else if (this.#counts.size < MAX_REFUSED) {
      this.#counts.set(refusal.consumerId, { ...refusal, refused: 0, banned: 0, [refusal.kind]: 1 });
    }
  }

  async #report(): Promise<void> {
    const counts = this.#counts;
    if (counts.size === 0) return;
    this.#counts = new Map();
    try {
      await this.#store.addRefusals([...counts.values()]);
    } catch {
      for (const [id, earlier] of counts) {
        const later = this.#counts.get(id);
        if (later !== undefined) {
          later.refused += earlier.refused;
          later.banned += earlier.banned;
        } else if (this.#counts.size < MAX_REFUSED) this.#counts.set(id, earlier);
      }
    }
  }
}
