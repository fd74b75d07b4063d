import type { Allowance } from '../../../src/admit/allowance.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import { chargeOf } from '../../../src/engine/charging.ts';
import type { Amounts } from '../../../src/engine/types.ts';

/** One budget that a request charges, and the account that must count it. */
export interface JudgedBudget {
  readonly accountId: string;
  readonly limits: readonly WindowLimit[];
  /** Null: any number of requests may be in flight. */
  readonly inFlight: number | null;
  /** What it counts; null for requests. */
  readonly unit: string | null;
  /** Whether it counts the requests of all consumers of a customer. */
  readonly isShared: boolean;
  /** Whether the usage history of its account has them. */
  readonly hasHistory: boolean;
}

/** The budgets of a consumer `ID` or `CUSTOMER/ID`, its own first. The judge names the accounts by itself. */
export function budgetsOf(consumerId: string, plan: Allowance): readonly JudgedBudget[] {
  const [customerId] = consumerId.split('/') as [string];
  return plan.budgets.map(({ scope, group, unit = null, limits, inFlight = null }) => {
    const isShared = scope === 'customer';
    const owner = isShared ? customerId : consumerId;
    const grouped = group === null ? owner : `${owner}#${group}`;
    const accountId = unit === null ? grouped : `${grouped}%${unit}`;
    const hasHistory = plan.history !== undefined && group === null && unit === null;
    return { accountId, limits, inFlight, unit, isShared, hasHistory };
  });
}

/** What one request charges a budget, and how much must be left there. */
export function chargedIn({ unit }: JudgedBudget, cost: number, amounts: Amounts | undefined) {
  const charge = chargeOf(unit === null ? {} : { unit }, cost, amounts);
  return { charge, needed: Math.max(charge, 1) };
}

/** The histories that have what a consumer used of a unit: its own, and that of its customer. */
export function historiesOfUnit(consumerId: string, unit: string): readonly string[] {
  const [customerId] = consumerId.split('/') as [string];
  const ids = customerId === consumerId ? [consumerId] : [consumerId, customerId];
  return ids.map((id) => `${id}%${unit}`);
}
