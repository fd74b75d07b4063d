import { Admitter, type AdmitterOptions } from '../../src/admit/admit.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import type { AdmissionResult } from '../../src/admit/verdict.ts';
import { FakeLedger } from './fake-ledger.ts';

/** A gateway's admission before a store of the test's, both on clocks that the test moves together. */
export function admitterOn(ledger = new FakeLedger(), options: Partial<AdmitterOptions> = {}) {
  const clock = { monotonicMs: 5_000.25 };
  const admitter = new Admitter({
    ledger,
    onFailure: 'local',
    monotonicMs: () => clock.monotonicMs,
    wallMs: () => ledger.nowMs,
    remembered: 1_000,
    ...options,
  });
  return {
    ledger,
    admitter,
    /** Time passes, for the gateway and for the store. */
    pass: (ms: number) => {
      clock.monotonicMs += ms;
      ledger.nowMs += ms;
    },
    /** Requests of one turn. */
    burst: (id: string, plan: Allowance, n: number, cost = 1) =>
      Promise.all(Array.from({ length: n }, () => admitter.admit(id, plan, cost))),
    one: async (id: string, plan: Allowance, cost = 1) => admitter.admit(id, plan, cost),
  };
}

/** What became of a request: `admitted`, `refused`, `banned`, `unavailable`. */
export const kindOf = (result: AdmissionResult) => (result.kind === 'decided' ? result.verdict.kind : result.kind);

/** What a client is told to wait, seconds; null where it is admitted, or waiting does not help. */
export function retryAfterOf(result: AdmissionResult): number | null {
  if (result.kind !== 'decided') return null;
  const { verdict } = result;
  if (verdict.kind !== 'refused' && verdict.kind !== 'banned') return null;
  const { retryAtMs, nowMs } = verdict;
  if (retryAtMs === null) return null;
  return Math.max(Math.ceil((retryAtMs - nowMs) / 1_000), 1);
}
