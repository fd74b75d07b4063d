import { hash } from 'node:crypto';
import { accountIdOf, accountsUnder } from '../admit/account-id.ts';
import { Failure, Refused } from '../failure.ts';
import { newCustomerId, type Random } from '../identify/api-key.ts';
import type { RecordUpdate } from '../identify/record-store.ts';
import { type AttributeEdits, changedAttributes, type FilterValues, hasValues, SEARCHED } from '../model/attributes.ts';
import type { Limits, Plan } from '../model/plan.ts';
import {
  byReadability,
  isCustomerId,
  isReadable,
  orUnreadable,
  type StoredCustomer,
  type StoredKey,
  type UnreadableRecord,
} from '../model/record.ts';
import {
  buriedUnlessMoved,
  type Created,
  createKey,
  createOnce,
  type MadeKey,
  REPEATABLE_MS,
  type Repeatable,
  takenBack,
} from './create-once.ts';
import { type KeyAttributes, moved, refuseMoveOf, refusePast, refuseUnusable, revoked } from './key-changes.ts';
import { folded, hasPair, type MetaPair, metaAskedBy } from './key-search.ts';
import {
  atPresent,
  type ChangedRecord,
  CUSTOMERS,
  changeRecord,
  everyRecord,
  type Guard,
  KEYS,
  type OperatorStore,
  recordOf,
} from './operator-store.ts';
import { goneElsewhereText, insistOnPlan } from './plans/versions.ts';
import { unreadableText } from './unreadable.ts';

// What operators do with customers alone, and which customer a key belongs to.

/** What a new customer is to have. */
interface CustomerAttributes extends AttributeEdits {
  readonly plan: string;
  readonly limits: Limits;
  readonly expiresAtMs: number | null;
}

