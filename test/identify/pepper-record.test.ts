import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { checkPeppers, type PepperStore, refuseUnlessRight } from '../../src/identify/pepper-record.ts';

const [OLD, NEW, WRONG] = ['the old pepper of the tests', 'the new pepper of the tests', 'a wrong pepper of the tests'];

class MemoryRecord implements PepperStore {
  record: string | null = null;
  keys = 0;

  async read() {
    return this.record;
  }

  async replace(before: string | null, after: string) {
    if (this.record !== before) return false;
    this.record = after;
    return true;
  }

  async hasKeys() {
    return this.keys > 0;
  }
}

const check = (store: PepperStore, peppers: readonly string[], writes: 'always' | 'if-missing' | 'never' = 'always') =>
  checkPeppers(store, peppers, { writes, random: randomBytes });
const MISMATCH = { code: 'pepper_mismatch', message: expect.stringMatching(/^KEY_PEPPER is missing, or it is not/) };

describe('the peppers that a store is opened with (reliability 157)', () => {
  test.each([
    ['a change of the pepper', [[OLD], [OLD, NEW], [NEW, OLD], [NEW]], true],
    ['a change that is taken back', [[OLD], [OLD, NEW], [NEW, OLD], [OLD, NEW], [OLD]], true],
    ['a change whose first step is left out', [[OLD], [NEW, OLD], [NEW]], true],
    [
      'gateways and commands that take the steps at their own pace',
      [[OLD], [OLD, NEW], [OLD], [NEW, OLD], [OLD, NEW]],
      true,
    ],
    ['another pepper', [[OLD], [WRONG]], false],
    ['two others', [[OLD], [WRONG, NEW]], false],
    ['the new one without the old one before it is the newest', [[OLD], [OLD, NEW], [NEW]], false],
    ['the old one when keys are made under the new one', [[OLD], [OLD, NEW], [NEW, OLD], [OLD]], false],
    ['the old one after the change', [[OLD], [NEW, OLD], [NEW], [OLD]], false],
  ])('%s', async (_, steps, isTaken) => {
    const store = new MemoryRecord();
    const last = steps.pop()!;
    for (const peppers of steps) await check(store, peppers);
    const before = store.record;
    if (isTaken) return expect((await check(store, last)).history.peppers.slice(0, last.length)).toEqual(last);
    for (const writes of ['always', 'if-missing', 'never'] as const) {
      await expect(check(store, last, writes)).rejects.toMatchObject(MISMATCH);
    }
    expect(store.record).toBe(before);
  });

  test('are remembered after they are no longer given, and the root of the store stays the same', async () => {
    const store = new MemoryRecord();
    const { root } = (await check(store, [OLD])).history;
    await check(store, [NEW, OLD]);
    for (const writes of ['always', 'never'] as const) {
      expect((await check(store, [NEW], writes)).history).toEqual({ peppers: [NEW, OLD], root });
    }
  });

  test('stand nowhere in the record, and the same ones leave it as it is', async () => {
    const store = new MemoryRecord();
    const { root } = (await check(store, [NEW, OLD])).history;
    const { record } = store;
    for (const secret of [NEW, OLD, root, Buffer.from(NEW).toString('base64url')]) expect(record).not.toContain(secret);
    await check(store, [NEW, OLD]);
    expect(store.record).toBe(record);
  });

  test('are noted only by what may do so', async () => {
    const store = new MemoryRecord();
    await check(store, [OLD], 'never');
    expect(store.record).toBeNull();
    await check(store, [OLD], 'if-missing');
    const { record } = store;
    for (const writes of ['if-missing', 'never'] as const) await check(store, [NEW, OLD], writes);
    expect(store.record).toBe(record);
  });

  test('cannot be checked where keys were made before there was a record, which is said once', async () => {
    const store = new MemoryRecord();
    store.keys = 1;
    expect((await check(store, [OLD], 'never')).unverified).toBe(false);
    expect((await check(store, [OLD])).unverified).toBe(true);
    expect((await check(store, [OLD])).unverified).toBe(false);
  });

  test('of two that open an empty store at once are those of one of them, and the other is refused', async () => {
    const store = new MemoryRecord();
    const told = await Promise.allSettled([check(store, [OLD]), check(store, [WRONG])]);
    expect(told.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test.each(['', '{}', '[]', 'x', '{"checks":[],"sealed":""}'])(
    'are not taken for right by a record such as %j',
    async (text) => {
      const store = new MemoryRecord();
      store.record = text;
      await expect(check(store, [OLD])).rejects.toMatchObject({ code: 'store_corrupt' });
    },
  );

  test('are not read from a history that somebody has changed', async () => {
    const store = new MemoryRecord();
    await check(store, [OLD]);
    const { checks, sealed } = JSON.parse(store.record!);
    store.record = JSON.stringify({ checks, sealed: `${sealed.slice(0, -4)}AAAA` });
    await expect(check(store, [OLD])).rejects.toMatchObject({ code: 'store_corrupt' });
  });
});

test('a record that others replace all the time is given up', async () => {
  const store = Object.assign(new MemoryRecord(), { replace: async () => false });
  await expect(check(store, [OLD])).rejects.toMatchObject({ code: 'store_unavailable' });
});

test('keys are made under peppers that were checked and found right, and under no others', () => {
  expect(() => refuseUnlessRight('right')).not.toThrow();
  expect(() => refuseUnlessRight('mismatch')).toThrow(expect.objectContaining({ code: 'pepper_mismatch' }));
  expect(() => refuseUnlessRight('unchecked')).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
});
