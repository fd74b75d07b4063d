import type { ServerResponse } from 'node:http';
import { expect, test, vi } from 'vitest';
import { ThreadTime } from '../../src/io/thread-time.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, PLANS } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

test('429 too_many_in_flight: more at once than the share of one caller; not counted, no strike, Retry-After a second', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await openGateway({
    upstream: upstream.origin,
    plans: PLANS.replace('after: 10', 'after: 2'),
    // A quarter: one connection, and one place in the queue.
    upstreamSettings: { maxConnections: 4, maxQueue: 4 },
  });
  const metrics = async () => (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  const { id, key } = await gateway.createKey('small');
  const slow = [gateway.get('/v1/pets?1', key), gateway.get('/v1/pets?2', key)];
  await eventually(async () => expect(await metrics()).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 2$/m));

  for (let i = 0; i < 20; i++) {
    const answer = await gateway.get('/v1/pets', key);
    expect(answer.status).toBe(429);
    expect(await answer.json()).toEqual({
      code: 'too_many_in_flight',
      message: expect.stringMatching(/^Too many requests of this caller .*\.$/),
      status: 429,
    });
    expect(answer.headers.get('retry-after')).toBe('1');
    // Where the caller stands, without a word of this request.
    expect(answer.headers.get('x-ratelimit-limit')).toBe('3');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('1');
    expect(answer.headers.get('ratelimit')).toMatch(/^"minute";r=1;t=\d+, "day";r=998;t=\d+$/);
  }
  expect(upstream.requests).toHaveLength(1);
  // What goes to no upstream needs no room there.
  const usage = await (await gateway.get('/usage', key)).json();
  expect(usage).toMatchObject({ strikes: 0, ban: null, windows: { minute: { used: 2 }, day: { used: 2 } } });
  expect((await gateway.get('/v1/none', key)).status).toBe(404);

  for (const request of slow) {
    await eventually(() => expect(held).toHaveLength(1));
    held.shift()?.end('{}');
    expect((await request).status).toBe(200);
  }
  // The path without a route was the third of three: from now on it is the quota that refuses.
  expect(await (await gateway.get('/v1/pets', key)).json()).toMatchObject({ code: 'rate_limit_exceeded' });

  // One key that goes on and on is one line a second, and no refusal for a quota.
  const [line] = await gateway.process.until(/^.*"too_many_in_flight".*$/m);
  expect(JSON.parse(line)).toMatchObject({
    msg: 'refusals',
    consumerId: id,
    judgement: 'shed',
    source: 'memory',
    cost: 0,
    status: 429,
  });
  const after = await metrics();
  expect(after).toContain(
    'tollgate_requests_total{route="/v1/pets",plan="small",judgement="shed",status="4xx",code="too_many_in_flight",source="memory"} 20\n',
  );
  expect(after).toContain('tollgate_quota_refusals_total{plan="small",window="minute",judgement="refused"} 1\n');
});

// Attack: a customer makes nine keys, and each of them has a share of the serving thread.
test('the keys of a customer have one share of the serving thread (reliability 396)', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const gateway = await openGateway({ upstream: upstream.origin });
  const { stdout } = await gateway.command('customers', 'create', '--plan', 'free', '--json');
  const { id } = JSON.parse(stdout) as { id: string };
  const charged = vi.spyOn(ThreadTime.prototype, 'of');
  for (let i = 0; i < 2; i++) {
    const made = await gateway.command('keys', 'create', '--customer', id, '--json');
    expect((await gateway.get('/v1/pets', JSON.parse(made.stdout).key)).status).toBe(200);
  }
  expect(charged.mock.calls).toEqual([[id], [id]]);
  charged.mockRestore();
});
