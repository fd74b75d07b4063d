import { isDeepStrictEqual } from 'node:util';
import type { StoreChange } from '../../identify/record-store.ts';
import type { StoredRecord } from '../../model/record.ts';
import type { LastingWrite } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { ReplicaLink } from './replication.ts';

/*
 * Records that a change replaces whole, API keys and customers: what each kind has beside its record, and how a gateway repeats a
 * change that a failover has undone.
 */

/**
 * Leads to a record from another name. `pointer`: a string with the record's id. `list`: a sorted set that has the id by the time
 * of its creation. A lead counts only while the record has it: a change writes it before the record that needs it, and removes it
 * after the record.
 */
export interface Lead {
  readonly kind: 'pointer' | 'list';
  readonly name: string;
  /** The source of a pointer, for the refusal of a second record; left out for a secret. */
  readonly of?: 'certificate';
}

/** The differences between kinds of records. */
export interface RecordKind<T extends StoredRecord> {
  /** The word for a record in messages: `Key`. */
  readonly noun: string;
  /** The kind of the changes that gateways announce. */
  readonly change: StoreChange['kind'];
  readonly nameOf: (id: string) => string;
  /** The name of the sorted set of all records that are not deleted. */
  readonly index: string;
  /** @throws Failure `store_corrupt` */
  readonly read: (text: string) => T;
  /** Every name that leads to a record. */
  readonly leadsTo: (record: T) => readonly Lead[];
  /** The leads that give access. A repetition of a change writes them again. */
  readonly leadsOfUse: (record: T) => readonly Lead[];
  /** True if a change ends access. DurableWrites keeps such changes longest. */
  readonly endsAccess: (before: T, after: T) => boolean;
  /** A record that lacks a change, with the change; null if it can take nothing of the change. */
  readonly madeAgain: (before: T, after: T, there: T) => T | null;
}

/** The leads of one record that another lacks. */
export function leadsOnlyIn(leads: readonly Lead[], others: readonly Lead[]): readonly Lead[] {
  return leads.filter(({ name }) => !others.some((other) => other.name === name));
}

/** The store keeps the ids of changes this long. DurableWrites repeats a write before that, or gives it up. */
const REMEMBERED_MS = 3_600_000;
const MAX_REMEMBERED = 100;

/**
 * Defines `note`, which adds the id of a change to the list KEYS[2], in the script that makes the change. It replaces a value of
 * another program in the place of the list.
 *
 * Fault: such a value kept an operator from revoking a key that had leaked.
 */
const NOTE_LUA = `
local function replacingForeign(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', KEYS[2]) end
  return redis.call(...)
end
local function note(id)
  replacingForeign('LPUSH', KEYS[2], id)
  redis.call('LTRIM', KEYS[2], 0, ${MAX_REMEMBERED - 1})
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
end`;

/** Defines `noted`: true if the store has made the change, or has made later ones until its id may be gone. It always writes. */
export const NOTED_LUA = `${NOTE_LUA}
local function noted(id)
  local ids = replacingForeign('LRANGE', KEYS[2], 0, -1)
  redis.call('PEXPIRE', KEYS[2], ${REMEMBERED_MS})
  for _, one in ipairs(ids) do if one == id then return true end end
  return #ids >= ${MAX_REMEMBERED}
end`;

/** Replaces a record unless it has changed since the caller read it. KEYS: record, changes. ARGV: before, after, change id. */
export const REPLACE = new LuaScript<number>(`${NOTE_LUA}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
note(ARGV[3])
return 1`);

/**
 * Repeats a change of a record. KEYS and ARGV as above, `before` empty if there was no record. Replies 1 if the record has the
 * change, 2 if the script has repeated the change, else the record without the change; 0 if there is no record.
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

/** Writes a pointer, even if it is there already. KEYS: pointer. ARGV: record id. Replies 0 if it points to another record. */
const POINT_LUA = `
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`;

/** Adds a record to a list. It removes the record first, so that it always writes. KEYS: index. ARGV: score, record id. */
const LIST_LUA = `
redis.call('ZREM', KEYS[1], ARGV[2])
return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])`;

/** Removes a record from a list. It adds the record first, for the same reason. KEYS and ARGV as above. */
const UNLIST_LUA = `
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
return redis.call('ZREM', KEYS[1], ARGV[2])`;

interface RecordWriteOptions<T extends StoredRecord> {
  readonly kind: RecordKind<T>;
  /** Null: the change created the record. */
  readonly before: T | null;
  readonly after: T;
  /** The records as text, exactly as in the store. */
  readonly texts: { readonly before: string; readonly after: string };
  /** The id of this change. */
  readonly change: string;
  /** Notifies every gateway. */
  readonly announce: () => Promise<void>;
  /** True if the write must not make a record again that is no longer there; false if left out. */
  readonly isOnlyIfThere?: boolean;
}

