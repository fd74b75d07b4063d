import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { CustomerStore, KeyStore, RecordPage } from '../identify/record-store.ts';
import { type Plans, windowsIn } from '../model/plan.ts';
import { isReadable, type StoredCustomer, type StoredKey } from '../model/record.ts';
import { eachWindow, type WindowName } from '../model/values.ts';
import { unreadableText } from './unreadable.ts';

/** How many keys and customers a plan has that are live: not revoked, not expired, and of no customer that has expired. */
export interface LiveKeys {
  /** The keys that have their limits of the plan: its own, and those of its customers. */
  readonly keys: number;
  /** By window, how many of those without a customer have their own limit in place of the plan's. */
  readonly own: Readonly<Record<WindowName, number>>;
  /** How many of them belong to customers. */
  readonly ofCustomers: number;
  /** By window, how many of those have a limit of their customer in place of the plan's. */
  readonly limitedByCustomer: Readonly<Record<WindowName, number>>;
  /** By window, how many of those have their own limit in place of that of `each-key`. */
  readonly ownOfCustomers: Readonly<Record<WindowName, number>>;
  readonly customers: number;
  /** By window, how many of the customers have their own limit in place of the plan's. */
  readonly customersOwn: Readonly<Record<WindowName, number>>;
}

export type LiveKeysByPlan = ReadonlyMap<string, LiveKeys>;

/** The users of plans that were counted. */
export interface CountedUsers {
  readonly byPlan: LiveKeysByPlan;
  /** The ids of the keys and customers whose records cannot be read: each may be live, on any plan. */
  readonly unreadable: readonly string[];
}

/** The stores of those who use plans. */
export interface PlanUserStores {
  readonly keys: Pick<KeyStore, 'list'>;
  readonly customers: Pick<CustomerStore, 'list'>;
}

interface CountingOptions {
  /** Records that are read from the store at a time. */
  readonly page?: number;
  /**
   * Called after each page with the number of keys that were read so far. Customers are read before the first key.
   * @returns false to stop counting
   */
  readonly onPage: (keysRead: number) => boolean | Promise<boolean>;
  /** Called with each live customer, and each live key without a customer. */
  readonly onUser?: ((user: PlanUser, kind: 'keys' | 'customers') => void) | undefined;
}

/** A key or a customer, as the user of a plan. */
export type PlanUser = Pick<StoredKey & StoredCustomer, 'id' | 'name' | 'owner' | 'plan' | 'limits'>;

/**
 * Counts the keys and customers that are live, by plan.
 * @throws Failure `store_unavailable`
 */
export async function countLiveKeys(
  { keys, customers }: PlanUserStores,
  nowMs: number,
  { page: limit = 1_000, onPage, onUser }: CountingOptions,
): Promise<CountedUsers> {
  const count = new LiveCounts();
  const { byPlan, unreadable } = count;
  let cursor: string | null = null;
  do {
    const page = await customers.list({ limit, cursor });
    for (const customer of page.records) {
      if (!isReadable(customer)) {
        unreadable.push(customer.id);
        continue;
      }
      if (!isInForce(customer, nowMs)) continue;
      count.addCustomer(customer);
      onUser?.(customer, 'customers');
    }
    if (!(await onPage(0))) return { byPlan, unreadable };
    cursor = page.cursor;
  } while (cursor !== null);
  let keysRead = 0;
  do {
    const page: RecordPage<StoredKey> = await keys.list({ limit, cursor });
    for (const key of page.records) {
      if (!isReadable(key)) {
        unreadable.push(key.id);
        continue;
      }
      if (key.revokedAtMs !== null || !isInForce(key, nowMs)) continue;
      count.addKey(key);
      if (key.customer === undefined) onUser?.(key, 'keys');
    }
    keysRead += page.records.length;
    cursor = (await onPage(keysRead)) ? page.cursor : null;
  } while (cursor !== null);
  return { byPlan, unreadable };
}

type Mutable<T> = { -readonly [Member in keyof T]: T[Member] };
interface LiveCount extends Mutable<Omit<LiveKeys, 'own' | 'limitedByCustomer' | 'ownOfCustomers' | 'customersOwn'>> {
  readonly own: Record<WindowName, number>;
  readonly limitedByCustomer: Record<WindowName, number>;
  readonly ownOfCustomers: Record<WindowName, number>;
  readonly customersOwn: Record<WindowName, number>;
}

