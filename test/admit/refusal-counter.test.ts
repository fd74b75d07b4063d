import { beforeEach, expect, test } from 'vitest';
import { MAX_REFUSED, type Refusals, type RefusedConsumer } from '../../src/admit/history-store.ts';
import { RefusalCounter } from '../../src/admit/refusal-counter.ts';
import { atEnd } from '../support/endings.ts';

/** A store that refuses to answer, or answers when the test lets it. */
class FakeStore {
  readonly reports: (readonly Refusals[])[] = [];
  away = false;
  gate: Promise<void> | null = null;

  async addRefusals(refusals: readonly Refusals[]): Promise<void> {
    await this.gate;
    if (this.away) throw new Error('away');
    this.reports.push(refusals);
  }
}

let store: FakeStore;
let counter: RefusalCounter;
beforeEach(() => {
  store = new FakeStore();
  counter = new RefusalCounter(store);
  atEnd(() => counter.writes.close());
});

const refused = (consumerId: string, more: Partial<RefusedConsumer> = {}): RefusedConsumer => {
  return { consumerId, plan: 'free', kind: 'refused', window: 'minute', cost: 1, untilMs: 1_000, ...more };
};

test('refusals are reported once, summed by consumer, with what the last of them said', async () => {
  counter.count(refused('a'));
  counter.count(refused('b'));
  counter.count(refused('a', { kind: 'banned', window: 'day', cost: 5, untilMs: 9_000, plan: 'pro' }));
  await counter.writes.flush();
  await counter.writes.flush();
  expect(store.reports).toEqual([
    [
      { ...refused('a'), kind: 'banned', window: 'day', cost: 5, untilMs: 9_000, plan: 'pro', refused: 1, banned: 1 },
      { ...refused('b'), refused: 1, banned: 0 },
    ],
  ]);
});

test('what a store that is away does not accept is reported when it is back, with what came since', async () => {
  store.away = true;
  counter.count(refused('a'));
  counter.count(refused('b'));
  await counter.writes.flush();
  counter.count(refused('a', { untilMs: 2_000 }));
  store.away = false;
  await counter.writes.flush();
  expect(store.reports[0]).toContainEqual({ ...refused('a'), untilMs: 2_000, refused: 2, banned: 0 });
  expect(store.reports[0]).toContainEqual({ ...refused('b'), refused: 1, banned: 0 });
});

test('bans during an outage are added to those that came since', async () => {
  store.away = true;
  counter.count(refused('a', { kind: 'banned' }));
  const { promise, resolve } = Promise.withResolvers<void>();
  store.gate = promise;
  const reported = counter.writes.flush();
  // Counted while the report is on its way.
  await Promise.resolve();
  counter.count(refused('a', { kind: 'banned', untilMs: 7_000 }));
  counter.count(refused('a', { kind: 'refused', untilMs: 8_000 }));
  resolve();
  await reported;
  store.away = false;
  await counter.writes.flush();
  expect(store.reports).toEqual([[{ ...refused('a'), untilMs: 8_000, refused: 1, banned: 2 }]]);
});

test('during an outage the counts stay bounded, however many consumers are refused', async () => {
  store.away = true;
  for (let round = 0; round < 3; round++) {
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const reported = counter.writes.flush();
    await Promise.resolve();
    for (let i = 0; i < MAX_REFUSED + 5; i++) counter.count(refused(`${round}-${i}`));
    resolve();
    await reported;
  }
  store.gate = null;
  store.away = false;
  await counter.writes.flush();
  expect(store.reports[0]).toHaveLength(MAX_REFUSED);
});
