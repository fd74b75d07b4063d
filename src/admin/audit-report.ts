import type { AuditStore, KeptRecord } from '../identify/audit-store.ts';
import type { RecordedChange } from './audit-trail.ts';
import { timeOf } from './key-report.ts';

/** A change as commands and the admin API show it; times RFC 3339. */
export interface ChangeReport extends RecordedChange {
  readonly id: string;
  readonly time: string;
}

/** Which changes are asked for; null where any will do. */
export interface ChangeFilter {
  /** The id of a key, or of a caller that was banned. */
  readonly key: string | null;
  /** The name of a token, or of the user of a shell. */
  readonly actor: string | null;
  /** Unix milliseconds: not those before. */
  readonly sinceMs: number | null;
}

/** Records read at once: of a history of a hundred thousand each part leaves room for the requests of callers. */
const READ_AT_ONCE = 500;

/**
 * The changes that a filter asks for, the newest first.
 * @param before null, or the number of a record: only those older than that
 * @returns with `cursor`, the number of the last one; null where there are no more
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
    for (const record of records) {
      if (filter.sinceMs !== null && record.atMs < filter.sinceMs) return { changes, cursor: null };
      const change = reportOf(record);
      if (change === null || !isAskedFor(change, filter)) continue;
      // One more than wanted tells that there is another page.
      if (changes.length === limit) return { changes, cursor: last };
      changes.push(change);
      last = record.number;
    }
    if (records.length < READ_AT_ONCE) return { changes, cursor: null };
    next = records.at(-1)!.number;
  }
}

/** What differs between the states of a key before and after, for people: `plan: free → pro`. */
export function differenceOf({ before, after }: Pick<RecordedChange, 'before' | 'after'>): string {
  const [was, is] = [membersOf(before), membersOf(after)];
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])];
  return names
    .filter((name) => textOf(was[name]) !== textOf(is[name]))
    .map((name) => {
      if (before === null) return `${name}: ${textOf(is[name])}`;
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

/** Null for what is no change: somebody else's value, or that of a later version. */
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

function isAskedFor({ target, actor, after }: ChangeReport, filter: ChangeFilter): boolean {
  const name = actor.kind === 'token' ? actor.name : actor.user;
  if (filter.actor !== null && name !== filter.actor) return false;
  if (filter.key === null || target === filter.key) return true;
  const { keys } = membersOf(after);
  return Array.isArray(keys) && keys.includes(filter.key);
}
