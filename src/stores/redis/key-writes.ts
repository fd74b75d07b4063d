import { isDeepStrictEqual } from 'node:util';
import { digestsOf, readStoredKey, type StoredKey } from '../../identify/key-store.ts';
import type { LastingWrite } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import type { Link } from './replication.ts';

/** A write is remembered for ten minutes; whether it was made has to be seen for longer. */
export const REMEMBERED_MS = 3_600_000;
export const MOST_REMEMBERED = 100;

/** Notes in KEYS[2] that the change `id` was made. The same step that makes it. */
export const NOTE_LUA = `
local function note(id)
  redis.call('LPUSH', KEYS[2], id)
  redis.call('LTRIM', KEYS[2], 0, ${MOST_REMEMBERED - 1})
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
end`;

/** Whether the change `id` was made, or so many since that it can no longer be seen. Writes in any case. */
export const NOTED_LUA = `${NOTE_LUA}
local function noted(id)
  local ids = redis.call('LRANGE', KEYS[2], 0, -1)
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
  for _, one in ipairs(ids) do if one == id then return true end end
  return #ids >= ${MOST_REMEMBERED}
end`;

/** Replaces a record if it is still the one that was read. KEYS: record, changes. ARGV: before, after, change. */
export const REPLACE_LUA = `${NOTE_LUA}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
note(ARGV[3])
return 1`;

/**
 * Makes a change to a record again. KEYS and ARGV as above, `before` empty where there was no record. Replies 1 where it
 * is there, 2 where it was made again, and else with what stands in its place, without the change: 0 for nothing.
 */
const REMAKE_LUA = `${NOTED_LUA}
if noted(ARGV[3]) then return 1 end
local there = redis.call('GET', KEYS[1])
if there == ARGV[2] then
  note(ARGV[3])
  return 1
end
if there == ARGV[1] or (ARGV[1] == '' and not there) then
  redis.call('SET', KEYS[1], ARGV[2])
  note(ARGV[3])
  return 2
end
return there or 0`;

/** KEYS: pointer. ARGV: key id. It is written where it is there, too. */
const POINT_LUA = `
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`;

/** KEYS: index. ARGV: score, key id. Removed first, or nothing would be written where it is there. */
const LIST_LUA = `
redis.call('ZREM', KEYS[1], ARGV[2])
return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])`;

/** The same the other way round. */
const UNLIST_LUA = `
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
return redis.call('ZREM', KEYS[1], ARGV[2])`;

export interface KeyWriteOptions {
  /** Null: the key was created. */
  readonly before: StoredKey | null;
  readonly after: StoredKey;
  /** As they stand in the store. */
  readonly texts: { readonly before: string; readonly after: string };
  /** Different for each change. */
  readonly change: string;
  /** Tells every gateway. */
  readonly announce: () => Promise<void>;
}

/** One change to an API key: its record, with the pointers that it needs, and for a new key its place in the list. */
export class KeyWrite implements LastingWrite {
  readonly about: string;
  readonly #options: KeyWriteOptions;
  #isAnnounced = true;

  constructor(options: KeyWriteOptions) {
    this.#options = options;
    this.about = options.after.id;
  }

  async remake(linkOf: (name: string) => Promise<Link>): Promise<'there' | 'remade' | 'superseded'> {
    const { before, after, announce } = this.#options;
    // Pointers come first, as when it was made: a record without them is a key that cannot be found.
    await this.#point(linkOf, digestsIn(before === null ? after.secrets : addedIn(after, before)));
    const isDeletion = after.deletedAtMs !== undefined;
    // All its digests are retired ones.
    if (isDeletion) await this.#point(linkOf, digestsOf(after));
    if (before === null || isDeletion) await this.#list(linkOf);
    const outcome = await this.#record(linkOf);
    if (outcome === 'remade') this.#isAnnounced = false;
    if (!this.#isAnnounced) await announce();
    this.#isAnnounced = true;
    return outcome;
  }

  async #record(linkOf: (name: string) => Promise<Link>): Promise<'there' | 'remade' | 'superseded'> {
    const { before, after, texts, change } = this.#options;
    const names = [keyspace.apiKey(after.id), keyspace.changesTo(after.id)] as const;
    const link = await linkOf(names[0]);
    for (;;) {
      const reply = await link.eval(REMAKE_LUA, 2, ...names, texts.before, texts.after, change);
      if (reply === 1) return 'there';
      if (reply === 2) return 'remade';
      if (reply === 0) {
        // Its creation was undone as well. The key would be gone, or be created again without this change.
        await this.#point(linkOf, digestsIn(after.secrets));
        await this.#list(linkOf);
        if ((await link.eval(REMAKE_LUA, 2, ...names, '', texts.after, change)) === 2) return 'remade';
        continue;
      }
      const there = readStoredKey(String(reply));
      // Made by others after it was created, or in its place: either way there is a key, and it is not to be replaced.
      const next = before === null ? there : madeAgain(before, after, there);
      if (next === null) return 'superseded';
      await this.#point(linkOf, digestsIn(addedIn(next, there)));
      const text = isDeepStrictEqual(next, there) ? String(reply) : JSON.stringify(next);
      if ((await link.eval(REPLACE_LUA, 2, ...names, String(reply), text, change)) === 0) continue;
      return text === reply ? 'there' : 'remade';
    }
  }

