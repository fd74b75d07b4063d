import { setImmediate as nextTurn } from 'node:timers/promises';
import { Failure } from '../failure.ts';
import { isCustomerId, isKeyId, orUnreadable, type StoredRecord, UnreadableRecord } from '../model/record.ts';
import type { AuditStore, KeptRecord, KeptRefusals } from './audit-store.ts';
import { type Action, type Actor, FORMER_ACTIONS, isActor, type RecordedChange } from './audit-trail.ts';
import { timeOf } from './key-report.ts';
import type { OperatorStore } from './operator-store.ts';

/** A change as operators see it, or the refused attempts of one actor at one action in one minute. */
interface ChangeReport extends RecordedChange {
  readonly id: string;
  /** RFC 3339; of refused attempts the first of them. */
  readonly time: string;
  /** How many refused attempts this is; 1 for anything else. The other members are those of the last one. */
  readonly count: number;
  /** RFC 3339, the time of the last attempt. */
  readonly lastTime: string;
}

/** The changes that were found, and the entries that may be such and cannot be read. */
interface Changes {
  readonly changes: readonly ChangeReport[];
  readonly unreadable: readonly UnreadableRecord[];
}

/** Which changes to list. Null means any. */
interface ChangeFilter {
  /** The id of a key, or of a consumer that was banned. */
  readonly key: string | null;
  /** A name as in `actorText`, or without what distinguishes tokens, people and users of a shell. */
  readonly actor: string | null;
  /** Unix milliseconds; earlier changes are left out. */
  readonly sinceMs: number | null;
  /** Unix milliseconds; changes from then on are left out. */
  readonly untilMs: number | null;
  readonly action: Action | null;
}

/** Records per read. The store serves the requests of callers between the reads of a long history. */
const READ_AT_ONCE = 500;
/** A page ends after this number of records, which takes less than half a second. */
const MAX_READ = 20_000;

/** The end of a page: only older records and older refused attempts are on the next one. */
interface Place {
  /** The number of a record; null while all records are still to come. */
  readonly before: number | null;
  /** The first time and the id of refused attempts; null while all of them are still to come. */
  readonly refusal: PlaceOfRefusal | null;
}

interface PlaceOfRefusal {
  readonly firstMs: number;
  readonly id: string;
}

/** `NUMBER`, as in earlier versions, or `NUMBER_MILLISECONDS_ID` with an empty NUMBER for null. */
const CURSOR = /^(?=.)([1-9][0-9]{0,14})?(?:_([0-9]{1,15})_([\w-]{1,64}))?$/;

function placeFrom(cursor: string): Place | null {
  const [whole, number, firstMs, id] = CURSOR.exec(cursor) ?? [];
  if (whole === undefined) return null;
  return {
    before: number === undefined ? null : Number(number),
    refusal: firstMs === undefined ? null : { firstMs: Number(firstMs), id: id! },
  };
}

function cursorOf({ before, refusal }: Place): string {
  return `${before ?? ''}${refusal === null ? '' : `_${refusal.firstMs}_${refusal.id}`}`;
}

/**
 * Lists the changes that match a filter, the newest first, and with them the refused attempts by the time of the first. A page ends
 * after bounded work, so it may have fewer changes than `limit`, even none, although another page follows. An entry that cannot be read
 * counts as one that matches.
 *
 * Fault: entries that were damaged were left out, without a sign that a change was missing.
 *
 * Attack: an operator whose role allows no change asks for the changes of somebody who has made none. A single page read the whole
 * record, and all other lists waited for it.
 * @param page `cursor`: of the page before; null for the first page
 * @returns the changes, and the `cursor` of the next page, or null if there are no more
 * @throws Failure as the store does; `refused` for an unknown cursor
 */
