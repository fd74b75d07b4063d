import {
  type AuditRecord,
  type AuditStore,
  KEPT_LOADS,
  type KeptRecord,
  type KeptRefusals,
  type LoadStep,
  MAX_REFUSALS,
  type PutOptions,
  type Refusal,
} from '../../operations/audit-store.ts';
import type { RedisClient } from './connection.ts';
import type { DurableWrites, LastingWrite } from './durable-writes.ts';
import { NUMBERED_FIELDS_LUA, useOwn } from './foreign-values.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { ReplicaLink } from './replication.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { pagesOf } from './string-values.ts';

/** Maximum numbers that one write looks at to remove records, for example after an operator lowered `keep`. The next writes continue. */
const MAX_REMOVED = 1_000;
/** A record whose number is unknown or has changed is searched among this many latest ones. */
const MAX_SEARCHED = 100;
/**
 * Maximum numbers that one read asks for where records between others were removed. If none exists there, the store looks for the
 * next one.
 */
const MAX_READ = 5_000;

/**
 * Defines `bounds`: the lowest and the highest number of a record in the hash KEYS[1], and whether its fields `first` and `last`
 * are wrong.
 *
 * Fault: these fields were lost or damaged. The list then lacked records without a sign, and the next record replaced an earlier
 * one.
 */
const BOUNDS_LUA = `${NUMBERED_FIELDS_LUA}
local function has(number) return redis.call('HEXISTS', KEYS[1], number) == 1 end
local function bounds()
  local first, last = unpack(redis.call('HMGET', KEYS[1], 'first', 'last'))
  first, last = ownNumber(first), last == '0' and 0 or ownNumber(last)
  if first and last and not has(first - 1) and not has(last + 1) and (first == last + 1 or (first <= last and has(last))) then
    return first, last, false
  end
  local numbers = numberedFields()
  if #numbers == 0 then return first or 1, (first or 1) - 1, true end
  return numbers[1], numbers[#numbers], true
end`;

/** Replies the bounds. KEYS: the hash of all records. ARGV: a number, to look only below it; empty to look everywhere. */
const READ_BOUNDS = new LuaScript<[first: number, last: number]>(`${BOUNDS_LUA}
if ARGV[1] == '' then return { bounds() } end
local numbers = numberedFields()
local before = tonumber(ARGV[1])
for i = #numbers, 1, -1 do
  if numbers[i] < before then return { numbers[1], numbers[i] } end
end
return { 1, 0 }`);

/** Begins both scripts: reads the bounds of the hash of all records (KEYS[1]), and finds a record by its number and its id. */
const FIND_LUA = `${BOUNDS_LUA}
local first, last, areWrong = bounds()
if areWrong and first <= last then redis.call('HSET', KEYS[1], 'first', first, 'last', last) end
local function isAt(number)
  local value = redis.call('HGET', KEYS[1], number)
  local id, at, revision = string.match(value or '', '^(%S+) (%d+) (%d+) ')
  if id ~= ARGV[2] then return nil end
  return { number = number, value = value, at = at, revision = tonumber(revision) }
end
local found = isAt(tonumber(ARGV[1]))
for number = last, math.max(first, last - ${MAX_SEARCHED - 1}), -1 do
  if found then break end
  found = isAt(number)
end`;

/**
 * Writes a record, unless the hash has a later revision of it. KEYS: the hash of all records (fields: keyspace.ts). ARGV: the
 * record's number, 0 if the caller does not know it; its id; its revision; its text; the maximum of records, 0 to remove none.
 * Writes something in any case. Replies the number.
 */
const PUT = new LuaScript<number>(`${FIND_LUA}
local number
if found then
  number = found.number
  if found.revision <= tonumber(ARGV[3]) then
    found.value = ARGV[2] .. ' ' .. found.at .. ' ' .. ARGV[3] .. ' ' .. ARGV[4]
  end
  redis.call('HSET', KEYS[1], number, found.value)
else
  local time = redis.call('TIME')
  local stamp = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  last = last + 1
  number = last
  redis.call('HSET', KEYS[1], number, ARGV[2] .. ' ' .. stamp .. ' ' .. ARGV[3] .. ' ' .. ARGV[4], 'first', first, 'last', last)
end
local keep = tonumber(ARGV[5])
if keep > 0 then
  -- Records that were removed leave numbers without one, so records are counted and not numbers.
  local spare = redis.call('HLEN', KEYS[1]) - 2 - redis.call('HEXISTS', KEYS[1], 'at') - keep
  local before = first
  while spare > 0 and first <= last and first - before < ${MAX_REMOVED} do
    spare = spare - redis.call('HDEL', KEYS[1], first)
    first = first + 1
  end
  if first > before then redis.call('HSET', KEYS[1], 'first', first) end
end
return number`);

