import { join } from 'node:path';
import { localRedis, type RedisBinary, redisOnPath } from './redis-binary.ts';
import { redisCommand } from './redis-command.ts';
import { REDIS_IMAGE, REDIS_IMAGE_VERSION, startRedisContainer, whyNoContainers } from './redis-container.ts';
import { RedisProcess } from './redis-process.ts';
import { asProduct } from './redis-user.ts';

/** Where the downloaded server is kept. */
export const REDIS_CACHE = join(import.meta.dirname, '..', '..', 'node_modules', '.cache');

const INSTALL =
  'Install one (`apt-get install redis-server`, `brew install redis`), start a container engine, ' +
  'or set TEST_REDIS=redis://HOST:PORT.';

/** The Redis of a test run, as the workers are told of it: plain data. */
export type SharedRedis =
  | ({ readonly kind: 'local'; readonly binary: RedisBinary } & Address)
  | ({ readonly kind: 'container' | 'url' } & Address)
  | { readonly kind: 'none'; readonly reason: string };

interface Address {
  /** For the tests themselves. */
  readonly url: string;
  /** For the product: with a user that has the rights of config/redis.acl and no more. That of TEST_REDIS is taken as it is. */
  readonly productUrl: string;
  /** `redis-server 7.0.15` */
  readonly version: string;
  /** Where it comes from, to be put after the version. */
  readonly origin: string;
}

interface Found {
  readonly shared: SharedRedis;
  /** Ends what was started. */
  end(): Promise<void>;
}

declare module 'vitest' {
  interface ProvidedContext {
    sharedRedis: SharedRedis;
  }
}

/**
 * Finds a Redis and starts it where it has to be started, in the order of contract section 1: a program on the PATH, a
 * container, Debian's package. TEST_REDIS chooses: `local` (a program), `container`, or the URL of a server that runs.
 * Never rejects: kind `none` has the sentence that says what to install.
 */
export async function findSharedRedis(env: NodeJS.ProcessEnv): Promise<Found> {
  try {
    return await chosen(env);
  } catch (error) {
    const reason = `none. ${error instanceof Error ? error.message : String(error)}. ${INSTALL}`;
    return { shared: { kind: 'none', reason }, end: async () => {} };
  }
}

async function chosen(env: NodeJS.ProcessEnv): Promise<Found> {
  const wish = env.TEST_REDIS ?? '';
  if (/^rediss?:\/\//.test(wish)) return atUrl(wish);
  if (wish === 'container') {
    const reason = await whyNoContainers();
    if (reason !== null) throw new Error(`TEST_REDIS=container, but ${reason}`);
    return inContainer();
  }
  if (wish === 'local') return asProcess(await localRedis(REDIS_CACHE, env));
  if (wish !== '') throw new Error(`TEST_REDIS is '${wish}', and can be local, container or redis://HOST:PORT`);
  const onPath = await redisOnPath(env);
  if (onPath !== null) return asProcess(onPath);
  const reason = await whyNoContainers();
  if (reason === null) return inContainer();
  const binary = await localRedis(REDIS_CACHE, env).catch((error: Error) => {
    throw new Error(`No redis-server or valkey-server is on the PATH, ${reason}, and ${error.message}`);
  });
  return asProcess(binary);
}

async function asProcess(binary: RedisBinary): Promise<Found> {
  const server = await RedisProcess.start(binary);
  const url = `redis://127.0.0.1:${server.port}`;
  return {
    shared: {
      kind: 'local',
      binary,
      url,
      productUrl: asProduct(url, binary.version),
      version: binary.version,
      origin: `(${binary.origin})`,
    },
    end: () => server.dispose(),
  };
}

async function inContainer(): Promise<Found> {
  const container = await startRedisContainer();
  const url = `redis://${container.host}:${container.port}`;
  return {
    shared: {
      kind: 'container',
      url,
      productUrl: asProduct(url, REDIS_IMAGE_VERSION),
      version: await versionAt(url),
      origin: `(container ${REDIS_IMAGE})`,
    },
    end: () => container.remove(),
  };
}

async function atUrl(url: string): Promise<Found> {
  const version = await versionAt(url).catch((error: Error) => {
    throw new Error(`The server of TEST_REDIS does not answer (${error.message})`, { cause: error });
  });
  return { shared: { kind: 'url', url, productUrl: url, version, origin: '(TEST_REDIS)' }, end: async () => {} };
}

async function versionAt(url: string): Promise<string> {
  const info = String(await redisCommand(url, 'INFO', 'server'));
  // Valkey tells a redis_version too, the one it is compatible with.
  const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
  return valkey === undefined ? `redis-server ${/^redis_version:(\S+)/m.exec(info)?.[1]}` : `valkey-server ${valkey}`;
}
