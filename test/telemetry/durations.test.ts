import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Durations } from '../../src/telemetry/durations.ts';

const MINUTE_MS = 60_000;

/** A histogram, with the settings and the clock that a test moves on. */
function durations() {
  const registry = new Registry();
  const state = { nowMs: 0, upstreams: [] as { name: string; targets: { name: string }[] }[] };
  const histogram = new Durations(registry, {
    name: 'd',
    help: 'durations',
    bounds: [0.1, 1],
    parts: ['total', 'upstream'],
    upstreams: () => state.upstreams,
    monotonicMs: () => state.nowMs,
  });
  const use = (name: string, ...targets: string[]) => {
    state.upstreams = [{ name, targets: targets.map((target) => ({ name: target })) }];
  };
  const add = (upstream: string | null, target: string | null) => histogram.of(upstream, target).total.add(0.5);
  /** Labels and value of each count that is told. */
  const counts = async () =>
    [...(await registry.metrics()).matchAll(/^d_count(\{.*\} \d+)$/gm)].map(([, told]) => told);
  return { registry, state, histogram, use, add, counts };
}

test('a request is told with its upstream and target, and one without them as `none`', async () => {
  const { registry, histogram, use, add, counts } = durations();
  use('store', 'http://a', 'http://b');
  add('store', 'http://a');
  add('store', 'http://a');
  add('store', null);
  add(null, null);
  histogram.of('store', 'http://b').upstream.add(4);
  expect(await counts()).toEqual([
    '{part="total",upstream="store",target="http://a"} 2',
    '{part="total",upstream="store",target="none"} 1',
    '{part="upstream",upstream="store",target="http://b"} 1',
    '{part="total",upstream="none",target="none"} 1',
  ]);
  expect(await registry.metrics()).toContain(
    [
      'd_bucket{le="0.1",part="upstream",upstream="store",target="http://b"} 0',
      'd_bucket{le="1",part="upstream",upstream="store",target="http://b"} 0',
      'd_bucket{le="+Inf",part="upstream",upstream="store",target="http://b"} 1',
      'd_sum{part="upstream",upstream="store",target="http://b"} 4',
      'd_count{part="upstream",upstream="store",target="http://b"} 1',
    ].join('\n'),
  );
});

test('what serves the requests of a target is found again, not made for each', () => {
  const { use, histogram } = durations();
  use('store', 'http://a');
  expect(histogram.of('store', 'http://a')).toBe(histogram.of('store', 'http://a'));
  expect(histogram.of(null, null)).toBe(histogram.of(null, null));
});

test('a target that a reload took away is told for ten minutes more, and one that came back goes on counting', async () => {
  const { state, use, add, counts } = durations();
  use('store', 'http://a', 'http://b');
  for (const target of ['http://a', 'http://b', null]) add('store', target);
  add(null, null);
  use('store', 'http://a');
  expect(await counts()).toHaveLength(4);
  state.nowMs += 9 * MINUTE_MS;
  use('store', 'http://a', 'http://b');
  expect(await counts()).toHaveLength(4);
  use('store', 'http://a');
  add('store', 'http://b');
  state.nowMs += 9 * MINUTE_MS;
  expect(await counts()).toContain('{part="total",upstream="store",target="http://b"} 2');
  state.nowMs += 10 * MINUTE_MS;
  expect(await counts()).toEqual([
    '{part="total",upstream="store",target="http://a"} 1',
    '{part="total",upstream="store",target="none"} 1',
    '{part="total",upstream="none",target="none"} 1',
  ]);
  use('other', 'http://a');
  await counts();
  state.nowMs += 10 * MINUTE_MS;
  expect(await counts()).toEqual(['{part="total",upstream="none",target="none"} 1']);
});

test('targets that come and go every minute do not pile up, even where nobody reads the metrics', async () => {
  const { state, use, add, counts } = durations();
  for (let i = 0; i < 1_000; i++) {
    use('store', `http://10.0.0.1:${i + 1}`);
    add('store', `http://10.0.0.1:${i + 1}`);
    state.nowMs += MINUTE_MS;
  }
  expect((await counts()).length).toBeLessThan(13);
});
