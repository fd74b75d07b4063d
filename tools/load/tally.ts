import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { noCounts, totalOf } from '../kit/report/outcomes.ts';
import type { Exchange } from './exchange.ts';
import { outcomeOf } from './judge/verdict.ts';

/** What has come of requests so far: kept while they run, for whoever watches, and shown at the end. */
export class Tally {
  readonly counts = noCounts();
  readonly statuses = new Map<number, number>();
  readonly #latencies: RecordableHistogram = createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 });

  add(exchange: Exchange): void {
    this.counts[outcomeOf(exchange)]++;
    this.statuses.set(exchange.status, (this.statuses.get(exchange.status) ?? 0) + 1);
    if (exchange.status !== 0) this.#latencies.record(Math.max(1, Math.round(exchange.latencyMs * 1000)));
  }

  get requests(): number {
    return totalOf(this.counts);
  }

  /** Milliseconds; 0 while there is no answer. */
  latencyMs(percent: number): number {
    return this.#latencies.count === 0 ? 0 : this.#latencies.percentile(percent) / 1000;
  }
}
