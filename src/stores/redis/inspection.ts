import type { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import { addressOf, type RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';

/** The findings about the servers. Each is a sentence or two that tell the operator what to do. */
export interface Findings {
  /** Findings that make serving wrong or impossible until an operator changes something. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

/** Earlier versions refuse scripts that call TIME before they write. */
const MIN_VERSION = 5;

/**
 * Checks whether the server, or every connected node of a cluster, is suitable for Tollgate. An ACL that forbids INFO is not a
 * fault by itself.
 * @param keepsHistory true if the settings ask for a usage history
 */
export async function inspect(redis: RedisClient, keepsHistory: boolean): Promise<Findings> {
  const servers = redis instanceof ClusterClient ? redis.nodes().filter(({ status }) => status === 'ready') : [redis];
  const faults = new Set<string>();
  const warnings = new Set<string>();
  const inspections = servers.map(async (server) => {
    const [found, mayRecord] = await Promise.all([factsOf(server, redis), !keepsHistory || mayWriteHistories(server)]);
    return { ...found, mayRecord };
  });
  for (const { where, facts, mayRecord } of await Promise.all(inspections)) {
    const fault = faultOf(where, facts, redis);
    if (fault !== null) faults.add(fault);
    else for (const warning of warningsOf(where, facts, redis)) warnings.add(warning);
    if (!mayRecord) warnings.add(withoutHistory(where));
  }
  return { faults: [...faults], warnings: [...warnings] };
}

/**
 * Inspects the servers. @returns the warnings
 * @throws Failure `bad_settings` with the faults, if there are any
 */
export async function insistOnServers(redis: RedisClient, keepsHistory: boolean): Promise<readonly string[]> {
  const { faults, warnings } = await inspect(redis, keepsHistory);
  if (faults.length > 0) throw new Failure('bad_settings', faults.join('\n'));
  return warnings;
}

/**
 * Inspects the servers after each new connection, which may lead to another server or to a new configuration.
 * @param report called once with each finding
 */
export function watchServers(redis: RedisClient, keepsHistory: boolean, report: (finding: string) => void): void {
  const reported = new Set<string>();
  const check = async () => {
    const { faults, warnings } = await inspect(redis, keepsHistory);
    for (const finding of [...faults, ...warnings]) {
      if (!reported.has(finding)) report(finding);
      reported.add(finding);
    }
  };
  // Ignores an error: the connection was lost again, and the next one causes another inspection.
  redis.on(redis instanceof ClusterClient ? 'whole' : 'ready', () => void check().catch(() => {}));
}

/**
 * True if the ACL lets the gateways' user call the commands with which the scripts write histories. Earlier ACLs do not; the
 * scripts then decide without recording.
 */
async function mayWriteHistories(server: Redis): Promise<boolean> {
  const name = keyspace.history('');
  const calls = [server.getrange(name, 0, 0), server.call('BITFIELD', name, 'GET', 'u1', '0')];
  const settled = await Promise.allSettled(calls);
  return !settled.some((result) => result.status === 'rejected' && /NOPERM/.test(String(result.reason)));
}

function withoutHistory(where: string): string {
  return (
    `Redis at ${where} does not let its user call GETRANGE and BITFIELD, so no usage history is kept. ` +
    'Add `+getrange +bitfield` to its ACL, as in config/redis.acl, or set `usage: { history: off }` in gateway.yaml.'
  );
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
  // If INFO is forbidden, the reply to HELLO has the version and the mode.
  const greeting = await server.call('HELLO').catch(() => []);
  const words = Array.isArray(greeting) ? greeting.map(String) : [];
  const replyOf = (name: string) => words[words.indexOf(name) + 1] ?? '';
  return {
    where,
    facts: new Map(
      words.length === 0
        ? []
        : [
            ['redis_version', replyOf('version')],
            ['redis_mode', replyOf('mode')],
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
  if (/^\d/.test(version) && Number.parseInt(version, 10) < MIN_VERSION)
    return `Redis at ${where} is version ${version}, and Tollgate needs ${MIN_VERSION}.0 or later. Upgrade it.`;
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
