import { readFileSync } from 'node:fs';
import { HISTORY_BYTES } from '../../admit/history.ts';
import {
  type HistoryStore,
  MOST_REFUSED,
  type ReadHistory,
  type Refusals,
  type RefusedConsumer,
} from '../../admit/refusals.ts';
import { WINDOWS } from '../../admit/windows.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { HISTORY_LUA } from './ledger.ts';
import type { Calls } from './shards.ts';
import { holdWrites } from './values.ts';

/** KEYS: the history of one consumer. ARGV: refusals, ban answers. */
const ADD_LUA = `${HISTORY_LUA}
local time = redis.call('TIME')
history().refused(KEYS[1], math.floor(time[1] / 3600), tonumber(ARGV[1]), tonumber(ARGV[2]))`;

/** KEYS: the two names of the index. ARGV: most members, then for each consumer its id, when it ends and the rest. */
const NOTE_LUA = readFileSync(new URL('./note-refused.lua', import.meta.url), 'utf8');

/** KEYS: the two names of the index. ARGV: most members. Reply: now, then id, end and the rest of each, the latest end first. */
const LIST_LUA = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { tostring(now) }
local members = redis.call('ZRANGE', KEYS[1], -tonumber(ARGV[1]), -1, 'WITHSCORES')
for i = #members - 1, 1, -2 do
  if tonumber(members[i + 1]) <= now then break end
  local rest = redis.call('HGET', KEYS[2], members[i])
  if rest then
    for _, value in ipairs({ members[i], members[i + 1], rest }) do reply[#reply + 1] = value end
  end
end
return reply`;

interface Scripted {
  tollgateAddRefusals(history: string, refused: number, banned: number): Promise<null>;
  tollgateNoteRefused(ends: string, rest: string, ...args: (string | number)[]): Promise<number>;
  tollgateListRefused(ends: string, rest: string, most: number): Promise<string[]>;
}

/** Consumers in one call of the index. */
const NOTED_AT_A_TIME = 500;

/** The histories, which the decision script writes, and the index of the consumers that are refused now. */
export class RedisHistory implements HistoryStore {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: { readonly redis: RedisClient; readonly circuit: Calls }) {
    redis.defineCommand('tollgateAddRefusals', { lua: ADD_LUA, numberOfKeys: 1 });
    redis.defineCommand('tollgateNoteRefused', { lua: NOTE_LUA, numberOfKeys: 2 });
    redis.defineCommand('tollgateListRefused', { lua: LIST_LUA, numberOfKeys: 2 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
  }

  async of(consumerId: string): Promise<ReadHistory | null> {
    const name = keyspace.history(consumerId);
    const history = await this.#circuit.run(() => this.#redis.getBuffer(name), name).catch(nullIfForeign);
    if (history === null || history.length !== HISTORY_BYTES) return null;
    const [seconds] = await this.#circuit.run(() => this.#redis.time(), name);
    return { history, nowMs: Number(seconds) * 1_000 };
  }

  async addRefusals(refusals: readonly Refusals[]): Promise<void> {
    const { ends, rest } = keyspace.refusedNow;
    for (let from = 0; from < refusals.length; from += NOTED_AT_A_TIME) {
      const some = refusals.slice(from, from + NOTED_AT_A_TIME);
      const args = some.flatMap(({ consumerId, untilMs, kind, window, plan }) => {
        return [consumerId, untilMs, `${kind} ${window} ${plan}`];
      });
      await this.#circuit.run(() => this.#redis.tollgateNoteRefused(ends, rest, MOST_REFUSED, ...args), ends);
      const held = holdWrites(this.#redis);
      const added = some.map(({ consumerId, refused, banned }) => {
        const name = keyspace.history(consumerId);
        return this.#circuit.run(() => this.#redis.tollgateAddRefusals(name, refused, banned), name);
      });
      held.release();
      // The counts are approximate: what one consumer's part of a cluster does not take is not brought again.
      await Promise.allSettled(added);
    }
  }

  async refusedNow(): Promise<readonly RefusedConsumer[]> {
    const { ends, rest } = keyspace.refusedNow;
    const [, ...reply] = await this.#circuit.run(() => this.#redis.tollgateListRefused(ends, rest, MOST_REFUSED), ends);
    const found: RefusedConsumer[] = [];
    for (let i = 0; i + 2 < reply.length; i += 3) {
      const [kind, windowName, plan = ''] = reply[i + 2]!.split(' ');
      const window = WINDOWS.find((name) => name === windowName);
      if (window === undefined || (kind !== 'refused' && kind !== 'banned')) continue;
      found.push({ consumerId: reply[i]!, plan, kind, window, untilMs: Number(reply[i + 1]) });
    }
    return found;
  }
}

function nullIfForeign(error: Error): null {
  if (error.message.startsWith('WRONGTYPE')) return null;
  throw error;
}
