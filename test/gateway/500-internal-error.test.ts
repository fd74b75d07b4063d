import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PLANS, startGateway, startReplica } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

async function expectNothingToldOfTheInside(answer: Response, secrets: RegExp) {
  const body = await answer.text();
  expect(answer.status).toBe(500);
  expect(JSON.parse(body)).toEqual({ code: 'internal_error', message: expect.any(String), status: 500 });
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.get('x-request-id')).toBe('the-one');
  expect(answer.headers.get('x-ratelimit-limit')).not.toBeNull();
  expect(body).not.toMatch(secrets);
}

test('500 internal_error: a defect is an answer with the request’s id; its stack stands in the log alone, and the gateway goes on', async () => {
  const upstream = await startUpstream();
  const NODE_OPTIONS = `--import ${join(import.meta.dirname, 'throws-within.ts')}`;
  const gateway = await startGateway({ upstream: upstream.origin, env: { NODE_OPTIONS } });
  const { key } = await gateway.createKey('free');
  const answer = await gateway.get('/v1/defective', key, { headers: { 'X-Request-Id': 'the-one' } });
  await expectNothingToldOfTheInside(answer, /planted|\.ts|Error:/);
  expect(upstream.requests).toHaveLength(0);
  const [line] = await gateway.process.until(/^.*"msg":"a defect".*$/m);
  expect(JSON.parse(line)).toMatchObject({ requestId: 'the-one', err: { message: 'planted in a request' } });
  expect(line).toContain('throws-within.ts');
  const [access] = await gateway.process.until(/^(?=.*"msg":"request")(?=.*"the-one").*$/m);
  expect(JSON.parse(access)).toMatchObject({ status: 500, cause: 'planted in a request' });
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
});

test('500 internal_error: a key whose plan has gone from plans.yaml is no defect; the log names key and plan, and others are served', async () => {
  const upstream = await startUpstream();
  const before = await startGateway({ upstream: upstream.origin });
  const orphan = await before.createKey('small');
  const other = await before.createKey('free');
  await before.process.stop();
  await writeFile(before.env.TOLLGATE_PLANS as string, PLANS.replace(/^.*small.*\n/m, ''));
  const gateway = await startReplica(before);
  const answer = await gateway.get('/v1/pets', orphan.key, { headers: { 'X-Request-Id': 'the-one' } });
  await expectNothingToldOfTheInside(answer, /small|plan|key_/);
  expect(upstream.requests).toHaveLength(0);
  const [line] = await gateway.process.until(/^.*"the-one".*$/m);
  expect(JSON.parse(line)).toMatchObject({
    msg: 'request',
    code: 'internal_error',
    cause: `plans.yaml has no usable plan 'small' for ${orphan.id}`,
  });
  expect((await gateway.get('/v1/pets', other.key)).status).toBe(200);
  await gateway.process.stop();
  expect(gateway.process.stdout).not.toMatch(/a defect|uncaught/);
});
