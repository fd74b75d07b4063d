import { localRedis, type RedisBinary } from '../../../test/support/redis-binary.ts';
import { REDIS_CACHE } from '../../../test/support/redis-finder.ts';
import { startCluster } from './cluster.ts';
import { Endings } from './endings.ts';
import { startSentinels } from './sentinels.ts';
import { commandsTo, type Store, startServer, urlOf } from './server.ts';

/** `plain` keeps nothing over a restart, `aof` does. */
export type StoreKind = 'plain' | 'aof' | 'sentinel' | 'cluster';

/** @throws Error that says what to install where there is no Redis program: it has to be killed, paused and moved */
export async function startStore(kind: StoreKind): Promise<Store> {
  const binary = await localRedis(REDIS_CACHE);
  const endings = new Endings();
  try {
    const store = await started(kind, binary, endings);
    return { ...store, close: () => endings.end() };
  } catch (error) {
    await endings.end();
    throw error;
  }
}

async function started(kind: StoreKind, binary: RedisBinary, endings: Endings): Promise<Omit<Store, 'close'>> {
  if (kind === 'sentinel') return startSentinels(binary, endings);
  if (kind === 'cluster') return startCluster(binary, endings);
  // Rewritten when it is small: every command in it takes a millisecond to load, see below, and a soak makes many.
  const short = ['--auto-aof-rewrite-min-size', '200kb', '--auto-aof-rewrite-percentage', '100'];
  const persistence = kind === 'aof' ? ['--appendonly', 'yes', '--appendfsync', 'everysec', ...short] : [];
  // A key takes a millisecond to load, and the server says LOADING meanwhile: nothing here has millions of them.
  const slowLoading = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];
  const server = await startServer(binary, endings, [...persistence, ...slowLoading]);
  const command = commandsTo(server);
  return {
    url: urlOf(server),
    port: server.port,
    server,
    servers: [server],
    command,
    primaries: async () => [command],
    hasFailedOver: async () => false,
  };
}