class LiveCounts {
  readonly byPlan = new Map<string, LiveCount>();
  readonly unreadable: string[] = [];
  /** The live customers, each with its plan and the windows of its own limits: one object for all that have the same. */
  readonly #customers = new Map<string, { readonly plan: string; readonly own: readonly WindowName[] }>();
  readonly #shared = new Map<string, { readonly plan: string; readonly own: readonly WindowName[] }>();

  addCustomer({ id, plan, limits }: StoredCustomer): void {
    const own = windowsIn(limits);
    const text = `${plan} ${own.join(' ')}`;
    const shared = this.#shared.get(text) ?? { plan, own };
    this.#shared.set(text, shared);
    this.#customers.set(id, shared);
    const ofPlan = this.#ofPlan(plan);
    ofPlan.customers++;
    for (const window of own) ofPlan.customersOwn[window]++;
  }

  addKey({ plan, limits, customer: customerId }: StoredKey): void {
    const own = windowsIn(limits);
    if (customerId === undefined) {
      const ofPlan = this.#ofPlan(plan);
      ofPlan.keys++;
      for (const window of own) ofPlan.own[window]++;
      return;
    }
    const customer = this.#customers.get(customerId);
    // The customer has expired or is deleted, and its keys are refused.
    if (customer === undefined) return;
    const ofPlan = this.#ofPlan(customer.plan);
    ofPlan.keys++;
    ofPlan.ofCustomers++;
    for (const window of customer.own) ofPlan.limitedByCustomer[window]++;
    for (const window of own) ofPlan.ownOfCustomers[window]++;
  }

  #ofPlan(plan: string): LiveCount {
    const known = this.byPlan.get(plan);
    if (known !== undefined) return known;
    const none = () => eachWindow(() => 0);
    const made = {
      ...{ keys: 0, own: none() },
      ...{ ofCustomers: 0, limitedByCustomer: none(), ownOfCustomers: none() },
      ...{ customers: 0, customersOwn: none() },
    };
    this.byPlan.set(plan, made);
    return made;
  }
}

function isInForce({ expiresAtMs }: Pick<StoredKey, 'expiresAtMs'>, nowMs: number): boolean {
  return expiresAtMs === null || nowMs < expiresAtMs;
}

/** The live users of a plan in words: `3 live keys use`, `1 customer uses`, `3 live keys and 2 customers use`. Empty without any. */
export function usersText({ keys, customers }: Pick<LiveKeys, 'keys' | 'customers'>): string {
  const users = [
    ...(keys === 0 ? [] : [keys === 1 ? '1 live key' : `${keys} live keys`]),
    ...(customers === 0 ? [] : [customers === 1 ? '1 customer' : `${customers} customers`]),
  ];
  return users.length === 0 ? '' : `${users.join(' and ')} ${keys + customers === 1 ? 'uses' : 'use'}`;
}

/** Keys that are read in one turn of the event loop, so that requests are served in between. */
const PAGE = 100;
/** How long the gateway waits before it asks a store again that did not answer. */
export const ASK_AGAIN_MS = 5_000;
/** After its start the gateway reads at most this many keys, oldest first: no request needs the result. */
const MAX_AT_START = 100_000;
const PAUSE_MS = 20;
/** At most this many plans are logged, and ids of records that cannot be read. */
const MAX_PLANS_LOGGED = 100;
const MAX_RECORDS_LOGGED = 20;

/** The names of the plans that a file has, and of those that it removes. */
interface PlanNames {
  readonly plans: { has(name: string): boolean };
  readonly removed: readonly string[];
}

/** A file of plans that takes the place of another. */
interface PlansReplacement {
  readonly before: Plans;
  readonly after: PlanNames;
  /** The name of the file in faults. */
  readonly file: string;
}

/** Why plans must not be removed. */
interface Retention {
  readonly faults: readonly string[];
  /** True if the store did not answer, so that the gateway does not know whether live keys use the plans. */
  readonly isUnknown: boolean;
}

/**
 * Checks whether live keys or customers use a plan that a reload would remove: each of their requests would get 500. A plan that
 * `removed` names is not checked. The check reads every customer and key, because no store counts them by plan, so it runs only if a plan
 * is removed. Tokens name plans too, and no store records which.
 * @param isWanted false once the reload was given up; the result is then meaningless
 * @returns null if the plans may be removed
 */
