import { beforeAll, describe, expect, test } from 'vitest';
import { followEvents } from '../../admin/event-reader.ts';
import { ask, openWithAdmin, STORES, startWithAdmin } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { openReplica, PLANS, type TestGateway } from '../../support/gateway.ts';
import { privateRedis } from '../../support/redis.ts';

/** The sum of one column over all buckets. */
async function countOf(gateway: TestGateway, column: string): Promise<number> {
  const { body } = await ask(gateway, 'GET', '/admin/traffic');
  return body.buckets.reduce((total: number, bucket: Record<string, number>) => total + bucket[column]!, 0);
}

const idsRefused = async (gateway: TestGateway): Promise<string[]> =>
  (await ask(gateway, 'GET', '/admin/now')).body.consumers.map(({ id }: { id: string }) => id);

async function idsSeenBy(gateway: TestGateway): Promise<string[]> {
  const { body } = await ask(gateway, 'GET', '/admin/gateways');
  return body.gateways.map(({ address }: { address: string }) => address).sort();
}

describe('two gateways on one Redis', () => {
  let one: TestGateway;
  let other: TestGateway;
  beforeAll(async () => {
    one = await openWithAdmin(await STORES.Redis!());
    other = await openReplica(one);
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
        { name: 'store', inFlight: 0, targets: [{ name: expect.any(String), usable: true, weight: 1 }] },
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
      'The key had used 3 of 3 requests a minute when this request came. It was strike 2 of 10.',
    );
    expect(refusal.advice).toBe('Wait until the time shown below, or top up the minute.');
    expect(refusal.planLimits).toEqual({});
    expect(Date.parse(refusal.retryAt)).toBeGreaterThan(Date.parse(refusal.at));
    expect(JSON.stringify(body)).not.toContain('secret');
  });

  test('the last refusals of a key and of its customer are listed from both, with when and from where it called last', async () => {
    const customer = (await ask(one, 'POST', '/admin/customers', { plan: 'small', name: 'Globex' })).body.id;
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { customer })).body;
    for (let i = 0; i < 3; i++) await one.get('/v1/pets', key, { headers: { 'X-Request-Id': `globex-${i}` } });
    await one.get('/v1/pets', key, { headers: { 'X-Request-Id': 'globex-3' } });
    await other.get('/v1/pets', key, { headers: { 'X-Request-Id': 'globex-4' } });
    for (const caller of [id, customer]) {
      for (const gateway of [one, other]) {
        const { status, body } = await ask(gateway, 'GET', `/admin/refusals?caller=${caller}`);
        // Both may have been refused within one millisecond, and then either may be first.
        const ids = body.refusals.map(({ requestId }: { requestId: string }) => requestId).sort();
        expect([status, body.complete, ids]).toEqual([200, true, ['globex-3', 'globex-4']]);
        expect(body.refusals[0].at >= body.refusals[1].at).toBe(true);
        expect(new Set(body.refusals.map(({ gateway: of }: { gateway: string }) => of)).size).toBe(2);
        expect(body.refusals[0]).toMatchObject({ consumerId: id, path: '/v1/pets', code: 'rate_limit_exceeded' });
        expect(body.last).toEqual({ at: expect.any(String), clientAddress: body.refusals[0].clientAddress });
        expect(body.admittedAt <= body.refusedSince).toBe(true);
        expect(body.refusedSince <= body.refusals[1].at).toBe(true);
      }
    }
    const { body } = await ask(one, 'GET', '/admin/refusals?caller=key_0000000000000000');
    expect(body).toEqual({ complete: true, last: null, admittedAt: null, refusedSince: null, refusals: [] });
    const wrong = await ask(one, 'GET', '/admin/refusals?caller=Globex');
    const rule = 'caller must be the id of a key, a caller with tokens or a customer';
    expect([wrong.status, wrong.body.message]).toEqual([400, expect.stringContaining(rule)]);
  });

  test('a tail shows the requests of both that match, and of no others', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'endless' })).body;
    const { key: otherKey } = (await ask(one, 'POST', '/admin/keys', { plan: 'endless' })).body;
    const tail = await followEvents(one, `/admin/events/requests?key=${id}&verdict=admitted&status=2xx`);
    const seen = () => tail.events.filter(({ event }) => event === 'requests').flatMap(({ data }) => data.requests);
    await eventually(
      async () => {
        for (const gateway of [one, other]) {
          // Once the second is shown, the first would have been.
          await gateway.get('/v1/pets', otherKey);
          await gateway.get('/v1/pets?token=hidden', key);
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

  test('a key that was refused, and is near a limit since that was raised, is listed', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'small', limits: { minute: 10 } })).body;
    for (let i = 0; i < 11; i++) await one.get('/v1/pets', key);
    const nearAt = async () => {
      const { keys } = (await ask(one, 'GET', '/admin/near')).body;
      return keys.find((one: { id: string }) => one.id === id);
    };
    await eventually(async () => expect(await idsRefused(one)).toContain(id), { withinMs: 8_000 });
    expect(await nearAt()).toBeUndefined();
    expect((await ask(one, 'PATCH', `/admin/keys/${id}`, { limits: { minute: 11 } })).status).toBe(200);
    await eventually(async () => expect(await nearAt()).toMatchObject({ limit: 11, used: 10, remaining: 1 }), {
      withinMs: 8_000,
    });
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

  test('a key that has used two thirds of a limit is listed from 60 %, and not from 90 %', async () => {
    const { id, key } = (await ask(one, 'POST', '/admin/keys', { plan: 'small' })).body;
    for (let i = 0; i < 2; i++) await one.get('/v1/pets', key);
    const isNear = async (query: string) => {
      const { keys } = (await ask(other, 'GET', `/admin/near${query}`)).body;
      return keys.some((one: { id: string }) => one.id === id);
    };
    await eventually(async () => expect(await isNear('?used=60')).toBe(true), { withinMs: 8_000 });
    expect([await isNear('?used=70'), await isNear('')]).toEqual([false, false]);
    expect((await ask(other, 'GET', '/admin/near?used=49')).status).toBe(400);
    expect([await isNear('?used=60&window=minute'), await isNear('?used=60&window=day')]).toEqual([true, false]);
  });
});

