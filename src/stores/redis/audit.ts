import { Failure } from '../../failure.ts';
import type { AuditRecord, AuditStore, KeptRecord, PutOptions } from '../../operations/audit-store.ts';
import type { RedisClient } from './connection.ts';
import type { DurableWrites, LastingWrite } from './durable-writes.ts';
import { keyspace } from './keyspace.ts';
import type { ReplicaLink } from './replication.ts';
import type { Calls } from './shards.ts';

/** Most records that one addition removes after `keep` was lowered. The next additions remove the rest. */
const MOST_REMOVED = 1_000;
/** How many of the latest records are searched for one whose number is not known or has changed. */
const MOST_SEARCHED = 100;

/**
 * Writes a record, unless the hash has a later revision of it. KEYS: the hash of all records (fields: keyspace.ts). ARGV:
 * the record's number, 0 if it is not known; its id; its revision; its text; how many records are kept. Writes something
 * in any case. Replies the number.
 */
const PUT_LUA = `
local function replaced(number)
  local value = redis.call('HGET', KEYS[1], number)
  local id, at, revision = string.match(value or '', '^(%S+) (%d+) (%d+) ')
  if id ~= ARGV[2] then return false end
  if tonumber(revision) <= tonumber(ARGV[3]) then value = id .. ' ' .. at .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] end
  redis.call('HSET', KEYS[1], number, value)
  return true
end
if replaced(ARGV[1]) then return tonumber(ARGV[1]) end
local first, last = unpack(redis.call('HMGET', KEYS[1], 'first', 'last'))
first, last = tonumber(first or 1), tonumber(last or 0)
for number = last, math.max(first, last - ${MOST_SEARCHED - 1}), -1 do
  if replaced(number) then return number end
end
local time = redis.call('TIME')
local stamp = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
last = last + 1
redis.call('HSET', KEYS[1], last, ARGV[2] .. ' ' .. stamp .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
local before = first
while first <= last - tonumber(ARGV[5]) and first - before < ${MOST_REMOVED} do
  redis.call('HDEL', KEYS[1], first)
  first = first + 1
end
redis.call('HSET', KEYS[1], 'first', first, 'last', last)
return last`;

interface Scripted {
  tollgateAudit(log: string, ...args: (string | number)[]): Promise<number>;
}

export interface RedisAuditOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** Makes records durable. */
  readonly writes: DurableWrites;
}

/**
 * The record of changes in Redis: one hash, so that a record is added and the oldest removed atomically, and a record can
 * be written again with the outcome of its change.
 */
export class RedisAudit implements AuditStore {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #writes: DurableWrites;

  constructor({ redis, circuit, writes }: RedisAuditOptions) {
    redis.defineCommand('tollgateAudit', { lua: PUT_LUA, numberOfKeys: 1 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
    this.#writes = writes;
  }

  async put(record: AuditRecord, { number: earlier, keep, isLasting }: PutOptions): Promise<number> {
    const { id, revision, text } = record;
    const put = () => this.#redis.tollgateAudit(keyspace.audit, earlier ?? 0, id, revision, text, keep);
    const number = await this.#run(put);
    // Others are not kept: anybody who may send a change that is refused could displace those that must be made again.
    if (isLasting) await this.#writes.settle(putAgain(record, number, keep));
    return number;
  }

  async list({
    limit,
    before,
  }: {
    readonly limit: number;
    readonly before: number | null;
  }): Promise<readonly KeptRecord[]> {
    const bounds = await this.#run(() => this.#redis.hmget(keyspace.audit, 'first', 'last'));
    const [first, last] = [Number(bounds[0] ?? 1), Number(bounds[1] ?? 0)];
    const found: KeptRecord[] = [];
    let next = Math.min(last, (before ?? Number.MAX_SAFE_INTEGER) - 1);
    while (found.length < limit && next >= first) {
      const length = Math.min(limit - found.length, next - first + 1);
      const numbers = Array.from({ length }, (_, i) => next - i);
      const values = await this.#run(() => this.#redis.hmget(keyspace.audit, ...numbers.map(String)));
      for (const [i, value] of values.entries()) {
        const [, id, atMs, text] = /^(\S+) (\d+) \d+ (.*)$/s.exec(value ?? '') ?? [];
        if (id !== undefined) found.push({ number: numbers[i]!, id, atMs: Number(atMs), text: text! });
      }
      next -= length;
    }
    return found;
  }

  /** A foreign value in place of the records, or an ACL that forbids them, fails this call but does not open the circuit. */
  async #run<T>(call: () => Promise<T>): Promise<T> {
    const outcome = await this.#circuit.run<{ readonly value: T } | { readonly cause: Error }>(
      () =>
        call().then(
          (value) => ({ value }),
          (cause: Error) => {
            if (/WRONGTYPE|NOPERM|user executing the script can't/.test(cause.message)) return { cause };
            throw cause;
          },
        ),
      keyspace.audit,
    );
    if ('value' in outcome) return outcome.value;
    throw new Failure(
      'store_corrupt',
      `The record of changes in Redis cannot be used: \`${keyspace.audit}\` is another program's, or this user may not use it.`,
      outcome.cause,
    );
  }
}

/** After a failover has undone the record, it is added again, since another record may have its number. */
function putAgain({ id, revision, text }: AuditRecord, first: number, keep: number): LastingWrite {
  let number = first;
  return {
    about: id,
    kind: 'record',
    remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
      const link = await linkOf(keyspace.audit);
      const there = Number(await link.eval(PUT_LUA, 1, keyspace.audit, number, id, revision, text, keep));
      const outcome = there === number ? 'there' : 'remade';
      number = there;
      return outcome;
    },
  };
}