export async function retentionOf(
  { before, after, file }: PlansReplacement,
  stores: () => Promise<PlanUserStores>,
  isWanted: () => boolean,
): Promise<Retention | null> {
  const gone = [...before.plans.keys()].filter(lostFrom(after));
  if (gone.length === 0) return null;
  let live: CountedUsers;
  try {
    live = await countLiveKeys(await stores(), Date.now(), {
      page: PAGE,
      onPage: async () => {
        await nextTurn();
        return isWanted();
      },
    });
  } catch {
    const others = gone.length === 1 ? '' : ` and ${gone.length - 1} others`;
    const what = `lacks \`${gone[0]}\`${others}, and the store cannot be asked whether live keys use what is gone`;
    return { faults: [`${file}: plans: ${what}. It is asked again every 5 s.`], isUnknown: true };
  }
  const faults = faultsOfLostPlans({ before, after, file }, live);
  return faults.length === 0 ? null : { faults, isUnknown: false };
}

/**
 * A sentence for each plan that live keys or customers use and a change removes without naming it in `removed`; and one if records that
 * cannot be read may use such a plan. Fault: only a damaged record used the plan, and the key got 500 once the record was put right.
 */
export function faultsOfLostPlans(
  { before, after, file }: PlansReplacement,
  { byPlan: live, unreadable }: CountedUsers,
): readonly string[] {
  const gone = [...before.plans.keys()].filter(lostFrom(after));
  const records = unreadableText(unreadable.map((id) => ({ id })));
  const unknown =
    gone.length === 0 || records === ''
      ? []
      : [
          `${file}: plans: lacks ${gone.map((name) => `\`${name}\``).join(', ')}, and ${records}. They may use what is gone: put them right, or name it in \`removed\`.`,
        ];
  const used = gone.flatMap((name) => {
    const { keys = 0, ofCustomers = 0, customers = 0 } = live.get(name) ?? {};
    const use = usersText({ keys, customers });
    if (use === '') return [];
    const moves = [
      ...(keys === ofCustomers ? [] : ['`tollgate keys update KEY_ID --plan PLAN`']),
      ...(customers === 0 ? [] : ['`tollgate customers edit CUSTOMER_ID --plan PLAN`']),
    ];
    const [them, get] = keys + customers === 1 ? ['it', 'it gets'] : ['them', 'they get'];
    const ways = `Keep it; move ${them} (${moves.join(', ')}) and send SIGHUP; or name it in \`removed\``;
    return [`${file}: plans: lacks \`${name}\`, which ${use}. ${ways}, and ${get} 500.`];
  });
  return [...used, ...unknown];
}

/**
 * Logs a warning for live keys whose plan is not in plans.yaml. It runs once after a start, when there are no earlier plans
 * to compare with, and once more after a reload that removes plans, which `retentionOf` has checked. It reads with pauses.
 * @param plans returns the plans in force
 * @param most how many keys it reads
 * @returns a function that stops it
 */
export function warnOfLostPlans(
  plans: () => Plans,
  stores: PlanUserStores,
  logger: { warn(of: object, message: string): void },
  most = MAX_AT_START,
): () => void {
  const closing = new AbortController();
  const { signal } = closing;
  const pause = (ms: number) => delay(ms, undefined, { ref: false, signal });
  const run = async () => {
    for (;;) {
      try {
        const onPage = async (keysRead: number) => {
          await pause(PAUSE_MS);
          return keysRead < most;
        };
        warn(await countLiveKeys(stores, Date.now(), { page: PAGE, onPage }));
        return;
      } catch {
        await pause(ASK_AGAIN_MS);
      }
    }
  };
  const warn = ({ byPlan: live, unreadable }: CountedUsers) => {
    if (unreadable.length > 0) {
      const ids = unreadable.slice(0, MAX_RECORDS_LOGGED);
      logger.warn({ records: unreadable.length, ids }, 'records of keys or customers cannot be read');
    }
    const isLost = lostFrom(plans());
    const lost = [...live].filter(([name]) => isLost(name));
    for (const [plan, { keys, customers }] of lost.slice(0, MAX_PLANS_LOGGED)) {
      logger.warn(
        { plan, keys, ...(customers === 0 ? {} : { customers }) },
        'live keys have a plan that plans.yaml lacks, and get 500',
      );
    }
  };
  // `pause` rejects when `closing` aborts.
  run().catch(() => {});
  return () => closing.abort();
}

/** Returns a test that is true for a plan that is neither in plans.yaml nor named in `removed`. */
function lostFrom({ plans, removed }: PlanNames): (plan: string) => boolean {
  const announced = new Set(removed);
  return (plan) => !plans.has(plan) && !announced.has(plan);
}
