import { execFileSync } from 'node:child_process';
import { mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { privateRedis } from '../../support/private-redis.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { testRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

const plansWith = (minute: number | 'custom', more = '') =>
  `plans: { small: { limits: { minute: ${minute}, day: 1000 } }${more} }\nbans: { after: 1000, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }\n`;

async function gatewayWith(plans: string, env = {}): Promise<TestGateway> {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  return startGateway({ upstream: upstream.origin, plans, env });
}

const statusOf = async (gateway: TestGateway, key: string) => (await gateway.get('/v1/pets', key)).status;
const metricsOf = async ({ adminPort }: TestGateway) => (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
const readinessOf = async ({ adminPort }: TestGateway) =>
  (await fetch(`http://127.0.0.1:${adminPort}/readyz`)).json() as Promise<{
    status?: string;
    settings?: string;
    faults?: string[];
  }>;

/** The ways in which a file is replaced: in place, by a rename over it, and Kubernetes's link to a link to a folder. */
const WAYS: Readonly<Record<string, (file: string) => Promise<(text: string) => Promise<void>>>> = {
  'written in place': async (file) => (text) => writeFile(file, text),
  'renamed over': async (file) => async (text) => {
    await writeFile(`${file}.draft`, text);
    await rename(`${file}.draft`, file);
  },
  'swapped by a link': async (file) => {
    const folder = dirname(file);
    let version = 0;
    const swap = async (text: string) => {
      const next = join(folder, `..version-${++version}`);
      await mkdir(next);
      await writeFile(join(next, 'plans.yaml'), text);
      await symlink(next, join(folder, '..draft'));
      await rename(join(folder, '..draft'), join(folder, '..data'));
    };
    await swap(await readFile(file, 'utf8'));
    await symlink(join('..data', 'plans.yaml'), join(folder, 'draft'));
    await rename(join(folder, 'draft'), file);
    return swap;
  },
};

for (const [way, begin] of Object.entries(WAYS)) {
  test(`a plan that is ${way}: a raised limit frees a throttled key and a lowered one binds, both within a second, and what was counted stays`, async () => {
    const gateway = await gatewayWith(plansWith(3));
    const { key } = await gateway.createKey('small');
    const write = await begin(gateway.env.TOLLGATE_PLANS!);
    for (let i = 0; i < 3; i++) expect(await statusOf(gateway, key)).toBe(200);
    expect(await statusOf(gateway, key)).toBe(429);

    await write(plansWith(5));
    await eventually(async () => expect(await statusOf(gateway, key)).toBe(200));
    // Three were counted before, one just now.
    const answer = await gateway.get('/v1/pets', key);
    expect([
      answer.status,
      answer.headers.get('x-ratelimit-limit'),
      answer.headers.get('x-ratelimit-remaining'),
    ]).toEqual([200, '5', '0']);

    await write(plansWith(4));
    await eventually(async () => {
      const refused = await gateway.get('/v1/pets', key);
      expect([refused.status, refused.headers.get('x-ratelimit-limit')]).toEqual([429, '4']);
    });
  });
}

test('a ban outlives a change of plans, and one that the new rule would have made shorter ends sooner', async () => {
  const banned = (first: string) =>
    plansWith(1).replace('after: 1000', 'after: 1').replace('first: 1m', `first: ${first}`);
  const gateway = await gatewayWith(banned('1h'));
  const { key } = await gateway.createKey('small');
  await statusOf(gateway, key);
  const untilOf = async () => {
    const { details } = (await (await gateway.get('/v1/pets', key)).json()) as { details: { bannedUntil?: number } };
    return details.bannedUntil ?? 0;
  };
  const until = await untilOf();
  await writeFile(gateway.env.TOLLGATE_PLANS!, `${banned('1h')}# another version\n`);
  await gateway.process.until(/"msg":"settings and plans in force"/);
  expect(await untilOf()).toBe(until);
});

test('a file with a fault changes nothing and is loud: a line with the position, a metric, /readyz; mended, it counts (reliability 115)', async () => {
  const gateway = await gatewayWith(plansWith(3));
  const { key } = await gateway.createKey('small');
  expect((await readinessOf(gateway)).settings).toBeUndefined();
  await writeFile(gateway.env.TOLLGATE_PLANS!, 'plans: { small: { limits: { minute: many } } }\n');
  const [line] = await gateway.process.until(/^\{.*new settings rejected.*\}$/m);
  expect((JSON.parse(line) as { fault: string }).fault).toMatch(/plans\.yaml:1:\d+: .*minute/);
  expect(await statusOf(gateway, key)).toBe(200);
  const { status, settings, faults } = await readinessOf(gateway);
  expect([status, settings, faults]).toEqual([
    'ready',
    'refused',
    [expect.stringMatching(/plans\.yaml:1:\d+: .*minute/)],
  ]);
  // Under the name of a page that resolves here, nothing of the file is readable.
  const { bytes } = await rawExchange(gateway.adminPort, 'GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n');
  const response = bytes.toString();
  expect(response).toMatch(/"settings":"refused"/);
  expect(response).not.toMatch(/yaml|minute/);
  expect(await metricsOf(gateway)).toMatch(/^tollgate_settings_refused\{file="plans"\} 1$/m);
  expect(await metricsOf(gateway)).toMatch(/^tollgate_settings_refused\{file="settings"\} 0$/m);
  expect(await metricsOf(gateway)).toMatch(/^tollgate_reloads_total\{outcome="refused"\} 1$/m);

  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(9));
  await eventually(async () => expect((await readinessOf(gateway)).settings).toBeUndefined());
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-limit')).toBe('9');
  const metrics = await metricsOf(gateway);
  expect(metrics).toMatch(/^tollgate_reloads_total\{outcome="loaded"\} 1$/m);
  expect(metrics).toMatch(/^tollgate_settings_refused\{file="plans"\} 0$/m);
  expect(metrics).toMatch(/^tollgate_settings_info\{settings="[0-9a-f]{12}",plans="[0-9a-f]{12}"\} 1$/m);
});

test('a file that is gone for a moment changes nothing', async () => {
  const gateway = await gatewayWith(plansWith(3));
  const { key } = await gateway.createKey('small');
  const file = gateway.env.TOLLGATE_PLANS!;
  await rename(file, `${file}.away`);
  await gateway.process.until(/new settings rejected/);
  expect(await statusOf(gateway, key)).toBe(200);
  await rename(`${file}.away`, file);
  await eventually(async () => expect((await readinessOf(gateway)).settings).toBeUndefined());
});

test('a pipe in the place of the file holds nobody up', async () => {
  const gateway = await gatewayWith(plansWith(3));
  const { key } = await gateway.createKey('small');
  const file = gateway.env.TOLLGATE_PLANS!;
  execFileSync('mkfifo', [`${file}.pipe`]);
  await rename(`${file}.pipe`, file);
  const [line] = await gateway.process.until(/^\{.*new settings rejected.*\}$/m);
  expect((JSON.parse(line) as { fault: string }).fault).toMatch(/plans\.yaml: is a pipe or a device/);
  expect(await statusOf(gateway, key)).toBe(200);
});

test('each version that is refused counts once, however often it is read, and going back to what is in force is told', async () => {
  const gateway = await gatewayWith(plansWith(3));
  const file = gateway.env.TOLLGATE_PLANS!;
  const refused = (count: number) =>
    eventually(async () =>
      expect(await metricsOf(gateway)).toContain(`tollgate_reloads_total{outcome="refused"} ${count}\n`),
    );
  await writeFile(file, 'plans: { small: { limits: { minute: many } } }\n');
  await refused(1);
  process.kill(gateway.process.pid, 'SIGHUP');
  await gateway.process.until(/(minute: must be [\s\S]*){2}/);
  await refused(1);
  await writeFile(file, `plans:\n${Array.from({ length: 200 }, (_, i) => `  p${i}: 1\n`).join('')}`);
  await refused(2);
  await gateway.process.until(/"more":100,"msg":"further faults/);
  expect(gateway.process.stdout.match(/plans\.p[0-9]+: must be/g)).toHaveLength(100);
  await writeFile(file, plansWith(3));
  await gateway.process.until(/"msg":"the files match the settings in force again"/);
  expect((await readinessOf(gateway)).settings).toBeUndefined();
});

test('a plan that is gone is named in the log, because its keys are not served', async () => {
  const gateway = await gatewayWith(plansWith(3, ', large: { limits: { minute: 9 } }'));
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(3));
  await gateway.process.until(/"level":40.*"plans":\["large"\],"msg":"plans removed/);
});

const withLarge = plansWith(3, ', large: { limits: { minute: 9 } }');
const refusals = ({ process: { stdout } }: TestGateway) =>
  stdout
    .split('\n')
    .flatMap((line) => (line.includes('new settings rejected') ? [JSON.parse(line).fault as string] : []));

test('a plan that live keys use stays: the change is refused until they are moved, and names plan and keys (reliability 162)', async () => {
  const gateway = await gatewayWith(withLarge);
  const { id, key } = await gateway.createKey('large');
  const revoked = await gateway.createKey('large');
  await gateway.command('keys', 'revoke', revoked.id);
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(4));
  await gateway.process.until(/new settings rejected/);
  expect(refusals(gateway)).toEqual([
    `${gateway.env.TOLLGATE_PLANS}: plans: lacks \`large\`, which 1 live key uses. Keep it; move it (\`tollgate keys ` +
      'update KEY_ID --plan PLAN`) and send SIGHUP; or name it in `removed`, and it gets 500.',
  ]);
  expect(await statusOf(gateway, key)).toBe(200);
  expect(await readinessOf(gateway)).toMatchObject({ status: 'ready', settings: 'refused' });
  expect(await metricsOf(gateway)).toMatch(/^tollgate_reloads_total\{outcome="refused"\} 1$/m);

  expect((await gateway.command('keys', 'update', id, '--plan', 'small')).code).toBe(0);
  process.kill(gateway.process.pid, 'SIGHUP');
  await gateway.process.until(/"plans":\["large"\],"msg":"plans removed/);
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-limit')).toBe('4');
});

test('a plan that the file names in `removed` goes although live keys use it, and they get 500', async () => {
  const gateway = await gatewayWith(withLarge);
  const { key } = await gateway.createKey('large');
  await writeFile(gateway.env.TOLLGATE_PLANS!, `${plansWith(3)}removed: [large]\n`);
  await gateway.process.until(/"plans":\["large"\],"msg":"plans removed/);
  expect(refusals(gateway)).toEqual([]);
  expect(await statusOf(gateway, key)).toBe(500);
});

test('while the store cannot be asked, no plan goes, and that is told once; a plan goes by itself when it can be asked', async () => {
  const redis = await privateRedis();
  const gateway = await gatewayWith(withLarge, { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper for this test alone' });
  await redis.pause();
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(4));
  await gateway.process.until(/new settings rejected/);
  expect(refusals(gateway)).toEqual([
    `${gateway.env.TOLLGATE_PLANS}: plans: lacks \`large\`, and the store cannot be asked whether live keys use what is ` +
      'gone. It is asked again every 5 s.',
  ]);
  await redis.resume();
  await gateway.process.until(/"plans":\["large"\],"msg":"plans removed/);
  expect(refusals(gateway)).toHaveLength(1);
});

test('a start with live keys of a plan that is not there warns of it, and serves', async () => {
  const gateway = await gatewayWith(withLarge);
  const { key } = await gateway.createKey('large');
  await gateway.process.stop();
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(3));
  const again = await startReplica(gateway);
  await again.process.until(/"level":40.*"plan":"large","keys":1,"msg":"live keys have a plan that plans.yaml lacks/);
  expect(await statusOf(again, key)).toBe(500);
});

test('SIGHUP takes a change at once, and without one it does nothing', async () => {
  const gateway = await gatewayWith(plansWith(3));
  const { key } = await gateway.createKey('small');
  process.kill(gateway.process.pid, 'SIGHUP');
  expect(await statusOf(gateway, key)).toBe(200);
  await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(7));
  process.kill(gateway.process.pid, 'SIGHUP');
  await gateway.process.until(/"msg":"settings and plans in force"/);
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-limit')).toBe('7');
});

test('while plans change again and again under load, no request is lost and none too many is admitted, on two gateways', async () => {
  const redis = await testRedis();
  const gateway = await gatewayWith(plansWith(200), {
    REDIS_URL: redis.url,
    KEY_PEPPER: 'a pepper for this test alone',
  });
  const other = await startReplica(gateway);
  const { key } = await gateway.createKey('small');
  const statuses: number[] = [];
  const call = async (on: TestGateway) => {
    for (let i = 0; i < 150; i++) statuses.push(await statusOf(on, key));
  };
  let changing = true;
  const change = (async () => {
    // The limit is never above 200, so no more than 200 may pass whatever is in force at which moment.
    for (let i = 0; changing; i++) {
      await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(i % 2 === 0 ? 150 : 200));
      for (const one of [gateway, other]) process.kill(one.process.pid, 'SIGHUP');
      // Longer than a file has to be still.
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    await writeFile(gateway.env.TOLLGATE_PLANS!, plansWith(200));
    for (const one of [gateway, other]) process.kill(one.process.pid, 'SIGHUP');
  })();
  await Promise.all([gateway, gateway, other, other].map(call));
  changing = false;
  await change;
  expect(statuses).toHaveLength(600);
  expect(statuses.every((status) => status === 200 || status === 429)).toBe(true);
  const admitted = statuses.filter((status) => status === 200).length;
  expect(admitted).toBeGreaterThanOrEqual(150);
  expect(admitted).toBeLessThanOrEqual(200);
  // What is left under the limit in force can still be had, and not one more.
  await eventually(async () => {
    expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-limit')).toBe('200');
  });
  let more = 0;
  while ((await statusOf(gateway, key)) === 200) more++;
  expect(admitted + more).toBeLessThanOrEqual(200);
});
