import type { Redis } from 'ioredis';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import type { Calls } from './shards.ts';

/** Asks the server, or each primary of a cluster in the order of their addresses, for its time: Unix milliseconds. */
export async function serverClocks(redis: RedisClient, circuit: Calls): Promise<readonly number[]> {
  if (!(redis instanceof ClusterClient)) return [await circuit.run(() => timeOf(redis))];
  const primaries = redis.nodes('master').toSorted((a, b) => (addressOfNode(a) < addressOfNode(b) ? -1 : 1));
  return Promise.all(primaries.map((primary) => circuit.run(() => timeOf(primary), primary)));
}

/** Unix milliseconds. */
export async function timeOf(server: Redis): Promise<number> {
  const [seconds, microseconds] = await server.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}
