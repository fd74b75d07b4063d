import { type Counts, noCounts } from '../kit/report/outcomes.ts';
import type { Stretch } from '../kit/report/plot.ts';
import { type Answer, outcomeOf } from './answers.ts';

/** One second of the run. */
export interface Second {
  readonly counts: Counts;
  longestMs: number;
  /** All gateways together; null where nobody looked. */
  rssMib: number | null;
  files: number | null;
}

/** What happened in each second of the run, for the charts. */
export class Timeline {
  readonly startedAtMs = performance.now();
  readonly startedAt = new Date();
  /** The scenarios. */
  readonly scenarios: Stretch[] = [];
  /** The times in which a fault was there. */
  readonly faults: Stretch[] = [];
  readonly #seconds: Second[] = [];

  add(answer: Answer): void {
    const second = this.#at(answer.sentAtMs + answer.latencyMs);
    second.counts[outcomeOf(answer)]++;
    second.longestMs = Math.max(second.longestMs, answer.latencyMs);
  }

  /** What the gateways hold now. */
  hold(holdings: { readonly rssMib: number; readonly files: number } | null): void {
    const second = this.#at(performance.now());
    second.rssMib = holdings?.rssMib ?? null;
    second.files = holdings?.files ?? null;
  }

  /** Both in milliseconds of performance.now(). */
  stretch(kind: 'scenarios' | 'faults', name: string, fromMs: number, toMs: number): void {
    this[kind].push({ name, fromS: (fromMs - this.startedAtMs) / 1000, toS: (toMs - this.startedAtMs) / 1000 });
  }

  get seconds(): readonly Second[] {
    return this.#seconds;
  }

  #at(ms: number): Second {
    const index = Math.max(0, Math.floor((ms - this.startedAtMs) / 1000));
    while (this.#seconds.length <= index) {
      this.#seconds.push({ counts: noCounts(), longestMs: 0, rssMib: null, files: null });
    }
    return this.#seconds[index]!;
  }
}
