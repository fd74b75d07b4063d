import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { testRedis } from '../../support/redis.ts';
import { entriesOf } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';

const plansWith = (minute: number | string) => `plans: { starter: { limits: { minute: ${minute} } } }\n`;

async function gatewayWith(env = {}): Promise<TestGateway> {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  return startGateway({ upstream: upstream.origin, plans: plansWith(10), env });
}

interface Change {
  readonly action: string;
  readonly outcome: string;
  readonly actor: { readonly kind: string; readonly name: string };
  readonly after: { readonly changes?: readonly string[]; readonly faults?: readonly string[] };
}

/** The record, the oldest first. */
async function recordOf(gateway: TestGateway): Promise<readonly Change[]> {
  const { stdout } = await gateway.command('audit', '--json');
  return (entriesOf(stdout) as Change[]).toReversed();
}

const recorded = async (gateway: TestGateway) =>
  (await recordOf(gateway)).map(({ action, outcome, after }) => [
    `${action} ${outcome}`,
    ...(after.changes ?? after.faults ?? []),
  ]);

const inForce = async ({ adminPort }: TestGateway) =>
  (await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()).match(/tollgate_settings_info\{.*\}/)![0];

/** Writes a file of the settings and waits until all gateways have it in force. */
async function change(gateways: readonly TestGateway[], file: string, text: string): Promise<void> {
  const before = await Promise.all(gateways.map(inForce));
  await writeFile(file, text);
  for (const [i, gateway] of gateways.entries()) {
    await eventually(async () => expect(await inForce(gateway)).not.toBe(before[i]));
  }
}

test('two gateways, one of them with two workers, record each change of a file once, with what it changes (reliability 115)', async () => {
  const redis = await testRedis();
  const first = await gatewayWith({ REDIS_URL: redis.url, KEY_PEPPER: 'a pepper for this test alone' });
  const gateways = [first, await startReplica({ ...first, env: { ...first.env, WORKERS: '2' } })];
  const [plans, settings] = [first.env.TOLLGATE_PLANS!, first.env.TOLLGATE_CONFIG!];
  for (const minute of [6, 10, 6]) await change(gateways, plans, plansWith(minute));
  await change(gateways, settings, `${await readFile(settings, 'utf8')}\nlog: { sample2xx: 0.5 }\n`);
  await writeFile(plans, plansWith('many'));
  const expected = [
    ['plans.load done', 'starter minute 10 → 6'],
    ['plans.load done', 'starter minute 6 → 10'],
    ['plans.load done', 'starter minute 10 → 6'],
    ['settings.load done', 'log'],
    ['plans.load refused', expect.stringMatching(/plans\.yaml:1:\d+: plans\.starter\.limits\.minute: must be/)],
  ];
  await eventually(async () => expect(await recorded(first)).toEqual(expected));
  expect((await recordOf(first))[0]!.actor).toEqual({ kind: 'file', name: 'plans.yaml' });
  // The last gateway to read the file adds nothing.
  await change(gateways, plans, plansWith(7));
  const last = ['plans.load done', 'starter minute 6 → 7'];
  await eventually(async () => expect(await recorded(first)).toEqual([...expected, last]));
  expect((await first.command('audit', '--actor', 'plans.yaml (file)', '--limit', '1')).stdout).toMatch(
    /plans\.yaml \(file\)\tplans\.load\tdone\t-\tstarter minute 6 → 7, version: [0-9a-f]{12} → [0-9a-f]{12}\t/,
  );
});

test('what changed while no gateway ran is recorded at the next start, and a first start records nothing', async () => {
  const gateway = await gatewayWith();
  expect(await recorded(gateway)).toEqual([]);
  await gateway.process.stop();
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(6));
  const again = await startReplica(gateway);
  await eventually(async () => expect(await recorded(again)).toEqual([['plans.load done']]));
  await again.process.stop();
  const third = await startReplica(gateway);
  await change([third], gateway.env.TOLLGATE_PLANS!, plansWith(8));
  await eventually(async () =>
    expect(await recorded(third)).toEqual([['plans.load done'], ['plans.load done', 'starter minute 6 → 8']]),
  );
});
