import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Plans } from '../admit/plan.ts';
import { eachWindow, WINDOWS, type WindowName } from '../admit/windows.ts';
import type { CustomerStore } from '../identify/customer-store.ts';
import type { KeyStore, StoredKey } from '../identify/key-store.ts';

/** How many keys of one plan are live: neither revoked nor expired. */
export interface LiveKeys {
  readonly keys: number;
  /** By window, how many of them have their own limit in place of the plan's. */
  readonly own: Readonly<Record<WindowName, number>>;
}

export type LiveKeysByPlan = ReadonlyMap<string, LiveKeys>;

interface CountingOptions {
  /** Keys that are read from the store at a time. */
  readonly page?: number;
  /**
   * Called after each page with the number of keys that were read so far.
   * @returns false to stop counting
   */
  readonly onPage: (keysRead: number) => boolean | Promise<boolean>;
}

/**
 * Counts the keys that are neither revoked nor expired, by plan.
 * @throws Failure `store_unavailable`
 */
export async function countLiveKeys(
  store: Pick<KeyStore, 'list'>,
  nowMs: number,
  { page: limit = 1_000, onPage }: CountingOptions,
): Promise<LiveKeysByPlan> {
  const found = new Map<string, { keys: number; own: Record<WindowName, number> }>();
  let cursor: string | null = null;
  let keysRead = 0;
  do {
    const page = await store.list({ limit, cursor });
    for (const key of page.keys) if (isLive(key, nowMs)) count(key);
    keysRead += page.keys.length;
    cursor = (await onPage(keysRead)) ? page.cursor : null;
  } while (cursor !== null);
  return found;

  function count({ plan, limits }: StoredKey): void {
    const ofPlan = found.get(plan) ?? { keys: 0, own: eachWindow(() => 0) };
    ofPlan.keys++;
    for (const window of WINDOWS) if (limits[window] !== undefined) ofPlan.own[window]++;
    found.set(plan, ofPlan);
  }
}

/** The keys of a store, each with the plan that it has: that of a key of a customer is the customer's. */
export function onTheirPlans({
  keys,
  customers,
}: {
  readonly keys: Pick<KeyStore, 'list'>;
  readonly customers: Pick<CustomerStore, 'get'>;
}): Pick<KeyStore, 'list'> {
  return {
    async list(asked) {
      const page = await keys.list(asked);
      const ids = [...new Set(page.keys.flatMap(({ customer }) => customer ?? []))];
      const plans = new Map(await Promise.all(ids.map(async (id) => [id, (await customers.get(id))?.plan] as const)));
      const planOf = ({ customer, plan }: StoredKey) => (customer === undefined ? plan : (plans.get(customer) ?? plan));
      return { ...page, keys: page.keys.map((key) => ({ ...key, plan: planOf(key) })) };
    },
  };
}

function isLive({ revokedAtMs, expiresAtMs }: StoredKey, nowMs: number): boolean {
  return revokedAtMs === null && (expiresAtMs === null || nowMs < expiresAtMs);
}

/** Keys that are read in one turn of the event loop, so that requests are served in between. */
const PAGE = 100;
/** How long the gateway waits before it asks a store again that did not answer. */
export const ASK_AGAIN_MS = 5_000;
/** After its start the gateway reads at most this many keys, oldest first, with pauses: no request needs the result. */
const MAX_AT_START = 100_000;
const PAUSE_AT_START_MS = 20;
/** At most this many plans are logged. */
const MAX_PLANS_LOGGED = 100;

type Keys = Pick<KeyStore, 'list'>;

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
 * Checks whether live keys use a plan that a reload would remove: each of their requests would get 500. A plan that
 * `removed` names is not checked. The check reads every key, because no store counts keys by plan, so it runs only if a plan
 * is removed. Tokens name plans too, and no store records which.
 * @param isWanted false once the reload was given up; the result is then meaningless
 * @returns null if the plans may be removed
 */
export async function retentionOf(
  { before, after, file }: PlansReplacement,
  keys: () => Promise<Keys>,
  isWanted: () => boolean,
): Promise<Retention | null> {
  const gone = [...before.plans.keys()].filter(lostFrom(after));
  if (gone.length === 0) return null;
  let live: LiveKeysByPlan;
  try {
    live = await countLiveKeys(await keys(), Date.now(), {
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

/** A sentence for each plan that live keys use and a change removes without naming it in `removed`. */
export function faultsOfLostPlans({ before, after, file }: PlansReplacement, live: LiveKeysByPlan): readonly string[] {
  const gone = [...before.plans.keys()].filter(lostFrom(after));
  return gone.flatMap((name) => {
    const keys = live.get(name)?.keys ?? 0;
    if (keys === 0) return [];
    const [use, them] = keys === 1 ? ['1 live key uses', 'it'] : [`${keys} live keys use`, 'them'];
    const ways = `Keep it; move ${them} (\`tollgate keys update KEY_ID --plan PLAN\`) and send SIGHUP; or name it in \`removed\``;
    return [
      `${file}: plans: lacks \`${name}\`, which ${use}. ${ways}, and ${them === 'it' ? 'it gets' : 'they get'} 500.`,
    ];
  });
}

/**
 * Logs a warning for live keys whose plan is not in plans.yaml. It runs once after a start, when there are no earlier plans
 * to compare with; `retentionOf` checks reloads.
 * @param plans returns the plans in force
 * @returns a function that stops it
 */
export function warnOfLostPlans(plans: () => Plans, keys: Keys, logger: Logger): () => void {
  const closing = new AbortController();
  const { signal } = closing;
  const pause = (ms: number) => delay(ms, undefined, { ref: false, signal });
  const run = async () => {
    for (;;) {
      try {
        const onPage = async (keysRead: number) => {
          await pause(PAUSE_AT_START_MS);
          return keysRead < MAX_AT_START;
        };
        warn(await countLiveKeys(keys, Date.now(), { page: PAGE, onPage }));
        return;
      } catch {
        await pause(ASK_AGAIN_MS);
      }
    }
  };
  const warn = (live: LiveKeysByPlan) => {
    const isLost = lostFrom(plans());
    const lost = [...live].filter(([name]) => isLost(name));
    for (const [plan, { keys }] of lost.slice(0, MAX_PLANS_LOGGED)) {
      logger.warn({ plan, keys }, 'live keys have a plan that plans.yaml lacks, and get 500');
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
