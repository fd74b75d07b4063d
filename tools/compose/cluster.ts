// Brings the profile `cluster` of docker-compose.yml up under a name of its own, holds it to what it promises, and removes
// it again. `node tools/compose/cluster.ts`; needs a container engine, Compose and the base images. It takes two
// minutes on a quiet machine, and ends within twenty.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../test/support/free-port.ts';
import { Checks } from './checks.ts';
import { ask } from './client.ts';
import { Composition } from './composition.ts';
import { standIns } from './images.ts';

const PROJECT = 'tollgate-cluster-smoke';
const WITHIN_MS = 1_200_000;
/** `--cluster-node-timeout` in docker-compose.yml. */
const NODE_TIMEOUT_MS = 3_000;
const NODES = [1, 2, 3, 4, 5, 6].map((number) => `cluster-${number}`);

process.exitCode = await smoke();

async function smoke(): Promise<number> {
  const checks = new Checks(
    (line) => console.log(line),
    () => performance.now(),
  );
  const port = await freePort();
  const env = { TOLLGATE_IMAGE: PROJECT, CLUSTER_PORT: String(port) };
  try {
    const options = { project: PROJECT, env, signal: AbortSignal.timeout(WITHIN_MS) };
    const bare = await Composition.find(options);
    await remove(bare);
    const buildArgs = await standIns((...args) => bare.docker(...args));
    const composition = await Composition.find({ ...options, env: { ...env, ...buildArgs }, buildArgs });
    try {
      await run(composition, port, checks);
    } finally {
      await checks.that('it is removed with its volumes and networks', () => remove(composition));
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    checks.totals.failed++;
  }
  console.log(checks.summary());
  return checks.totals.failed > 0 ? 1 : 0;
}

async function run(composition: Composition, port: number, checks: Checks): Promise<void> {
  const built = await checks.that('the image is built', () => composition.build('secrets'));
  if (built === null) return;
  if ((await checks.that('six nodes become a cluster, and gateways serve on it', () => up(composition))) === null)
    return;
  const user = await checks.that('both gateways share one limit, exactly', () => shared(composition, port));
  if (user === null) return;
  await checks.that('a node that is killed takes no key and no counter with it', async () => {
    const primary = await primaryOf(composition, user.id);
    await composition.docker('kill', (await composition.containers()).get(primary)!.Id);
    await until(() => makeKey(composition));
    await until(async () => assert.equal(await usedToday(composition, user), 60));
    await composition.compose('--profile', 'cluster', 'start', primary);
  });
  await checks.that('new containers with new addresses find each other, and all that there was', async () => {
    await composition.compose('--profile', 'cluster', 'down', '--timeout', '2');
    await introduceWithALateNode(composition, 'cluster-4');
    await up(composition);
    assert.equal(await usedToday(composition, user), 60);
    // HAProxy is ready with its first gateway, which may still be connecting to further nodes of the cluster.
    await until(async () => {
      const { status } = await ask(port, '/v1/pets', { key: user.key });
      assert.ok(status === 200 || status === 429, String(status));
    });
  });
}

async function up(composition: Composition): Promise<void> {
  await composition.compose('--profile', 'cluster', 'up', '-d', 'cluster-haproxy');
  await composition.untilHealthy('cluster-haproxy');
}

/** Begins to introduce the nodes to each other while one of them answers nothing for longer than a handshake may take. */
async function introduceWithALateNode(composition: Composition, late: string): Promise<void> {
  await composition.compose('--profile', 'cluster', 'up', '-d', ...NODES);
  for (const node of NODES) await composition.untilHealthy(node);
  const { Id } = (await composition.containers()).get(late)!;
  await composition.docker('pause', Id);
  try {
    await composition.compose('--profile', 'cluster', 'up', '-d', '--no-deps', 'cluster');
    await delay(2 * NODE_TIMEOUT_MS);
  } finally {
    await composition.docker('unpause', Id);
  }
  await composition.untilHealthy(late);
}

function remove(composition: Composition): Promise<string> {
  return composition.compose('--profile', 'cluster', 'down', '-v', '--remove-orphans', '--timeout', '2');
}

interface MadeKey {
  readonly id: string;
  readonly key: string;
}

async function makeKey(composition: Composition): Promise<MadeKey> {
  const words = ['tollgate', 'keys', 'create', '--plan', 'free', '--json'];
  return JSON.parse(await composition.exec('cluster-gateway-1', ...words)) as MadeKey;
}

async function shared(composition: Composition, port: number): Promise<MadeKey> {
  const made = await makeKey(composition);
  const answers = await Promise.all(Array.from({ length: 90 }, () => ask(port, '/v1/pets', { key: made.key })));
  assert.equal(answers.filter(({ status }) => status === 200).length, 60);
  assert.equal(answers.filter(({ status }) => status === 429).length, 30);
  assert.equal(await usedToday(composition, made), 60);
  return made;
}

/** The node that has the account of a consumer, by the word of the cluster itself. */
async function primaryOf(composition: Composition, consumerId: string): Promise<string> {
  const cli = 'redis-cli --user operator';
  const ask = (node: string, command: string) =>
    composition.exec(node, 'sh', '-c', `REDISCLI_AUTH=$(cat /run/tollgate/redis-operator-password) ${cli} ${command}`);
  for (const node of NODES) {
    const found = await ask(node, `--raw exists 'tg:a:{${consumerId}}'`);
    const role = await ask(node, 'role');
    if (found.trim() === '1' && role.includes('master')) return node;
  }
  throw new Error('no node has the account');
}

/** What a key has used of its day, as a command sees it. */
async function usedToday(composition: Composition, { id }: MadeKey): Promise<number> {
  const usage = await composition.exec('cluster-gateway-2', 'tollgate', 'usage', id, '--json');
  return (JSON.parse(usage) as { windows: { day: { used: number } } }).windows.day.used;
}

/** A failover takes a few seconds. */
async function until(check: () => Promise<unknown>): Promise<void> {
  const deadlineMs = performance.now() + 120_000;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
    }
    await delay(500);
  }
}
