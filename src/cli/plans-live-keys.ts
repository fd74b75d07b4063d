import { WINDOWS, type WindowName } from '../admit/plan.ts';
import type { KeyStore, StoredKey } from '../identify/key-store.ts';

/** The keys of one plan that can be used now. */
export interface LiveKeys {
  readonly keys: number;
  /** How many of them have a limit of their own for a window, which the plan then does not decide. */
  readonly own: Readonly<Record<WindowName, number>>;
}

export type LiveKeysByPlan = ReadonlyMap<string, LiveKeys>;

export interface CountingOptions {
  /** Keys that are looked at before `goOn` is asked. */
  readonly page?: number;
  /** Called with how many keys have been looked at. @returns whether to look at more */
  readonly goOn: (looked: number) => boolean | Promise<boolean>;
}

/**
 * Counts the keys that are neither revoked nor expired, by plan.
 * @throws Failure `store_unavailable`
 */
export async function countLiveKeys(
  store: Pick<KeyStore, 'list'>,
  nowMs: number,
  { page: limit = 1_000, goOn }: CountingOptions,
): Promise<LiveKeysByPlan> {
  const found = new Map<string, { keys: number; own: Record<WindowName, number> }>();
  let cursor: string | null = null;
  let looked = 0;
  do {
    const page = await store.list({ limit, cursor });
    for (const key of page.keys) if (isLive(key, nowMs)) count(key);
    looked += page.keys.length;
    cursor = (await goOn(looked)) ? page.cursor : null;
  } while (cursor !== null);
  return found;

  function count({ plan, limits }: StoredKey): void {
    const ofPlan = found.get(plan) ?? { keys: 0, own: { second: 0, minute: 0, hour: 0, day: 0 } };
    ofPlan.keys++;
    for (const window of WINDOWS) if (limits[window] !== undefined) ofPlan.own[window]++;
    found.set(plan, ofPlan);
  }
}

function isLive({ revokedAtMs, expiresAtMs }: StoredKey, nowMs: number): boolean {
  return revokedAtMs === null && (expiresAtMs === null || nowMs < expiresAtMs);
}
