import { isDeepStrictEqual } from 'node:util';
import { digestsOf, readStoredKey, type StoredKey } from '../../identify/key-store.ts';
import type { LastingWrite } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import type { ReplicaLink } from './replication.ts';

/** How long the ids of changes are kept. DurableWrites repeats a write before that, or gives it up. */
const REMEMBERED_MS = 3_600_000;
const MAX_REMEMBERED = 100;

/** Defines `note`, which adds the id of a change to the list KEYS[2], in the script that makes the change. */
const NOTE_LUA = `
local function note(id)
  redis.call('LPUSH', KEYS[2], id)
  redis.call('LTRIM', KEYS[2], 0, ${MAX_REMEMBERED - 1})
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
end`;

/** Defines `noted`: whether the change was made, or enough later ones that its id may be gone. Writes in any case. */
export const NOTED_LUA = `${NOTE_LUA}
local function noted(id)
  local ids = redis.call('LRANGE', KEYS[2], 0, -1)
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
  for _, one in ipairs(ids) do if one == id then return true end end
  return #ids >= ${MAX_REMEMBERED}
end`;

/** Replaces a record if it has not changed since it was read. KEYS: record, changes. ARGV: before, after, change id. */
export const REPLACE_LUA = `${NOTE_LUA}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
note(ARGV[3])
return 1`;

/**
 * Repeats a change of a record. KEYS and ARGV as above, `before` empty if there was no record. Replies 1 if the record has
 * the change, 2 if the change was repeated, else with the record without the change; 0 if there is no record.
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

/** Writes a pointer, even if it is there already. KEYS: pointer. ARGV: key id. Replies 0 if it points to another key. */
const POINT_LUA = `
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`;

/** Adds a key to the list. It removes the key first, so that it always writes. KEYS: index. ARGV: score, key id. */
const LIST_LUA = `
redis.call('ZREM', KEYS[1], ARGV[2])
return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])`;

/** Removes a key from the list. It adds the key first, for the same reason. KEYS and ARGV as above. */
const UNLIST_LUA = `
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
return redis.call('ZREM', KEYS[1], ARGV[2])`;

interface KeyWriteOptions {
  /** Null: the key was created. */
  readonly before: StoredKey | null;
  readonly after: StoredKey;
  /** The records as text, exactly as in the store. */
  readonly texts: { readonly before: string; readonly after: string };
  /** The id of this change. */
  readonly change: string;
  /** Notifies every gateway. */
  readonly announce: () => Promise<void>;
  /** True if a key that is not there any more is not to be made again; false if left out. */
  readonly isOnlyIfThere?: boolean;
}

/** One change to an API key: its record, with the pointers that it needs, and for a new key its place in the list. */
export class KeyWrite implements LastingWrite {
  readonly about: string;
  readonly kind: 'change' | 'revocation';
  readonly #options: KeyWriteOptions;
  #isAnnounced = true;

  constructor(options: KeyWriteOptions) {
    this.#options = options;
    this.about = options.after.id;
    this.kind = endsAccess(options) ? 'revocation' : 'change';
  }

  afterLoss(): LastingWrite {
    return new KeyWrite({ ...this.#options, isOnlyIfThere: true });
  }

  isCoveredBy(earlier: LastingWrite): boolean {
    const { before, after } = this.#options.texts;
    return before === after && earlier instanceof KeyWrite && earlier.#options.texts.after === after;
  }

  async remake(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'> {
    const { before, after, announce, isOnlyIfThere = false } = this.#options;
    const name = keyspace.apiKey(after.id);
    if (isOnlyIfThere && (await (await linkOf(name)).get(name)) === null) return 'superseded';
    // Pointers come first, as in the original change: without them, no look-up finds the key.
    await this.#point(linkOf, digestsIn(before === null ? after.secrets : addedIn(after, before)));
    const isDeletion = after.deletedAtMs !== undefined;
    // All digests of a tombstone are retired.
    if (isDeletion) await this.#point(linkOf, digestsOf(after));
    if (before === null || isDeletion) await this.#list(linkOf);
    const outcome = await this.#record(linkOf);
    if (outcome === 'remade') this.#isAnnounced = false;
    if (!this.#isAnnounced) await announce();
    this.#isAnnounced = true;
    return outcome;
  }

  async #record(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'> {
    const { before, after, texts, change } = this.#options;
    const names = [keyspace.apiKey(after.id), keyspace.changesTo(after.id)] as const;
    const link = await linkOf(names[0]);
    for (;;) {
      const reply = await link.eval(REMAKE_LUA, 2, ...names, texts.before, texts.after, change);
      if (reply === 1) return 'there';
      if (reply === 2) return 'remade';
      if (reply === 0) {
        // The failover has undone the creation as well. Without this, the key would be gone, or come back without this change.
        await this.#point(linkOf, digestsIn(after.secrets));
        await this.#list(linkOf);
        if ((await link.eval(REMAKE_LUA, 2, ...names, '', texts.after, change)) === 2) return 'remade';
        continue;
      }
      const there = readStoredKey(String(reply));
      // A creation never replaces an existing record: another process has changed it since, or created it instead.
      const next = before === null ? there : madeAgain(before, after, there);
      if (next === null) return 'superseded';
      await this.#point(linkOf, digestsIn(addedIn(next, there)));
      const text = isDeepStrictEqual(next, there) ? String(reply) : JSON.stringify(next);
      if ((await link.eval(REPLACE_LUA, 2, ...names, String(reply), text, change)) === 0) continue;
      return text === reply ? 'there' : 'remade';
    }
  }

  async #point(linkOf: (name: string) => Promise<ReplicaLink>, digests: readonly string[]): Promise<void> {
    const { after } = this.#options;
    const point = async (name: string) => (await linkOf(name)).eval(POINT_LUA, 1, name, after.id);
    await Promise.all(digests.map((digest) => point(keyspace.digest(digest))));
  }

  async #list(linkOf: (name: string) => Promise<ReplicaLink>): Promise<void> {
    const { after } = this.#options;
    const link = await linkOf(keyspace.apiKeys);
    const lua = after.deletedAtMs === undefined ? LIST_LUA : UNLIST_LUA;
    await link.eval(lua, 1, keyspace.apiKeys, after.createdAtMs, after.id);
  }
}

/** Whether a secret that worked, or the whole key, ends with this change, or is suspended by it. */
function endsAccess({ before, after }: KeyWriteOptions): boolean {
  if (before === null) return false;
  if (after.revokedAtMs !== null || after.deletedAtMs !== undefined) return true;
  if (after.suspended !== undefined && !isDeepStrictEqual(before.suspended, after.suspended)) return true;
  const endOf = (key: StoredKey, digest: string) => key.secrets.find((secret) => secret.digest === digest)?.expiresAtMs;
  return before.secrets.some(({ digest }) => endOf(after, digest) !== endOf(before, digest));
}

function digestsIn(secrets: StoredKey['secrets']): readonly string[] {
  return secrets.map(({ digest }) => digest);
}

function addedIn({ secrets }: StoredKey, other: StoredKey): StoredKey['secrets'] {
  return secrets.filter(({ digest }) => !other.secrets.some((one) => one.digest === digest));
}

/**
 * Applies the change from `before` to `after` to a record that lacks it and has another change: a failover undid the
 * change, and a gateway that had not seen it changed the record. Members that still have their value from `before` are
 * changed; members with another value keep it. A revocation and a deletion are final and always applied.
 * @returns null if nothing of the change can be applied
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

/** Merges member by member. An undefined member counts as missing. */
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
