import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Plans } from '../admit/plan.ts';
import type { KeyStore } from '../identify/key-store.ts';
import { countLiveKeys, type LiveKeysByPlan } from './plans-live-keys.ts';

/** Keys that are looked at in one turn of the event loop, while requests are served. */
const PAGE = 100;
/** How often a store that could not be asked is asked again. */
export const ASK_AGAIN_MS = 5_000;
/** The start looks at so many keys, oldest first, and pauses between pages: it is a warning, and nobody waits for it. */
const MOST_AT_START = 100_000;
const PAUSE_AT_START_MS = 20;
/** So many plans are named. */
const MOST_TOLD = 100;

type Keys = Pick<KeyStore, 'list'>;

/** Why plans may not go. */
export interface Retention {
  readonly faults: readonly string[];
  /** Whether it is only that the store could not be asked. */
  readonly isUnknown: boolean;
}

/**
 * Looks whether live keys use a plan that is to go: each of their requests would get 500. A plan that `removed` names may go
 * all the same. Only where a plan goes are keys looked at, all of them, since no store counts them by plan; tokens name
 * plans too, and no store knows which.
 * @param isWanted false when nobody waits for it any more; what it comes to then says nothing
 * @returns null where nothing keeps the plans
 */
export async function retentionOf(
  { before, after, file }: { readonly before: Plans; readonly after: Plans; readonly file: string },
  keys: () => Promise<Keys>,
  isWanted: () => boolean,
): Promise<Retention | null> {
  const gone = [...before.plans.keys()].filter(lostFrom(after));
  if (gone.length === 0) return null;
  let live: LiveKeysByPlan;
  try {
    live = await countLiveKeys(await keys(), Date.now(), {
      page: PAGE,
      goOn: async () => {
        await nextTurn();
        return isWanted();
      },
    });
  } catch {
    const others = gone.length === 1 ? '' : ` and ${gone.length - 1} others`;
    const what = `lacks \`${gone[0]}\`${others}, and the store cannot be asked whether live keys use what is gone`;
    return { faults: [`${file}: plans: ${what}. It is asked again every 5 s.`], isUnknown: true };
  }
  const faults = gone.flatMap((name) => {
    const keys = live.get(name)?.keys ?? 0;
    if (keys === 0) return [];
    const [use, them] = keys === 1 ? ['1 live key uses', 'it'] : [`${keys} live keys use`, 'them'];
    const ways = `Keep it; move ${them} (\`tollgate keys update ID --plan PLAN\`) and send SIGHUP; or name it in \`removed\``;
    return [
      `${file}: plans: lacks \`${name}\`, which ${use}. ${ways}, and ${them === 'it' ? 'it gets' : 'they get'} 500.`,
    ];
  });
  return faults.length === 0 ? null : { faults, isUnknown: false };
}

/**
 * Warns once of live keys whose plan is not among those in force, where nothing before tells that it is gone: behind a start.
 * @param plans those in force
 * @returns a way to stop looking
 */
export function warnOfLostPlans(plans: () => Plans, keys: Keys, logger: Logger): () => void {
  const closing = new AbortController();
  const { signal } = closing;
  const pause = (ms: number) => delay(ms, undefined, { ref: false, signal });
  const look = async () => {
    for (;;) {
      try {
        const goOn = async (looked: number) => {
          await pause(PAUSE_AT_START_MS);
          return looked < MOST_AT_START;
        };
        tell(await countLiveKeys(keys, Date.now(), { page: PAGE, goOn }));
        return;
      } catch {
        await pause(ASK_AGAIN_MS);
      }
    }
  };
  const tell = (live: LiveKeysByPlan) => {
    const isLost = lostFrom(plans());
    const lost = [...live].filter(([name]) => isLost(name));
    for (const [plan, { keys }] of lost.slice(0, MOST_TOLD)) {
      logger.warn({ plan, keys }, 'live keys have a plan that plans.yaml lacks, and get 500');
    }
  };
  // It ends with an error when it is stopped in a pause.
  look().catch(() => {});
  return () => closing.abort();
}

/** What tells of a plan's name whether it is neither there nor gone on purpose. */
function lostFrom({ plans, removed }: Plans): (plan: string) => boolean {
  const onPurpose = new Set(removed);
  return (plan) => !plans.has(plan) && !onPurpose.has(plan);
}
