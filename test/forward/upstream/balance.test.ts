import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Upstream } from '../../../src/forward/upstream/upstream.ts';
import { atEnd } from '../../support/endings.ts';

// Which target of an upstream gets a request.

const BOUNDS = { maxConnections: 10, maxQueue: 10, fairShare: 1, tls: null };
const TIMEOUTS = { connectTimeoutMs: 1_000, responseTimeoutMs: 1_000, bodyTimeoutMs: 1_000 };

function upstreamOf(...weights: number[]) {
  const targets = weights.map((weight, i) => ({ url: `http://10.0.0.${i}:80`, weight }));
  const clock = { nowMs: 1_000 };
  const upstream = new Upstream({ ...BOUNDS, ...TIMEOUTS, targets, monotonicMs: () => clock.nowMs });
  atEnd(() => upstream.close());
  const take = (affinity: string | null = null, outcome: 'answered' | 'unreachable' = 'answered') => {
    const lease = upstream.lease(affinity);
    lease.done(outcome);
    return lease.target.slice('http://10.0.0.'.length, -':80'.length);
  };
  return { upstream, take, clock };
}

const counted = (names: readonly string[]) =>
  Object.fromEntries([...Map.groupBy(names, (name) => name)].map(([name, all]) => [name, all.length]));
const repeated = (times: number, take: () => string) => Array.from({ length: times }, () => take());

test('targets get requests in proportion to their weights, a heavy one spread over time', () => {
  const { take } = upstreamOf(5, 1, 1);
  expect(repeated(7, take).join('')).toBe('0010200');
});

test('in each round of as many requests as all weights together, each target gets its weight', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 6 }), (weights) => {
      fc.pre(new Set(weights.filter((weight) => weight > 0)).size > 1);
      const { take } = upstreamOf(...weights);
      const total = weights.reduce((sum, weight) => sum + weight);
      const expected = Object.fromEntries(weights.entries().filter(([, weight]) => weight > 0));
      for (let round = 0; round < 3; round++) expect(counted(repeated(total, take))).toEqual(expected);
    }),
  );
});

test('what a target has in flight does not change its part, if weights differ', () => {
  const { upstream } = upstreamOf(3, 1);
  const taken = repeated(40, () => upstream.lease(null).target);
  expect(Object.values(counted(taken)).toSorted()).toEqual([10, 30]);
});

test('a target of weight 0 gets nothing, also when all others are left out', () => {
  const { take } = upstreamOf(0, 1, 2);
  expect([take(null, 'unreachable'), take(null, 'unreachable')].toSorted()).toEqual(['1', '2']);
  expect(take).toThrow('no target is usable');
});

test('while a target is left out the others divide its part by their weights, and it takes its own again afterwards', () => {
  const { take, clock } = upstreamOf(6, 2, 1);
  expect(take(null, 'unreachable')).toBe('0');
  expect(counted(repeated(30, take))).toEqual({ 1: 20, 2: 10 });
  clock.nowMs += 60_000;
  const again = counted(repeated(90, take));
  expect(again['0']).toBeGreaterThanOrEqual(58);
  expect(again['0']).toBeLessThanOrEqual(62);
});

test('requests with one affinity get one target, the same in every gateway, and weights divide the affinities', () => {
  const [one, two] = [upstreamOf(3, 1), upstreamOf(3, 1)];
  const affinities = Array.from({ length: 4_000 }, (_, i) => `key_${i}`);
  const chosen = affinities.map((affinity) => one.take(affinity));
  expect(affinities.map((affinity) => two.take(affinity))).toEqual(chosen);
  expect(counted(chosen)['0']).toBeGreaterThan(2_850);
  expect(counted(chosen)['0']).toBeLessThan(3_150);
});

test('a target that comes or is left out moves only requests to or from itself', () => {
  const [few, more] = [upstreamOf(1, 1, 1), upstreamOf(1, 1, 1, 1)];
  const affinities = Array.from({ length: 2_000 }, (_, i) => `session ${i}`);
  const moved = affinities.filter((affinity) => few.take(affinity) !== more.take(affinity));
  expect(moved.every((affinity) => more.take(affinity) === '3')).toBe(true);
  expect(moved.length).toBeGreaterThan(400);
  expect(moved.length).toBeLessThan(600);
  const before = affinities.map((affinity) => few.take(affinity));
  few.take(affinities[before.indexOf('1')], 'unreachable');
  for (const [i, affinity] of affinities.entries()) {
    const now = few.take(affinity);
    if (before[i] === '1') expect(now).not.toBe('1');
    else expect(now).toBe(before[i]);
  }
});
