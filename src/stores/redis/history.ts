import { historiesOf } from '../../admit/account-id.ts';
import { lastUsedMsOf } from '../../admit/history.ts';
import {
  type HistoryStore,
  keptRefusal,
  MAX_REFUSED,
  type ReadHistory,
  type Refusals,
  type RefusedConsumer,
} from '../../admit/history-store.ts';
import { HISTORY_BYTES, LAST_HOUR_BYTES } from '../../engine/history-form.ts';
import { Failure } from '../../failure.ts';
import { UnreadableRecord } from '../../model/record.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { gatewayClock } from './decision-call.ts';
import { REFUSALS_LUA } from './engine-lua.ts';
import { useOwn } from './foreign-values.ts';
import { accountIdIn, keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import { connectionsOf, holdWrites, nullIfForeign, pagesOf } from './string-values.ts';

const ADD = new LuaScript<0>(`${REFUSALS_LUA}return refusals_script()\n`);
const NOTE = new LuaScript<0>(`${REFUSALS_LUA}return refused_now_script()\n`);

/** KEYS: the two names of the index. ARGV: most members. Reply: now, then id, end and the rest of each, the latest end first. */
const LIST = new LuaScript<string[]>(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { tostring(now) }
local members = redis.call('ZRANGE', KEYS[1], -tonumber(ARGV[1]), -1, 'WITHSCORES')
for i = #members - 1, 1, -2 do
  if tonumber(members[i + 1]) <= now then break end
  local rest = redis.pcall('HGET', KEYS[2], members[i])
  if type(rest) ~= 'string' then rest = '' end
  for _, value in ipairs({ members[i], members[i + 1], rest }) do reply[#reply + 1] = value end
end
return reply`);

const FOUND_MS = 60_000;

/** Consumers in one call of the index. */
const NOTED_AT_A_TIME = 500;

/** The histories, which the decision script writes, and the index of the consumers that are refused now. */
export class RedisHistory implements HistoryStore {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #wallMs: (() => number) | undefined;
  /** What `consumerIds` has found in the last minute, by prefix: the pages of one export share a scan. */
  readonly #found = new Map<string, readonly string[]>();

  /** @param wallMs the gateway's own clock; left out: histories follow the store's clock unconditionally */
  constructor({ redis, circuit, wallMs }: StoreConnection & { readonly wallMs?: () => number }) {
    this.#wallMs = wallMs;
    this.#redis = redis;
    this.#circuit = circuit;
  }

  async of(consumerId: string): Promise<ReadHistory | null> {
    const name = keyspace.history(consumerId);
    const [history, [seconds]] = await Promise.all([
      this.#circuit.read(() => this.#redis.getBuffer(name).catch(emptyIfForeign), name),
      this.#circuit.read(() => this.#redis.time(), name),
    ]);
    if (history === null) return null;
    if (history.length === HISTORY_BYTES) return { history, nowMs: Number(seconds) * 1_000 };
    // A script leaves an empty history where it may not begin one yet.
    if (history.length > 0 && history.every((byte) => byte === 0)) return null;
    const message = `The usage history of ${consumerId} cannot be read: ${name} in Redis holds something else. Put it right there, or remove it, so that a new one begins.`;
    throw new UnreadableRecord(consumerId, message);
  }

  async lastUsedMs(consumerIds: readonly string[]): Promise<readonly (number | null | undefined)[]> {
    const redis = this.#redis;
    const hourOf = (consumerId: string) =>
      redis.getrangeBuffer(keyspace.history(consumerId), 0, LAST_HOUR_BYTES - 1).catch(forbiddenOrForeign);
    const held = holdWrites(redis);
    // In a cluster each name has a primary of its own. A single server gets all in one call with one deadline.
    const asked =
      redis instanceof ClusterClient
        ? Promise.all(consumerIds.map((id) => this.#circuit.read(() => hourOf(id), keyspace.history(id))))
        : this.#circuit.read(() => Promise.all(consumerIds.map(hourOf)));
    held.release();
    return (await asked).map((hour) => {
      if (hour === FORBIDDEN) throw new Failure('refused', NO_HISTORY);
      if (hour?.length === 0) return null;
      return hour?.length === LAST_HOUR_BYTES ? lastUsedMsOf(hour) : undefined;
    });
  }

  async *consumerIds(prefix: string, again: boolean): AsyncGenerator<string> {
    const known = again ? this.#found.get(prefix) : undefined;
    if (known !== undefined) {
      yield* known;
      return;
    }
    const found: string[] = [];
    const before = keyspace.history('').slice(0, -2);
    const start = `${before}{${prefix}`;
    for (const server of connectionsOf(this.#redis)) {
      const scan = (cursor: string) => server.scan(cursor, 'MATCH', `${start}*`, 'COUNT', 1000);
      for await (const names of pagesOf((cursor) => this.#circuit.read(() => scan(cursor), server)))
        for (const name of names) {
          found.push(accountIdIn(name, before));
          yield found.at(-1)!;
        }
    }
    this.#found.set(prefix, found);
    setTimeout(() => {
      if (this.#found.get(prefix) === found) this.#found.delete(prefix);
    }, FOUND_MS).unref();
  }

  async addRefusals(refusals: readonly Refusals[]): Promise<void> {
    const { ends, rest } = keyspace.refusedNow;
    for (let from = 0; from < refusals.length; from += NOTED_AT_A_TIME) {
      const some = refusals.slice(from, from + NOTED_AT_A_TIME);
      const args = some.flatMap(({ consumerId, untilMs, kind, window, cost, plan }) => {
        return [consumerId, untilMs, `${kind} ${window} ${cost} ${plan}`];
      });
      await this.#circuit.run(() => NOTE.run(this.#redis, [ends, rest], MAX_REFUSED, ...args), ends);
      const held = holdWrites(this.#redis);
      const added = some.filter(isCounted).flatMap(({ consumerId, refused, banned }) =>
        historiesOf(consumerId).map((id) => {
          const name = keyspace.history(id);
          const add = () => ADD.run(this.#redis, [name], refused, banned, ...gatewayClock(this.#wallMs));
          return this.#circuit.run(add, name);
        }),
      );
      held.release();
      // The counts are approximate: counts that a consumer's part of a cluster does not accept are not sent again.
      await Promise.allSettled(added);
    }
  }

  async refusedNow(): Promise<readonly RefusedConsumer[]> {
    const { ends, rest } = keyspace.refusedNow;
    const message = `The list of those refused now in Redis cannot be used: \`${ends}\` is another program's, or this user may not use it. If you remove it, gateways begin it again.`;
    const [, ...reply] = await useOwn({ circuit: this.#circuit, name: ends, message, isRead: true }, () =>
      LIST.run(this.#redis, [ends, rest], MAX_REFUSED),
    );
    const found: RefusedConsumer[] = [];
    for (let i = 0; i + 2 < reply.length; i += 3) {
      const [kind = '', window = '', cost, plan = ''] = reply[i + 2]!.split(' ');
      const refusal = keptRefusal(kind, window, Number(cost), plan);
      found.push({ consumerId: reply[i]!, untilMs: Number(reply[i + 1]), ...refusal });
    }
    return found;
  }
}

/** Notes a ban that a scan has found: no request was refused. */
function isCounted({ refused, banned }: Refusals): boolean {
  return refused + banned > 0;
}

/** The server does not let its user call GETRANGE, so that the decision script keeps no history either. */
const FORBIDDEN = Symbol('forbidden');
const NO_HISTORY =
  'No usage history is kept, so it is unknown which keys are used: the Redis user may not call GETRANGE. Add `+getrange +bitfield` to its ACL, as in config/redis.acl.';

/** Returns a value, because the circuit would take an error for a failure of the store. */
function forbiddenOrForeign(error: Error): typeof FORBIDDEN | null {
  return error.message.startsWith('NOPERM') ? FORBIDDEN : nullIfForeign(error);
}

/** Null if the store has no history: a history is never empty. */
function emptyIfForeign(error: Error): Buffer {
  return nullIfForeign(error) ?? Buffer.alloc(0);
}