/** Removes a record, and frees the numbers at the end that have no record any more. KEYS and ARGV[1] and [2]: as for PUT. */
const REMOVE = new LuaScript<number>(`${FIND_LUA}
if not found then return 0 end
redis.call('HDEL', KEYS[1], found.number)
local before = last
while last >= first and before - last < ${MAX_REMOVED} and redis.call('HEXISTS', KEYS[1], last) == 0 do last = last - 1 end
if last < before then redis.call('HSET', KEYS[1], 'last', last) end
return 1`);

/**
 * Counts a refused attempt. KEYS: the hash of refused attempts (fields: keyspace.ts). ARGV: the actor; the action; the id of a new
 * entry; the text; the maximum of entries.
 */
const REFUSE = new LuaScript<number>(`
local time = redis.call('TIME')
local stamp = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local field = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. string.format('%.0f', math.floor(time[1] / 60))
local kept = redis.call('HGET', KEYS[1], field)
local id, first, count = string.match(kept or '', '^(%S+) (%d+) %d+ (%d+) ')
local total = string.format('%.0f', (count or 0) + 1)
redis.call('HSET', KEYS[1], field, table.concat({ id or ARGV[3], first or stamp, stamp, total, ARGV[4] }, ' '))
if kept or redis.call('HLEN', KEYS[1]) <= tonumber(ARGV[5]) then return 1 end
local entries, oldest, cursor = {}, {}, '0'
repeat
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 1000)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local actor, minute = string.match(page[2][i], '^(%S+) %S+ (%d+)$')
    if not actor then return redis.call('HDEL', KEYS[1], page[2][i]) end
    entries[actor] = (entries[actor] or 0) + 1
    if not oldest[actor] or tonumber(minute) < oldest[actor].minute then
      oldest[actor] = { minute = tonumber(minute), field = page[2][i] }
    end
  end
until cursor == '0'
local most
for actor, number in pairs(entries) do
  if not most or number > entries[most] or (number == entries[most] and oldest[actor].minute < oldest[most].minute) then
    most = actor
  end
end
return redis.call('HDEL', KEYS[1], oldest[most].field)`);

/**
 * KEYS: the hash of loads (keyspace.ts). ARGV: the file; its required state, empty for any; its new state; the number since which
 * it may have had that state already, empty if unknown; the maximum of states. Replies its state before, the number of that state,
 * and the number of its new state.
 */
const EXCHANGE = new LuaScript<[found: string | null, number: number, known: number | null]>(`
local file, to, kept = ARGV[1], ARGV[3], tonumber(ARGV[5])
local function read(field)
  local number, state = string.match(redis.call('HGET', KEYS[1], field) or '', '^(%d+) (.*)$')
  return tonumber(number or 0), state
end
local number, found = read(file)
-- Fault: the field of the file was lost or damaged, its numbers began again, and the history of plans took no new version.
for i = 0, found and -1 or kept - 1 do
  local n, state = read(file .. ' ' .. i)
  if n > number then number, found = n, state end
end
if ARGV[4] ~= '' then
  local known
  for i = 0, kept - 1 do
    local n, state = read(file .. ' ' .. i)
    if state == to and n > tonumber(ARGV[4]) and n <= number and (not known or n < known) then known = n end
  end
  if known then return { found or false, number, known } end
end
if found ~= to and (not found or ARGV[2] == '' or found == ARGV[2]) then
  number = number + 1
  local value = string.format('%.0f', number) .. ' ' .. to
  redis.call('HSET', KEYS[1], file, value, file .. ' ' .. string.format('%.0f', number % kept), value)
end
return { found or false, number, false }`);

interface RedisAuditOptions extends StoreConnection {
  /** Makes records durable. */
  readonly writes: DurableWrites;
}

/**
 * The record of changes in Redis: one hash, so that a script adds a record and removes the oldest atomically, and can write a
 * record again with the outcome of its change.
 */
export class RedisAudit implements AuditStore {
  readonly places = { records: `${keyspace.audit} in Redis`, refusals: `${keyspace.auditRefusals} in Redis` };
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #writes: DurableWrites;

  constructor({ redis, circuit, writes }: RedisAuditOptions) {
    this.#redis = redis;
    this.#circuit = circuit;
    this.#writes = writes;
  }

