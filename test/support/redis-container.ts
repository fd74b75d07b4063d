import { randomUUID } from 'node:crypto';
import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { whenWeAreGone } from './end-with-us.ts';
import { freePort } from './free-port.ts';
import { productUserArgs } from './redis-user.ts';

export const REDIS_IMAGE = 'redis:8-alpine';
/** As a program of this machine tells it. */
export const REDIS_IMAGE_VERSION = 'redis-server 8';

const REDIS_PORT = 6379;
const LABEL = 'tollgate.test';
const MAX_ATTEMPTS = 5;
const PULL_WITHIN_MS = 120_000;
const LOOPBACK = ['localhost', '127.0.0.1'];
const QUIET = ['--protected-mode', 'no', '--bind', '0.0.0.0', '--save', '', '--appendonly', 'no', '--databases', '64'];

/** A Redis in a container, on a port that stays the same when it is started again. */
export interface RedisContainer {
  readonly host: string;
  readonly port: number;
  /** Of the server, as the engine's machine counts. */
  pid(): Promise<number>;
  /** Starts it again after `stop` or `kill`; without `keepData`, the files that it saved are deleted first. */
  start(options: { readonly keepData: boolean }): Promise<void>;
  stop(): Promise<void>;
  kill(): Promise<void>;
  pause(): Promise<void>;
  unpause(): Promise<void>;
  remove(): Promise<void>;
}

/**
 * Whether containers can be had here: an engine answers and has the image, or can pull it.
 * @returns null, or the reason why not, as the end of a sentence
 */
export async function whyNoContainers(): Promise<string | null> {
  if (!(await mayHaveEngine())) return 'no container engine was found';
  const { getContainerRuntimeClient, ImageName } = await testcontainers();
  const client = await getContainerRuntimeClient().catch(() => null);
  if (client === null) return 'no container engine answers';
  const image = ImageName.fromString(REDIS_IMAGE);
  if (await client.image.exists(image)) return null;
  console.log(`Redis for the tests: pulling the image ${REDIS_IMAGE} …`);
  const pulled = await Promise.race([
    client.image.pull(image).then(
      () => true,
      () => false,
    ),
    new Promise<false>((resolve) => setTimeout(resolve, PULL_WITHIN_MS, false).unref()),
  ]);
  return pulled ? null : `the container engine has no image ${REDIS_IMAGE} and cannot pull it`;
}

/**
 * Starts a container. It is gone when this process is, however that ends.
 * @param configArgs words for the server's command line
 */
export async function startRedisContainer(configArgs: readonly string[] = []): Promise<RedisContainer> {
  const label = randomUUID();
  const release = whenWeAreGone(
    'docker rm --force --volumes $(docker ps --all --quiet --filter "label=$1") >/dev/null 2>&1',
    [`${LABEL}=${label}`],
  );
  let { port, host, handle } = await createOnFreePort(label, configArgs);
  return {
    host,
    port,
    pid: async () => (await handle.inspect()).State.Pid,
    start: async ({ keepData }) => {
      if (keepData) return void (await handle.start());
      await handle.remove({ force: true, v: true });
      ({ host, handle } = await create(port, label, configArgs));
    },
    stop: () => handle.stop({ t: 5 }),
    kill: () => handle.kill(),
    pause: () => handle.pause(),
    unpause: () => handle.unpause(),
    remove: async () => {
      await handle.remove({ force: true, v: true });
      release();
    },
  };
}

async function createOnFreePort(label: string, configArgs: readonly string[]) {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      return { port, ...(await create(port, label, configArgs)) };
    } catch (error) {
      // Between finding a port free and binding it, somebody else may have bound it. The engine keeps what it could not start.
      const { container } = await (await testcontainers()).getContainerRuntimeClient();
      await (await container.fetchByLabel(LABEL, label))?.remove({ force: true, v: true });
      if (attempt === MAX_ATTEMPTS || !String(error).includes('address already in use')) throw error;
    }
  }
}

async function create(port: number, label: string, configArgs: readonly string[]) {
  const { getContainerRuntimeClient } = await testcontainers();
  const { RedisContainer: Redis } = await import('@testcontainers/redis');
  const { container, info } = await getContainerRuntimeClient();
  // A port chosen by the engine would be another one after each start; and nobody else on the network needs it.
  const HostIp = LOOPBACK.includes(info.containerRuntime.host) ? '127.0.0.1' : '';

  class OnFixedPort extends Redis {
    override start() {
      this.hostConfig.PortBindings = { [`${REDIS_PORT}/tcp`]: [{ HostIp, HostPort: String(port) }] };
      return super.start();
    }
  }

  const started = await new OnFixedPort(REDIS_IMAGE)
    .withLabels({ [LABEL]: label })
    .withCommand(['redis-server', ...QUIET, ...productUserArgs(REDIS_IMAGE_VERSION), ...configArgs])
    .start();
  const host = started.getHost() === 'localhost' ? '127.0.0.1' : started.getHost();
  return { host, handle: container.getById(started.getId()) };
}

async function testcontainers() {
  // The reaper is one more image to pull; what it does is done by `whenWeAreGone`.
  process.env.TESTCONTAINERS_RYUK_DISABLED ??= 'true';
  return import('testcontainers');
}

/** The places where Testcontainers looks for an engine. Looking there first spares every run a slow import. */
async function mayHaveEngine(): Promise<boolean> {
  if (process.env.DOCKER_HOST !== undefined) return true;
  const places = [
    join(homedir(), '.testcontainers.properties'),
    '/var/run/docker.sock',
    join(process.env.XDG_RUNTIME_DIR ?? '/nonexistent', 'docker.sock'),
    join(homedir(), '.docker', 'run', 'docker.sock'),
    join(homedir(), '.docker', 'desktop', 'docker.sock'),
    join('/run', 'user', String(process.getuid?.()), 'docker.sock'),
  ];
  const found = await Promise.all(
    places.map((place) =>
      access(place).then(
        () => true,
        () => false,
      ),
    ),
  );
  return process.platform === 'win32' || found.includes(true);
}