export async function listChanges(
  store: AuditStore,
  filter: ChangeFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
): Promise<Changes & { readonly cursor: string | null }> {
  let place: Place | null = cursor === null ? { before: null, refusal: null } : placeFrom(cursor);
  if (place === null) throw new Failure('refused', 'Unknown cursor.');
  const changes: ChangeReport[] = [];
  const unreadable: UnreadableRecord[] = [];
  const allRefusals = await store.refusals();
  const refusals = refusalsFrom(allRefusals, place.refusal, filter);
  // They are few and may have no time, so all of them are on the first page, beyond its limit.
  const lost = cursor === null ? unreadableRefusals(allRefusals, store, filter) : [];
  const pageTo = (next: Place | null) => ({
    changes,
    unreadable: [...lost, ...unreadable],
    cursor: next === null ? null : cursorOf(next),
  });
  const isFull = () => changes.length + unreadable.length >= limit;
  const mayMatch = textTestOf(filter);
  for (let read = 0; ; read += READ_AT_ONCE) {
    if (read >= MAX_READ) return pageTo(place);
    const records = await store.list({ limit: READ_AT_ONCE, before: place.before });
    const recent = records.filter(({ atMs }) => isSince(atMs, filter));
    // While the store's clock was wrong, records got times before those of older ones: one early time does not end the search.
    const isLast = records.length < READ_AT_ONCE || recent.length === 0;
    for (const record of recent) {
      const { atMs } = record;
      while (refusals.length > 0 && atMs !== null && refusals[0]!.firstMs >= atMs) {
        if (isFull()) return pageTo(place);
        place = { ...place, refusal: take(refusals, changes) };
      }
      const change = mayMatch(record.text) ? reportOf(record) : undefined;
      if (change === null ? isUntil(atMs, filter) : change !== undefined && matches(change, filter)) {
        // A match beyond the limit shows that there is another page.
        if (isFull()) return pageTo(place);
        if (change) changes.push(change);
        else unreadable.push(unreadableEntry(record.id, `number ${record.number} of ${store.places.records}`));
      }
      place = { ...place, before: record.number };
    }
    if (isLast) {
      while (refusals.length > 0 && !isFull()) place = { ...place, refusal: take(refusals, changes) };
      return pageTo(refusals.length === 0 ? null : { ...place, before: place.before ?? 1 });
    }
    place = { ...place, before: records.at(-1)!.number };
    // The embedded store answers within the same turn.
    await nextTurn();
  }
}

function unreadableEntry(id: string, place: string): UnreadableRecord {
  const message = `Entry ${id} of the record of changes cannot be read. It is ${place}: put it right there, or remove it.`;
  return new UnreadableRecord(id, message);
}

function unreadableRefusals(all: readonly KeptRefusals[], { places }: AuditStore, filter: ChangeFilter) {
  return all
    .filter((one) => refusalReport(one) === null && isUntil(one.firstMs, filter))
    .filter(({ firstMs, lastMs }) => firstMs === null || isSince(lastMs, filter))
    .map(({ id }) => unreadableEntry(id, `in ${places.refusals}`));
}

function refusalReport(one: KeptRefusals): ChangeReport | null {
  return reportOf({ id: one.id, atMs: one.firstMs, text: one.text }, one);
}

type FoundRefusals = KeptRefusals & { readonly firstMs: number; readonly report: ChangeReport };

/** The refused attempts that match a filter and come after a place, the newest first. */
function refusalsFrom(all: readonly KeptRefusals[], after: Place['refusal'], filter: ChangeFilter): FoundRefusals[] {
  return all
    .flatMap((one) => (one.firstMs === null ? [] : [{ ...one, firstMs: one.firstMs }]))
    .filter(({ lastMs }) => isSince(lastMs, filter))
    .filter((one) => after === null || inOrder(after, one) < 0)
    .toSorted(inOrder)
    .flatMap((one) => {
      const report = refusalReport(one);
      return report !== null && matches(report, filter) ? [{ ...one, report }] : [];
    });
}

function inOrder(a: PlaceOfRefusal, b: PlaceOfRefusal): number {
  if (a.firstMs !== b.firstMs) return b.firstMs - a.firstMs;
  return a.id === b.id ? 0 : a.id < b.id ? 1 : -1;
}

/** Moves the first of the refused attempts to the changes. */
function take(refusals: FoundRefusals[], changes: ChangeReport[]): FoundRefusals {
  const taken = refusals.shift()!;
  changes.push(taken.report);
  return taken;
}

/** @param atMs null: unknown */
function isSince(atMs: number | null, { sinceMs }: ChangeFilter): boolean {
  return sinceMs === null || atMs === null || atMs >= sinceMs;
}

function isUntil(atMs: number | null, { untilMs }: ChangeFilter): boolean {
  return untilMs === null || atMs === null || atMs < untilMs;
}

