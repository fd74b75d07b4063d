import { describe, expect, test } from 'vitest';
import { spanBefore, trafficIn, trafficSpan } from '../../../src/operations/traffic/traffic-report.ts';
import type { TrafficStore } from '../../../src/operations/traffic/traffic-store.ts';
import { TrafficCounter } from '../../../src/telemetry/traffic-counter.ts';
import { FakeTraffic } from './fake-traffic.ts';

const NOON = Date.parse('2026-11-30T12:00:00Z');
const MINUTE = 60_000;
const request = { route: '/v1/pets', plan: 'free', customerId: null, upstream: 'pets', status: 200, totalMs: 7 };

/** A gateway that counts by a clock of the test. */
function gateway(store: TrafficStore, { lost = [] as number[], isOn = true } = {}) {
  const clock = { nowMs: NOON };
  const counter = new TrafficCounter({
    store,
    nowMs: () => clock.nowMs,
    isOn: () => isOn,
    onLost: (requests) => lost.push(requests),
    random: Math.random,
  });
  const at = (minute: number) => {
    clock.nowMs = NOON + minute * MINUTE;
    counter.turn();
  };
  const count = (requests: number, what: Partial<typeof request> | { readonly customerId: string } = {}) => {
    for (let i = 0; i < requests; i++) counter.count({ ...request, ...what });
  };
  return { counter, at, count };
}

const from = (minute: number, toMinute: number, step: 'minute' | 'hour' | 'day' = 'minute') => ({
  ...{ step, fromMs: NOON + minute * MINUTE, toMs: NOON + toMinute * MINUTE },
});

describe('traffic over time', () => {
  test('of two gateways adds up, and a minute of which no gateway has reported is unknown, and not zero', async () => {
    const store = new FakeTraffic();
    const [one, other] = [gateway(store), gateway(store)];
    one.count(3);
    other.count(2, { status: 502, totalMs: 800 });
    for (const { at, counter } of [one, other]) {
      at(1);
      await counter.writes.flush();
    }
    // One has a minute without requests. Then both are away for a minute.
    one.at(2);
    await one.counter.writes.close();
    const { points, series } = await trafficIn(store, from(-1, 3), 'route', 10);
    expect(points.map(({ known, reports, requests, errors }) => [known, reports, requests, errors])).toEqual([
      ['none', 0, null, null],
      ['all', 2, 5, 2],
      ['all', 1, 0, 0],
      ['all', 1, 0, 0],
    ]);
    expect(series).toMatchObject([{ value: '/v1/pets', isOthers: false, requests: 5, errors: 2, p99Ms: 987.5 }]);
    expect(series[0]!.points).toMatchObject([null, { requests: 5 }, { requests: 0 }, { requests: 0 }]);
    expect((await trafficIn(store, from(0, 1), 'status', 10)).series).toMatchObject([
      { value: '2xx', requests: 3, errors: 0, p50Ms: null },
      { value: '5xx', requests: 2, errors: 2 },
    ]);
    const [hour] = (await trafficIn(store, from(0, 60, 'hour'), 'plan', 10)).points;
    expect(hour).toMatchObject({ known: 'part', minutes: 3, reports: 4, requests: 5, errors: 2 });
  });

  test('waits while the store is away, and is added once although a reply is lost', async () => {
    const store = new FakeTraffic();
    const { counter, at, count } = gateway(store);
    store.isAway = true;
    for (let minute = 0; minute < 5; minute++) {
      count(minute + 1);
      at(minute + 1);
      await counter.writes.flush();
    }
    store.isAway = false;
    store.losesReplies = true;
    await counter.writes.flush();
    store.losesReplies = false;
    await counter.writes.flush();
    const { points } = await trafficIn(store, from(0, 5), 'route', 10);
    expect(points.map(({ requests, reports }) => [requests, reports])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
      [4, 1],
      [5, 1],
    ]);
    await counter.writes.close();
  });

  test('of minutes that memory had no room for is counted as lost', async () => {
    const store = new FakeTraffic();
    const lost: number[] = [];
    const { counter, at, count } = gateway(store, { lost });
    store.isAway = true;
    for (let minute = 0; minute < 723; minute++) {
      if (minute < 3) count(minute + 1);
      at(minute + 1);
    }
    store.isAway = false;
    await counter.writes.flush();
    expect(lost).toEqual([1, 2, 3]);
    const { points } = await trafficIn(store, from(0, 14 * 60, 'hour'), 'route', 10);
    expect(points.reduce((sum, point) => sum + point.lost, 0)).toBe(6);
    expect(points[0]!.minutes).toBe(57);
    await counter.writes.close();
  });

  test('of 400 routes and 400 customers stays within 300 series and 10 MB, and no request is missing (reliability 496)', async () => {
    const store = new FakeTraffic();
    const { counter, at } = gateway(store);
    const many = (minute: number) => {
      for (let i = 0; i < 400; i++) {
        const totalMs = ((i * 37 + minute) % 40) ** 2;
        for (let n = 0; n <= i % 50; n++) {
          counter.count({
            ...request,
            route: `/v1/things/${i}/{id}`,
            customerId: `cus_${i}_${'x'.repeat(10)}`,
            totalMs,
          });
        }
      }
    };
    const perMinute = Array.from({ length: 400 }, (_, i) => (i % 50) + 1).reduce((a, b) => a + b);
    for (let minute = 0; minute < 60; minute++) {
      many(minute);
      at(minute + 1);
      await counter.writes.flush();
    }
    for (const by of ['route', 'customer', 'plan', 'upstream'] as const) {
      const { points, series } = await trafficIn(store, from(0, 60), by, 50);
      expect(points.map(({ requests }) => requests)).toEqual(Array(60).fill(perMinute));
      expect(series.reduce((sum, { requests }) => sum + requests, 0)).toBe(60 * perMinute);
      if (by === 'route' || by === 'customer') expect(series.at(-1)).toMatchObject({ value: null, isOthers: true });
    }
    expect(store.names(NOON)).toHaveLength(120 + 100 + 2);
    // In 48 hours and 92 days.
    expect(store.mostBytes('minute') * 2_880 + store.mostBytes('hour') * 2_208).toBeLessThan(9_000_000);
    await counter.writes.close();
  });

  test('is not kept while the settings want none: nothing is said, and not zero', async () => {
    const store = new FakeTraffic();
    const { counter, at } = gateway(store, { isOn: false });
    at(1);
    await counter.writes.close();
    expect((await trafficIn(store, from(0, 2), 'route', 10)).points.map(({ known }) => known)).toEqual([
      'none',
      'none',
    ]);
  });

  test('begins records anew that cannot be read', async () => {
    const store = new FakeTraffic();
    const { counter, at, count } = gateway(store);
    store.put('hour', Math.floor(NOON / 3_600_000), Buffer.from('damaged'));
    expect((await trafficIn(store, from(0, 60, 'hour'), 'route', 10)).points[0]!.known).toBe('none');
    count(1);
    at(1);
    await counter.writes.close();
    expect((await trafficIn(store, from(0, 60, 'hour'), 'route', 10)).points[0]).toMatchObject({ requests: 1 });
  });
});

