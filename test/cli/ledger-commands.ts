import type { Allowance } from '../../src/admit/allowance.ts';
import type { Amounts } from '../../src/engine/types.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { gatewayOn } from '../stores/redis-connections.ts';
import { emptyStore } from '../support/empty-store.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { runCommand as run } from '../support/run-command.ts';

/** Environments of an empty store, one for each technology. */
export const STORES: Readonly<Record<string, () => Promise<NodeJS.ProcessEnv>>> = {
  'the embedded store': emptyStore,
  Redis: async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' };
  },
};

export async function createKey(env: NodeJS.ProcessEnv, ...options: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(env, 'keys', 'create', '--json', ...options);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout).id;
}

/** What a gateway would have counted: `n` requests of a consumer, decided on the store that `env` names. */
export async function spend(
  env: NodeJS.ProcessEnv,
  consumerId: string,
  allowance: Allowance,
  n: number,
  amounts?: Amounts,
): Promise<void> {
  const asks = [{ consumerId, allowance, cost: 1, n, ...(amounts === undefined ? {} : { amounts }) }];
  if (env.REDIS_URL !== undefined) {
    await new RedisLedger({ ...(await gatewayOn(env.REDIS_URL)), publish: async () => {} }).decide(asks);
    return;
  }
  const db = openDatabase(env.TOLLGATE_DATA!);
  const ledger = new EmbeddedLedger({ db, wallMs: () => Date.now() });
  await ledger.decide(asks);
  ledger.close();
  db.close();
}
