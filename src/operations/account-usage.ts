import { noTopUp } from '../admit/account-changes.ts';
import { accountIdOfBudget, accountIdsOf, accountsOf, partsOfAccount, shadowIdOf } from '../admit/account-id.ts';
import { askedUnit, type HistoryReport } from '../admit/history-report.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { type Durability, foreignAccount, type LedgerView, type MadeOnce, topUpIdOf } from '../admit/ledger.ts';
import {
  type Allowance,
  allowanceOf,
  type Limits,
  type Plans,
  plainAllowance,
  unitNamesIn,
  withAllBudgets,
} from '../admit/plan.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import { isLimitName, type LimitName, type WindowLimit, type WindowName } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import { isTokenHolder, type Random } from '../identify/api-key.ts';
import { isCustomerId, type StoredCustomer, type StoredKey } from '../model/record.ts';
import { type KeyUsageReport, keyUsageReport } from './key-usage-report.ts';
import {
  type CountedLimit,
  countedLimits,
  type MadeUsageChange,
  type NewTopUp,
  type ResetReport,
  type TopUpReport,
  termsOf,
  type UndoneTopUpReport,
  type UsageChange,
} from './usage-changes.ts';
import { type AskedSpan, reportOf } from './usage-history.ts';
import { visible } from './values.ts';

interface AccountUsageOptions {
  readonly ledger: LedgerView;
  readonly history: HistoryStore;
  /** @throws Failure `not_found` */
  readonly keyOf: (id: string) => Promise<StoredKey>;
  /** @throws Failure `not_found` */
  readonly customerOf: (id: string) => Promise<StoredCustomer>;
  /** Returns the plans in force. */
  readonly plans: () => Plans;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** What is counted for an id: of a key, a token caller (`jwt_…`, or `cus_…/jwt_…`), or a customer. */
interface Counted {
  readonly id: string;
  readonly accountId: string;
  /** With the budgets of all groups of routes. */
  readonly allowance: Allowance;
}

/**
 * What keys, token callers and customers have used, and what operators change in it. A customer is counted as a key would be: the
 * limits that its keys share are its own.
 * @throws Failure `not_found`, `refused`, `conflict`, `store_unavailable`, `store_corrupt` from every method
 */
export class AccountUsage {
  readonly #options: AccountUsageOptions;

  constructor(options: AccountUsageOptions) {
    this.#options = options;
  }

