import type { SettlementOutcome } from '../admit/ledger.ts';
import type { PaidUnits } from '../gateway/metering.ts';
import { RequestTally } from './durations.ts';
import type { MetricRegistry } from './metric-registry.ts';

/** What requests cost in units of their own. */
export interface UnitMetrics {
  /** What has become of settlements on their way to the store. */
  settled(outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number): void;
}

export function unitMetrics(
  registry: MetricRegistry,
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
  return {
    settled: registry.counted(
      'tollgate_settlements_total',
      'Settlements on their way to the store, one for each request and account that it charged in a unit and whose cost was not what it took in advance. A lost one leaves that counted.',
      'outcome',
      ['settled', 'lost'],
    ),
    paid: (units, plan) => {
      for (const { unit, reserved, settled, why } of units) {
        requests.count(unit, why ?? 'known');
        amounts.add(reserved, unit, plan ?? 'none', 'reserved');
        amounts.add(settled, unit, plan ?? 'none', 'settled');
      }
    },
  };
}
