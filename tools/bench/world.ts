import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { mint } from '../../src/identify/api-key.ts';
import { altered } from '../../test/support/altered.ts';
import { type CertificatePair, createAuthority } from '../../test/support/certificates.ts';
import { whenWeAreGone } from '../../test/support/end-with-us.ts';
import { freePort } from '../../test/support/free-port.ts';
import { localRedis } from '../../test/support/redis-binary.ts';
import { REDIS_CACHE } from '../../test/support/redis-finder.ts';
import { RedisProcess } from '../../test/support/redis-process.ts';
import { Chance } from '../kit/chance.ts';
import { type Ending, startProcess, untilListening } from './process.ts';
import type { Scenario } from './scenarios.ts';

/** Where what is downloaded is kept: node_modules/.cache. */
export const CACHE = REDIS_CACHE;

/** The keys of a scenario, the same for all contestants. */
export interface KeySet {
  /** With limits that no load reaches. */
  readonly good: readonly string[];
  /** Three requests a day: to see that a contestant really counts. */
  readonly tiny: string;
  readonly spent: string;
  readonly banned: string;
}

/** Where a scenario takes place: everything on 127.0.0.1, everything ended by `close`. */
export interface World {
  readonly scenario: Scenario;
  /** Whether the gateways run without what production switches on. */
  readonly isBare: boolean;
  readonly folder: string;
  readonly upstreamPort: number;
  readonly upstreamPid: number;
  /** PEM files for those who listen, where the load comes over TLS; else null. */
  readonly certificate: CertificatePair | null;
  readonly keys: KeySet;
  readonly tokensFile: string;
  readonly spentTokenFile: string;
  /** A Redis for one contestant alone, so that its commands can be counted. */
  redis(): Promise<RedisProcess>;
  /** Runs when the world is closed, the latest first. */
  atEnd(ending: Ending): void;
  close(): Promise<void>;
}

/** @throws Error where Redis or the upstream does not come up */
export async function openWorld(scenario: Scenario, isBare: boolean): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-bench-'));
  // Should this process be killed, nobody else removes it.
  const release = whenWeAreGone('sleep 1; rm -rf -- "$1"', [folder]);
  const endings: Ending[] = [() => rm(folder, { recursive: true, force: true }).then(release)];
  const close = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    const binary = await localRedis(CACHE);
    const keys = newKeys(scenario.keyKind === 'good' ? scenario.keys : 1);
    const tokensFile = join(folder, 'tokens');
    await writeTokens(tokensFile, tokensOf(scenario, keys));
    const spentTokenFile = join(folder, 'spent-token');
    await writeTokens(spentTokenFile, [keys.spent]);
    const upstreamPort = await freePort();
    const server = join(import.meta.dirname, 'servers', 'upstream.ts');
    const args = [server, String(upstreamPort)];
    const upstream = startProcess({ name: 'upstream', command: process.execPath, args, folder });
    endings.push(upstream.stop);
    await untilListening(upstream, upstreamPort);
    const certificate = scenario.isHttp2 ? await (await createAuthority(folder)).issue('bench') : null;
    const redis = async () => {
      const server = await RedisProcess.start(binary);
      endings.push(() => server.dispose());
      return server;
    };
    const atEnd = (ending: Ending) => void endings.push(ending);
    const service = { upstreamPort, upstreamPid: upstream.pid, certificate };
    return { scenario, isBare, folder, ...service, keys, tokensFile, spentTokenFile, redis, atEnd, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function newKeys(count: number): KeySet {
  const good = Array.from({ length: count }, () => newSecret());
  return { good, tiny: newSecret(), spent: newSecret(), banned: newSecret() };
}

/** A key that nobody has. */
export function newSecret(): string {
  return mint(pooledRandom);
}

/** The tokens in the order in which requests take them. */
function* tokensOf({ keyKind: kind, keys: count, draw }: Scenario, keys: KeySet): Generator<string> {
  if (kind === 'good') yield* draw === 'zipf' ? drawnByZipf(keys.good) : keys.good;
  else if (kind === 'spent' || kind === 'banned') yield keys[kind];
  else {
    for (let i = 0; i < count; i++) {
      const secret = newSecret();
      // Another last character, and the checksum is wrong.
      yield kind === 'unknown' ? secret : altered(secret);
    }
  }
}

/** More than a run takes. */
const DRAWN = 1_000_000;

/** Zipf with exponent 1, by the inverse of its continuous distribution; the same in every run. */
function* drawnByZipf(keys: readonly string[]): Generator<string> {
  const chance = new Chance(20260101);
  for (let i = 0; i < DRAWN; i++) yield keys[Math.floor((keys.length + 1) ** chance.share()) - 1]!;
}

async function writeTokens(file: string, tokens: Iterable<string>): Promise<void> {
  const stream = createWriteStream(file);
  let lines = '';
  for (const token of tokens) {
    lines += `${token}\n`;
    if (lines.length < 1 << 20) continue;
    if (!stream.write(lines)) await new Promise((resolve) => stream.once('drain', resolve));
    lines = '';
  }
  stream.end(lines);
  await finished(stream);
}

/** A call to the system for each of a million keys would take longer than the keys. */
const POOL = { bytes: new Uint8Array(0), at: 0 };

export function pooledRandom(count: number): Uint8Array {
  if (POOL.at + count > POOL.bytes.length) {
    POOL.bytes = randomBytes(64 * 1024);
    POOL.at = 0;
  }
  POOL.at += count;
  return POOL.bytes.subarray(POOL.at - count, POOL.at);
}