  /**
   * The limits of a caller or a customer and what it has used of them.
   * @param plan the plan of a consumer with tokens, because only the tokens name it; null for a key, which has its own
   */
  async of(id: string, plan: string | null = null): Promise<UsageReport> {
    return (await this.#read(id, plan)).report;
  }

  /** The same with what only operators see. */
  async forOperators(id: string, plan: string | null = null): Promise<KeyUsageReport> {
    const { report, allowance, outcome, accountId } = await this.#read(id, plan);
    const ids = accountIdsOf(accountId, allowance);
    const notes = await Promise.all(
      outcome.accounts.map(({ topUps }, i) => (topUps === undefined ? [] : this.#options.ledger.topUpNotes(ids[i]!))),
    );
    return keyUsageReport(report, this.#options.plans().plans.get(allowance.plan), allowance, outcome, notes);
  }

  async #read(id: string, plan: string | null) {
    const { ledger } = this.#options;
    const { accountId, allowance } = await this.#counted(id, plan);
    const outcome = await ledger.present(accountId, allowance);
    if (outcome === null) {
      const [damaged = accountId] = await this.#damagedOf({ accountId, allowance });
      throw foreignAccount(damaged === accountId ? id : damaged, ledger.placeOf(damaged));
    }
    const { shadow } = allowance;
    const watched = shadow === undefined ? null : await ledger.present(shadowIdOf(accountId), shadow);
    return { report: usageReport(id, allowance, outcome, watched), allowance, outcome, accountId };
  }

  /** Those of the accounts of a caller that cannot be read. */
  async #damagedOf({ accountId, allowance }: Omit<Counted, 'id'>): Promise<readonly string[]> {
    const { plan, budgets } = allowance;
    const ids = accountIdsOf(accountId, allowance);
    const outcomes = await Promise.all(
      budgets.map(({ limits }, i) => this.#options.ledger.present(ids[i]!, plainAllowance(plan, limits))),
    );
    return ids.filter((_, i) => outcomes[i] === null);
  }

  /**
   * What was used by hour or by day. A key may be revoked.
   * @param named the unit, which some plan limits; null for the cost of requests
   */
  async history(id: string, span: AskedSpan, named: string | null = null): Promise<HistoryReport> {
    const asked = askedUnit(named, unitNamesIn(this.#options.plans()));
    if ('fault' in asked) throw new Failure('refused', asked.fault);
    if (isCustomerId(id)) await this.#options.customerOf(id);
    const isKey = !isCustomerId(id) && !isTokenCaller(id);
    const accounts = isKey ? accountsOf(await this.#options.keyOf(id)) : [id];
    return reportOf(accounts, this.#options.history, span, asked.unit);
  }

  /**
   * Adds to one limit of a key or a customer until its window ends, or as long as the operator says.
   * @param once the id under which the change is made once; null for a new one
   */
  async topUp(id: string, topUp: NewTopUp, once: string | null): Promise<UsageChange<TopUpReport>> {
    const { ledger, nowMs } = this.#options;
    const { window, amount: given } = topUp;
    const counted = await this.#countedToChange(id);
    const [{ of, accountId }] = countedLimits(id, limitsIn(counted), counted.allowance, [window]);
    const terms = termsOf(topUp, of, nowMs());
    const changeId = once ?? this.#newId();
    const made = await ledger.topUp(accountId, of, given, changeId, terms);
    if (made.kind === 'reused') return made;
    const told = { id, window, amount: given, topUp: topUpIdOf(changeId), reason: terms.reason ?? null };
    if (made.kind === 'repeated') {
      const { limit, until } = await this.#standing(id, told, of);
      return { ...made, report: { ...told, limit, until }, states: UNCHANGED };
    }
    const { amount, untilMs } = made.value;
    const limit = of.limit + amount;
    const reason = terms.reason === undefined ? {} : { reason: terms.reason };
    const states = {
      before: { window, limit: limit - given },
      after: { window, limit, until: new Date(untilMs).toISOString(), ...reason },
    };
    return { ...made, report: { ...told, limit, until: Math.ceil(untilMs / 1000) }, states };
  }

  /** The limit of a top-up that was made before, and when the top-up ends; null if it is not in force any more. */
  async #standing(
    id: string,
    { window, topUp }: { readonly window: LimitName; readonly topUp: string },
    of: WindowLimit,
  ) {
    const present = (await this.forOperators(id)).windows[window];
    const { amount = 0, parts = [], until = null } = present?.topUp ?? {};
    // Not all top-ups are known one by one (`MAX_TOP_UP_NOTES`).
    const isInForce =
      parts.some((part) => part.id === topUp) || parts.reduce((rest, one) => rest - one.amount, amount) > 0;
    return { limit: Number(present?.limit ?? of.limit), until: isInForce ? until : null };
  }

  /**
   * Takes back what was added to a limit of a key or a customer. What was counted stays.
   * @param named the id of one top-up; or the name of a limit, for all of its top-ups
   */
  async undoTopUp(id: string, named: string): Promise<MadeUsageChange<UndoneTopUpReport>> {
    const { ledger } = this.#options;
    const { limit: counted, topUpId } = await this.#toppedUp(id, named);
    const { name: window, of, accountId } = counted;
    const made = await ledger.undoTopUp(accountId, of.window, topUpId, this.#newId());
    if (made.kind !== 'made') throw new Error(`A new id is known to the store: ${made.kind}.`);
    const { amount, left, untilMs } = made.value;
    const limit = of.limit + left;
    const until = left === 0 ? null : Math.ceil(untilMs / 1000);
    const ends = { until: new Date(untilMs).toISOString() };
    const states = {
      before: { window, limit: limit + amount, ...ends },
      after: { window, limit, ...(left === 0 ? {} : ends) },
    };
    return { ...made, report: { id, window, amount, limit, until }, states };
  }

  /** The limit that a top-up belongs to, and its id; null for all of the limit. @throws Failure `not_found` */
  async #toppedUp(id: string, named: string) {
    const counted = await this.#countedToChange(id);
    const limits = limitsIn(counted);
    if (isLimitName(named)) {
      const [limit] = countedLimits(id, limits, counted.allowance, [named]);
      return { limit, topUpId: null };
    }
    const own = limits.filter(({ customerId }) => customerId === null);
    for (const [accountId, some] of Map.groupBy(own, (limit) => limit.accountId)) {
      const note = (await this.#options.ledger.topUpNotes(accountId)).find((one) => one.id === named);
      const limit = some.find(({ of }) => of.window === note?.window);
      if (note !== undefined && limit !== undefined) return { limit, topUpId: note.id };
    }
    throw noTopUp();
  }

  /**
   * Sets what a key or a customer has used to nothing, and clears its strikes. A ban stays.
   * @param named the limits; null for all that it counts
   * @param once the id under which the change is made once; null for a new one
   */
  async reset(id: string, named: readonly LimitName[] | null, once: string | null): Promise<UsageChange<ResetReport>> {
    const counted = await this.#countedToChange(id);
    const limits = countedLimits(id, limitsIn(counted), counted.allowance, named);
    const changeId = once ?? this.#newId();
    const resets: { readonly made: MadeReset; readonly limits: readonly CountedLimit[] }[] = [];
    const byAccount = Map.groupBy(limits, (limit) => limit.accountId);
    for (const [accountId, some] of byAccount) {
      const windows = some.map(({ of }) => of.window);
      const made = await this.#options.ledger.resetUsage(accountId, windows, changeId);
      if (made.kind === 'reused') return made;
      resets.push({ made, limits: some });
    }
    const { ban } = await this.of(id).catch(async (error: unknown) => {
      if (!(error instanceof Failure) || error.code !== 'store_corrupt') throw error;
      // The reset was made, although accounts that were not named cannot be read.
      const damaged = await this.#damagedOf(counted);
      if (damaged.some((accountId) => byAccount.has(accountId))) throw error;
      return { ban: null };
    });
    return { ...joined(resets), report: { id, windows: limits.map(({ name }) => name), ban } };
  }

  async #countedToChange(id: string): Promise<Counted> {
    if (!isCustomerId(id) && (await this.#options.keyOf(id)).revokedAtMs !== null) {
      throw new Failure('conflict', `Key ${id} is revoked; nothing of it is counted any more.`);
    }
    return this.#counted(id, null);
  }

  #newId(): string {
    return Buffer.from(this.#options.random(16)).toString('hex');
  }

  /** @param given the plan that the operator names; null for none */
  async #counted(id: string, given: string | null): Promise<Counted> {
    if (isTokenCaller(id)) return { id, accountId: id, allowance: await this.#allowanceOfTokens(id, given) };
    if (isCustomerId(id)) {
      const { plan, limits } = await this.#options.customerOf(id);
      return { id, accountId: id, allowance: this.#allowance(`Customer ${id}`, plan, given, limits, null) };
    }
    const key = await this.#options.keyOf(id);
    const customer = key.customer === undefined ? null : await this.#options.customerOf(key.customer);
    const plan = customer?.plan ?? key.plan;
    const allowance = this.#allowance(`Key ${id}`, plan, given, key.limits, customer);
    return { id, accountId: accountsOf(key)[0], allowance };
  }

  #allowance(
    who: string,
    name: string,
    given: string | null,
    limits: Limits,
    customer: { readonly limits: Limits } | null,
  ): Allowance {
    if (given !== null && given !== name) throw new Failure('refused', `${who} is on the plan ${name}.`);
    const plan = this.#options.plans().plans.get(name);
    if (plan === undefined) throw new Failure('conflict', `The plan ${name} of ${lowered(who)} is not in plans.yaml.`);
    const allowance = allowanceOf(plan, limits, false, customer);
    if (!('missing' in allowance)) return withAllBudgets(allowance);
    throw new Failure('conflict', `${who} has no limit for ${allowance.missing.join(', ')}.`);
  }

  /** The plan of a token caller with a customer is that of the customer. */
  async #allowanceOfTokens(id: string, given: string | null): Promise<Allowance> {
    const { customerId } = partsOfAccount(id);
    const customer = customerId === null ? null : await this.#options.customerOf(customerId);
    const name = customer?.plan ?? given;
    if (name === null) {
      throw new Failure(
        'refused',
        `The plan of ${id} stands in its tokens and nowhere else. Say which it is: \`tollgate usage ${id} --plan PLAN\`, or GET /admin/keys/${id}/usage?plan=PLAN.`,
      );
    }
    const { plans } = this.#options.plans();
    const plan = plans.get(name);
    const allowance = plan === undefined ? null : allowanceOf(plan, {}, false, customer);
    if (allowance !== null && !('missing' in allowance)) return withAllBudgets(allowance);
    throw new Failure(
      'refused',
      `There is no plan '${visible(name)}' that a token can have. The plans are: ${[...plans.keys()].join(', ')}.`,
    );
  }
}

type MadeReset = Exclude<
  MadeOnce<{ used: Readonly<Partial<Record<WindowName, number>>>; strikes: number }>,
  { kind: 'reused' }
>;

/** One change of several accounts: made if any was made now. */
function joined(resets: readonly { readonly made: MadeReset; readonly limits: readonly CountedLimit[] }[]) {
  const unknown = resets.map(({ made }) => made.durability).find(({ kind }) => kind !== 'durable');
  const durability: Durability = unknown ?? { kind: 'durable' };
  const used: Record<string, number> = {};
  const none: Record<string, number> = {};
  let strikes = 0;
  for (const { made, limits } of resets) {
    if (made.kind !== 'made') continue;
    strikes += made.value.strikes;
    for (const { name, of } of limits) {
      used[name] = made.value.used[of.window] ?? 0;
      none[name] = 0;
    }
  }
  if (resets.every(({ made }) => made.kind === 'repeated')) {
    return { kind: 'repeated' as const, durability, states: UNCHANGED };
  }
  const states = { before: { used, strikes }, after: { used: none, strikes: 0 } };
  return { kind: 'made' as const, durability, states };
}

const UNCHANGED = { before: null, after: null };

/** Every limit that an id counts, with its account. Those that belong to the customer of a key are not its own. */
function limitsIn({ accountId, allowance }: Counted): readonly CountedLimit[] {
  return allowance.budgets.flatMap((budget) =>
    budget.limits.map((of) => ({
      name: of.name ?? of.window,
      of,
      accountId: accountIdOfBudget(accountId, budget),
      customerId: budget.scope === 'customer' ? partsOfAccount(accountId).customerId : null,
    })),
  );
}

/** Whether an id is that of a caller with tokens, or of its account with a customer. */
export function isTokenCaller(id: string): boolean {
  const { consumerId } = partsOfAccount(id);
  return consumerId !== null && isTokenHolder(consumerId);
}

function lowered(who: string): string {
  return `${who[0]!.toLowerCase()}${who.slice(1)}`;
}
