import { beforeEach, describe, expect, test } from 'vitest';
import type { Allowance } from '../../src/admit/allowance.ts';
import type { ReadHistory } from '../../src/admit/history-store.ts';
import type { Ledger } from '../../src/admit/ledger.ts';
import type { UsageReport } from '../../src/admit/usage-report.ts';
import { Usage, type UsageBody } from '../../src/gateway/own-usage.ts';
import { UnreadableRecord } from '../../src/model/record.ts';
import { recordAdmitted } from '../../src/stores/embedded/history-costs.ts';
import { FakeLedger } from '../admit/fake-ledger.ts';
import { allowance } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

/** Histories that count how often they are read. */
class CountedHistories {
  reads: string[] = [];
  away = false;
  isDamaged = false;

  async of(consumerId: string): Promise<ReadHistory | null> {
    this.reads.push(consumerId);
    if (this.away) throw new Error('away');
    if (this.isDamaged) throw new UnreadableRecord(consumerId, `The usage history of ${consumerId} cannot be read.`);
    return { history: recordAdmitted(null, HOUR * 3_600_000, 5), nowMs: HOUR * 3_600_000 };
  }
}

const HOUR = 498_000;

/** A ledger that counts how often it is read, and answers when the test lets it. */
class CountedLedger extends FakeLedger {
  reads = 0;
  gate: Promise<void> | null = null;

  override async present(consumerId: string, own: Allowance) {
    this.reads++;
    if (this.gate !== null) await this.gate;
    if (this.away) throw new Error('away');
    return super.present(consumerId, own);
  }
}

let ledger: CountedLedger;
let history: CountedHistories;
let monotonicMs: number;
const PLAN = allowance({ minute: 3, day: 100 }, { after: 2 });

const usageOn = (more: { timeoutMs?: number; remembered?: number } = {}) =>
  new Usage({ ledger, history, monotonicMs: () => monotonicMs, ...more });
const pass = (ms: number) => {
  monotonicMs += ms;
  ledger.nowMs += ms;
};
const spend = (n: number, id = 'key_1') => ledger.decide([{ consumerId: id, allowance: PLAN, cost: 1, n }]);
const told = async (answer: ReturnType<Usage['of']>) => {
  const it = await answer;
  if (it === null) throw new Error('the store did not answer');
  return it as UsageBody & { readonly report: UsageReport };
};

beforeEach(() => {
  ledger = new CountedLedger();
  history = new CountedHistories();
  monotonicMs = 1_000;
});

// Fault: a caller was advised for ever to repeat its request, and no log named what the store cannot read.
test('what the store has and cannot read is another answer than that of a store that is away (reliability 403)', async () => {
  const failures: unknown[] = [];
  const over = (own: Pick<Ledger, 'present'>) =>
    new Usage({
      ledger: own,
      history,
      monotonicMs: () => monotonicMs,
      onStoreFailure: (error) => failures.push(error),
    });
  const damaged = (cause: string) => ({ kind: 'unreadable', cause: expect.stringContaining(cause) });
  history.isDamaged = true;
  const whole = over(ledger);
  expect(await whole.historyOf('key_1', PLAN, 'day', null, 0)).toEqual(damaged('The usage history of key_1 cannot be'));
  expect(await whole.of('key_1', PLAN, 0)).toMatchObject({ report: { id: 'key_1' } });
  const usage = over({ present: async () => null });
  const counts = damaged('What was counted for key_1 cannot be read: `tollgate usage key_1` says where it is');
  expect(await usage.of('key_1', PLAN, 0)).toEqual(counts);
  expect(await usage.historyOf('key_1', PLAN, 'day', null, 0)).toEqual(counts);
  expect(failures).toEqual([]);
});

