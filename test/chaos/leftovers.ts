import { keyspace } from '../../src/stores/redis/keyspace.ts';
import type { Command, Store } from './stand/store.ts';

/** What may stay for ever: API keys, the pointers to them, their list, the record of the peppers, and how many changes there were. */
const LASTING = [
  keyspace.apiKey('').slice(0, -1),
  keyspace.digest(''),
  keyspace.apiKeys,
  keyspace.peppers,
  keyspace.changes,
] as const;

/** Everything in Redis that would stay for ever and is no API key, by name; the first twenty. */
export async function leftoversIn(store: Store): Promise<string[]> {
  const left: string[] = [];
  for (const command of await store.primaries()) {
    for await (const name of namesIn(command)) {
      if (LASTING.some((lasting) => name.startsWith(lasting))) continue;
      if (Number(await command('PTTL', name)) === -1) left.push(name);
      if (left.length === 20) return left;
    }
  }
  return left;
}

/** How many accounts there are. */
export async function accountsIn(store: Store): Promise<number> {
  let count = 0;
  for (const command of await store.primaries()) {
    for await (const name of namesIn(command)) if (name.startsWith(ACCOUNT)) count++;
  }
  return count;
}

const ACCOUNT = keyspace.account('').slice(0, -1);

async function* namesIn(command: Command): AsyncGenerator<string> {
  let cursor = '0';
  do {
    const [next, names] = (await command('SCAN', cursor, 'COUNT', 1000)) as [string, string[]];
    cursor = next;
    yield* names;
  } while (cursor !== '0');
}

/** What one field of a consumer's account holds; null where there is no account. The field is one of decide.lua's. */
export async function accountField(store: Store, consumerId: string, field: string): Promise<number | null> {
  for (const command of await store.primaries()) {
    try {
      const value = await command('HGET', keyspace.account(consumerId), field);
      return value === null ? null : Number(value);
    } catch (error) {
      // In a Cluster one node has it, and the others say which.
      if (!String(error).includes('MOVED')) throw error;
    }
  }
  return null;
}