describe('the span of a report', () => {
  const now = NOON + 90_000;
  const text = (ms: number) => new Date(ms).toISOString();
  test.each([
    [{ range: '1h' }, 'minute', '2026-11-30T11:01:00.000Z', '2026-11-30T12:01:00.000Z'],
    [{ range: '24h' }, 'hour', '2026-11-29T12:00:00.000Z', '2026-11-30T12:01:00.000Z'],
    [{ range: '7d' }, 'hour', '2026-11-23T12:00:00.000Z', '2026-11-30T12:01:00.000Z'],
    [{ range: '30d' }, 'day', '2026-10-31T00:00:00.000Z', '2026-11-30T12:01:00.000Z'],
    [
      { range: '1h', from: '2026-11-01T10:20:00Z', to: '2026-11-01T11:30:00Z' },
      'hour',
      '2026-11-01T10:00:00.000Z',
      '2026-11-01T12:00:00.000Z',
    ],
    [{ range: '1h', from: '2h', step: 'minute' }, 'minute', '2026-11-30T10:01:00.000Z', '2026-11-30T12:01:00.000Z'],
  ] as const)('of %j has a point a %s', (asked, step, begins, ends) => {
    const span = trafficSpan(asked, now);
    expect([span.step, text(span.fromMs), text(span.toMs)]).toEqual([step, begins, ends]);
    const before = spanBefore(span);
    expect(text(before.toMs)).toBe(begins);
    expect(before.toMs - before.fromMs).toBeGreaterThanOrEqual(span.toMs - span.fromMs);
  });

  test.each([
    [{ range: '1h', from: 'soon' }, /^from must be a duration before now/],
    [{ range: '1h', to: 'soon' }, /^to must be a duration before now/],
    [{ range: '1h', from: '1h', to: '2h' }, /^from must be at least a minute before/],
    [{ range: '1h', from: '49h', to: '48h', step: 'minute' }, /^from is too early: minutes are kept for 48 hours/],
    [{ range: '1h', from: '100d' }, /^from is too early: traffic is kept for 92 days/],
    [{ range: '24h', step: 'minute' }, /^step must leave at most 400 points.*step hour/],
    [{ range: '30d', step: 'hour' }, /^step must leave at most 400 points.*step day/],
  ] as const)('of %j is refused with what is allowed', (asked, message) => {
    expect(() => trafficSpan(asked, now)).toThrow(message);
  });
});
