import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AuditStore, KeptRecord } from './audit-store.ts';
import type { RecordedChange } from './audit-trail.ts';
import { timeOf } from './key-report.ts';

/** A change as commands and the admin API show it. `time` is RFC 3339. */
export interface ChangeReport extends RecordedChange {
  readonly id: string;
  readonly time: string;
}

/** Which changes to list. Null means any. */
export interface ChangeFilter {
  /** The id of a key, or of a consumer that was banned. */
  readonly key: string | null;
  /** The name of a token, or of the user of a shell. */
  readonly actor: string | null;
  /** Unix milliseconds; earlier changes are left out. */
  readonly sinceMs: number | null;
}

/** Records per read. The store serves the requests of callers between the reads of a long history. */
const READ_AT_ONCE = 500;

/**
 * Lists the changes that match a filter, the newest first.
 * @param page `before`: the number of a record, to list only older ones; null for the first page
 * @returns the changes, and as `cursor` the number of the last one, or null if there are no more
 * @throws Failure as the store does
 */
export async function listChanges(
  store: AuditStore,
  filter: ChangeFilter,
  { limit, before }: { readonly limit: number; readonly before: number | null },
): Promise<{ readonly changes: readonly ChangeReport[]; readonly cursor: number | null }> {
  const changes: ChangeReport[] = [];
  let last = 0;
  for (let next = before; ; ) {
    const records = await store.list({ limit: READ_AT_ONCE, before: next });
    const recent = records.filter(({ atMs }) => filter.sinceMs === null || atMs >= filter.sinceMs);
    for (const record of recent) {
      const change = reportOf(record);
      if (change === null || !matches(change, filter)) continue;
      // A match beyond the limit shows that there is another page.
      if (changes.length === limit) return { changes, cursor: last };
      changes.push(change);
      last = record.number;
    }
    // While the store's clock was wrong, records got times before those of older ones: one early time does not end the search.
    if (records.length < READ_AT_ONCE || recent.length === 0) return { changes, cursor: null };
    next = records.at(-1)!.number;
    // The embedded store answers within the same turn.
    await nextTurn();
  }
}

/** What people call the key of a change: its entry in keys.yaml, or its name; `-` if the record has neither. */
export function nameOfKey({ before, after }: Pick<RecordedChange, 'before' | 'after'>): string {
  const { entry, name } = { ...membersOf(before), ...membersOf(after) };
  return textOf(entry ?? name);
}

/**
 * The difference between the states of a key before and after a change, as text: `plan: free → pro`. The window of a top-up
 * is named although it is the same in both.
 */
export function differenceOf({ before, after }: Pick<RecordedChange, 'before' | 'after'>): string {
  const [was, is] = [membersOf(before), membersOf(after)];
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])];
  return names
    .filter((name) => name === 'window' || textOf(was[name]) !== textOf(is[name]))
    .map((name) => {
      if (before === null || name === 'window') return `${name}: ${textOf(is[name])}`;
      return after === null ? `${name}: ${textOf(was[name])}` : `${name}: ${textOf(was[name])} → ${textOf(is[name])}`;
    })
    .join(', ');
}

type Members = Readonly<Record<string, unknown>>;

function membersOf(state: object | null): Members {
  return (state ?? {}) as Members;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '-';
  if (Array.isArray(value)) return value.map(textOf).join(' ') || '-';
  if (typeof value !== 'object') return String(value);
  const members = Object.entries(value).map(([name, inner]) => `${name}=${textOf(inner)}`);
  return members.join(' ') || '-';
}

/** The change that a record holds; null if the record was not written by this or an earlier version of Tollgate. */
function reportOf({ id, atMs, text }: KeptRecord): ChangeReport | null {
  try {
    const change = JSON.parse(text) as RecordedChange;
    return typeof change.action === 'string' && typeof change.actor?.kind === 'string'
      ? { id, time: timeOf(atMs), ...change }
      : null;
  } catch {
    return null;
  }
}

function matches({ target, actor, after }: ChangeReport, filter: ChangeFilter): boolean {
  const name = 'name' in actor ? actor.name : actor.user;
  if (filter.actor !== null && name !== filter.actor) return false;
  if (filter.key === null || target === filter.key) return true;
  const { keys } = membersOf(after);
  return Array.isArray(keys) && keys.includes(filter.key);
}
