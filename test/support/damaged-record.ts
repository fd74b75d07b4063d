import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { redisCommand } from './redis.ts';

/**
 * Replaces what the store that `env` names has under the name of a record, and returns a function that puts it back.
 * @param change returns null for something that is not even a text, where the store can have that
 */
export async function damageRecord(
  { REDIS_URL: url, TOLLGATE_DATA: folder }: Readonly<Record<string, string | undefined>>,
  id: string,
  change: (record: string) => string | null,
): Promise<() => Promise<void>> {
  const isKey = id.startsWith('key_');
  if (url !== undefined) {
    const name = isKey ? keyspace.apiKey(id) : keyspace.customer(id);
    const before = String(await redisCommand(url, 'GET', name));
    const damaged = change(before);
    await redisCommand(url, 'DEL', name);
    if (damaged === null) await redisCommand(url, 'HSET', name, 'a', 'b');
    else await redisCommand(url, 'SET', name, damaged);
    return async () => {
      await redisCommand(url, 'SET', name, before);
    };
  }
  const table = isKey ? 'keys' : 'customers';
  const write = (record: string) => {
    // The gateway may be writing at this moment.
    const db = new DatabaseSync(join(folder!, 'tollgate.db'), { timeout: 10_000 });
    try {
      const row = db.prepare(`SELECT record FROM ${table} WHERE id = ?`).get(id)!;
      db.prepare(`UPDATE ${table} SET record = ? WHERE id = ?`).run(record, id);
      return String(row.record);
    } finally {
      db.close();
    }
  };
  const before = write('');
  write(change(before) ?? 'null');
  return async () => {
    write(before);
  };
}
