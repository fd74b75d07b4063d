import { describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { emptyStore } from '../support/empty-store.ts';
import { startUpstream } from '../support/upstream.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

test('Explain has a request that the service failed, one that the gateway gave up, and one whose client left', async () => {
  const upstream = await startUpstream((request, response) => {
    if (request.url === '/v1/pets/broken') response.writeHead(503).end('down for today');
  });
  const settings = { upstream: upstream.origin, upstreamSettings: { responseTimeout: '500ms' } };
  const gateway = await openWithAdmin(await emptyStore(), settings);
  const { id, key } = await gateway.createKey('free');
  const explained = async (requestId: string) => {
    const { status, body } = await ask(gateway, 'GET', `/admin/refusals/${requestId}`);
    return status === 200 && body.refusals[0];
  };
  const named = (requestId: string) => ({ headers: { 'X-Request-Id': requestId } });

  expect((await gateway.get('/v1/pets/broken', key, named('failed'))).status).toBe(503);
  expect((await gateway.get('/v1/pets/silent', key, named('late'))).status).toBe(504);
  const leaving = new AbortController();
  const left = gateway.get('/v1/pets/silent', key, { ...named('left'), signal: leaving.signal }).catch(() => null);
  await eventually(() => expect(upstream.requests).toHaveLength(3));
  leaving.abort();
  await left;

  const where = { route: '/v1/pets/{petId}', upstream: 'store', target: upstream.origin, totalMs: expect.any(Number) };
  expect(await eventually(() => explained('failed'))).toMatchObject({
    ...{ ...where, consumerId: id, status: 503, code: '', judgement: 'admitted', endedBy: 'service' },
    sentence: expect.stringContaining('answered 503 after'),
  });
  expect(await eventually(() => explained('late'))).toMatchObject({
    ...{ ...where, status: 504, code: 'upstream_timeout', endedBy: 'gateway' },
    sentence: expect.stringContaining('within 500 ms'),
  });
  expect(await eventually(() => explained('left'))).toMatchObject({
    ...{ ...where, status: 499, code: '', endedBy: 'client' },
    sentence: expect.stringContaining('The client left after'),
  });
  const { refusals } = (await ask(gateway, 'GET', `/admin/refusals?caller=${id}`)).body;
  expect(refusals.map(({ requestId }: { requestId: string }) => requestId)).toEqual(['left', 'late', 'failed']);
});

describe.each(Object.entries(STORES))('on %s', (_, emptyStoreOf) => {
  test('the first refusal of a window and a failure are explained after a restart of the gateway', async () => {
    const env = await emptyStoreOf();
    const upstream = await startUpstream((_request, response) => response.writeHead(500).end());
    const gateway = await openWithAdmin(env, { upstream: upstream.origin });
    const { id, key } = await gateway.createKey('small');
    for (let i = 1; i <= 5; i++) await gateway.get('/v1/pets', key, { headers: { 'X-Request-Id': `sent-${i}` } });
    const explained = (of: typeof gateway, requestId: string) => ask(of, 'GET', `/admin/refusals/${requestId}`);
    const before = (await explained(gateway, 'sent-4')).body.refusals[0];
    await gateway.process.stop();

    const next = await openWithAdmin(env, { upstream: upstream.origin });
    const { sentence, limits } = (await explained(next, 'sent-4')).body.refusals[0];
    expect({ sentence, limits }).toEqual({ sentence: before.sentence, limits: before.limits });
    expect((await explained(next, 'sent-1')).body.refusals).toMatchObject([
      { consumerId: id, status: 500, endedBy: 'service', upstream: 'store', target: upstream.origin },
    ]);
    // The second refusal of the window.
    expect((await explained(next, 'sent-5')).status).toBe(404);
  });
});