describe('the usage of a caller', () => {
  test('is read from the store once a second, and in between the last answer is told', async () => {
    const usage = usageOn();
    await spend(1);
    expect((await told(usage.of('key_1', PLAN, 0))).report.windows.minute).toMatchObject({ used: 1, remaining: 2 });
    await spend(1);
    pass(999);
    for (let i = 0; i < 100; i++)
      expect(usage.of('key_1', PLAN, 0)).toMatchObject({ report: { windows: { minute: { used: 1 } } } });
    expect(ledger.reads).toBe(1);
    pass(1);
    expect((await told(usage.of('key_1', PLAN, 0))).report.windows.minute).toMatchObject({ used: 2 });
    expect(ledger.reads).toBe(2);
  });

  test('is read once for all who ask at the same time, and once for each caller', async () => {
    const usage = usageOn();
    await Promise.all(Array.from({ length: 100 }, () => usage.of('key_1', PLAN, 0)));
    expect(ledger.reads).toBe(1);
    await usage.of('key_2', PLAN, 0);
    expect(ledger.reads).toBe(2);
  });

  test('is never told as of the past: what has ended since the answer is gone from it', async () => {
    const short = allowance({ second: 5, day: 100 });
    const usage = usageOn();
    await ledger.decide([{ consumerId: 'key_1', allowance: short, cost: 1, n: 2 }]);
    pass(900);
    const first = await told(usage.of('key_1', short, 0));
    expect(first.report.windows.second).toMatchObject({ used: 2, resetAt: 1_800_000_001 });
    pass(200);
    const second = await told(usage.of('key_1', short, 0));
    expect(second.report.windows.second).toMatchObject({ used: 0, resetAt: 1_800_000_003 });
    expect(second.report.windows.day).toMatchObject({ used: 2 });
    expect(ledger.reads).toBe(1);
  });

  test('follows a limit that was changed, at once', async () => {
    const usage = usageOn();
    await spend(2);
    await usage.of('key_1', PLAN, 0);
    const raised = await told(usage.of('key_1', allowance({ minute: 10, day: 100 }), 0));
    expect(raised.report.windows.minute).toMatchObject({ limit: 10, used: 2, remaining: 8 });
  });

  test('follows a shadow that was taken away, or is not that of the plan that another token names, at once', async () => {
    const usage = usageOn();
    const watched = { ...PLAN, shadow: allowance({ minute: 1 }) };
    expect((await told(usage.of('key_1', watched, 0))).report.shadow).toBeDefined();
    const without = await told(usage.of('key_1', PLAN, 0));
    expect(without.report).not.toHaveProperty('shadow');
    expect(without.report.windows.minute).toMatchObject({ limit: 3, used: 0 });
    expect(ledger.reads).toBe(2);
  });

  test('under a ban says until when, and its fields describe the window that made it', async () => {
    await spend(5);
    const { report, verdict } = await told(usageOn().of('key_1', PLAN, 0));
    expect(report).toMatchObject({ strikes: 0, ban: { number: 1, until: 1_800_000_060 } });
    expect(verdict).toMatchObject({ kind: 'banned', binding: { window: 'minute', remaining: 0 } });
  });

  test('after a ban tells none, although the ban is remembered for the next', async () => {
    await spend(5);
    pass(60_000);
    const { report, verdict } = await told(usageOn().of('key_1', PLAN, 0));
    expect(report.ban).toBeNull();
    expect(verdict).toMatchObject({ kind: 'admitted', binding: { remaining: 3 } });
  });
});

describe('the history of a caller', () => {
  test('is read from the store once a second, whichever step is asked for, and is the sum with that of its shadow', async () => {
    const usage = usageOn();
    const bodies = await Promise.all(
      (['hour', 'day'] as const).map((step) => usage.historyOf('key_1', PLAN, step, null, 0)),
    );
    const buckets = [{ at: '2026-10-24T00:00:00Z', admitted: 10, refused: 0, banned: 0 }];
    expect(bodies).toMatchObject([{ report: { step: 'hour', buckets } }, { report: { step: 'day', buckets } }]);
    pass(999);
    for (let i = 0; i < 100; i++) await usage.historyOf('key_1', PLAN, 'hour', null, 0);
    expect(history.reads).toEqual(['key_1', 'key_1~shadow']);
    expect(ledger.reads).toBe(1);
    pass(1);
    await usage.historyOf('key_1', PLAN, 'hour', null, 0);
    expect(history.reads).toHaveLength(4);
  });

  test('in a unit is another one, with that of its shadow in the unit', async () => {
    const usage = usageOn();
    const body = await usage.historyOf('key_1', PLAN, 'hour', 'tokens', 0);
    expect(body).toHaveProperty('report', {
      step: 'hour',
      unit: 'tokens',
      buckets: [{ at: '2026-10-24T00:00:00Z', admitted: 10, refused: 0, banned: 0 }],
    });
    await usage.historyOf('key_1', PLAN, 'hour', null, 0);
    await usage.historyOf('key_1', PLAN, 'day', 'tokens', 0);
    expect(history.reads).toEqual(['key_1%tokens', 'key_1~shadow%tokens', 'key_1', 'key_1~shadow']);
  });

  test('is not told while the store does not answer, and the store is asked once a second all the same', async () => {
    const usage = usageOn();
    history.away = true;
    for (let i = 0; i < 100; i++) expect(await usage.historyOf('key_1', PLAN, 'hour', null, 0)).toBeNull();
    expect(history.reads).toHaveLength(2);
  });
});

describe('a store that does not answer', () => {
  test('is asked once a second all the same', async () => {
    const usage = usageOn();
    ledger.away = true;
    for (let i = 0; i < 100; i++) expect(await usage.of('key_1', PLAN, 0)).toBeNull();
    expect(ledger.reads).toBe(1);
    pass(1_000);
    ledger.away = false;
    expect(await usage.of('key_1', PLAN, 0)).not.toBeNull();
  });

  test('is waited for no longer than is left of the time that a request may wait in total', async () => {
    const usage = usageOn({ timeoutMs: 100 });
    const { promise, resolve } = Promise.withResolvers<void>();
    ledger.gate = promise;
    const letPass = holdTime();
    const answers: unknown[] = [];
    for (const waitedMs of [90, 500]) void told(usage.of('key_1', PLAN, waitedMs)).catch(() => answers.push(waitedMs));
    await letPass(0);
    expect(answers).toEqual([500]);
    await letPass(9);
    expect(answers).toEqual([500]);
    await letPass(1);
    expect(answers).toEqual([500, 90]);
    expect(ledger.reads).toBe(1);
    resolve();
    await expect.poll(() => usage.of('key_1', PLAN, 0)).not.toBeNull();
  });
});

test('callers that are remembered are bounded: the least recently seen is forgotten', async () => {
  const usage = usageOn({ remembered: 1 });
  for (const id of ['key_1', 'key_2', 'key_1']) await usage.of(id, PLAN, 0);
  expect(ledger.reads).toBe(3);
});
