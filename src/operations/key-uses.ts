import { accountIdOf, accountsOf, shadowIdOf } from '../admit/account-id.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { Failure } from '../failure.ts';
import { secretName } from '../identify/secret-use-store.ts';
import { isReadable, type StoredKey } from '../model/record.ts';
import { ownerOf } from './account-owners.ts';
import { allowanceOfOwner, keyReport, notesOn, workingSecrets } from './key-report.ts';
import { customersOf, type OperatorStore } from './operator-store.ts';

// When keys and their secrets were used last.

/**
 * The day on which something of each consumer was counted last, its refusals included: `2026-11-21`, UTC; null if nothing is
 * kept, undefined if what is kept cannot be read. While a plan is not enforced, the history is that of the shadow.
 * @throws Failure `store_unavailable`
 */
export async function lastUsedOn(
  ids: readonly string[],
  history: Pick<HistoryStore, 'lastUsedMs'>,
): Promise<readonly (string | null | undefined)[]> {
  if (ids.length === 0) return [];
  const times = await history.lastUsedMs([...ids, ...ids.map(shadowIdOf)]);
  return ids.map((_, i) => {
    const both = [times[i], times[ids.length + i]];
    const known = both.filter((ms) => typeof ms === 'number');
    if (known.length > 0) return dayOf(Math.max(...known));
    return both.includes(undefined) ? undefined : null;
  });
}

/** The day on which a key was used last, under any of its accounts; null if nothing is kept that can be read. */
async function lastDayOf(key: StoredKey, history: Pick<HistoryStore, 'lastUsedMs'>): Promise<string | null> {
  try {
    const days = await lastUsedOn(accountsOf(key), history);
    return days.toSorted().findLast((day) => typeof day === 'string') ?? null;
  } catch (error) {
    // The store keeps no history. The rest of the key can be shown all the same.
    if (error instanceof Failure && error.code === 'refused') return null;
    throw error;
  }
}

/** All about a key, with the day (UTC) on which it and each of its secrets was used last; null if none is kept. */
export async function shownKey(key: StoredKey, store: OperatorStore) {
  const [nowMs, plans] = [store.nowMs(), store.plans()];
  const [customers, days, lastDay, owner] = await Promise.all([
    customersOf([key], store),
    store.secretUses.of(key.id, workingSecrets(key, nowMs).map(secretName)),
    lastDayOf(key, store.history),
    ownerOf(accountIdOf(key.id, key.customer ?? null), store),
  ]);
  const report = keyReport(key, plans, nowMs, customers);
  const isKnown = owner !== null && isReadable(owner) && report.plan !== null;
  const notes = notesOn(isKnown ? allowanceOfOwner(owner, report.plan, plans) : null);
  const secrets = report.secrets.map((secret, i) => ({ ...secret, lastUsedOn: days[i]! }));
  // What a suspended key is refused is in no history, and is a use of its secret.
  const lastUsedOn = [lastDay, ...days].filter((day) => day !== null).reduce<string | null>(laterDay, null);
  return { ...report, ...notes, lastUsedOn, secrets };
}

function laterDay(one: string | null, other: string): string {
  return one !== null && one > other ? one : other;
}

/** The day of a moment: `2026-11-21`, UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
