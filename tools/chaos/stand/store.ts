import { localRedis, type RedisBinary } from '../../../test/support/redis-binary.ts';
import { redisCommand } from '../../../test/support/redis-command.ts';
import { REDIS_CACHE } from '../../../test/support/redis-finder.ts';
import { RedisProcess } from '../../../test/support/redis-process.ts';
import { startCluster } from './cluster.ts';
import { Endings } from './endings.ts';
import { startSentinels } from './sentinels.ts';

/** `plain` keeps nothing over a restart, `aof` does. */
export type StoreKind = 'plain' | 'aof' | 'sentinel' | 'cluster';

export type Command = (command: string, ...args: (string | number)[]) => Promise<unknown>;

/** Where the quotas are: real Redis servers of this run. */
export interface Store {
  /** REDIS_URL. */
  readonly url: string;
  /** Of the one server that gateways are to reach through a link; null where they find the servers by themselves. */
  readonly port: number | null;
  /** Of the server that is the only one, or the first primary. */
  readonly server: RedisProcess;
  /** All servers that hold data. */
  readonly servers: readonly RedisProcess[];
  /** Sends a command to that server, on a connection of its own. */
  readonly command: Command;
  /** The primaries at this moment, as commands. */
  primaries(): Promise<readonly Command[]>;
  /** Whether others than that server are primaries of all there is, as all who decide on it agree. */
  hasFailedOver(): Promise<boolean>;
  close(): Promise<void>;
}

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

export async function startServer(
  binary: RedisBinary,
  endings: Endings,
  configArgs: readonly string[],
): Promise<RedisProcess> {
  const server = await RedisProcess.start(binary, { configArgs });
  endings.add(() => server.dispose());
  return server;
}

export function urlOf({ port }: { readonly port: number }): string {
  return `redis://127.0.0.1:${port}`;
}

export function commandsTo(server: { readonly port: number }): Command {
  return (command, ...args) => redisCommand(urlOf(server), command, ...args);
}
