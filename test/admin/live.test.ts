import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startReplica, type TestGateway } from '../support/gateway.ts';
import { privateRedis } from '../support/redis.ts';
import { followEvents } from './event-reader.ts';
import { ask, STORES, startWithAdmin } from './operator.ts';

/** The sum of one column over all buckets. */
async function countOf(gateway: TestGateway, column: string): Promise<number> {
  const { body } = await ask(gateway, 'GET', '/admin/traffic');
  return body.buckets.reduce((total: number, bucket: Record<string, number>) => total + bucket[column]!, 0);
}

async function idsSeenBy(gateway: TestGateway): Promise<string[]> {
  const { body } = await ask(gateway, 'GET', '/admin/gateways');
  return body.gateways.map(({ address }: { address: string }) => address).sort();
}

describe('two gateways on one Redis', () => {
  let one: TestGateway;
  let other: TestGateway;
  beforeAll(async () => {
    one = await startWithAdmin(await STORES.Redis!());
    other = await startReplica(one);
  });

  test('each lists the other, with its state and itself first', async () => {
    const both = [one, other].map(({ port }) => expect.stringMatching(new RegExp(`^http://[0-9.]+:${port}$`)));
    for (const gateway of [one, other]) {
      await eventually(async () => expect(await idsSeenBy(gateway)).toEqual(expect.arrayContaining(both)), {
        withinMs: 8_000,
      });
      const { complete, gateways } = (await ask(gateway, 'GET', '/admin/gateways')).body;
      expect([complete, gateways.length, gateways[0].self, gateways[1].self]).toEqual([true, 2, true, false]);
      expect(gateways[1]).toMatchObject({ ready: true, store: 'present', workers: 1, settings: 'in_force' });
      expect(gateways[1].upstreams).toEqual([
        { name: 'store', inFlight: 0, targets: [{ name: expect.any(String), usable: true }] },
      ]);
    }
  });

  test('their traffic is summed by both, by verdict', async () => {
    const { key } = (await ask(one, 'POST', '/admin/keys', { plan: 'gentle' })).body;
    for (let i = 0; i < 6; i++) await (i % 2 ? one : other).get('/v1/pets', key);
    await one.get('/v1/pets', 'tg_live_nonsense');
    for (const gateway of [one, other]) {
      await eventually(
        async () => {
          expect([await countOf(gateway, 'admitted'), await countOf(gateway, 'refused')]).toEqual([3, 3]);
          expect(await countOf(gateway, 'unauthenticated')).toBe(1);
        },
        { withinMs: 8_000 },
      );
    }
  });

  test('a refusal is explained by the gateway that did not refuse it', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'small', name: 'Shop', owner: 'Jo' })).body;
    for (let i = 0; i < 3; i++) await one.get('/v1/pets', key);
    await one.get('/v1/pets', key);
    const asked = { headers: { 'X-Request-Id': 'case-77' } };
    expect((await one.get('/v1/pets?api_key=secret', key, asked)).status).toBe(429);
    const { status, body } = await ask(other, 'GET', '/admin/refusals/case-77');
    expect(status).toBe(200);
    const [refusal] = body.refusals;
    expect(refusal).toMatchObject({
      ...{ requestId: 'case-77', method: 'GET', path: '/v1/pets', route: '/v1/pets', consumerId: id, name: 'Shop' },
      ...{ owner: 'Jo', plan: 'small', status: 429, code: 'rate_limit_exceeded', judgement: 'refused', cost: 1 },
      ...{ window: 'minute', strike: { number: 2, of: 10 }, ban: null, imposedBan: false, source: 'store' },
    });
    expect(refusal.limits[0]).toEqual({ window: 'minute', form: 'fixed', limit: 3, used: 3, remaining: 0 });
    expect(refusal.sentence).toBe(
      'The key had used 3 of 3 requests a minute (fixed window) when this request came. It was strike 2 of 10.',
    );
    expect(refusal.advice).toMatch(/^Wait until (\S+ )?[0-9:]{8} UTC, or top up the minute\.$/);
    expect(Date.parse(refusal.retryAt)).toBeGreaterThan(Date.parse(refusal.at));
    expect(JSON.stringify(body)).not.toContain('secret');
  });

  test('a tail shows the requests of both that match, and of no others', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'endless' })).body;
    const { key: otherKey } = (await ask(one, 'POST', '/admin/keys', { plan: 'endless' })).body;
    const tail = await followEvents(one, `/admin/events/requests?key=${id}&verdict=admitted&status=2xx`);
    const seen = () => tail.events.filter(({ event }) => event === 'requests').flatMap(({ data }) => data.requests);
    await eventually(
      async () => {
        for (const gateway of [one, other]) {
          await gateway.get('/v1/pets?token=hidden', key);
          await gateway.get('/v1/pets', otherKey);
        }
        const gateways = new Set(seen().map(({ gateway }: { gateway: string }) => gateway));
        expect(gateways.size).toBe(2);
      },
      { withinMs: 8_000 },
    );
    expect(new Set(seen().map(({ consumerId }: { consumerId: string }) => consumerId))).toEqual(new Set([id]));
    expect(seen()[0]).toMatchObject({ path: '/v1/pets', verdict: 'admitted', status: 200, method: 'GET' });
    expect(JSON.stringify(tail.events)).not.toMatch(/hidden|tg_live/);
    tail.close();
  });

  test('a key near a limit is listed by both, with what is left', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'small', name: 'Near' })).body;
    for (let i = 0; i < 3; i++) await one.get('/v1/pets', key);
    for (const gateway of [one, other]) {
      await eventually(
        async () => {
          const { keys } = (await ask(gateway, 'GET', '/admin/near')).body;
          expect(keys.find((one: { id: string }) => one.id === id)).toMatchObject({
            ...{ name: 'Near', plan: 'small', window: 'minute', limit: 3, used: 3, remaining: 0 },
          });
        },
        { withinMs: 8_000 },
      );
    }
  });
});

test('while Redis is away a stream goes on with what this gateway knows, and with all of it when Redis is back', async () => {
  const server = await privateRedis();
  const gateway = await startWithAdmin({ REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' });
  const stream = await followEvents(gateway, '/admin/events/now');
  const latest = () => stream.events.findLast(({ event }) => event === 'now')?.data;
  const states = () => stream.events.flatMap(({ event, data }) => (event === 'store' ? [data.state] : []));
  await eventually(() =>
    expect(latest()?.gateways).toMatchObject({ complete: true, gateways: [{ store: 'present' }] }),
  );
  await server.pause();
  await eventually(
    async () => {
      await gateway.get('/v1/pets', 'tg_live_nonsense');
      expect(states()).toEqual(['away']);
      expect(latest().gateways).toMatchObject({ complete: false, gateways: [{ store: 'away' }] });
    },
    { withinMs: 20_000 },
  );
  expect((await ask(gateway, 'GET', '/admin/traffic')).body.complete).toBe(false);
  await server.resume();
  await eventually(
    () => {
      expect(states()).toEqual(['away', 'present']);
      expect(latest().gateways).toMatchObject({ complete: true, gateways: [{ store: 'present' }] });
    },
    { withinMs: 15_000 },
  );
  stream.close();
});
