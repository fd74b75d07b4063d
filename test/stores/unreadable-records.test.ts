import { describe } from 'vitest';
import { embeddedCustomers } from '../../src/stores/embedded/customers.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { REMOVED, unreadableRecordsContract } from '../contracts/unreadable-records.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

describe('in Redis', () => {
  unreadableRecordsContract(async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const { keys, customers } = await gatewayOn(url);
    return {
      keys,
      customers,
      damage: async (kind, id, change) => {
        const name = kind === 'key' ? keyspace.apiKey(id) : keyspace.customer(id);
        const damaged = change(String(await redisCommand(url, 'GET', name)));
        await redisCommand(url, 'DEL', name);
        if (damaged === null) await redisCommand(url, 'HSET', name, 'a', 'b');
        else if (damaged !== REMOVED) await redisCommand(url, 'SET', name, damaged);
      },
    };
  });
});

describe('in the embedded store', () => {
  unreadableRecordsContract(async () => {
    const db = openDatabase(await temporaryFolder());
    atEnd(() => db.close());
    return {
      keys: new EmbeddedKeys({ db }),
      customers: embeddedCustomers({ db }),
      damage: async (kind, id, change) => {
        const table = kind === 'key' ? 'keys' : 'customers';
        const row = db.prepare(`SELECT record FROM ${table} WHERE id = ?`).get(id)!;
        // A column of texts has nothing else.
        const damaged = change(String(row.record)) ?? 'null';
        if (damaged === REMOVED) db.prepare(`DELETE FROM ${table} WHERE id = ?`).run(id);
        else db.prepare(`UPDATE ${table} SET record = ? WHERE id = ?`).run(damaged, id);
      },
    };
  });
});
