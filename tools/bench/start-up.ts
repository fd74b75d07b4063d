import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../test/support/free-port.ts';
import { spreadOf } from '../kit/statistics.ts';
import { shippedProgram, TOLLGATE, writeSettings } from './contestants/tollgate.ts';
import { usageOf } from './proc.ts';
import { startProcess } from './process.ts';
import type { StartResult } from './results.ts';
import type { Plan } from './run.ts';
import { SCENARIOS } from './scenarios.ts';
import { openWorld, type World } from './world.ts';

/** Until the memory of the start has settled. */
const IDLE_MS = 2_000;
const GIVEN_UP_AFTER_MS = 20_000;
const POLL_MS = 2;

/** Starts the gateway again and again. The first start, which may fill Node's compile cache, does not count. */
export async function measureStart({ rounds, bare, signal, say }: Plan): Promise<StartResult> {
  const world = await openWorld(SCENARIOS[0]!, bare);
  try {
    const ready: number[] = [];
    const idle: number[] = [];
    const redis = await world.redis();
    for (let round = 0; round <= rounds && !signal.aborted; round++) {
      const { readyMs, rssBytes } = await startOnce(world, redis.port);
      say(`start ${round}/${rounds}: ready after ${readyMs.toFixed(0)} ms, ${(rssBytes / 1e6).toFixed(0)} MB idle`);
      if (round === 0) continue;
      ready.push(readyMs);
      idle.push(rssBytes);
    }
    return { readyMs: spreadOf(ready), idleRssBytes: spreadOf(idle) };
  } finally {
    await world.close();
  }
}

async function startOnce(world: World, redisPort: number): Promise<{ readyMs: number; rssBytes: number }> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const redisUrl = `redis://127.0.0.1:${redisPort}`;
  const { folder, upstreamPort, isBare } = world;
  const env = await writeSettings(folder, { upstreamPort, port, adminPort, redisUrl, workers: 1, isBare });
  const program = shippedProgram(TOLLGATE);
  const startedAtMs = performance.now();
  const gateway = startProcess({
    name: 'tollgate-start',
    command: process.execPath,
    args: [program, 'serve'],
    env,
    folder,
  });
  try {
    while (!(await isReady(adminPort))) {
      if (gateway.ended() !== null || performance.now() - startedAtMs > GIVEN_UP_AFTER_MS) {
        throw new Error(`Tollgate did not become ready. It printed: ${gateway.printed().slice(-1_000)}`);
      }
      await delay(POLL_MS);
    }
    const readyMs = performance.now() - startedAtMs;
    await delay(IDLE_MS);
    return { readyMs, rssBytes: usageOf(gateway.pid).rssBytes };
  } finally {
    await gateway.stop();
  }
}

function isReady(adminPort: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${adminPort}/readyz`).then(
    async (response) => {
      await response.arrayBuffer();
      return response.status === 200;
    },
    () => false,
  );
}
