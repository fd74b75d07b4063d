import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Failure } from '../../src/failure.ts';
import { findSharedRedis } from '../../test/support/redis-finder.ts';
import { type Child, startChild } from '../kit/child.ts';
import { KeyMaker } from './key-maker.ts';
import { OWN_PLANS, ownPlans } from './own-plans.ts';
import type { Stand } from './stand.ts';

const TOLLGATE = join(import.meta.dirname, '..', '..', 'bin', 'tollgate.js');
const READY_WITHIN_MS = 20_000;

type Ending = () => Promise<unknown>;

/**
 * Starts all that the test needs on 127.0.0.1: a Redis, gateways as processes of their own, an upstream that costs next
 * to nothing. Without a Redis there is one gateway with the embedded store.
 * @throws Failure where something does not come up; what had come up by then is ended
 */
export async function ownStand({ gateways }: { readonly gateways: number }): Promise<Stand> {
  const endings: Ending[] = [];
  const close = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    return { ...(await bringUp(gateways, endings)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The same in each run: a Redis that somebody named keeps the check value of the pepper that it was opened with. */
const PEPPER = 'the pepper of the load test';

async function bringUp(wished: number, endings: Ending[]): Promise<Omit<Stand, 'close'>> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-load-'));
  endings.push(() => rm(folder, { recursive: true, force: true }));
  const { shared, end } = await findSharedRedis(process.env);
  endings.push(end);
  if (shared.kind === 'none' && process.env.TEST_REDIS) throw new Failure('refused', shared.reason);
  const store = shared.kind === 'none' ? 'the embedded store' : shared.version;
  const redis = shared.kind === 'none' ? {} : { REDIS_URL: shared.url, KEY_PEPPER: PEPPER };
  const gateways = shared.kind === 'none' ? 1 : wished;
  const upstream = start('upstream', [join(import.meta.dirname, 'upstream.ts')], folder, {}, endings);
  const { port: upstreamPort } = await serving(upstream);
  await writeFile(join(folder, 'gateway.yaml'), gatewayYaml(upstreamPort));
  const env = {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: OWN_PLANS,
    TOLLGATE_DATA: join(folder, 'data'),
    ...redis,
  };
  const started = Array.from({ length: gateways }, (_, i) =>
    start(`gateway-${i + 1}`, [TOLLGATE, 'serve'], folder, env, endings),
  );
  const ports = await Promise.all(started.map(serving));
  const maker = await KeyMaker.open({ ...env }, ownPlans());
  endings.push(() => maker.close());
  return {
    about: `${gateways} ${gateways === 1 ? 'gateway' : 'gateways'} of this checkout on ${store}`,
    origins: ports.map(({ port }) => `http://127.0.0.1:${port}`),
    own: true,
    makesKeys: true,
    // A Redis that somebody named may remember an earlier run.
    freshAddresses: shared.kind !== 'url',
    failedAuthentications: maker.plans.failedAuthenticationPerMinute,
    keys: (wish) => maker.keys(wish),
    release: () => {},
  };
}

/**
 * What a gateway does without its store is not what is tested here. On a machine that is busy with the load a short
 * deadline would let gateways decide alone, and what they admit then is no fault: better a 503, which is seen.
 */
function gatewayYaml(upstreamPort: number): string {
  return `
listen: { port: 0 }
admin: { port: 0 }
redis: { timeout: 5s, onFailure: closed }
log: { sample2xx: 0 }
upstreams: { store: { targets: ['http://127.0.0.1:${upstreamPort}'] } }
routes:
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/costly, methods: [GET], upstream: store, cost: 6 }
`;
}

interface Started extends Child {
  readonly name: string;
}

function start(
  name: string,
  args: readonly string[],
  folder: string,
  env: Readonly<Record<string, string>>,
  endings: Ending[],
): Started {
  const child = startChild({ args, env, folder, logFile: join(folder, `${name}.log`) });
  endings.push(child.stop);
  return { ...child, name };
}

/** Waits for the log line that says where it serves. */
async function serving({ name, ended, printed }: Started): Promise<{ readonly port: number }> {
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const log = printed();
    const [line] = /^\{.*"msg":"serving"\}$/m.exec(log) ?? [];
    if (line !== undefined) return JSON.parse(line) as { port: number };
    if (ended() !== null || performance.now() > deadlineMs) {
      throw new Failure('refused', `The ${name} did not come up. It printed:\n${log.trim().slice(-2_000)}`);
    }
    await delay(30);
  }
}
