import type { Listed } from '../../model/record.ts';
import {
  type Authorship,
  authorshipText,
  KEPT_TEXT_BYTES,
  KEPT_VERSIONS,
  type KeptVersion,
  keptVersion,
  type PlansHistory,
  type PlansVersion,
} from '../../operations/plans/plans-history-store.ts';
import type { RedisClient } from './connection.ts';
import { NUMBERED_FIELDS_LUA, useOwn } from './foreign-values.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';

/** KEYS: the hash of the history (fields: keyspace.ts). ARGV: the number; the actor. */
const CLAIM = new LuaScript<number>(`
redis.call('HSET', KEYS[1], 'claim', ARGV[1] .. ' ' .. ARGV[2])
local head = redis.call('HGET', KEYS[1], ARGV[1])
local known = string.match(head or '', '^%S+ %S+ %S+ ')
if known then redis.call('HSET', KEYS[1], ARGV[1], known .. ARGV[2]) end
return 1`);

/**
 * Defines `keptNumbers`: the numbers of all entries, ascending, from the field `numbers`, or from the entries where the field does
 * not agree with them.
 *
 * Fault: the field was lost or damaged, and the list lacked entries without a sign.
 */
const NUMBERS_LUA = `${NUMBERED_FIELDS_LUA}
local function keptNumbers()
  local text, claim = unpack(redis.call('HMGET', KEYS[1], 'numbers', 'claim'))
  local numbers, latest = {}, 0
  for word in string.gmatch(text or '', '%S+') do
    local number = ownNumber(word)
    if not number or number <= latest or redis.call('HEXISTS', KEYS[1], number) == 0 then return numberedFields() end
    numbers[#numbers + 1] = number
    latest = number
  end
  local others = (text and 1 or 0) + (claim and 1 or 0)
  return redis.call('HLEN', KEYS[1]) == others + 2 * #numbers and numbers or numberedFields()
end`;

/** KEYS: as for CLAIM. Replies the number and the head of each entry. */
const LIST = new LuaScript<(string | number)[]>(`${NUMBERS_LUA}
local reply = {}
for _, number in ipairs(keptNumbers()) do
  reply[#reply + 1] = number
  reply[#reply + 1] = redis.call('HGET', KEYS[1], number)
end
return reply`);

/** KEYS: as for CLAIM. ARGV: the number; the version; since when; the actor; the text; the maximum of entries and of bytes. */
const ADD = new LuaScript<number>(`${NUMBERS_LUA}
local number = tonumber(ARGV[1])
local numbers, at = keptNumbers(), 1
for i, kept in ipairs(numbers) do
  if kept == number then return 0 end
  if kept < number then at = i + 1 end
end
local function headOf(kept) return redis.call('HGET', KEYS[1], kept) or '' end
if at > 1 and string.match(headOf(numbers[at - 1]), '^%S+ (%S+) ') == ARGV[2] then return 0 end
local claimed, by = string.match(redis.call('HGET', KEYS[1], 'claim') or '', '^(%d+) (.*)$')
if tonumber(claimed) ~= number then by = ARGV[4] end
table.insert(numbers, at, number)
redis.call('HSET', KEYS[1], number, table.concat({ ARGV[3], ARGV[2], #ARGV[5], by }, ' '), number .. ' text', ARGV[5])
local bytes, first = 0, #numbers + 1
for i = #numbers, math.max(1, #numbers - tonumber(ARGV[6]) + 1), -1 do
  bytes = bytes + (tonumber(string.match(headOf(numbers[i]), '^%S+ %S+ (%d+) ')) or 0)
  if i < #numbers and bytes > tonumber(ARGV[7]) then break end
  first = i
end
for i = 1, first - 1 do redis.call('HDEL', KEYS[1], numbers[i], numbers[i] .. ' text') end
redis.call('HSET', KEYS[1], 'numbers', table.concat(numbers, ' ', first))
return 1`);

/** The versions of plans.yaml in Redis: one hash, so that a script adds an entry and removes the oldest in one step. */
export class RedisPlansHistory implements PlansHistory {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: StoreConnection) {
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async claim(number: number, of: Authorship): Promise<void> {
    await this.#run(() => CLAIM.run(this.#redis, [keyspace.plansHistory], number, authorshipText(of)));
  }

  async add({ number, version, sinceMs, ...of }: PlansVersion, text: string): Promise<void> {
    const args = [number, version, sinceMs, authorshipText(of), text, KEPT_VERSIONS, KEPT_TEXT_BYTES];
    await this.#run(() => ADD.run(this.#redis, [keyspace.plansHistory], ...args));
  }

  async list(): Promise<readonly Listed<KeptVersion>[]> {
    const reply = await this.#read(() => LIST.run(this.#redis, [keyspace.plansHistory]));
    const entries: Listed<KeptVersion>[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const number = Number(reply[i]);
      const [, sinceMs, version = '', by = ''] = /^(\d+) (\S+) \d+ (.*)$/s.exec(String(reply[i + 1])) ?? [];
      const place = `the field ${number} of ${keyspace.plansHistory} in Redis`;
      entries.push(keptVersion({ number, version, sinceMs: Number(sinceMs) }, by, place));
    }
    return entries.toReversed();
  }

  async text(number: number): Promise<string | null> {
    return this.#read(() => this.#redis.hget(keyspace.plansHistory, `${number} text`));
  }

  #read<T>(call: () => Promise<T>): Promise<T> {
    return this.#run(call, true);
  }

  #run<T>(call: () => Promise<T>, isRead = false): Promise<T> {
    const name = keyspace.plansHistory;
    const message = `The history of plans in Redis cannot be used: \`${name}\` is another program's, or this user may not use it.`;
    return useOwn({ circuit: this.#circuit, name, message, isRead }, call);
  }
}
