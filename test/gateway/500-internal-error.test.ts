import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { PLANS, startGateway, startReplica, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let orphan: { readonly id: string; readonly key: string };
let other: { readonly id: string; readonly key: string };

beforeAll(async () => {
  upstream = await startUpstream();
  const before = await startGateway({ upstream: upstream.origin });
  orphan = await before.createKey('small');
  other = await before.createKey('free');
  await before.process.stop();
  // A key whose plan is gone from plans.yaml is a state that the gateway has no answer for.
  await writeFile(before.env.TOLLGATE_PLANS as string, PLANS.replace(/^.*small.*\n/m, ''));
  gateway = await startReplica(before);
});

test('500 internal_error: what breaks inside is an answer with the request’s id, and says nothing of the inside', async () => {
  const answer = await gateway.get('/v1/pets', orphan.key, { headers: { 'X-Request-Id': 'the-one' } });
  const body = await answer.text();
  expect(answer.status).toBe(500);
  expect(JSON.parse(body)).toEqual({ code: 'internal_error', message: expect.any(String), status: 500 });
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.get('x-request-id')).toBe('the-one');
  expect(answer.headers.get('x-ratelimit-limit')).not.toBeNull();
  expect(body).not.toMatch(/small|plan|\.ts|Error:/);
  expect(body).not.toContain(orphan.id);
  expect(upstream.requests).toHaveLength(0);
});

test('the cause stands in the log, with the same id, and the gateway goes on serving', async () => {
  await gateway.get('/v1/pets', orphan.key, { headers: { 'X-Request-Id': 'another-one' } });
  await gateway.process.until(/"another-one".*its plan is gone|its plan is gone.*"another-one"/);
  expect((await gateway.get('/v1/pets', other.key)).status).toBe(200);
});