  async put(record: AuditRecord, { number: earlier, keep, isLasting }: PutOptions): Promise<number> {
    const { id, revision, text } = record;
    const put = () => PUT.run(this.#redis, [keyspace.audit], earlier ?? 0, id, revision, text, keep ?? 0);
    const number = await this.#run(put);
    // The gateway keeps no other records: anyone who sends a change that the gateway refuses could displace those that it must
    // repeat.
    if (isLasting) await this.#writes.secure(putAgain(record, number, keep));
    return number;
  }

  async list({
    limit,
    before,
  }: {
    readonly limit: number;
    readonly before: number | null;
  }): Promise<readonly KeptRecord[]> {
    const bounds = (below: number | '') => this.#read(() => READ_BOUNDS.run(this.#redis, [keyspace.audit], below));
    let [first, next] = await bounds('');
    const found: KeptRecord[] = [];
    next = Math.min(next, (before ?? Number.MAX_SAFE_INTEGER) - 1);
    let most = limit;
    while (found.length < limit && next >= first) {
      const length = Math.min(most, next - first + 1);
      const foundBefore = found.length;
      const numbers = Array.from({ length }, (_, i) => next - i);
      const values = await this.#read(() => this.#redis.hmget(keyspace.audit, ...numbers.map(String)));
      for (const [i, value] of values.entries()) {
        // A removed record leaves its number.
        if (value === null) continue;
        const number = numbers[i]!;
        const [, id = String(number), atMs, text = value] = /^(\S+) (\d+) \d+ (.*)$/s.exec(value) ?? [];
        found.push({ number, id, atMs: atMs === undefined ? null : Number(atMs), text });
      }
      next -= length;
      if (length === MAX_READ && found.length === foundBefore) [first, next] = await bounds(next + 1);
      most = found.length === foundBefore ? Math.min(2 * most, MAX_READ) : limit - found.length;
    }
    return found.slice(0, limit);
  }

  async remove(id: string, number: number | null): Promise<void> {
    await this.#run(() => REMOVE.run(this.#redis, [keyspace.audit], number ?? 0, id));
  }

  async refuse({ actor, action, id, text }: Refusal): Promise<void> {
    const name = keyspace.auditRefusals;
    await this.#run(() => REFUSE.run(this.#redis, [name], actor, action, id, text, MAX_REFUSALS), name);
  }

  async exchangeLoad(file: string, { from, to, since }: LoadStep) {
    const name = keyspace.auditLoads;
    const args = [file, from ?? '', to, since ?? '', KEPT_LOADS];
    const [found, number, known] = await this.#run(() => EXCHANGE.run(this.#redis, [name], ...args), name);
    return { found, number, known };
  }

  async refusals(): Promise<readonly KeptRefusals[]> {
    const name = keyspace.auditRefusals;
    const found = new Map<string, KeptRefusals>();
    const scan = (cursor: string) => this.#redis.hscan(name, cursor, 'COUNT', MAX_REFUSALS);
    for await (const values of pagesOf((cursor) => this.#read(() => scan(cursor), name))) {
      for (let i = 0; i < values.length; i += 2) {
        const [field, value] = [values[i]!, values[i + 1]!];
        const [, id = field, firstMs, lastMs = 0, count = 1, text = value] =
          /^(\S+) (\d+) (\d+) (\d+) (.*)$/s.exec(value) ?? [];
        // HSCAN may return a field twice.
        found.set(field, {
          id,
          text,
          count: Number(count),
          firstMs: firstMs === undefined ? null : Number(firstMs),
          lastMs: Number(lastMs),
        });
      }
    }
    return [...found.values()];
  }

  #read<T>(call: () => Promise<T>, name?: string): Promise<T> {
    return this.#run(call, name, true);
  }

  #run<T>(call: () => Promise<T>, name: string = keyspace.audit, isRead = false): Promise<T> {
    const message = `The record of changes in Redis cannot be used: \`${name}\` is another program's, or this user may not use it.`;
    return useOwn({ circuit: this.#circuit, name, message, isRead }, call);
  }
}

/** Adds a record again after a failover has undone it, because another record may have its number. */
function putAgain({ id, revision, text }: AuditRecord, first: number, keep: number | null): LastingWrite {
  let number = first;
  return {
    about: id,
    kind: 'record',
    remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
      const link = await linkOf(keyspace.audit);
      const there = Number(await link.eval(PUT.lua, 1, keyspace.audit, number, id, revision, text, keep ?? 0));
      const outcome = there === number ? 'there' : 'remade';
      number = there;
      return outcome;
    },
  };
}
