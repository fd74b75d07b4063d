import type { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import { addressOf, type RedisClient } from './connection.ts';

/** What is to be said of the servers, each a sentence or two that say what to do. */
export interface Findings {
  /** What makes serving wrong or impossible until somebody changes it. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

/** Scripts write after they have asked for the time, which earlier versions refuse. */
const LEAST_VERSION = 5;

/**
 * Looks at the server, or at every node of a cluster that is connected: whether it is one that Tollgate can count on.
 * What a user may not ask (INFO forbidden by an ACL) is not held against the server.
 */
export async function inspect(redis: RedisClient): Promise<Findings> {
  const servers = redis instanceof ClusterClient ? redis.nodes().filter(({ status }) => status === 'ready') : [redis];
  const faults = new Set<string>();
  const warnings = new Set<string>();
  for (const { where, facts } of await Promise.all(servers.map((server) => factsOf(server, redis)))) {
    const fault = faultOf(where, facts, redis);
    if (fault !== null) faults.add(fault);
    else for (const warning of warningsOf(where, facts, redis)) warnings.add(warning);
  }
  return { faults: [...faults], warnings: [...warnings] };
}

/**
 * The warnings about the servers.
 * @throws Failure `bad_settings` with the faults, where there are any
 */
export async function insistOnServers(redis: RedisClient): Promise<readonly string[]> {
  const { faults, warnings } = await inspect(redis);
  if (faults.length > 0) throw new Failure('bad_settings', faults.join('\n'));
  return warnings;
}

/**
 * Inspects the servers with each new link, for the one behind it may be another or configured anew.
 * @param tell called with each sentence once
 */
export function watchServers(redis: RedisClient, tell: (sentence: string) => void): void {
  const told = new Set<string>();
  const look = async () => {
    const { faults, warnings } = await inspect(redis);
    for (const sentence of [...faults, ...warnings]) {
      if (!told.has(sentence)) tell(sentence);
      told.add(sentence);
    }
  };
  // A link that is lost again at once is looked at when it is there again.
  redis.on(redis instanceof ClusterClient ? 'whole' : 'ready', () => void look().catch(() => {}));
}

type Facts = ReadonlyMap<string, string>;

async function factsOf(server: Redis, redis: RedisClient): Promise<{ where: string; facts: Facts }> {
  const where = redis instanceof ClusterClient ? addressOfNode(server) : addressOf(redis);
  let isForbidden = false;
  const text = await server.info().catch((error: Error) => {
    isForbidden = error.message.startsWith('NOPERM');
    return null;
  });
  if (text !== null) {
    const lines = [...text.matchAll(/^([a-z_]+):(.*?)\r?$/gm)];
    return { where, facts: new Map(lines.map(([, name = '', value = '']) => [name, value])) };
  }
  // Where INFO is forbidden, the greeting tells the version and the mode.
  const greeting = await server.call('HELLO').catch(() => []);
  const words = Array.isArray(greeting) ? greeting.map(String) : [];
  const said = (name: string) => words[words.indexOf(name) + 1] ?? '';
  return {
    where,
    facts: new Map(
      words.length === 0
        ? []
        : [
            ['redis_version', said('version')],
            ['redis_mode', said('mode')],
            ...(isForbidden ? ([['info', 'forbidden']] as const) : []),
          ],
    ),
  };
}

function faultOf(where: string, facts: Facts, redis: RedisClient): string | null {
  const version = facts.get('redis_version') ?? '';
  const mode = facts.get('redis_mode');
  if (mode === 'sentinel')
    return `${where} is a Sentinel and no Redis. Write redis+sentinel://${where}/NAME in REDIS_URL, with its name for the primary.`;
  if (mode === 'cluster' && !(redis instanceof ClusterClient))
    return `Redis at ${where} is a node of a cluster. Write redis+cluster:// instead of redis:// in REDIS_URL.`;
  if (/^\d/.test(version) && Number.parseInt(version, 10) < LEAST_VERSION)
    return `Redis at ${where} is version ${version}, and Tollgate needs ${LEAST_VERSION}.0 or later. Upgrade it.`;
  return null;
}

function warningsOf(where: string, facts: Facts, redis: RedisClient): string[] {
  const policy = facts.get('maxmemory_policy') ?? 'noeviction';
  const warnings: string[] = [];
  if (policy !== 'noeviction' && facts.get('maxmemory') !== '0') {
    warnings.push(
      `Redis at ${where} forgets quotas and bans when it is full (maxmemory-policy ${policy}). ` +
        'Set `maxmemory-policy noeviction` in its configuration.',
    );
  }
  if (facts.get('info') === 'forbidden' && !(redis instanceof ClusterClient) && !redis.options.sentinels) {
    warnings.push(
      `Redis at ${where} does not let its user ask INFO, so its replicas are not seen: a change to a key is acknowledged ` +
        'as soon as the server has it. Allow `+info`, or say in `redis.durability.replicas` how many there are.',
    );
  }
  if (facts.get('role') === 'slave' && !(redis instanceof ClusterClient)) {
    warnings.push(
      `Redis at ${where} is a replica and takes no writes. Name its primary, or the Sentinels, in REDIS_URL.`,
    );
  }
  return warnings;
}