/** One change to a record, with its leads, and for a new record its place in the list. */
export class RecordWrite<T extends StoredRecord> implements LastingWrite {
  readonly about: string;
  readonly kind: 'change' | 'revocation';
  readonly #options: RecordWriteOptions<T>;
  #isAnnounced = true;

  constructor(options: RecordWriteOptions<T>) {
    const { kind, before, after } = options;
    this.#options = options;
    this.about = after.id;
    this.kind = before !== null && kind.endsAccess(before, after) ? 'revocation' : 'change';
  }

  afterLoss(): LastingWrite {
    return new RecordWrite({ ...this.#options, isOnlyIfThere: true });
  }

  isCoveredBy(earlier: LastingWrite): boolean {
    const { before, after } = this.#options.texts;
    return before === after && earlier instanceof RecordWrite && earlier.#options.texts.after === after;
  }

  async remake(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'> {
    const { kind, before, after, announce, isOnlyIfThere = false } = this.#options;
    const name = kind.nameOf(after.id);
    if (isOnlyIfThere && (await (await linkOf(name)).get(name)) === null) return 'superseded';
    // Leads come first, as in the original change: without them no look-up finds the record.
    await this.#lead(linkOf, before === null ? kind.leadsOfUse(after) : this.#addedIn(after, before));
    const isDeletion = after.deletedAtMs !== undefined;
    // The leads to a tombstone show that an earlier key had its secrets.
    if (isDeletion) await this.#lead(linkOf, kind.leadsTo(after));
    if (before === null || isDeletion) await this.#list(linkOf);
    const outcome = await this.#record(linkOf);
    if (outcome === 'remade') this.#isAnnounced = false;
    if (!this.#isAnnounced) await announce();
    this.#isAnnounced = true;
    return outcome;
  }

  async #record(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'> {
    const { kind, before, after, texts, change } = this.#options;
    const names = [kind.nameOf(after.id), keyspace.changesTo(after.id)] as const;
    const link = await linkOf(names[0]);
    for (;;) {
      const reply = await link.eval(REMAKE_LUA, 2, ...names, texts.before, texts.after, change);
      if (reply === 1) return 'there';
      if (reply === 2) return 'remade';
      if (reply === 0) {
        // The failover has undone the creation as well. Without this, the record would be gone, or come back without this change.
        await this.#lead(linkOf, kind.leadsOfUse(after));
        await this.#list(linkOf);
        if ((await link.eval(REMAKE_LUA, 2, ...names, '', texts.after, change)) === 2) return 'remade';
        continue;
      }
      const there = kind.read(String(reply));
      // A creation never replaces an existing record: another process has changed it since, or created it instead.
      const next = before === null ? there : kind.madeAgain(before, after, there);
      if (next === null) return 'superseded';
      await this.#lead(linkOf, this.#addedIn(next, there));
      const text = isDeepStrictEqual(next, there) ? String(reply) : JSON.stringify(next);
      if ((await link.eval(REPLACE.lua, 2, ...names, String(reply), text, change)) === 0) continue;
      return text === reply ? 'there' : 'remade';
    }
  }

  #addedIn(record: T, other: T): readonly Lead[] {
    const { leadsOfUse } = this.#options.kind;
    return leadsOnlyIn(leadsOfUse(record), leadsOfUse(other));
  }

  async #lead(linkOf: (name: string) => Promise<ReplicaLink>, leads: readonly Lead[]): Promise<void> {
    const { id, createdAtMs } = this.#options.after;
    const write = async ({ kind, name }: Lead) =>
      kind === 'pointer'
        ? (await linkOf(name)).eval(POINT_LUA, 1, name, id)
        : (await linkOf(name)).eval(LIST_LUA, 1, name, createdAtMs, id);
    await Promise.all(leads.map(write));
  }

  async #list(linkOf: (name: string) => Promise<ReplicaLink>): Promise<void> {
    const { kind, after } = this.#options;
    const link = await linkOf(kind.index);
    const lua = after.deletedAtMs === undefined ? LIST_LUA : UNLIST_LUA;
    await link.eval(lua, 1, kind.index, after.createdAtMs, after.id);
  }
}

type Members = Readonly<Record<string, unknown>>;

/** Merges member by member. An undefined member counts as missing. */
export function merged<T extends object>(beforeOf: T, afterOf: T, thereOf: object) {
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
