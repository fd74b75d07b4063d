import { expect, test } from 'vitest';
import { startReplica } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { expectCountdown } from '../exactness/fleet.ts';
import { type Caller, caller } from './callers.ts';
import { connectionsOf, metricOf, metricsOf, PLANS, startWorkers } from './fleet.ts';

const LIMIT = 400;
const OVER = 120;
const CONNECTIONS = 9;

// Attack: a client whose connections end in different processes gets the limit once from each of them.
test('3 workers of each of 2 gateways admit exactly the limit, and tell no more than what is left (reliability 128)', async () => {
  const upstream = await startUpstream();
  const first = await startWorkers(3, {
    upstream: upstream.origin,
    plans: PLANS.replace('plans:', `plans:\n  edge: { limits: { minute: ${LIMIT}, day: 100000 }, bans: off }`),
  });
  const second = await startReplica(first);
  const { key } = await first.createKey('edge');
  const clients = [first, second].flatMap((gateway) => Array.from({ length: CONNECTIONS }, () => caller(gateway, key)));
  const remaining: number[] = [];
  let refused = 0;
  let left = LIMIT + OVER;
  const ask = async (client: Caller) => {
    left--;
    const { status, remaining: told } = await client.ask();
    if (status === 200) remaining.push(told);
    else if (status === 429) refused++;
  };
  // One after the other at first, so that each worker has its part of the connections.
  for (const client of clients) await ask(client);
  await Promise.all(
    clients.map(async (client) => {
      while (left > 0) await ask(client);
    }),
  );
  expect(remaining).toHaveLength(LIMIT);
  expectCountdown(remaining, LIMIT);
  expect(refused).toBe(OVER);
  expect(upstream.requests).toHaveLength(LIMIT);
  for (const gateway of [first, second]) expect(await connectionsOf(gateway)).toEqual([3, 3, 3]);
  const sum = async (name: string) => (await metricOf(first, name)) + (await metricOf(second, name));
  expect(await sum('tollgate_requests_total')).toBe(LIMIT + OVER);
  expect(await sum('tollgate_quota_refusals_total')).toBe(OVER);
  expect(await metricsOf(first)).toMatch(/^tollgate_connections 9$/m);
});
