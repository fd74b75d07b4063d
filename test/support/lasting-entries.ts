import { keyspace } from '../../src/stores/redis/keyspace.ts';

/** How the names begin of what stays in Redis for ever. Everything else must expire. */
const LASTING = [
  keyspace.apiKey('').slice(0, -1),
  keyspace.digest(''),
  keyspace.apiKeys,
  keyspace.peppers,
  keyspace.audit,
  keyspace.changes,
  keyspace.plansHistory,
] as const;

/** Whether an entry in Redis may stay for ever: keys, the peppers, the record of changes, or the history of plans. */
export function isLasting(name: string): boolean {
  return LASTING.some((lasting) => name.startsWith(lasting));
}
