import { isDeepStrictEqual } from 'node:util';
import type { Durability } from '../../admit/ledger.ts';
import type { Plan } from '../../admit/plan.ts';
import { Failure } from '../../failure.ts';
import type { CustomerStore, StoredCustomer } from '../../identify/customer-store.ts';
import { isRefusal, MAY_BE_UNDONE_TEXT, type OutcomeKind } from './outcome.ts';
import { customerAppliedTo, type PlannedCustomer } from './plan-customers.ts';

/** A customer that was made or changed, or that needed no change any more. */
export interface MadeCustomer {
  /** Null if the change made the customer. */
  readonly before: StoredCustomer | null;
  readonly after: StoredCustomer;
  readonly durability: Durability;
}

/** What became of a planned change of a customer. */
export interface CustomerOutcome {
  readonly change: PlannedCustomer;
  readonly kind: OutcomeKind;
  readonly why: string | null;
}

export interface ApplyCustomersDeps {
  readonly customers: Pick<CustomerStore, 'create' | 'get' | 'update'>;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly nowMs: () => number;
  /** Makes a change with an entry in the record of changes. */
  readonly recorded: (change: PlannedCustomer, work: () => Promise<MadeCustomer>) => Promise<MadeCustomer>;
}

/**
 * Makes the planned changes of customers one after the other, each only if it is still the right one: an entry is compared with its
 * customer once more, within the store's atomic update.
 * @throws Failure `store_unavailable` or `audit_unavailable`; the changes reported until then are made
 */
export async function* applyCustomers(
  set: string,
  changes: readonly PlannedCustomer[],
  deps: ApplyCustomersDeps,
): AsyncGenerator<CustomerOutcome> {
  for (const change of changes) {
    try {
      const { before, after, durability } = await deps.recorded(change, () => make(set, change, deps));
      if (durability.kind !== 'durable') yield { change, kind: 'unknown', why: MAY_BE_UNDONE_TEXT };
      else yield { change, kind: isDeepStrictEqual(before, after) ? 'same' : 'done', why: null };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      yield { change, kind: 'refused', why: error.message };
    }
  }
}

async function make(
  set: string,
  change: PlannedCustomer,
  { customers, plans, nowMs }: ApplyCustomersDeps,
): Promise<MadeCustomer> {
  const { id, name } = change;
  if (change.kind === 'create') {
    const after = { ...change.after, createdAtMs: nowMs() };
    return { before: null, after, durability: await customers.create(after) };
  }
  let before: StoredCustomer | null = null;
  const updated = await customers.update(id, (present) => {
    before = present;
    return customerAppliedTo(present, { set, name }, change.entry, { plans, nowMs: nowMs() });
  });
  if (updated === null || before === null) throw new Failure('not_found', `Customer ${id} was deleted meanwhile.`);
  return { before, after: updated.record, durability: updated.durability };
}
