import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../../test/support/free-port.ts';
import { type KeyLimits, LIMITS } from '../limits.ts';
import { startProcess, untilListening } from '../process.ts';
import { installPeers, PEERS } from '../tools/npm.ts';
import { CACHE, type World } from '../world.ts';
import type { Contestant, Running } from './contestant.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const CLAIMS = { checksKeys: true, limits: true, proxies: true };

/** What the servers under `servers/` are told, in a file. */
export interface ServerSettings {
  readonly port: number;
  readonly upstreamPort: number;
  readonly redisPort: number;
  readonly keys: Readonly<Record<string, KeyLimits>>;
  /** Where npm has put what is no dependency of the project. */
  readonly peers: string | null;
}

/** The usual way in Node: Fastify with its own plugins. Its limiter has one window, the day; keys are in memory. */
export const fastify: Contestant = {
  name: 'fastify',
  title: 'Fastify + rate-limit + http-proxy',
  claims: CLAIMS,
  start: async (world) => {
    const peers = await installPeers(CACHE);
    return start(world, { server: 'fastify', version: Object.values(PEERS).join(' / '), peers });
  },
};

/** Put together by hand: two RateLimiterRedis and a look-up of the ban for each request; keys are in memory. */
export const httpProxy3: Contestant = {
  name: 'http-proxy-3',
  title: 'http-proxy-3 + rate-limiter-flexible',
  claims: CLAIMS,
  start: async (world) => {
    const versions = ['http-proxy-3', 'rate-limiter-flexible'].map(versionOf);
    return start(world, { server: 'http-proxy-3', version: versions.join(' / '), peers: null });
  },
};

async function start(
  world: World,
  { server, version, peers }: { server: string; version: string; peers: string | null },
): Promise<Running> {
  const redis = await world.redis();
  const port = await freePort();
  const file = join(world.folder, `${server}.json`);
  const { good, ...others } = world.keys;
  const settings: ServerSettings = {
    port,
    upstreamPort: world.upstreamPort,
    redisPort: redis.port,
    peers,
    keys: Object.fromEntries([
      ...good.map((key) => [key, LIMITS.good]),
      ...(['tiny', 'spent', 'banned'] as const).map((kind) => [others[kind], LIMITS[kind]]),
    ]),
  };
  await writeFile(file, JSON.stringify(settings));
  const args = [join(import.meta.dirname, '..', 'servers', `${server}.ts`), file];
  const env = { NODE_ENV: 'production' };
  const started = startProcess({ name: server, command: process.execPath, args, env, folder: world.folder });
  world.atEnd(started.stop);
  await untilListening(started, port);
  return { port, pid: started.pid, version, redis };
}

function versionOf(name: string): string {
  const manifest = readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}
