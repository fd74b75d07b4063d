import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { redisCommand } from './redis.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** Does something to the database of the embedded store while a gateway may be writing to it. */
function inDatabase<T>(folder: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(join(folder, 'tollgate.db'), { timeout: 10_000 });
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Replaces the latest entry of the record of changes by a text; of the embedded store what it has of the change. */
export async function damageLatestChange({ REDIS_URL: url, TOLLGATE_DATA: folder }: Env, text: string): Promise<void> {
  if (url === undefined) {
    const update = 'UPDATE audit SET text = ? WHERE number = (SELECT max(number) FROM audit)';
    inDatabase(folder!, (db) => db.prepare(update).run(text));
  } else
    await redisCommand(
      url,
      'HSET',
      keyspace.audit,
      String(await redisCommand(url, 'HGET', keyspace.audit, 'last')),
      text,
    );
}

/** The same for all entries of refused attempts. */
export async function damageRefusals({ REDIS_URL: url, TOLLGATE_DATA: folder }: Env, text: string): Promise<void> {
  if (url === undefined) inDatabase(folder!, (db) => db.prepare('UPDATE audit_refused SET text = ?').run(text));
  else {
    const fields = (await redisCommand(url, 'HKEYS', keyspace.auditRefusals)) as string[];
    for (const field of fields) await redisCommand(url, 'HSET', keyspace.auditRefusals, field, text);
  }
}

/** Removes all entries of the record of changes. */
export async function forgetChanges({ REDIS_URL: url, TOLLGATE_DATA: folder }: Env): Promise<void> {
  if (url === undefined) inDatabase(folder!, (db) => db.exec('DELETE FROM audit; DELETE FROM audit_refused'));
  else await redisCommand(url, 'DEL', keyspace.audit, keyspace.auditRefusals);
}

/** Makes what was counted for a key unreadable. The embedded store has it in memory while a gateway runs. */
export async function damageCounts({ REDIS_URL: url, TOLLGATE_DATA: folder }: Env, id: string): Promise<void> {
  if (url === undefined) {
    const insert = 'INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)';
    inDatabase(folder!, (db) => db.prepare(insert).run(id, '{"windows":', Date.now() + 3_600_000));
  } else await redisCommand(url, 'SET', keyspace.account(id), 'garbage');
}

/** Makes the latest entry in the history of plans unreadable. */
export async function damageLatestPlans({ REDIS_URL: url, TOLLGATE_DATA: folder }: Env): Promise<void> {
  if (url === undefined) {
    const update = 'UPDATE plans_history SET since_ms = ? WHERE number = (SELECT max(number) FROM plans_history)';
    inDatabase(folder!, (db) => db.prepare(update).run(10 ** 18));
  } else {
    const numbers = String(await redisCommand(url, 'HGET', keyspace.plansHistory, 'numbers'));
    await redisCommand(url, 'HSET', keyspace.plansHistory, numbers.split(' ').at(-1)!, 'garbage');
  }
}

/**
 * Replaces what the store that `env` names has under the name of a record, and returns a function that puts it back.
 * @param change returns null for something that is not even a text, where the store can have that
 */
export async function damageRecord(
  { REDIS_URL: url, TOLLGATE_DATA: folder }: Env,
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
  const write = (record: string) =>
    inDatabase(folder!, (db) => {
      const row = db.prepare(`SELECT record FROM ${table} WHERE id = ?`).get(id)!;
      db.prepare(`UPDATE ${table} SET record = ? WHERE id = ?`).run(record, id);
      return String(row.record);
    });
  const before = write('');
  write(change(before) ?? 'null');
  return async () => {
    write(before);
  };
}
