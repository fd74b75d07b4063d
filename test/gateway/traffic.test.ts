import { expect, test } from 'vitest';
import { ask, openWithAdmin, STORES } from '../admin/operator.ts';
import { eventually } from '../support/conditions.ts';
import { emptyStore } from '../support/empty-store.ts';
import { openReplica, type TestGateway } from '../support/gateway.ts';
import { privateRedis } from '../support/redis.ts';

/** The series of the present hour, which is there as soon as a minute of it is over. */
async function seriesOf(gateway: TestGateway, by: string) {
  const { code, stdout, stderr } = await gateway.command('traffic', '--by', by, '--step', 'hour', '--json');
  expect([code, stderr]).toEqual([0, '']);
  const { period } = JSON.parse(stdout);
  return period.series.map(({ value, requests, errors }: Record<string, unknown>) => [value, requests, errors]);
}

/** An hour that has just begun has no minute that is over. */
const WITHIN_A_MINUTE = { withinMs: 75_000, everyMs: 500 };

test('a gateway that stops writes its last minute, and the traffic of two gateways adds up', async () => {
  const one = await openWithAdmin(await STORES.Redis!());
  const other = await openReplica(one);
  const customer = (await ask(one, 'POST', '/admin/customers', { plan: 'free', name: 'Acme' })).body;
  const { key } = (await ask(one, 'POST', '/admin/keys', { customer: customer.id })).body;
  for (let i = 0; i < 3; i++) await one.get('/v1/pets', key);
  for (let i = 0; i < 2; i++) await other.get('/v1/pets/7', key);
  await other.get('/nowhere');
  await one.process.stop();
  await other.process.stop();
  await eventually(
    async () =>
      expect(await seriesOf(one, 'route')).toEqual([
        ['/v1/pets', 3, 0],
        ['/v1/pets/{petId}', 2, 0],
        [null, 1, 0],
      ]),
    WITHIN_A_MINUTE,
  );
  const ofCustomers = [
    [customer.id, 5, 0],
    [null, 1, 0],
  ];
  expect(await seriesOf(one, 'customer')).toEqual(ofCustomers);
  const ofClasses = [
    ['2xx', 5, 0],
    ['4xx', 1, 0],
  ];
  expect(await seriesOf(one, 'status')).toEqual(ofClasses);
  const { stdout } = await one.command('traffic', '--by', 'plan', '--step', 'hour', '--compare');
  expect(stdout).toMatch(/free\s+5\s+0/);
});

test('what is counted while Redis does not answer is there when it is back (reliability 497)', async () => {
  const server = await privateRedis();
  const gateway = await openWithAdmin({ REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' });
  const { key } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
  await gateway.get('/v1/pets', key);
  await server.pause();
  for (let i = 0; i < 3; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  await server.resume();
  await eventually(async () => expect((await ask(gateway, 'GET', '/admin/keys')).status).toBe(200));
  await gateway.process.stop();
  await eventually(async () => expect(await seriesOf(gateway, 'route')).toEqual([['/v1/pets', 4, 0]]), WITHIN_A_MINUTE);
});

test.each([
  ['on', [['/v1/pets', 1, 0]], true],
  ['off', [], false],
])('with the embedded store and `traffic: %s`', async (set, series, isKept) => {
  const gateway = await openWithAdmin(await emptyStore(), { more: `usage: { traffic: ${set} }` });
  const { key } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
  await gateway.get('/v1/pets', key);
  expect((await ask(gateway, 'GET', '/admin/traffic/history')).body.isKept).toBe(isKept);
  await gateway.process.stop();
  const read = async () => JSON.parse((await gateway.command('traffic', '--step', 'hour', '--json')).stdout);
  await eventually(async () => {
    const { period } = await read();
    expect(period.series.map((one: Record<string, unknown>) => [one.value, one.requests, one.errors])).toEqual(series);
    expect(period.points.at(-1).known).toBe(set === 'on' ? 'part' : 'none');
  }, WITHIN_A_MINUTE);
});

test('a span that is not kept, and a step that is none, are refused with what is allowed', async () => {
  const gateway = await openWithAdmin(await emptyStore());
  const refused = await ask(gateway, 'GET', '/admin/traffic/history?from=100d');
  expect([refused.status, refused.body.message]).toEqual([400, expect.stringMatching(/^from is too early/)]);
  const { code, stderr } = await gateway.command('traffic', '--step', 'week');
  expect([code, stderr]).toEqual([2, expect.stringContaining("--step is 'week'; it must be minute, hour or day")]);
});