interface CustomerSources {
  /** The plans of plans.yaml by name. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/**
 * Makes a customer. Its plan must exist, and every `custom` window must have a limit.
 * @throws Failure `refused`
 */
export function newCustomer(
  { plan, limits, expiresAtMs, ...attributes }: CustomerAttributes,
  { plans, random, nowMs }: CustomerSources,
): StoredCustomer {
  refuseUnusable({ plan, limits }, plans, 'customer');
  refusePast(expiresAtMs, nowMs, 'customer');
  return {
    id: newCustomerId(random),
    plan,
    limits,
    ...changedAttributes({}, attributes),
    createdAtMs: nowMs,
    expiresAtMs,
  };
}

/**
 * Makes a customer.
 * @param repeatable null: a repetition makes another customer
 * @param attributesAt called with the time of the creation, to which `expires` may be relative
 */
export async function makeCustomer(
  { customers, keys, plans, goneElsewhere, random, nowMs }: OperatorStore,
  repeatable: Repeatable | null,
  attributesAt: (nowMs: number) => CustomerAttributes,
): Promise<Created<RecordUpdate<StoredCustomer>>> {
  const atMs = nowMs();
  const made = newCustomer(attributesAt(atMs), { plans: plans().plans, random, nowMs: atMs });
  insistOnPlan(made.plan, await goneElsewhere());
  if (repeatable === null) return { kind: 'made', record: made, durability: await customers.create(made) };
  const { name, body } = repeatable;
  const digest = hash('sha256', JSON.stringify(['customer', name]));
  const id = await keys.reserve(digest, made.id, REPEATABLE_MS);
  if ((await customers.get(id, { evenDeleted: true })) === null) {
    const record = { ...made, id, creation: { body } };
    try {
      return { kind: 'made', record, durability: await customers.create(record) };
    } catch (error) {
      // The same request has made it meanwhile, through this gateway or another one.
      if (!(error instanceof Failure) || error.code !== 'refused') throw error;
    }
  }
  // An update that changes nothing shows whether the customer is durable.
  const present = await customers.update(id, (one) => one);
  if (present === null) return { kind: 'ended', id, how: 'deleted' };
  if (present.record.creation?.body !== body) return { kind: 'reused' };
  return { kind: 'repeated', ...present };
}

/**
 * Removes a customer for good, with its counters and bans. Its id stays as a tombstone. Deleting one twice is no error.
 * @param revokesKeys false: refused while it has keys that are not revoked, or cannot be read. True: they are revoked first. A key
 *   that is made or moved here meanwhile is revoked in both cases. Fault: it stayed behind, not revoked, after its secret was answered
 * @returns as `unreadable` the keys that may be its and cannot be revoked, because they cannot be read. Without the customer none
 *   of its keys is served
 */
export async function removeCustomer(
  store: OperatorStore,
  id: string,
  { revokesKeys, guard }: { readonly revokesKeys: boolean; readonly guard?: Guard | undefined },
) {
  const { customers, ledger, plans, nowMs } = store;
  if (guard !== undefined) guard(await recordOf(CUSTOMERS, store, id));
  let keysRevoked = 0;
  if (revokesKeys) keysRevoked = (await revokeKeysOf(id, store)).revoked;
  else {
    const { readable, unreadable } = await liveKeysOf(id, store);
    refuseWithKeys(id, readable.length, unreadable);
  }
  const done = await customers.delete(id, (customer) => {
    if (customer.deletedAtMs === undefined) guard?.(customer);
    return deletedCustomer(customer, nowMs());
  });
  if (done === null) return CUSTOMERS.unknown(id);
  // A key that was made or moved here meanwhile is refused already, because it has no customer. One that is made or moved here from
  // now on is taken back, because that looks at the customer after its write.
  const late = await revokeKeysOf(id, store);
  keysRevoked += late.revoked;
  await ledger.forget(...accountsUnder(id, plans()));
  return { ...done, keysRevoked, unreadable: late.unreadable };
}

async function revokeKeysOf(id: string, store: OperatorStore) {
  const { keys, nowMs } = store;
  const { readable, unreadable } = await liveKeysOf(id, store);
  for (const key of readable) await keys.update(key.id, (one) => (one.customer === id ? revoked(one, nowMs()) : one));
  return { revoked: readable.length, unreadable };
}

/** The keys of a customer that are not revoked, and those that cannot be read. */
async function liveKeysOf(customer: string, { keys }: OperatorStore) {
  const all = await Array.fromAsync(everyRecord<StoredKey>({ list: (page) => keys.list({ ...page, customer }) }));
  return byReadability(all.filter((key) => !isReadable(key) || key.revokedAtMs === null));
}

/** The tombstone of a deleted customer: its id, under which no other is made. Deleting a customer twice is no error. */
function deletedCustomer(customer: StoredCustomer, nowMs: number): StoredCustomer {
  if (customer.deletedAtMs !== undefined) return customer;
  const { id, createdAtMs } = customer;
  return { id, plan: '', limits: {}, name: null, owner: null, createdAtMs, expiresAtMs: null, deletedAtMs: nowMs };
}

/** @throws Failure `conflict` if the customer has keys that are not revoked, or that cannot be read */
function refuseWithKeys(id: string, keys: number, unreadable: readonly UnreadableRecord[]): void {
  if (keys === 0 && unreadable.length > 0) {
    throw new Failure(
      'conflict',
      `Customer ${id} may have keys that are not revoked: ${unreadableText(unreadable)}. Put them right first, or ask for its keys to be revoked with it: without their customer they are refused.`,
    );
  }
  if (keys === 0) return;
  const [have, them] = keys === 1 ? ['a key that is', 'it'] : [`${keys} keys that are`, 'them'];
  throw new Failure(
    'conflict',
    `Customer ${id} has ${have} not revoked. Move or revoke ${them} first, or ask for ${them} to be revoked with the customer.`,
  );
}

/** Which customers an operator asks for. Each condition that is not null must hold. */
interface CustomerFilter extends FilterValues {
  /** A part of id, name or owner in any case; or `meta.NAME=VALUE`, a pair of metadata, whole and in its case. */
  readonly text: string | null;
  readonly plan: string | null;
  /** The customer ends within this time from now, milliseconds, and has not ended yet. */
  readonly expiringMs: number | null;
}

/** A page of a search. It may have fewer customers than its limit, even none, although another page follows. */
interface FoundCustomers {
  readonly customers: readonly StoredCustomer[];
  /** Those that were looked at and cannot be read, so that they may match. */
  readonly unreadable: readonly UnreadableRecord[];
  readonly cursor: string | null;
  /** How many customers were looked at for this page. */
  readonly searched: number;
}

/** Customers that a page of a search looks at. */
const MAX_LOOKED_AT = 20_000;

/** Finds the customers that match a filter, a page at a time in the order of their creation. */
export async function searchCustomers(
  { customers, nowMs }: OperatorStore,
  filter: CustomerFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor: string | null },
): Promise<FoundCustomers> {
  const matches = testOf(filter, nowMs());
  const found: StoredCustomer[] = [];
  const unreadable: UnreadableRecord[] = [];
  let searched = 0;
  let last = cursor;
  for await (const customer of everyRecord(customers, cursor)) {
    const isFull = found.length + unreadable.length === limit || searched === MAX_LOOKED_AT;
    if (isFull) return { customers: found, unreadable, cursor: last, searched };
    searched++;
    last = customer.id;
    if (!isReadable(customer)) unreadable.push(customer);
    else if (matches(customer)) found.push(customer);
  }
  return { customers: found, unreadable, cursor: null, searched };
}

function testOf(filter: CustomerFilter, nowMs: number): (one: StoredCustomer) => boolean {
  const { text, plan, expiringMs } = filter;
  const meta: MetaPair | null = text === null ? null : metaAskedBy(text);
  const part = text === null || meta !== null ? null : folded(text);
  return (one) => {
    if (meta !== null && !hasPair(one, meta)) return false;
    if (plan !== null && one.plan !== plan) return false;
    if (!hasValues(one, filter)) return false;
    const { expiresAtMs } = one;
    if (expiringMs !== null && (expiresAtMs === null || expiresAtMs <= nowMs || expiresAtMs > nowMs + expiringMs)) {
      return false;
    }
    const words = [one.id, ...SEARCHED.map((name) => one[name])];
    return part === null || words.some((word) => typeof word === 'string' && folded(word).includes(part));
  };
}

