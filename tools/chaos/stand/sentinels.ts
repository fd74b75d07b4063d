import { eventually } from '../../../test/support/conditions.ts';
import type { RedisBinary } from '../../../test/support/redis-binary.ts';
import { RedisProcess } from '../../../test/support/redis-process.ts';
import type { Endings } from './endings.ts';
import { commandsTo, type Store, startServer } from './server.ts';

const NAME = 'main';
/** A primary that comes back empty, before anybody has noticed that it was away, would empty its replicas. */
const KEPT = ['--appendonly', 'yes', '--repl-diskless-sync-delay', '0'];

/** A primary, two replicas and three Sentinels that agree by two when it is down, after half a second. */
export async function startSentinels(binary: RedisBinary, endings: Endings): Promise<Omit<Store, 'close'>> {
  const primary = await startServer(binary, endings, KEPT);
  const replicas = await Promise.all(
    [1, 2].map(() => startServer(binary, endings, [...KEPT, '--replicaof', '127.0.0.1', String(primary.port)])),
  );
  const sentinels = await Promise.all(
    [1, 2, 3].map(async () => {
      const sentinel = await RedisProcess.start(binary, {
        sentinel: [
          `sentinel monitor ${NAME} 127.0.0.1 ${primary.port} 2`,
          `sentinel down-after-milliseconds ${NAME} 500`,
          `sentinel failover-timeout ${NAME} 3000`,
          `sentinel parallel-syncs ${NAME} 2`,
        ],
      });
      endings.add(() => sentinel.dispose());
      return sentinel;
    }),
  );
  const servers = [primary, ...replicas];
  const know = async (sentinel: RedisProcess) => {
    const info = String(await commandsTo(sentinel)('INFO', 'sentinel'));
    return /name=main,status=ok,\S*slaves=2,sentinels=3/.test(info);
  };
  const follows = async (replica: RedisProcess) =>
    String(await commandsTo(replica)('INFO', 'replication')).includes('master_link_status:up');
  await eventually(async () => (await Promise.all([...sentinels.map(know), ...replicas.map(follows)])).every(Boolean), {
    withinMs: 20_000,
    everyMs: 100,
  });
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${NAME}`,
    port: null,
    server: primary,
    servers,
    command: commandsTo(primary),
    primaries: async () => [commandsTo({ port: await primaryBy(sentinels[0]!) })],
    hasFailedOver: async () => {
      const [first, ...others] = await Promise.all(sentinels.map(primaryBy));
      if (first === primary.port || others.some((port) => port !== first)) return false;
      const [role] = (await commandsTo({ port: first! })('ROLE')) as [string];
      return role === 'master';
    },
  };
}

async function primaryBy(sentinel: RedisProcess): Promise<number> {
  const address = await commandsTo(sentinel)('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME);
  return Number((address as [string, string])[1]);
}
