import { inject } from 'vitest';
import { eventually } from './conditions.ts';
import { atEnd } from './endings.ts';
import { localRedis, type RedisBinary } from './redis-binary.ts';
import { redisCommand } from './redis-command.ts';
import { REDIS_IMAGE_VERSION, startRedisContainer } from './redis-container.ts';
import { REDIS_CACHE } from './redis-finder.ts';
import { type RedisOptions, RedisProcess } from './redis-process.ts';
import { asProduct, productUserInfo } from './redis-user.ts';

/** A Redis that one test has for itself and may configure, stop, kill, pause and start again. */
export interface PrivateRedis {
  /** With the product's user (`config/redis.acl`), unless `--requirepass` asks for another password. */
  readonly url: string;
  /** That user and its password with the `@`, for other forms of REDIS_URL. */
  readonly userInfo: string;
  readonly port: number;
  readonly configArgs: readonly string[];
  /** Of the server; another one after a restart, 0 while it does not run. */
  readonly pid: number;
  /** Ends the server as an operator would. */
  stop(): Promise<void>;
  /** Ends the server as a crash would: nothing is saved, connections are cut. */
  kill(): Promise<void>;
  /** The server falls silent; its connections stay open, and the kernel still accepts new ones. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /**
   * Ends the server if it runs, and starts it on the same address; resolves when it answers.
   * `keepData`: what it holds is saved first and found again (after `stop` or `kill`: what its own persistence saved).
   */
  restart(options: { readonly keepData: boolean }): Promise<void>;
}

export interface PrivateRedisOptions extends RedisOptions {
  /**
   * A process of this machine even where the run uses containers: for servers that must reach each other under the
   * addresses that the tests use (Cluster, Sentinel). Always so for a Sentinel.
   */
  readonly asProcess?: boolean;
}

/**
 * Starts a Redis for one test (from `beforeAll`: for one file), which ends with it. It is a process of this machine,
 * or a container where the run uses containers.
 *
 * @throws Error that says what to install where none can be started
 */
export async function privateRedis(options: PrivateRedisOptions = {}): Promise<PrivateRedis> {
  const shared = inject('sharedRedis');
  if (shared.kind === 'none') throw new Error(`Redis for the tests: ${shared.reason}`);
  const asProcess = options.asProcess === true || options.sentinel !== undefined;
  if (shared.kind === 'container' && !asProcess) return inContainer(options.configArgs ?? []);
  return ofBinary(shared.kind === 'local' ? shared.binary : await localRedis(REDIS_CACHE), options);
}

async function ofBinary(binary: RedisBinary, options: RedisOptions): Promise<PrivateRedis> {
  const server = await RedisProcess.start(binary, options);
  atEnd(() => server.dispose());
  const url = asProduct(urlOf('127.0.0.1', server.port, server.configArgs), binary.version);
  return {
    url,
    userInfo: productUserInfo(binary.version),
    port: server.port,
    configArgs: server.configArgs,
    get pid() {
      return server.pid;
    },
    stop: () => server.stop(),
    kill: () => server.kill(),
    pause: async () => server.pause(),
    resume: async () => server.resume(),
    restart: async ({ keepData }) => {
      server.resume();
      if (keepData && server.pid !== 0) await redisCommand(url, 'SAVE');
      await server.stop();
      await server.launchAgain({ keepData });
    },
  };
}

async function inContainer(configArgs: readonly string[]): Promise<PrivateRedis> {
  const container = await startRedisContainer(configArgs);
  atEnd(() => container.remove());
  const url = asProduct(urlOf(container.host, container.port, configArgs), REDIS_IMAGE_VERSION);
  let state: 'runs' | 'paused' | 'ended' = 'runs';
  let pid = await container.pid();
  const resume = async () => {
    if (state === 'paused') await container.unpause();
    if (state === 'paused') state = 'runs';
  };
  const end = async (how: 'stop' | 'kill') => {
    await resume();
    if (state === 'runs') await container[how]();
    state = 'ended';
    pid = 0;
  };
  return {
    url,
    userInfo: productUserInfo(REDIS_IMAGE_VERSION),
    port: container.port,
    configArgs,
    get pid() {
      return pid;
    },
    stop: () => end('stop'),
    kill: () => end('kill'),
    pause: async () => {
      if (state !== 'runs') return;
      await container.pause();
      state = 'paused';
    },
    resume,
    restart: async ({ keepData }) => {
      await resume();
      if (keepData && state === 'runs') await redisCommand(url, 'SAVE');
      await end('stop');
      await container.start({ keepData });
      state = 'runs';
      pid = await container.pid();
      await eventually(() => redisCommand(url, 'PING'), { withinMs: 10_000 });
    },
  };
}

/** With the password that the server was configured to ask for. */
function urlOf(host: string, port: number, configArgs: readonly string[]): string {
  const at = configArgs.indexOf('--requirepass');
  const password = at === -1 ? '' : `:${encodeURIComponent(configArgs[at + 1] ?? '')}@`;
  return `redis://${password}${host}:${port}`;
}