export const PLAN_OF_CUSTOMER = 'The plan of a key of a customer is that of the customer: leave `plan` out.';

/** @throws Failure `refused` */
export async function customerOfNewKey(
  id: string,
  { customers }: Pick<OperatorStore, 'customers'>,
): Promise<StoredCustomer> {
  const customer = isCustomerId(id) ? await customers.get(id) : null;
  if (customer !== null) return customer;
  throw new Failure('refused', 'There is no customer with this id. `tollgate customers list` shows the ids.');
}

/**
 * Makes a key, unless its customer or its plan goes meanwhile.
 * @param repeatable null: a repetition makes another key
 * @param attributesAt called with the time of the creation, to which `expires` may be relative
 */
export async function createOwnedKey(
  store: OperatorStore,
  repeatable: Repeatable | null,
  attributesAt: (nowMs: number) => KeyAttributes,
): Promise<Created<MadeKey>> {
  const sources = { ...atPresent(store), plans: store.plans().plans };
  const made: Created<MadeKey> =
    repeatable === null
      ? { kind: 'made', ...(await createKey(attributesAt, sources)) }
      : await createOnce(repeatable, attributesAt, sources);
  if (made.kind === 'made') await insistOnOwner(made.record, store);
  return made;
}

/** @throws Failure `conflict` if the customer or the plan of a new key has gone meanwhile. The key is taken back then */
async function insistOnOwner(key: StoredKey, store: OperatorStore): Promise<void> {
  const deps = atPresent(store);
  const why = await takenBack(key, deps);
  if (why !== null) throw new Refused('conflict', why, { keyId: key.id });
  if (key.customer !== undefined) return;
  const isHere = deps.plans.plans.has(key.plan);
  if (isHere && !(await store.goneElsewhere()).has(key.plan)) return;
  if (!(await buriedUnlessMoved(key, deps))) return;
  const ending = isHere ? goneElsewhereText(key.plan) : `The plan ${key.plan} was removed meanwhile`;
  throw new Refused('conflict', `${ending}, so the key was taken back.`, { keyId: key.id });
}

/**
 * Moves a key to a customer, or away from its own. A ban in force moves with it; its counts start anew.
 *
 * Attack: a banned key is moved so that its ban ends, or a request is refused between the two steps. So the ban is carried before
 * the key is changed, and again afterwards.
 * @param customerId null: it leaves its customer
 * @param plan the plan of a key that leaves its customer; null: that of the customer
 */
export async function moveToCustomer(
  store: OperatorStore,
  keyId: string,
  { customerId, plan }: { readonly customerId: string | null; readonly plan: string | null },
  guard?: Guard,
): Promise<ChangedRecord<StoredKey>> {
  const { customers, ledger, plans, goneElsewhere } = store;
  const present = await recordOf(KEYS, store, keyId);
  guard?.(present);
  refuseMoveOf(present);
  const formerId = present.customer ?? null;
  if (customerId !== null && plan !== null) throw new Failure('refused', PLAN_OF_CUSTOMER);
  // With a plan a key can leave also a customer that cannot be read.
  const left = async () => (plan === null && formerId !== null ? customers.get(formerId) : null);
  const owner = customerId === null ? await left() : await customerOfNewKey(customerId, store);
  const to = { customer: customerId, plan: plan ?? owner?.plan ?? present.plan };
  const [from, target] = [accountIdOf(keyId, formerId), accountIdOf(keyId, customerId)];
  // What would be refused carries no ban.
  moved(present, to, plans().plans);
  insistOnPlan(to.plan, await goneElsewhere());
  if (from !== target) {
    // A ban from an earlier stay, which may have been lifted since where the key is now.
    await ledger.lift(target);
    await ledger.carryBan(from, target);
  }
  const toCustomer = (key: StoredKey) => {
    if ((key.customer ?? null) === formerId) return moved(key, to, plans().plans);
    throw new Failure('conflict', `Key ${keyId} has been moved by another operator meanwhile. Look at it again.`);
  };
  const change = await changeRecord(KEYS, store, keyId, toCustomer, guard);
  if (from !== target) await ledger.carryBan(from, target);
  if (customerId !== null && (await orUnreadable(customers.get(customerId))) === null) {
    await moveBack(change.before, customerId, store);
  }
  return change;
}

/**
 * Undoes a move to a customer that was deleted meanwhile, unless the deletion has revoked the key.
 * @param before the key before the move
 * @throws Failure `conflict`
 */
async function moveBack(before: StoredKey, customerId: string, { keys, ledger }: OperatorStore): Promise<never> {
  const former = before.customer ?? null;
  const back = await keys.update(before.id, (key) => {
    if (key.customer !== customerId || key.revokedAtMs !== null) return key;
    return moved(key, { customer: former, plan: before.plan }, null);
  });
  await ledger.carryBan(accountIdOf(before.id, customerId), accountIdOf(before.id, former));
  const end = back?.record.revokedAtMs == null ? 'stays where it was' : 'was revoked with it';
  throw new Failure('conflict', `Customer ${customerId} was deleted meanwhile. Key ${before.id} ${end}.`);
}
