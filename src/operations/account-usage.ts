import { noTopUp } from '../admit/account-changes.ts';
import {
  accountIdOf,
  accountIdOfBudget,
  accountIdsOf,
  accountsOf,
  partsOfAccount,
  shadowIdOf,
} from '../admit/account-id.ts';
import { type Allowance, allowanceOf, plainAllowance, unitNamesIn, withAllBudgets } from '../admit/allowance.ts';
import { askedUnit, type HistoryReport } from '../admit/history-report.ts';
import { type Durability, foreignAccount, type LedgerView, type MadeOnce, topUpIdOf } from '../admit/ledger.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import type { WindowLimit } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import type { Limits, Plans } from '../model/plan.ts';
import { isCustomerId, isReadable } from '../model/record.ts';
import { isLimitName, type LimitName, type WindowName } from '../model/values.ts';
import { type KeyUsageReport, keyUsageReport } from './key-usage-report.ts';
import { visible } from './operation-values.ts';
import { CUSTOMERS, KEYS, type OperatorStore, recordOf } from './operator-store.ts';
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
import { type AskedSpan, isTokenCaller, reportOf } from './usage-history.ts';

/** What is counted for an id: of a key, a token caller (`jwt_…`, or `cus_…/jwt_…`), or a customer. */
interface CountedAccount {
  readonly id: string;
  readonly accountId: string;
  /** With the budgets of all groups of routes. */
  readonly allowance: Allowance;
}

// What keys, token callers and customers have used, and what operators change in it. A customer is counted as a key would be: the
// limits that its keys share are its own.

/**
 * The limits of a caller or a customer and what it has used of them.
 * @param plan the plan of a consumer with tokens, because only the tokens name it; null for a key, which has its own
 */
export async function usageOf(store: OperatorStore, id: string, plan: string | null = null): Promise<UsageReport> {
  return (await read(store, id, plan)).report;
}

/** The same with what only operators see. */
export async function operatorsUsageOf(
  store: OperatorStore,
  id: string,
  plan: string | null = null,
): Promise<KeyUsageReport> {
  const { report, allowance, decision, accountId } = await read(store, id, plan);
  const ids = accountIdsOf(accountId, allowance);
  const notes = await Promise.all(
    decision.accounts.map(({ topUps }, i) => (topUps === undefined ? [] : store.ledger.topUpNotes(ids[i]!))),
  );
  return keyUsageReport(report, store.plans().plans.get(allowance.plan), allowance, decision, notes);
}

async function read(store: OperatorStore, id: string, plan: string | null) {
  const { ledger } = store;
  const { accountId, allowance } = await countedOf(store, id, plan);
  const decision = await ledger.present(accountId, allowance);
  if (decision === null) {
    const [damaged = accountId] = await damagedOf({ accountId, allowance }, ledger);
    throw foreignAccount(damaged === accountId ? id : damaged, ledger.placeOf(damaged));
  }
  const { shadow } = allowance;
  const watched = shadow === undefined ? null : await ledger.present(shadowIdOf(accountId), shadow);
  return { report: usageReport(id, allowance, decision, watched), allowance, decision, accountId };
}

/** Those of the accounts of a caller that cannot be read. */
async function damagedOf(
  { accountId, allowance }: Omit<CountedAccount, 'id'>,
  ledger: LedgerView,
): Promise<readonly string[]> {
  const { plan, budgets } = allowance;
  const ids = accountIdsOf(accountId, allowance);
  const decisions = await Promise.all(
    budgets.map(({ limits }, i) => ledger.present(ids[i]!, plainAllowance(plan, limits))),
  );
  return ids.filter((_, i) => decisions[i] === null);
}

/**
 * What was used by hour or by day. A key may be revoked.
 * @param named the unit, which some plan limits; null for the cost of requests
 */
export async function historyOf(
  store: OperatorStore,
  id: string,
  span: AskedSpan,
  named: string | null = null,
): Promise<HistoryReport> {
  const asked = askedUnit(named, unitNamesIn(store.plans()));
  if ('fault' in asked) throw new Failure('refused', asked.fault);
  if (isCustomerId(id)) await recordOf(CUSTOMERS, store, id);
  const isKey = !isCustomerId(id) && !isTokenCaller(id);
  const accounts = isKey ? accountsOf(await recordOf(KEYS, store, id)) : [id];
  return reportOf(accounts, store.history, span, asked.unit);
}

