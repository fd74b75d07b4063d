import { type Counts, noCounts } from '../../kit/report/outcomes.ts';
import type { Stretch } from '../../kit/report/plot.ts';
import { percentile } from '../../kit/statistics.ts';
import type { Exchange } from '../exchange.ts';
import { outcomeOf } from '../judge/verdict.ts';
import type { ScenarioResult } from '../run.ts';

/** One second of the run. */
export interface Second {
  readonly counts: Counts;
  /** Milliseconds; null in a second without answers. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface Timeline {
  /** Unix milliseconds. */
  readonly startedAtMs: number;
  readonly seconds: readonly Second[];
  readonly stretches: readonly Stretch[];
}

/** What happened in each second, by when answers came. */
export function timelineOf(results: readonly ScenarioResult[]): Timeline {
  const parts = results.flatMap(({ parts, scenario }) => parts.map((part) => ({ ...part, beside: scenario.beside })));
  const startedAtMs = Math.min(...parts.map((part) => part.startedAtMs));
  const endedAtMs = Math.max(...parts.map((part) => part.endedAtMs));
  const buckets = Array.from({ length: Math.ceil((endedAtMs - startedAtMs) / 1000) || 1 }, (): Exchange[] => []);
  for (const { observed } of parts) {
    for (const { exchanges } of observed) {
      for (const exchange of exchanges) {
        const at = Math.floor((exchange.receivedAtMs - startedAtMs) / 1000);
        buckets[Math.min(Math.max(at, 0), buckets.length - 1)]!.push(exchange);
      }
    }
  }
  const stretches = parts
    .filter(({ beside }) => !beside)
    .map(({ scenario, whole, ...part }) => ({
      name: whole ? scenario : 'without abusers',
      fromS: (part.startedAtMs - startedAtMs) / 1000,
      toS: (part.endedAtMs - startedAtMs) / 1000,
    }));
  return { startedAtMs, seconds: buckets.map(second), stretches };
}

/** What became of the requests of each plan. */
export function countsByPlan(results: readonly ScenarioResult[]): ReadonlyMap<string, Counts> {
  const plans = new Map<string, Counts>();
  for (const { parts } of results) {
    for (const { subject, exchanges } of parts.flatMap(({ observed }) => observed)) {
      const counts = plans.get(subject.plan) ?? noCounts();
      for (const exchange of exchanges) counts[outcomeOf(exchange)]++;
      plans.set(subject.plan, counts);
    }
  }
  return plans;
}

function second(exchanges: readonly Exchange[]): Second {
  const counts = noCounts();
  for (const exchange of exchanges) counts[outcomeOf(exchange)]++;
  const latencies = exchanges.filter(({ status }) => status !== 0).map(({ latencyMs }) => latencyMs);
  const at = (percent: number) => (latencies.length === 0 ? null : percentile(latencies, percent));
  return { counts, p50: at(50), p95: at(95), p99: at(99) };
}
