import { setImmediate as nextTurn } from 'node:timers/promises';
import { accountsOf } from '../admit/account-id.ts';
import type { HistoryStore } from '../admit/history-store.ts';
import { DAYS_KEPT } from '../engine/history-form.ts';
import { META_NAME } from '../http1/field-rules.ts';
import { isForeign, isOwnForm, type KeyFormat } from '../identify/api-key.ts';
import type { CustomerStore, KeyStore } from '../identify/record-store.ts';
import { PepperMarks, type SecretPepper } from '../identify/secret-marks.ts';
import { FILTERS, type FilterValues, filterValues, hasValues, SEARCHED } from '../model/attributes.ts';
import {
  byReadability,
  isCustomerId,
  isReadable,
  type Listed,
  orUnreadable,
  type StoredKey,
  type StoredSecret,
  UnreadableRecord,
} from '../model/record.ts';
import { usableSecrets } from './key-report.ts';
import { dayOf, lastUsedOn } from './key-uses.ts';
import { DURATION_RULE, durationFrom } from './operation-values.ts';

/*
 * The search over all keys: what operators may ask for, which keys match, and how a page is read in bounded work.
 */

/** A pair of metadata. */
export interface MetaPair {
  readonly name: string;
  readonly value: string;
}

/** Which keys an operator asks for. Each condition that is not null must hold. */
export interface KeyFilter extends FilterValues {
  /** A part of id, name, owner or the customer's id in any case, or the last four characters of a secret that works. */
  readonly text: string | null;
  /** A pair of metadata, whole. */
  readonly meta: MetaPair | null;
  readonly plan: string | null;
  /** The id of the customer that the key belongs to. */
  readonly customer: string | null;
  /** The name of the set of keys.yaml that manages the key. */
  readonly set: string | null;
  /** The key ends within this time from now, milliseconds, and has not ended yet. */
  readonly expiringMs: number | null;
  /** The key is older than this many days (UTC, today included), and nothing was asked with it on any of them. */
  readonly unusedDays: number | null;
  /** A secret of the key that works is under such a pepper. */
  readonly pepper: SecretPepper | null;
  /** A secret of the key that works has this form (`formOf`), or an unknown one. */
  readonly form: string | null;
  /** Whether revoked keys are among them. */
  readonly all: boolean;
}

/** The keys of a customer that are not revoked. */
export function keysOfCustomer(customer: string): KeyFilter {
  const anything = {
    text: null,
    meta: null,
    plan: null,
    ...filterValues(),
    set: null,
    expiringMs: null,
    unusedDays: null,
    pepper: null,
    form: null,
  };
  return { ...anything, customer, all: false };
}

export interface FoundKey {
  readonly key: StoredKey;
  /** The day (`2026-11-21`, UTC) on which it was used last, null if none is kept; undefined if the filter did not ask. */
  readonly lastUsedOn?: string | null;
}

/** A page of a search. It may have fewer keys than its limit, even none, although another page follows. */
interface FoundKeys {
  readonly keys: readonly FoundKey[];
  /** The keys that were looked at and that, or whose last use, cannot be read, so that they may match. */
  readonly unreadable: readonly UnreadableRecord[];
  readonly cursor: string | null;
  /** How many keys were looked at for this page. */
  readonly searched: number;
}

/** The parameters of a search as operators give them; null for those that were not given. */
type GivenFilter = FilterValues &
  Pick<KeyFilter, 'pepper' | 'form'> &
  Readonly<Record<'text' | 'plan' | 'customer' | 'set' | 'expiring' | 'unused', string | null>>;

interface FilterWords {
  /** What to do with a secret instead of searching for it. */
  readonly secretAdvice: string;
  readonly formats: readonly KeyFormat[];
  /** Whether the gateway keeps the usage history, without which no key can be said to be unused. */
  readonly keepsHistory: boolean;
}

/**
 * Reads the parameters of a search.
 * @returns the filter, or a sentence with what is wrong. The sentence never repeats a value, which may be a secret.
 */
