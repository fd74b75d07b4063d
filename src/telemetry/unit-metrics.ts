import { Counter, type Registry } from 'prom-client';
import type { SettlementOutcome } from '../admit/ledger.ts';
import type { PaidUnits } from '../gateway/metering.ts';
import { RequestTally } from './durations.ts';

/** What requests cost in units of their own. */
export interface UnitMetrics {
  /** What has become of settlements on their way to the store. */
  settled(outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number): void;
}

export function unitMetrics(
  registry: Registry,
): UnitMetrics & { readonly paid: (units: PaidUnits, plan: string | null) => void } {
  const requests = new RequestTally(
    registry,
    'tollgate_unit_requests_total',
    'Requests that charged a unit, by the unit and whether their real cost is known; if not, why, and they paid what they took in advance.',
    ['unit', 'cost'],
  );
  const amounts = new RequestTally(
    registry,
    'tollgate_unit_amount_total',
    'What requests took of a unit in advance (reserved) and paid in the end (settled), by plan.',
    ['unit', 'plan', 'amount'],
  );
  const settlements = new Counter({
    name: 'tollgate_settlements_total',
    help: 'Settlements on their way to the store, one for each request and account that it charged in a unit and whose cost was not what it took in advance. A lost one leaves that counted.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  // Without a zero at the start, Prometheus sees no increase at the first count.
  for (const outcome of ['settled', 'lost']) settlements.inc({ outcome }, 0);
  return {
    settled: (outcome, count) => settlements.inc({ outcome }, count),
    paid: (units, plan) => {
      for (const { unit, reserved, settled, why } of units) {
        requests.count(unit, why ?? 'known');
        amounts.add(reserved, unit, plan ?? 'none', 'reserved');
        amounts.add(settled, unit, plan ?? 'none', 'settled');
      }
    },
  };
}