describe('what two gateways on one Redis know together', () => {
  let one: TestGateway;
  let other: TestGateway;
  let keys: Record<'steady' | 'greedy' | 'own', { readonly id: string; readonly key: string }>;
  beforeAll(async () => {
    one = await openWithAdmin({
      REDIS_URL: (await privateRedis()).url,
      KEY_PEPPER: 'a pepper that only the tests use',
    });
    other = await openReplica(one);
    const made = async (asked: object) => (await ask(one, 'POST', '/admin/keys', asked)).body;
    keys = {
      steady: await made({ plan: 'free' }),
      greedy: await made({ plan: 'gentle', name: 'Shop', owner: 'Jo' }),
      own: await made({ plan: 'gentle', limits: { minute: 2 } }),
    };
    for (const gateway of [one, other]) {
      await eventually(async () => expect(await idsSeenBy(gateway)).toHaveLength(2), { withinMs: 8_000 });
    }
    const inTurn = (i: number) => (i % 2 ? one : other);
    for (let i = 0; i < 40; i++) await inTurn(i).get('/v1/pets', keys.steady.key);
    for (let i = 0; i < 20; i++) await inTurn(i).get('/v1/pets', keys.greedy.key);
    for (let i = 0; i < 3; i++) {
      await inTurn(i).get('/v1/pets', keys.own.key, { headers: { 'X-Request-Id': `own-${i}` } });
    }
  });

  test('a simulation sees the requests of both: an unchanged draft differs in none', async () => {
    for (const gateway of [one, other]) {
      const asked = { text: PLANS, record: 'recent' };
      const { status, body } = await ask(gateway, 'POST', '/admin/plans/simulate', asked);
      expect([status, body.span.requests, body.report.differs]).toEqual([200, 63, { verdicts: 0, bans: 0 }]);
      expect([body.isComplete, body.baseline]).toEqual([true, { verdicts: 0 }]);
      expect(body.kept).toMatch(
        /^The last 63 requests of identified callers that 2 of 2 gateways decided since \S+Z\.$/,
      );
      expect(body.report.keys.find(({ id }: { id: string }) => id === keys.own.id).ownLimits).toEqual({ minute: 2 });
    }
  });

  test('half of a limit would refuse exactly the requests beyond it', async () => {
    const text = PLANS.replace('minute: 60', 'minute: 30');
    const { body } = await ask(one, 'POST', '/admin/plans/simulate', { text, record: 'recent' });
    expect(body.report.totals.newlyRefused).toBe(10);
    expect(body.report.keys[0]).toMatchObject({ id: keys.steady.id, newlyRefused: 10, ownLimits: {} });
  });

  test('the event `now` names those that were refused most in ten minutes, with the counts of both', async () => {
    for (const gateway of [one, other]) {
      const stream = await followEvents(gateway, '/admin/events/now');
      await eventually(
        () => {
          const now = stream.events.findLast(({ event }) => event === 'now')?.data;
          expect([now?.mostRefused, now?.refusedCallers]).toEqual([
            [
              { id: keys.greedy.id, name: 'Shop', owner: 'Jo', plan: 'gentle', refused: 17, banned: 0 },
              { id: keys.own.id, name: null, owner: null, plan: 'gentle', refused: 1, banned: 0 },
            ],
            2,
          ]);
        },
        { withinMs: 10_000 },
      );
      stream.close();
    }
  });

  test('a refusal by a limit of the key says what its plan gives', async () => {
    const { body } = await ask(one, 'GET', '/admin/refusals/own-2');
    expect(body.refusals[0]).toMatchObject({
      planLimits: { minute: 3 },
      sentence:
        'The key had used 2 of 2 requests a minute (its own limit; the plan gentle gives 3) when this request came.',
    });
  });
});