/** A quick test of a record's text: false only if the change does not match. What does not look like a change may be one that is damaged. */
function textTestOf({ key, actor }: ChangeFilter): (text: string) => boolean {
  const escaped = (text: string) => JSON.stringify(text).slice(1, -1);
  const names = actor === null ? null : [actor, actor.replace(KIND, ''), actor.replace(/@[^@]*$/, '')].map(escaped);
  const id = key === null ? '' : escaped(key);
  return (text) =>
    !(text.startsWith('{') && text.endsWith('}')) ||
    (text.includes(id) && (names === null || names.some((name) => text.includes(name))));
}

const KIND = / \((?:token|person|file)\)$/;

/** The actor as text. A token, a person and the user of a shell may have the same name, so the text says which it is. */
export function actorText(actor: Actor): string {
  return 'name' in actor ? `${actor.name} (${actor.kind})` : `${actor.user}@${actor.host}`;
}

/**
 * Changes with what people call their targets: the entry in keys.yaml, or the name, as it was recorded. Top-ups, lifts of bans and others
 * record neither: these have the name as it is now, and null if the target is deleted or cannot be read.
 */
export async function namedChanges(changes: readonly ChangeReport[], store: Pick<OperatorStore, 'keys' | 'customers'>) {
  const present = new Map<string, Promise<string | null>>();
  const nameOf = ({ before, after, target }: ChangeReport) => {
    const { entry, name } = { ...membersOf(before), ...membersOf(after) };
    const recorded = entry ?? name ?? null;
    if (recorded !== null || target === null) return recorded as string | null;
    return present.getOrInsertComputed(target, (id) => presentName(id, store));
  };
  return Promise.all(changes.map(async (change) => ({ ...change, name: await nameOf(change) })));
}

/** The name that a key or a customer has now; null without one, and if it is deleted or cannot be read. @throws Failure as the store does */
export async function presentName(
  id: string,
  { keys, customers }: Pick<OperatorStore, 'keys' | 'customers'>,
): Promise<string | null> {
  if (!isKeyId(id) && !isCustomerId(id)) return null;
  const record = await orUnreadable<StoredRecord | null>((isKeyId(id) ? keys : customers).get(id));
  return record instanceof UnreadableRecord ? null : (record?.name ?? null);
}

/** Members of a state that are sentences about the change. They come first: on a narrow terminal the end is cut off. */
const SENTENCES: readonly string[] = ['changes', 'faults'];

/**
 * The difference between the states of a key or a file before and after a change, as text: `plan: free → pro`. The window of a
 * top-up is named although it is the same in both.
 */
export function differenceOf({ before, after }: Pick<RecordedChange, 'before' | 'after'>): string {
  const [was, is] = [membersOf(before), membersOf(after)];
  const names = [...new Set([...SENTENCES, ...Object.keys(was), ...Object.keys(is)])];
  return names
    .filter((name) => name === 'window' || textOf(was[name]) !== textOf(is[name]))
    .map((name) => {
      if (SENTENCES.includes(name) && Array.isArray(is[name])) return is[name].map(textOf).join('; ');
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

/** The change that a record holds; null if it cannot be read: it is damaged, or was not written by Tollgate. */
function reportOf(
  { id, atMs, text }: Omit<KeptRecord, 'number'>,
  { count, lastMs }: Pick<KeptRefusals, 'count' | 'lastMs'> = { count: 1, lastMs: atMs ?? 0 },
): ChangeReport | null {
  try {
    const change = JSON.parse(text) as RecordedChange;
    const isChange = typeof change.action === 'string' && typeof change.outcome === 'string' && isActor(change.actor);
    if (atMs === null || !isChange) return null;
    const action = FORMER_ACTIONS[change.action] ?? change.action;
    return { id, time: timeOf(atMs), ...change, action, count, lastTime: timeOf(lastMs) };
  } catch {
    return null;
  }
}

function matches({ time, action, target, actor, after }: ChangeReport, filter: ChangeFilter): boolean {
  if (filter.action !== null && action !== filter.action) return false;
  if (!isUntil(Date.parse(time), filter)) return false;
  const name = 'name' in actor ? actor.name : actor.user;
  if (filter.actor !== null && name !== filter.actor && actorText(actor) !== filter.actor) return false;
  if (filter.key === null || target === filter.key) return true;
  const { keys } = membersOf(after);
  return Array.isArray(keys) && keys.includes(filter.key);
}
