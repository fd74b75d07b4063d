import { percentile } from '../../kit/statistics.ts';
import type { Notes } from './notes.ts';

/** How well the good clients of a scenario were served in one of its parts. */
export interface Service {
  /** Of the requests that were admitted. */
  readonly latenciesMs: readonly number[];
  /** Requests without an answer, or with a 5xx. */
  readonly errors: number;
}

/** Good clients may be three times as slow as without abusers, or 25 ms slower where three times is nearly nothing. */
const TIMES = 3;
const MORE_MS = 25;
/** With fewer answers a 99th percentile is a single request's luck. */
const ENOUGH = 100;

export interface Harm {
  readonly p99AloneMs: number;
  readonly p99BesideMs: number;
  readonly allowedMs: number;
  readonly errors: number;
}

/**
 * Compares good clients beside abusers with the same clients without them.
 * @returns null where too few requests were admitted to tell
 */
export function harmOf(alone: Service, beside: Service): Harm | null {
  if (Math.min(alone.latenciesMs.length, beside.latenciesMs.length) < ENOUGH) return null;
  const p99AloneMs = percentile(alone.latenciesMs, 99);
  const allowedMs = Math.max(TIMES * p99AloneMs, p99AloneMs + MORE_MS);
  return { p99AloneMs, p99BesideMs: percentile(beside.latenciesMs, 99), allowedMs, errors: beside.errors };
}

export function isHarmed({ p99BesideMs, allowedMs, errors }: Harm): boolean {
  return p99BesideMs > allowedMs || errors > 0;
}

export function judgeHarm(scenario: string, harm: Harm, notes: Notes): void {
  notes.looked('unharmed');
  if (!isHarmed(harm)) return;
  const { p99AloneMs, p99BesideMs, allowedMs, errors } = harm;
  const slow = `p99 is ${p99BesideMs.toFixed(1)} ms beside abusers, ${p99AloneMs.toFixed(1)} ms without; ${allowedMs.toFixed(1)} ms is allowed`;
  notes.fault('unharmed', scenario, 'harm', `${slow}. ${errors} requests failed.`);
}