/** Keys of a customer whose use is told apart. */
const MAX_TOLD_APART = 100;

/** What each key of a customer has used of what the keys share, the most first: the first 100 keys, those that are revoked among them. */
export async function usedByKeys(store: OperatorStore, customer: string, span: AskedSpan, named: string | null) {
  const asked = askedUnit(named, unitNamesIn(store.plans()));
  if ('fault' in asked) throw new Failure('refused', asked.fault);
  const { records, cursor } = await store.keys.list({ customer, limit: MAX_TOLD_APART, cursor: null });
  const used = await Promise.all(
    records.filter(isReadable).map(async ({ id, name }) => {
      const { buckets } = await reportOf([accountIdOf(id, customer)], store.history, span, asked.unit);
      return { id, name, admitted: buckets.reduce((sum, { admitted }) => sum + admitted, 0) };
    }),
  );
  return { keys: used.sort((a, b) => b.admitted - a.admitted), isWhole: cursor === null };
}

/**
 * Adds to one limit of a key or a customer until its window ends, or as long as the operator says.
 * @param once the id under which the change is made once; null for a new one
 */
export async function addTopUp(
  store: OperatorStore,
  id: string,
  topUp: NewTopUp,
  once: string | null,
): Promise<UsageChange<TopUpReport>> {
  const { ledger, nowMs } = store;
  const { window, amount: given } = topUp;
  const counted = await countedToChange(store, id);
  const [{ of, accountId }] = countedLimits(id, limitsIn(counted), counted.allowance, [window]);
  const terms = termsOf(topUp, of, nowMs());
  const changeId = once ?? newId(store);
  const made = await ledger.topUp(accountId, of, given, changeId, terms);
  if (made.kind === 'reused') return made;
  const told = { id, window, amount: given, topUp: topUpIdOf(changeId), reason: terms.reason ?? null };
  if (made.kind === 'repeated') {
    const { limit, until } = await standing(store, told, of);
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
async function standing(
  store: OperatorStore,
  { id, window, topUp }: { readonly id: string; readonly window: LimitName; readonly topUp: string },
  of: WindowLimit,
) {
  const present = (await operatorsUsageOf(store, id)).windows[window];
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
export async function takeTopUpBack(
  store: OperatorStore,
  id: string,
  named: string,
): Promise<MadeUsageChange<UndoneTopUpReport>> {
  const { ledger } = store;
  const { limit: counted, topUpId } = await toppedUp(store, id, named);
  const { name: window, of, accountId } = counted;
  const made = await ledger.undoTopUp(accountId, of.window, topUpId, newId(store));
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
async function toppedUp(store: OperatorStore, id: string, named: string) {
  const counted = await countedToChange(store, id);
  const limits = limitsIn(counted);
  if (isLimitName(named)) {
    const [limit] = countedLimits(id, limits, counted.allowance, [named]);
    return { limit, topUpId: null };
  }
  const own = limits.filter(({ customerId }) => customerId === null);
  for (const [accountId, some] of Map.groupBy(own, (limit) => limit.accountId)) {
    const note = (await store.ledger.topUpNotes(accountId)).find((one) => one.id === named);
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
export async function resetCounts(
  store: OperatorStore,
  id: string,
  named: readonly LimitName[] | null,
  once: string | null,
): Promise<UsageChange<ResetReport>> {
  const counted = await countedToChange(store, id);
  const limits = countedLimits(id, limitsIn(counted), counted.allowance, named);
  const changeId = once ?? newId(store);
  const resets: { readonly made: MadeReset; readonly limits: readonly CountedLimit[] }[] = [];
  const byAccount = Map.groupBy(limits, (limit) => limit.accountId);
  for (const [accountId, some] of byAccount) {
    const windows = some.map(({ of }) => of.window);
    const made = await store.ledger.resetUsage(accountId, windows, changeId);
    if (made.kind === 'reused') return made;
    resets.push({ made, limits: some });
  }
  const { ban } = await usageOf(store, id).catch(async (error: unknown) => {
    if (!(error instanceof Failure) || error.code !== 'store_corrupt') throw error;
    // The reset was made, although accounts that were not named cannot be read.
    const damaged = await damagedOf(counted, store.ledger);
    if (damaged.some((accountId) => byAccount.has(accountId))) throw error;
    return { ban: null };
  });
  return { ...joined(resets), report: { id, windows: limits.map(({ name }) => name), ban } };
}

async function countedToChange(store: OperatorStore, id: string): Promise<CountedAccount> {
  if (!isCustomerId(id) && (await recordOf(KEYS, store, id)).revokedAtMs !== null) {
    throw new Failure('conflict', `Key ${id} is revoked; nothing of it is counted any more.`);
  }
  return countedOf(store, id, null);
}

function newId({ random }: OperatorStore): string {
  return Buffer.from(random(16)).toString('hex');
}

/** @param given the plan that the operator names; null for none */
async function countedOf(store: OperatorStore, id: string, given: string | null): Promise<CountedAccount> {
  const plans = store.plans();
  if (isTokenCaller(id)) return { id, accountId: id, allowance: await allowanceOfTokens(store, id, given) };
  if (isCustomerId(id)) {
    const { plan, limits } = await recordOf(CUSTOMERS, store, id);
    return { id, accountId: id, allowance: allowanceIn(plans, `Customer ${id}`, plan, given, limits, null) };
  }
  const key = await recordOf(KEYS, store, id);
  const customer = key.customer === undefined ? null : await recordOf(CUSTOMERS, store, key.customer);
  const plan = customer?.plan ?? key.plan;
  const allowance = allowanceIn(plans, `Key ${id}`, plan, given, key.limits, customer);
  return { id, accountId: accountsOf(key)[0], allowance };
}

function allowanceIn(
  { plans }: Plans,
  who: string,
  name: string,
  given: string | null,
  limits: Limits,
  customer: { readonly limits: Limits } | null,
): Allowance {
  if (given !== null && given !== name) throw new Failure('refused', `${who} is on the plan ${name}.`);
  const plan = plans.get(name);
  if (plan === undefined) throw new Failure('conflict', `The plan ${name} of ${lowered(who)} is not in plans.yaml.`);
  const allowance = allowanceOf(plan, limits, false, customer);
  if (!('missing' in allowance)) return withAllBudgets(allowance);
  throw new Failure('conflict', `${who} has no limit for ${allowance.missing.join(', ')}.`);
}

/** The plan of a token caller with a customer is that of the customer. */
async function allowanceOfTokens(store: OperatorStore, id: string, given: string | null): Promise<Allowance> {
  const { customerId } = partsOfAccount(id);
  const customer = customerId === null ? null : await recordOf(CUSTOMERS, store, customerId);
  const name = customer?.plan ?? given;
  if (name === null) {
    throw new Failure(
      'refused',
      `The plan of ${id} stands in its tokens and nowhere else. Say which it is: \`tollgate usage ${id} --plan PLAN\`, or GET /admin/keys/${id}/usage?plan=PLAN.`,
    );
  }
  const { plans } = store.plans();
  const plan = plans.get(name);
  const allowance = plan === undefined ? null : allowanceOf(plan, {}, false, customer);
  if (allowance !== null && !('missing' in allowance)) return withAllBudgets(allowance);
  throw new Failure(
    'refused',
    `There is no plan '${visible(name)}' that a token can have. The plans are: ${[...plans.keys()].join(', ')}.`,
  );
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
function limitsIn({ accountId, allowance }: CountedAccount): readonly CountedLimit[] {
  return allowance.budgets.flatMap((budget) =>
    budget.limits.map((of) => ({
      name: of.name ?? of.window,
      of,
      accountId: accountIdOfBudget(accountId, budget),
      customerId: budget.scope === 'customer' ? partsOfAccount(accountId).customerId : null,
    })),
  );
}

function lowered(who: string): string {
  return `${who[0]!.toLowerCase()}${who.slice(1)}`;
}
