import type { Allowance } from '../../../src/admit/plan.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';

/** One budget that a request charges, and the account that must count it. */
export interface JudgedBudget {
  readonly accountId: string;
  readonly limits: readonly WindowLimit[];
  /** Null: any number of requests may be in flight. */
  readonly inFlight: number | null;
  /** Whether it counts the requests of all consumers of a customer. */
  readonly isShared: boolean;
  /** Whether the usage history of its account has them. */
  readonly hasHistory: boolean;
}

/** The budgets of a consumer `ID` or `CUSTOMER/ID`, its own first. The judge names the accounts by itself. */
export function budgetsOf(consumerId: string, plan: Allowance): readonly JudgedBudget[] {
  const { limits, inFlight = null, further = [], history } = plan;
  const hasHistory = history !== undefined;
  const [customerId] = consumerId.split('/') as [string];
  return [
    { accountId: consumerId, limits, inFlight, isShared: false, hasHistory },
    ...further.map(({ scope, group, limits: shared, inFlight: most = null }): JudgedBudget => {
      const isShared = scope === 'customer';
      const owner = isShared ? customerId : consumerId;
      const accountId = group === null ? owner : `${owner}#${group}`;
      return {
        accountId,
        limits: shared,
        inFlight: most,
        isShared,
        hasHistory: hasHistory && isShared && group === null,
      };
    }),
  ];
}

/** The account that has the strikes and the ban. */
export function struckOf(budgets: readonly JudgedBudget[], { bansOfCustomer }: Allowance): number {
  return bansOfCustomer ? budgets.findIndex(({ isShared }) => isShared) : 0;
}