  async #point(linkOf: (name: string) => Promise<Link>, digests: readonly string[]): Promise<void> {
    const { after } = this.#options;
    const point = async (name: string) => (await linkOf(name)).eval(POINT_LUA, 1, name, after.id);
    await Promise.all(digests.map((digest) => point(keyspace.digest(digest))));
  }

  async #list(linkOf: (name: string) => Promise<Link>): Promise<void> {
    const { after } = this.#options;
    const link = await linkOf(keyspace.apiKeys);
    const lua = after.deletedAtMs === undefined ? LIST_LUA : UNLIST_LUA;
    await link.eval(lua, 1, keyspace.apiKeys, after.createdAtMs, after.id);
  }
}

function digestsIn(secrets: StoredKey['secrets']): readonly string[] {
  return secrets.map(({ digest }) => digest);
}

function addedIn({ secrets }: StoredKey, other: StoredKey): StoredKey['secrets'] {
  return secrets.filter(({ digest }) => !other.secrets.some((one) => one.digest === digest));
}

/**
 * Makes the change from `before` to `after` again in a record that does not have it and was changed otherwise: after a
 * failover undid it, through a gateway that had not seen it. Only what is still as it was before is changed; what the
 * other change has decided differently stays. A revocation is for good, so nothing can have decided differently; so is a
 * deletion, which leaves nothing to decide.
 * @returns null where nothing of it can be made again
 */
export function madeAgain(before: StoredKey, after: StoredKey, there: StoredKey): StoredKey | null {
  if (after.deletedAtMs !== undefined) {
    return there.deletedAtMs === undefined
      ? { ...after, retired: [...new Set([...digestsOf(after), ...digestsOf(there)])] }
      : there;
  }
  const { secrets: secretsBefore, limits: limitsBefore, ...restBefore } = before;
  const { secrets: secretsAfter, limits: limitsAfter, ...restAfter } = after;
  const rest = merged(restBefore, restAfter, there);
  const limits = merged(limitsBefore, limitsAfter, there.limits);
  const byDigest = (secrets: StoredKey['secrets']) =>
    Object.fromEntries(secrets.map((secret) => [secret.digest, secret]));
  const secrets = merged(byDigest(secretsBefore), byDigest(secretsAfter), byDigest(there.secrets));
  // Newest first.
  const order = Object.values(secrets.value).sort((a, b) => b.createdAtMs - a.createdAtMs);
  const isRevoked = after.revokedAtMs !== null;
  const parts = [rest, limits, secrets];
  const isSuperseded = parts.every(({ made }) => made === 0) && parts.some(({ left }) => left > 0);
  if (isSuperseded && !isRevoked) return null;
  const revokedAtMs = there.revokedAtMs ?? after.revokedAtMs;
  return { ...rest.value, limits: limits.value, secrets: order, revokedAtMs } as StoredKey;
}

type Members = Readonly<Record<string, unknown>>;

/** Member by member; one that is undefined is not there. */
function merged<T extends object>(beforeOf: T, afterOf: T, thereOf: object) {
  const [before, after, there] = [beforeOf, afterOf, thereOf] as [Members, Members, Members];
  const value: Record<string, unknown> = { ...there };
  let made = 0;
  let left = 0;
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (isDeepStrictEqual(before[name], after[name]) || isDeepStrictEqual(there[name], after[name])) continue;
    if (!isDeepStrictEqual(there[name], before[name])) left++;
    else {
      made++;
      if (after[name] === undefined) delete value[name];
      else value[name] = after[name];
    }
  }
  return { value: value as T, made, left };
}