test('a stream survives a Redis that is killed: it goes on with what this gateway knows, and with all of it afterwards', async () => {
  const server = await privateRedis();
  const gateway = await openWithAdmin({ REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use' });
  const [stream, tail] = [
    await followEvents(gateway, '/admin/events/now'),
    await followEvents(gateway, '/admin/events/requests?verdict=unauthenticated'),
  ];
  const latest = () => stream.events.findLast(({ event }) => event === 'now')?.data;
  const statesIn = ({ events }: typeof stream) =>
    events.flatMap(({ event, data }) => (event === 'store' ? [data.state] : []));
  await eventually(() =>
    expect(latest()?.gateways).toMatchObject({ complete: true, gateways: [{ store: 'present' }] }),
  );
  expect(latest()).toMatchObject({ refused: [], refusedMore: false, near: [], traffic: { complete: true } });
  await server.kill();
  await eventually(
    () => {
      for (const one of [stream, tail]) expect(statesIn(one)).toEqual(['away']);
      expect(latest().gateways).toMatchObject({ complete: false, gateways: [{ store: 'away', outage: {} }] });
    },
    { withinMs: 20_000 },
  );
  const { at, asOf } = latest();
  expect(Date.parse(asOf)).toBeLessThan(Date.parse(at));
  expect((await ask(gateway, 'GET', '/admin/traffic')).body.complete).toBe(false);
  // Requests without a key need no store.
  await gateway.get('/v1/pets', undefined, { headers: { 'X-Request-Id': 'while-away' } });
  expect((await ask(gateway, 'GET', '/admin/refusals/while-away')).body.refusals).toMatchObject([
    { code: 'missing_api_key' },
  ]);
  await eventually(() => {
    const shown = tail.events.flatMap(({ event, data }) => (event === 'requests' ? data.requests : []));
    expect(shown.map(({ requestId }: { requestId: string }) => requestId)).toContain('while-away');
  });
  await server.restart({ keepData: false });
  await eventually(
    () => {
      for (const one of [stream, tail]) expect(statesIn(one)).toEqual(['away', 'present']);
      expect(latest().gateways).toMatchObject({ complete: true, gateways: [{ store: 'present', outage: null }] });
      expect(latest().asOf).toBe(latest().at);
    },
    { withinMs: 15_000 },
  );
});

test('a gateway with 2 workers tells what all of them see, also while Redis is away', async () => {
  const server = await privateRedis();
  const env = { REDIS_URL: server.url, KEY_PEPPER: 'a pepper that only the tests use', WORKERS: '2' };
  const routes = '\n  - { path: /v1/pets, methods: [GET], upstream: store, cache: true }';
  const gateway = await startWithAdmin(env, { routes });
  const { id, key } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'gentle' })).body;
  // Each on a connection of its own, so that both workers get some.
  const request = (requestId: string, sent: string | undefined = key) =>
    gateway.get('/v1/pets', sent, { headers: { Connection: 'close', 'X-Request-Id': requestId } });
  for (let i = 0; i < 8; i++) await request(`r${i}`);
  await eventually(async () =>
    expect([await countOf(gateway, 'admitted'), await countOf(gateway, 'refused')]).toEqual([3, 5]),
  );
  const { gateways } = (await ask(gateway, 'GET', '/admin/gateways')).body;
  expect(gateways).toMatchObject([
    { self: true, workers: 2, ready: true, store: 'present', upstreams: [{ name: 'store' }] },
  ]);
  // The service gives no leave to store its answers.
  expect(gateways[0].cache).toEqual({ bytes: 0, hits: 0, misses: 3 });
  for (let i = 3; i < 8; i++) {
    expect((await ask(gateway, 'GET', `/admin/refusals/r${i}`)).body.refusals).toMatchObject([
      { consumerId: id, status: 429 },
    ]);
  }
  const { body: simulated } = await ask(gateway, 'POST', '/admin/plans/simulate', { text: PLANS, record: 'recent' });
  expect(simulated).toMatchObject({ faults: [], span: { requests: 8 }, report: { differs: { verdicts: 0 } } });
  await server.kill();
  const tail = await followEvents(gateway, '/admin/events/requests?status=401');
  await eventually(
    async () => {
      for (let i = 0; i < 4; i++) await request(`away${i}`, '');
      const shown = tail.events.flatMap(({ event, data }) => (event === 'requests' ? data.requests : []));
      const ids = shown.map(({ requestId }: { requestId: string }) => requestId);
      expect(ids).toEqual(expect.arrayContaining(['away0', 'away1', 'away2', 'away3']));
      const { body } = await ask(gateway, 'GET', '/admin/gateways');
      expect(body).toMatchObject({ complete: false, gateways: [{ store: 'away', workers: 2 }] });
    },
    { withinMs: 20_000 },
  );
  expect((await ask(gateway, 'GET', '/admin/refusals/away3')).body.refusals.length).toBeGreaterThan(0);
  expect(await countOf(gateway, 'refused')).toBe(5);
  tail.close();
  await gateway.process.stop();
});