export function keyFilterFrom(
  given: GivenFilter,
  all: boolean,
  { secretAdvice, formats, keepsHistory }: FilterWords,
): KeyFilter | { readonly fault: string } {
  const { text, plan, customer, set, expiring, unused, pepper, form } = given;
  for (const parameter of ['text', 'plan', 'set', 'form', ...FILTERS] as const) {
    const value = given[parameter];
    if (value === null) continue;
    const name = parameter === 'text' ? 'q' : parameter;
    if (value === '') return { fault: `${name} is empty: leave it out, or give a text.` };
    if (isSecretLike(value, parameter === 'text' ? formats : [])) {
      return { fault: `${name} has the form of a secret. ${secretAdvice}` };
    }
  }
  if (customer !== null && !isCustomerId(customer)) {
    return { fault: `customer must be the id of a customer, which begins with cus_.` };
  }
  const expiringMs = expiring === null ? null : durationFrom(expiring);
  if (expiring !== null && expiringMs === null) return { fault: `expiring ${DURATION_RULE}.` };
  const unusedDays = unused === null ? null : daysFrom(unused);
  if (unused !== null && unusedDays === null) {
    return { fault: `unused must be whole days from 1d to ${DAYS_KEPT}d, such as 30d.` };
  }
  if (unusedDays !== null && !keepsHistory) {
    return {
      fault: `unused needs the usage history, which is off. Set \`usage: { history: on }\` in gateway.yaml.`,
    };
  }
  const meta = metaAskedBy(text ?? '');
  return {
    text: meta === null ? text : null,
    meta,
    plan,
    ...filterValues(given),
    customer,
    set,
    expiringMs,
    unusedDays,
    pepper,
    form,
    all,
  };
}

const META = new RegExp(`^meta\\.(${META_NAME})=(.+)$`, 's');

/** The pair of metadata that a text asks for, such as `meta.team=blue`; null if it asks for something else. */
export function metaAskedBy(text: string): MetaPair | null {
  const [, name, value] = META.exec(text) ?? [];
  return name === undefined ? null : { name, value: value! };
}

/** Whether a text is, or has in it, what may be a secret or a part of one. */
export function isSecretLike(text: string, formats: readonly KeyFormat[]): boolean {
  if (text.split(/[^0-9A-Za-z_]+/).some(isOwnForm)) return true;
  return !isWholeId(text) && !isCustomerId(text) && isForeign(text.trim(), formats);
}

function daysFrom(text: string): number | null {
  const days = /^([1-9][0-9]?)d$/.exec(text)?.[1];
  return days !== undefined && Number(days) <= DAYS_KEPT ? Number(days) : null;
}

/**
 * A text without the difference of upper and lower case, for comparison: `ß` is `SS`, and each i of the Turkish alphabet is
 * the same letter. Composed and decomposed characters are the same.
 */
export function folded(text: string): string {
  return text.normalize('NFC').toLowerCase().toUpperCase().replaceAll('I\u0307', 'I');
}

/** Whether a text is the id of one key. Shorter ones may be a part of several. */
function isWholeId(text: string): boolean {
  return /^key_[0-9A-Za-z]{16}$/.test(text);
}

/** Keys in the first read of a page, which is often filled by it, and in the others: more would delay callers. */
const FIRST_READ = 100;
const FURTHER_READS = 250;
/** A page ends after this much work, which takes about a second: one for each key, and for a look-up of its last use: */
const MAX_WORK = 100_000;
const LAST_USE_WORK = 4;

