import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

test('without a history `GET /usage?history` is 404, keeps its connection and counts nothing; `GET /usage` answers as usual', async () => {
  const upstream = await startUpstream();
  const gateway = await openGateway({ upstream: upstream.origin, more: 'usage: { history: off }' });
  const { key, id } = await gateway.createKey('free');
  await gateway.get('/v1/pets', key);
  const answer = await gateway.get('/usage?history', key);
  expect([answer.status, await answer.json()]).toEqual([
    404,
    {
      code: 'no_usage_history',
      message: 'This gateway keeps no history of usage. GET /usage shows what is left of each window.',
      status: 404,
    },
  ]);
  expect(answer.headers.get('connection')).not.toBe('close');
  expect(await (await gateway.get('/usage', key)).json()).toMatchObject({ windows: { minute: { used: 1 } } });
  const { stdout, stderr } = await gateway.command('usage', id, '--days', '1', '--json');
  expect(JSON.parse(stdout)).toEqual({ step: 'day', buckets: [], isKept: false });
  expect(stderr).toMatch(/warning: no history is kept.*`usage: \{ history: on \}`/);
});
