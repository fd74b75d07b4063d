import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { MetricRegistry } from '../../src/telemetry/metric-registry.ts';

const ODD = ['a "quoted" one', 'back\\slash', 'two\nlines', ''];

test('the text is byte for byte what prom-client writes', async () => {
  const registry = new MetricRegistry();
  registry.events('events_total', `Help with ${ODD.join()}.`)();
  const odd = registry.counter('odd_total', 'Odd labels.', ['one', 'two']);
  for (const one of ODD) odd.inc({ one, two: 'b' }, 1.5);
  registry.gauge('absent', 'Has no value.', () => null);
  const numbers = [0, -1, 1e21, 1e-9, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  registry.gauges('numbers', 'Numbers.', ['n'], () => numbers.map((n, i) => [{ n: String(i) }, n] as const));
  const text = await registry.metrics();
  expect(text).toBe(await Registry.prototype.metrics.call(registry));
  expect(text).toContain('odd_total{one="two\\nlines",two="b"} 1.5');
});

// Fault: with thousands of routes, a scrape of the metrics held up all requests.
test('thousands of series are written in many turns of the event loop (reliability 441)', async () => {
  const registry = new MetricRegistry();
  const many = registry.counter('many_total', 'Many.', ['route']);
  for (let i = 0; i < 20_000; i++) many.inc({ route: `/v1/${i}` });
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const text = await registry.metrics();
  isOver = true;
  expect(text.split('\n')).toHaveLength(20_003);
  expect(turns).toBeGreaterThanOrEqual(20_000 / 16 / 100);
});