interface SearchSources {
  readonly keys: Pick<KeyStore, 'get' | 'scan'>;
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly history: Pick<HistoryStore, 'lastUsedMs'>;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/**
 * Finds the keys that match a filter, a page at a time in the order of their creation. A text that is the id of a key finds
 * that key alone, by a look-up.
 * @throws Failure `store_unavailable`; `refused` for an unknown cursor, and for `unusedDays` if the store keeps no history
 */
export async function searchKeys(
  filter: KeyFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
  { keys, customers, history, peppers, nowMs }: SearchSources,
): Promise<FoundKeys> {
  const marks = new PepperMarks(peppers);
  const matches = testOf(filter, marks, nowMs);
  const onPlan = (some: readonly StoredKey[]) => withPlan(some, filter.plan, customers);
  const used = (some: readonly StoredKey[]) => withLastUse(some, filter.unusedDays, history, nowMs);
  if (filter.text !== null && isWholeId(filter.text)) {
    const key = await orUnreadable(keys.get(filter.text));
    if (key instanceof UnreadableRecord) return { keys: [], unreadable: [key], cursor: null, searched: 1 };
    const { readable, unreadable } = byReadability(key !== null && matches(key) ? await used(await onPlan([key])) : []);
    return { keys: readable, unreadable, cursor: null, searched: key === null ? 0 : 1 };
  }
  const mayMatch = recordTestOf(filter, marks);
  const found: FoundKey[] = [];
  const unreadable: UnreadableRecord[] = [];
  let searched = 0;
  let work = 0;
  let after = cursor;
  for (let most = FIRST_READ; ; most = FURTHER_READS) {
    const ofCustomer = filter.customer === null ? {} : { customer: filter.customer };
    const part = await keys.scan({ most, cursor: after, mayMatch, ...ofCustomer });
    const matching = part.found.flatMap(({ key }) => (isReadable(key) && matches(key) ? [key] : []));
    const kept = new Map(
      (await used(await onPlan(matching))).map((one) => [isReadable(one) ? one.key.id : one.id, one]),
    );
    for (const { key, place } of part.found) {
      const one = isReadable(key) ? kept.get(key.id) : key;
      if (one === undefined) continue;
      if (isReadable(one)) found.push(one);
      else unreadable.push(one);
      if (found.length + unreadable.length < limit) continue;
      const isLast = place === part.searched && part.cursor === null;
      return { keys: found, unreadable, cursor: isLast ? null : key.id, searched: searched + place };
    }
    searched += part.searched;
    work += part.searched + (filter.unusedDays === null ? 0 : matching.length * LAST_USE_WORK);
    after = part.cursor;
    if (after === null || work >= MAX_WORK) return { keys: found, unreadable, cursor: after, searched };
    // The embedded store answers within the same turn.
    await nextTurn();
  }
}

/**
 * Leaves out the keys on another plan. That of a key of a customer is the customer's; the keys of a customer that cannot be read may be on
 * it. @param plan null: none is left out
 */
async function withPlan(
  keys: readonly StoredKey[],
  plan: string | null,
  customers: Pick<CustomerStore, 'get'>,
): Promise<readonly StoredKey[]> {
  if (plan === null) return keys;
  const ids = [...new Set(keys.flatMap(({ customer }) => customer ?? []))];
  const planOf = async (id: string) => {
    const customer = await orUnreadable(customers.get(id));
    return customer instanceof UnreadableRecord ? plan : customer?.plan;
  };
  const plans = new Map(await Promise.all(ids.map(async (id) => [id, await planOf(id)] as const)));
  return keys.filter(({ customer, plan: own }) => (customer === undefined ? own : plans.get(customer)) === plan);
}

/**
 * Leaves out the keys that were used within these days, and says of the others when they were used last.
 *
 * Fault: a key whose history cannot be read was listed as one that was never used, which invites to revoke it.
 */
async function withLastUse(
  keys: readonly StoredKey[],
  unusedDays: number | null,
  history: Pick<HistoryStore, 'lastUsedMs'>,
  nowMs: number,
): Promise<readonly Listed<FoundKey>[]> {
  if (unusedDays === null) return keys.map((key) => ({ key }));
  const days = await lastUsedOn(
    keys.map((key) => accountsOf(key)[0]),
    history,
  );
  const since = dayOf(nowMs - (unusedDays - 1) * DAY_MS);
  return keys.flatMap((key, i): Listed<FoundKey>[] => {
    const day = days[i];
    if (day === undefined) return [unreadableUse(key.id)];
    return day === null || day < since ? [{ key, lastUsedOn: day }] : [];
  });
}

function unreadableUse(id: string): UnreadableRecord {
  const message = `When ${id} was used last is unknown, because its usage history cannot be read. \`tollgate usage ${id} --days 1\` says where it is and what to do.`;
  return new UnreadableRecord(id, message);
}

const DAY_MS = 86_400_000;
/** What `form` finds where the record of a secret does not say its form. */
export const UNKNOWN_FORM = 'unknown';

/** Whether a key matches, but for its last use. */
function testOf(filter: KeyFilter, marks: PepperMarks, nowMs: number): (key: StoredKey) => boolean {
  const { text, meta, plan, customer, set, expiringMs, unusedDays, pepper, form, all } = filter;
  const part = text === null ? null : folded(text);
  const unusedSince = unusedDays === null ? null : nowMs - (nowMs % DAY_MS) - (unusedDays - 1) * DAY_MS;
  const isMeant = (secret: StoredSecret) =>
    (pepper === null || marks.pepperOf(secret) === pepper) && (form === null || (secret.form ?? UNKNOWN_FORM) === form);
  const ends = ({ secrets }: StoredKey) =>
    secrets.some(({ last4, expiresAtMs }) => last4 === text && (expiresAtMs === null || expiresAtMs > nowMs));
  return (key) => {
    if (!all && key.revokedAtMs !== null) return false;
    if (plan !== null && key.customer === undefined && key.plan !== plan) return false;
    if (!hasValues(key, filter)) return false;
    if (meta !== null && !hasPair(key, meta)) return false;
    if (customer !== null && key.customer !== customer) return false;
    if (set !== null && key.applied?.set !== set) return false;
    if (unusedSince !== null && key.createdAtMs >= unusedSince) return false;
    if ((pepper !== null || form !== null) && !usableSecrets(key, nowMs).some(isMeant)) return false;
    const { expiresAtMs } = key;
    if (expiringMs !== null && (expiresAtMs === null || expiresAtMs <= nowMs || expiresAtMs > nowMs + expiringMs)) {
      return false;
    }
    if (part === null) return true;
    const words = [key.id, ...SEARCHED.map((name) => key[name]), key.customer];
    return words.some((one) => typeof one === 'string' && folded(one).includes(part)) || ends(key);
  };
}

export function hasPair({ meta = {} }: Pick<StoredKey, 'meta'>, { name, value }: MetaPair): boolean {
  return Object.hasOwn(meta, name) && meta[name] === value;
}

/** Text that is in JSON as it is: printable ASCII but `"` and `\`. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** What a record has in it if one of its texts is not plain. */
const SPECIAL = /[^ -[\]-~]/;

/** The end of a key, or of one of its secrets. */
const ENDS = /"expiresAtMs": ?\d/;

/**
 * A quick test of a key's record, JSON: false only if the key certainly does not match. A record with anything but plain text
 * always passes, because its texts may be escaped and their case be any.
 */
function recordTestOf(
  { text, meta, plan, set, expiringMs, pepper, form, ...filter }: KeyFilter,
  marks: PepperMarks,
): (record: string) => boolean {
  const needles = [
    ...(text === null ? [] : [{ needle: folded(text), flags: 'i' }]),
    ...[...FILTERS.map((name) => filter[name]), meta?.value ?? null].flatMap((needle) =>
      needle === null ? [] : [{ needle, flags: '' }],
    ),
  ];
  const tests = needles.map(({ needle, flags }) => {
    if (!PLAIN.test(needle)) return () => false;
    const pattern = new RegExp(RegExp.escape(needle), flags);
    return (record: string) => pattern.test(record);
  });
  // The plan of a key of a customer is not in its record.
  if (plan !== null) tests.push((record) => record.includes(plan) || record.includes('"customer"'));
  if (set !== null) tests.push((record) => record.includes('"applied"'));
  if (expiringMs !== null) tests.push((record) => ENDS.test(record));
  if (form !== null && form !== UNKNOWN_FORM) tests.push((record) => record.includes(JSON.stringify(form)));
  if (pepper !== null && pepper !== 'current') tests.push((record) => !marks.areAllCurrent(record));
  return (record) => tests.every((test) => test(record)) || SPECIAL.test(record);
}
