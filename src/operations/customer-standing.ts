import { z } from 'zod';
import { accountsOf } from '../admit/account-id.ts';
import { Failure } from '../failure.ts';
import type { Ban } from '../model/account.ts';
import { isCustomerId, type StoredKey } from '../model/record.ts';
import { count, type DeepReadonly } from '../model/values.ts';
import { banOf, endBan } from './bans-in-force.ts';
import { keysOfCustomer, searchKeys } from './key-search.ts';
import { standingBan, unixSeconds } from './operation-values.ts';
import { atPresent, type OperatorStore } from './operator-store.ts';

/** How a customer stands: its own ban, and those of its keys. */
export const customerStanding = z
  .strictObject({
    id: z.string(),
    ban: standingBan.describe('That of the customer with all its keys, where its plan bans whole customers.'),
    keys: count.describe('Its keys that are neither revoked nor expired.'),
    banned: count.describe('Those of them that are banned.'),
    until: unixSeconds.nullable().describe('When the last of these bans ends; null without one.'),
    complete: z.boolean().describe('False if it has more keys than were looked at, or some that cannot be read.'),
  })
  .meta({ id: 'CustomerStanding' });
type CustomerStanding = DeepReadonly<z.output<typeof customerStanding>>;

/** Keys of one customer that are looked at. */
export const MAX_KEYS_LOOKED_AT = 1_000;

interface BannedKeys {
  readonly keys: number;
  readonly banned: readonly { readonly key: StoredKey; readonly ban: Ban }[];
  readonly complete: boolean;
}

/** The keys of a customer that are banned. @param most how many of its keys are looked at */
async function bannedKeysOf(store: OperatorStore, customer: string, most: number): Promise<BannedKeys> {
  const present = atPresent(store);
  const page = await searchKeys(keysOfCustomer(customer), { limit: most, cursor: null }, present);
  const live = page.keys.flatMap(({ key }) =>
    key.expiresAtMs === null || key.expiresAtMs > present.nowMs ? [key] : [],
  );
  const bans = await Promise.all(live.map((key) => banOf(accountsOf(key)[0], store)));
  const banned = live.flatMap((key, i) => (bans[i] == null ? [] : [{ key, ban: bans[i] }]));
  return { keys: live.length, banned, complete: page.cursor === null && page.unreadable.length === 0 };
}

/** How some customers stand, in their order, after a bounded number of keys: of those beyond, no key is looked at. */
export async function standingsOf(store: OperatorStore, ids: readonly string[]): Promise<readonly CustomerStanding[]> {
  const standings: CustomerStanding[] = [];
  let left = MAX_KEYS_LOOKED_AT;
  for (const id of ids) {
    const own = await banOf(id, store);
    const { keys, banned, complete } =
      left === 0 ? { keys: 0, banned: [], complete: false } : await bannedKeysOf(store, id, left);
    left -= Math.min(keys, left);
    const ends = [...(own === null ? [] : [own]), ...banned.map(({ ban }) => ban)].map(({ untilMs }) => untilMs);
    standings.push({
      id,
      ban: own === null ? null : { number: own.number, until: Math.ceil(own.untilMs / 1000) },
      keys,
      banned: banned.length,
      until: ends.length === 0 ? null : Math.ceil(Math.max(...ends) / 1000),
      complete,
    });
  }
  return standings;
}

type Lifted = Awaited<ReturnType<typeof endBan>>;

/**
 * Ends the ban of a customer and those of its keys, one after the other.
 * @param lift ends the ban of one key and records that
 * @throws Failure `not_found` if there is none, `refused` for another id than that of a customer
 */
export async function endBansOf(
  store: OperatorStore,
  id: string,
  lift: (key: string) => Promise<Lifted>,
): Promise<Lifted & { readonly lifted: readonly string[] }> {
  if (!isCustomerId(id)) throw new Failure('refused', 'keys is only for a customer, whose id begins with cus_.');
  const { banned } = await bannedKeysOf(store, id, MAX_KEYS_LOOKED_AT);
  const done: (Lifted & { readonly key: string })[] = [];
  for (const { key } of banned) {
    // A ban that has ended by itself since needs no lift.
    const one = await lift(key.id).catch(nullUnlessFailed);
    if (one !== null) done.push({ ...one, key: key.id });
  }
  const own = await endBan(store, id).catch((error) => {
    if (done.length === 0) throw error;
    return nullUnlessFailed(error);
  });
  const all = own === null ? done : [...done, own];
  const durability = all.find(({ durability }) => durability.kind === 'unknown')?.durability ?? { kind: 'durable' };
  return { durability, spent: own?.spent ?? null, lifted: done.map(({ key }) => key) };
}

function nullUnlessFailed(error: unknown): null {
  if (error instanceof Failure && error.code === 'not_found') return null;
  throw error;
}