describe('a gateway on the embedded store', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES['the embedded store']!());
  });

  test('is the only one, and complete', async () => {
    const { body } = await ask(gateway, 'GET', '/admin/gateways');
    expect(body).toMatchObject({ complete: true, gateways: [{ self: true, store: 'embedded', certificate: null }] });
    expect((await ask(gateway, 'GET', '/admin/traffic')).body).toMatchObject({ complete: true, stepSeconds: 5 });
  });

  test('explains the refusals of each kind of caller', async () => {
    const { key } = (await ask(gateway, 'POST', '/admin/keys', { plan: 'free' })).body;
    const sentenceOf = async (path: string, sent: string | undefined, requestId: string) => {
      await gateway.get(path, sent, { headers: { 'X-Request-Id': requestId } });
      const { body } = await ask(gateway, 'GET', `/admin/refusals/${requestId}`);
      return [body.refusals[0].code, body.refusals[0].sentence];
    };
    expect(await sentenceOf('/v1/none', key, 'a')).toEqual([
      'route_not_found',
      'No route of the gateway has this path.',
    ]);
    expect(await sentenceOf('/v1/gone', key, 'b')).toEqual([
      'endpoint_removed',
      'This route was removed, or is switched off for a while before its removal.',
    ]);
    expect(await sentenceOf('/v1/pets', undefined, 'c')).toEqual([
      'missing_api_key',
      'The request came without an API key in a place that the gateway reads.',
    ]);
  });

  test.each([
    ['%2e%2e'],
    ['%3Cimg%20src=x%20onerror=alert(1)%3E'],
    ['%F0%9F%90%9F'],
    [`${'x'.repeat(257)}`],
    ['%00'],
    ['%'],
    ['__proto__'],
    ['constructor'],
    ['{fleet}'],
    ['a%20b'],
  ])('says of the request id %s that it knows no such refusal', async (id) => {
    const { status, body, text } = await ask(gateway, 'GET', `/admin/refusals/${id}`);
    expect([status, body.code]).toEqual([404, 'not_found']);
    expect(text).not.toContain('onerror');
  });

  test.each([
    ['events/requests?verdict=maybe', 'verdict must be one of'],
    ['events/requests?status=6xx', 'status must be a status code'],
    [`events/requests?key=${'x'.repeat(257)}`, 'key must have at most 256 characters'],
    ['events/requests?keys=1', 'There is no parameter'],
    ['events/now?all=1', 'There are no parameters here'],
  ])('refuses %s', async (path, message) => {
    const { status, body } = await ask(gateway, 'GET', `/admin/${path}`);
    expect([status, body.code]).toEqual([400, 'invalid_request']);
    expect(body.message).toContain(message);
  });

  test('has at most 20 streams, and room again when one is closed', async () => {
    const open = () => followEvents(gateway, '/admin/events/now');
    const streams = await Promise.all(Array.from({ length: 20 }, open));
    expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const { status, body, headers } = await ask(gateway, 'GET', '/admin/events/requests');
    expect([status, body.code, headers.get('retry-after')]).toEqual([429, 'too_many_streams', '5']);
    streams[7]!.close();
    await eventually(async () => expect((await ask(gateway, 'GET', '/admin/events/now')).status).toBe(200));
    for (const stream of streams) stream.close();
  });

  test('sends all watchers the same event, at once to those who come later', async () => {
    // The gateway may have yet to notice that the streams of the test before are closed.
    const one = await eventually(async () => {
      const stream = await followEvents(gateway, '/admin/events/now');
      expect(stream.status).toBe(200);
      return stream;
    });
    await eventually(() => expect(one.events.length).toBeGreaterThan(0));
    const other = await followEvents(gateway, '/admin/events/now');
    expect(other.status).toBe(200);
    await eventually(() => expect(other.events.length).toBeGreaterThan(1));
    const times = (them: typeof one) => them.events.map(({ data }) => data.at);
    expect(times(one)).toEqual(expect.arrayContaining(times(other)));
    one.close();
    other.close();
  });

  test('answers HEAD for a stream, and ends', async () => {
    const { status, headers } = await ask(gateway, 'HEAD', '/admin/events/now');
    expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  });

  test('ends its streams with the reason when it drains', async () => {
    const streams = [
      await followEvents(gateway, '/admin/events/now'),
      await followEvents(gateway, '/admin/events/requests'),
    ];
    expect((await gateway.process.stop()).code).toBe(0);
    for (const { events, hasEnded } of streams) {
      await eventually(() => expect(hasEnded()).toBe(true));
      expect(events.at(-1)).toEqual({ event: 'end', data: { reason: 'This gateway stops.' } });
    }
  });
});
