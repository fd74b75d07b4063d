import { expect, test } from 'vitest';
import { ask, openWithAdmin } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';

test('while Redis is full, operators can look and not revoke, and afterwards both (reliability 366)', async () => {
  const { url } = await privateRedis();
  const gateway = await openWithAdmin({ REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' });
  const made = (await ask(gateway, 'POST', '/admin/keys', { plan: 'endless', name: 'leaked' })).body;
  const customer = (await ask(gateway, 'POST', '/admin/customers', { plan: 'free' })).body;
  await redisCommand(url, 'CONFIG', 'SET', 'maxmemory', '100kb');
  await eventually(async () => {
    await gateway.get('/v1/pets', made.key);
    expect((await ask(gateway, 'GET', '/admin/gateways')).body.gateways[0].store).toBe('away');
  });
  const revoked = await ask(gateway, 'DELETE', `/admin/keys/${made.id}`);
  expect([revoked.status, revoked.body.code]).toEqual([503, 'store_unavailable']);
  const paths = [
    '/keys',
    `/keys?q=leak`,
    `/keys/${made.id}`,
    `/keys/${made.id}/usage`,
    '/customers',
    `/customers/${customer.id}`,
  ];
  for (const path of [...paths, '/audit', '/bans', '/now', '/near', '/deprecations', '/plans/history']) {
    const { status, body } = await ask(gateway, 'GET', `/admin${path}`);
    expect([path, status, body.code]).toEqual([path, 200, undefined]);
  }
  expect((await ask(gateway, 'GET', '/admin/keys?q=leak')).body.keys).toMatchObject([{ id: made.id }]);
  const found = await ask(gateway, 'POST', '/admin/keys/find', { secret: made.key });
  expect([found.status, found.body.key?.id]).toEqual([200, made.id]);
  expect((await gateway.get('/v1/pets', made.key)).status).toBe(200);
  await redisCommand(url, 'CONFIG', 'SET', 'maxmemory', '0');
  await eventually(async () => expect((await ask(gateway, 'DELETE', `/admin/keys/${made.id}`)).status).toBe(200));
  await eventually(async () => expect((await gateway.get('/v1/pets', made.key)).status).toBe(401));
});

test('a store that is slow for a moment keeps requests waiting no longer, and operators see their records', async () => {
  const { url } = await privateRedis();
  const gateway = await openWithAdmin(
    { REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' },
    { more: 'redis: { timeout: 100ms }' },
  );
  const made = (await ask(gateway, 'POST', '/admin/keys', { plan: 'endless', name: 'busy' })).body;
  await redisCommand(url, 'CLIENT', 'PAUSE', '700', 'ALL');
  const [shown, refused] = await Promise.all([
    ask(gateway, 'GET', `/admin/keys/${made.id}`),
    gateway.get('/v1/pets', 'tg_live_a_key_that_the_gateway_has_not_seen'),
  ]);
  expect([shown.status, shown.body.name]).toEqual([200, 'busy']);
  expect(refused.status).not.toBe(200);
});
