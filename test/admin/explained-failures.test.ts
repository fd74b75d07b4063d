import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { emptyStore } from '../support/empty-store.ts';
import { startUpstream } from '../support/upstream.ts';
import { ask, openWithAdmin } from './operator.ts';

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
});
