import type { Redis } from 'ioredis';
import { addressOfNode, ClusterClient } from './cluster.ts';
import { addressOf, type RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';

/** The report of one server about itself. Null: its user may not ask, or its version does not report it. */
export interface ServerDiagnosis {
  readonly where: string;
  readonly version: string | null;
  /** The time of one PING, in milliseconds. */
  readonly latencyMs: number;
  /** The lead of its clock over this machine's, within half of `latencyMs`. */
  readonly clockAheadMs: number;
  /**
   * `failing`: its last attempt to write to disk failed. `no-log`: it keeps no append-only file, and its user may not ask for
   * snapshots.
   */
  readonly persistence: 'log' | 'snapshots' | 'none' | 'no-log' | 'failing' | null;
  /** `maxmemory-policy`, and the bound in bytes; 0 is none. */
  readonly memory: { readonly policy: string; readonly maxBytes: number } | null;
  /** Commands that its user may not call, such as `zadd`. */
  readonly denied: readonly string[] | null;
}

/**
 * Asks the server, or every connected primary of a cluster, for what `tollgate doctor` reports. It writes nothing.
 * @throws the errors of the connection
 */
export function diagnose(redis: RedisClient, wallMs: () => number): Promise<ServerDiagnosis[]> {
  const servers =
    redis instanceof ClusterClient ? redis.nodes('master').filter(({ status }) => status === 'ready') : [redis];
  return Promise.all(
    servers.map((server) => diagnoseOne(server, server === redis ? addressOf(redis) : addressOfNode(server), wallMs)),
  );
}

async function diagnoseOne(server: Redis, where: string, wallMs: () => number): Promise<ServerDiagnosis> {
  await server.ping();
  const beforeMs = wallMs();
  const [seconds = 0, micros = 0] = (await server.time()).map(Number);
  const latencyMs = wallMs() - beforeMs;
  const [info, snapshots, denied] = await Promise.all([
    unlessForbidden(() => server.info()),
    unlessForbidden(() => server.config('GET', 'save')),
    deniedOn(server),
  ]);
  const facts = new Map(
    [...(info ?? '').matchAll(/^([a-z_]+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]),
  );
  const policy = facts.get('maxmemory_policy');
  return {
    where,
    version: facts.get('redis_version') ?? null,
    latencyMs,
    clockAheadMs: seconds * 1_000 + micros / 1_000 - (beforeMs + latencyMs / 2),
    persistence: info === null ? null : persistenceOf(facts, snapshots),
    memory: policy === undefined ? null : { policy, maxBytes: Number(facts.get('maxmemory') ?? 0) },
    denied,
  };
}

function persistenceOf(facts: ReadonlyMap<string, string>, snapshots: unknown): ServerDiagnosis['persistence'] {
  const [isLogging, log, snapshot] = ['aof_enabled', 'aof_last_write_status', 'rdb_last_bgsave_status'].map((name) =>
    facts.get(name),
  );
  if (log === 'err' || snapshot === 'err') return 'failing';
  if (isLogging === '1') return 'log';
  if (!Array.isArray(snapshots)) return 'no-log';
  return String(snapshots[1] ?? '') === '' ? 'none' : 'snapshots';
}

async function unlessForbidden<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call();
  } catch (error) {
    // Managed servers rename or remove CONFIG.
    if (error instanceof Error && /^(NOPERM|ERR)\b/.test(error.message)) return null;
    throw error;
  }
}

const NAME = keyspace.apiKey('doctor');

/** Every command that Tollgate calls itself or in a script, as config/redis.acl allows them, in a form without effect. */
export const NEEDED_COMMANDS: readonly (readonly string[])[] = [
  ...[['info'], ['time'], ['wait', '0', '0'], ['eval', '', '0'], ['evalsha', '', '0']],
  ...[
    ['get', NAME],
    ['set', NAME, ''],
    ['mget', NAME],
    ['exists', NAME],
    ['del', NAME],
  ],
  ...[
    ['expire', NAME, '1'],
    ['pexpire', NAME, '1'],
    ['pexpireat', NAME, '1'],
    ['pttl', NAME],
  ],
  ...[
    ['getrange', NAME, '0', '0'],
    ['bitfield', NAME],
    ['incr', NAME],
    ['incrby', NAME, '1'],
  ],
  ...[
    ['hget', NAME, 'f'],
    ['hmget', NAME, 'f'],
    ['hset', NAME, 'f', 'v'],
    ['hdel', NAME, 'f'],
    ['hlen', NAME],
  ],
  ...[
    ['hexists', NAME, 'f'],
    ['hincrby', NAME, 'f', '1'],
    ['hscan', NAME, '0'],
    ['scan', '0'],
  ],
  ...[
    ['lpush', NAME, 'v'],
    ['lrange', NAME, '0', '0'],
    ['ltrim', NAME, '0', '0'],
  ],
  ...[
    ['zadd', NAME, '1', 'm'],
    ['zrem', NAME, 'm'],
    ['zcard', NAME],
    ['zrank', NAME, 'm'],
    ['zrange', NAME, '0', '0'],
  ],
  ...[
    ['publish', keyspace.changesChannel(0), ''],
    ['subscribe', keyspace.changesChannel(0)],
  ],
];

/** Asks the server itself, which Redis answers from version 7 on, so that Tollgate need not call any command. */
const DENIED_LUA = `
if not redis.acl_check_cmd then return nil end
local denied = {}
for _, words in ipairs(cjson.decode(ARGV[1])) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied`;

/** The commands among these that the user of this connection may not call; null if the server does not report it. */
async function deniedOn(server: Redis): Promise<readonly string[] | null> {
  try {
    const reply = await server.eval(DENIED_LUA, 0, JSON.stringify(NEEDED_COMMANDS));
    return Array.isArray(reply) ? reply.map(String) : null;
  } catch (error) {
    if (error instanceof Error && /^NOPERM .*eval/i.test(error.message)) return ['eval'];
    if (error instanceof Error && /^(NOPERM|ERR)\b/.test(error.message)) return null;
    throw error;
  }
}
