import { accountsOf, isShadowId, partsOfAccount } from '../admit/account-id.ts';
import { plainAllowance } from '../admit/allowance.ts';
import { banInForce, nameOfBan } from '../admit/decision.ts';
import { type BanInForce, type Durability, type FoundBan, foreignAccount } from '../admit/ledger.ts';
import { windowLimit } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import type { KeyStore } from '../identify/record-store.ts';
import type { Ban } from '../model/account.ts';
import { MAX_LIMIT } from '../model/plan.ts';
import { isCustomerId, isKeyId, isReadable, type Listed, orUnreadable, UnreadableRecord } from '../model/record.ts';
import { WINDOWS } from '../model/values.ts';
import { ownerOf } from './account-owners.ts';
import { usageOf } from './account-usage.ts';
import { visible } from './operation-values.ts';
import { CUSTOMERS, KEYS, type OperatorStore, recordOf } from './operator-store.ts';
import { unreadableCounts } from './refused-now.ts';
import { type SpentWindow, spentWindows } from './usage-changes.ts';
import { isTokenCaller } from './usage-history.ts';

/**
 * The bans in force, in no order, and the callers whose ban cannot be read; without those that a key has left behind in a former
 * account.
 */
export async function bansInForce({
  ledger,
  keys,
}: Pick<OperatorStore, 'ledger' | 'keys'>): Promise<readonly Listed<BanInForce>[]> {
  const bans = (await ledger.bans()).filter(({ consumerId }) => !isShadowId(consumerId));
  const found: FoundBan[] = [];
  for (let from = 0; from < bans.length; from += PAGE) {
    const some = bans.slice(from, from + PAGE);
    const arePresent = await Promise.all(some.map(({ consumerId }) => isPresent(consumerId, keys)));
    found.push(...some.filter((_, i) => arePresent[i]!));
  }
  return found.map(({ consumerId, ban }) =>
    ban === null ? unreadableCounts(callerIdOf(consumerId)) : { consumerId, ban },
  );
}

/** Whether an account is not that of a key which has another one now. One that cannot be read may have this one. */
async function isPresent(accountId: string, keys: KeyStore): Promise<boolean> {
  const { consumerId } = partsOfAccount(accountId);
  if (consumerId === null || !isKeyId(consumerId)) return true;
  const key = await orUnreadable(keys.get(consumerId));
  return key === null || !isReadable(key) || accountsOf(key)[0] === accountId;
}

/**
 * Ends a ban now, clears the strikes, and takes back the rung.
 * @param id that of a key, a token caller (`jwt_…`, or `cus_…/jwt_…`), or a customer
 * @returns as `spent` the windows that still refuse; null if they cannot be read, as of a token caller
 */
export async function endBan(
  store: OperatorStore,
  id: string,
): Promise<{ readonly durability: Durability; readonly spent: readonly SpentWindow[] | null }> {
  const key = isKeyId(id) ? await store.keys.get(id) : null;
  const durability = await store.ledger.lift(key === null ? id : accountsOf(key)[0]);
  if (durability !== null) {
    // The ban is lifted, also if plans.yaml lacks the key's plan or the store does not answer a second time.
    const spent = await usageOf(store, id).then(spentWindows, () => null);
    return { durability, spent };
  }
  // The consumer was not banned. A key that does not exist gets its own error; consumers with tokens have no record.
  if (id.startsWith('key_')) await recordOf(KEYS, store, id);
  if (isCustomerId(id)) await recordOf(CUSTOMERS, store, id);
  else if (!isTokenCaller(id) && !isKeyId(id)) KEYS.unknown(id);
  if (key?.customer !== undefined && (await usageOf(store, key.customer).catch(() => null))?.ban) {
    const message = `The ban of ${id} is that of its customer ${key.customer}, with all its keys. Give the id of the customer to lift it.`;
    throw new Failure('not_found', message);
  }
  await insistOnReadable(store, id, key === null ? id : accountsOf(key)[0]);
  const what = id.startsWith('key_') ? 'Key ' : isCustomerId(id) ? 'Customer ' : '';
  throw new Failure('not_found', `${what}${visible(id)} is not banned.`);
}

/** @throws Failure `store_corrupt` if what was counted for a caller, or its ban, cannot be read */
async function insistOnReadable(store: OperatorStore, id: string, accountId: string): Promise<void> {
  const { ledger } = store;
  const decision = await ledger.present(accountId, OF_ALL_WINDOWS);
  if (decision === null) throw foreignAccount(id, ledger.placeOf(accountId));
  // Of its customer, groups and units. The limits of a token caller, and of a key whose plan is gone, are not known.
  await usageOf(store, id).catch((error: unknown) => {
    if (error instanceof Failure && error.code === 'store_corrupt') throw error;
  });
}

/** The ban in force of an account, as a ledger has it whatever its limits are. */
export async function banOf(accountId: string, { ledger }: Pick<OperatorStore, 'ledger'>): Promise<Ban | null> {
  const decision = await ledger.present(accountId, WITHOUT_LIMITS);
  return decision === null ? null : banInForce(decision.accounts, decision.nowMs);
}

/** An allowance that counts nothing: with it a ledger reports the ban alone. */
const WITHOUT_LIMITS = plainAllowance('');

/** With it a ledger reports no account of which anything cannot be read. */
const OF_ALL_WINDOWS = plainAllowance(
  '',
  WINDOWS.map((window) => windowLimit(window, MAX_LIMIT)),
);

/** Bans of which the keys are read together. */
const PAGE = 100;

/** A ban in force: of a key under its own id. `until` is in Unix seconds. */
export function banReport({ consumerId, ban }: BanInForce) {
  return {
    id: callerIdOf(consumerId),
    number: ban.number,
    window: nameOfBan(ban),
    until: Math.ceil(ban.untilMs / 1000),
  };
}

/** The same with whose ban it is. Nothing more is known if nothing calls under the account any more, or its record cannot be read. */
export async function ownedBan(one: BanInForce, store: Pick<OperatorStore, 'keys' | 'customers'>) {
  const found = await orUnreadable(ownerOf(one.consumerId, store));
  const unreadable = found instanceof UnreadableRecord ? { unreadable: found.message } : {};
  const {
    name = null,
    owner = null,
    plan = null,
    customer = {},
  } = found instanceof UnreadableRecord ? {} : (found ?? {});
  return { ...banReport(one), name, owner, plan, ...customer, ...unreadable };
}

/** How operators name the caller of an account: a key by its own id; a token caller of a customer, of which nothing else is kept, by both. */
function callerIdOf(accountId: string): string {
  const { consumerId } = partsOfAccount(accountId);
  return consumerId !== null && isKeyId(consumerId) ? consumerId : accountId;
}
