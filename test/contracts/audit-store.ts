import { beforeEach, describe, expect, test } from 'vitest';
import { type AuditStore, MAX_REFUSALS } from '../../src/operations/audit-store.ts';

const KEEP = { number: null, keep: 1_000, isLasting: true };

/**
 * What every AuditStore promises. `open` gives an empty store, twice: as two processes would have it, each with a connection
 * of its own.
 */
export function auditStoreContract(
  open: () => Promise<{ readonly here: AuditStore; readonly there: AuditStore }>,
): void {
  let here: AuditStore;
  let there: AuditStore;
  beforeEach(async () => {
    ({ here, there } = await open());
  });
  const texts = async (page = { limit: 1_000, before: null as number | null }) =>
    (await there.list(page)).map(({ text }) => text);

  describe('a record', () => {
    test('is there when put resolves, also elsewhere, with its number and the time', async () => {
      expect(await there.list({ limit: 10, before: null })).toEqual([]);
      const beforeMs = Date.now() - 1_000;
      const text = JSON.stringify({ name: 'Ünïcode 🐟', two: 'lines\nof text' });
      const number = await here.put({ id: 'a', revision: 1, text }, KEEP);
      const [kept, ...more] = await there.list({ limit: 10, before: null });
      expect([kept, more]).toEqual([{ id: 'a', text, number, atMs: expect.any(Number) }, []]);
      expect(kept!.atMs).toBeGreaterThan(beforeMs);
      expect(kept!.atMs).toBeLessThan(Date.now() + 1_000);
    });

    test('that is put again replaces its earlier version and stays where and when it was', async () => {
      const number = await here.put({ id: 'a', revision: 1, text: 'begun' }, KEEP);
      const [first] = await there.list({ limit: 1, before: null });
      await there.put({ id: 'b', revision: 1, text: 'other' }, KEEP);
      expect(await there.put({ id: 'a', revision: 2, text: 'done' }, { ...KEEP, number })).toBe(number);
      expect(await texts()).toEqual(['other', 'done']);
      expect((await here.list({ limit: 10, before: null }))[1]).toEqual({ ...first, text: 'done' });
    });

    test('that is put again as an earlier version stays what it became', async () => {
      const number = await here.put({ id: 'a', revision: 2, text: 'done' }, KEEP);
      expect(await there.put({ id: 'a', revision: 1, text: 'begun' }, { ...KEEP, number })).toBe(number);
      expect(await texts()).toEqual(['done']);
    });

    test('whose number was lost with the answer is found by its id', async () => {
      await here.put({ id: 'a', revision: 1, text: 'begun' }, KEEP);
      await here.put({ id: 'b', revision: 1, text: 'other' }, KEEP);
      await here.put({ id: 'a', revision: 2, text: 'done' }, KEEP);
      expect(await texts()).toEqual(['other', 'done']);
    });
  });

  describe('what was recorded of a file', () => {
    test('is replaced by the one that finds what it expects, for each file apart', async () => {
      expect(await here.exchangeLoad('plans', { from: 'A', to: 'A', since: null })).toEqual({
        found: null,
        number: 1,
        known: null,
      });
      expect(await here.exchangeLoad('plans', { from: 'A', to: 'B !C', since: null })).toEqual({
        found: 'A',
        number: 2,
        known: null,
      });
      expect(await there.exchangeLoad('plans', { from: 'A', to: 'B !C', since: null })).toEqual({
        found: 'B !C',
        number: 2,
        known: null,
      });
      expect(await there.exchangeLoad('settings', { from: 'A', to: 'X', since: null })).toEqual({
        found: null,
        number: 1,
        known: null,
      });
      expect(await there.exchangeLoad('plans', { from: null, to: 'D', since: null })).toEqual({
        found: 'B !C',
        number: 3,
        known: null,
      });
      expect(await here.exchangeLoad('plans', { from: 'B !C', to: 'E', since: null })).toEqual({
        found: 'D',
        number: 3,
        known: null,
      });
    });

    test('is not replaced by what was recorded since a number, of the last twenty states', async () => {
      for (const to of ['A', 'B', 'A', 'B']) await here.exchangeLoad('plans', { from: null, to, since: null });
      expect(await there.exchangeLoad('plans', { from: 'A', to: 'B', since: 1 })).toMatchObject({
        number: 4,
        known: 2,
      });
      expect(await there.exchangeLoad('plans', { from: 'A', to: 'B', since: 2 })).toMatchObject({
        number: 4,
        known: 4,
      });
      expect(await there.exchangeLoad('settings', { from: 'A', to: 'B', since: 0 })).toMatchObject({
        number: 1,
        known: null,
      });
      for (let i = 0; i < 20; i++) await here.exchangeLoad('plans', { from: null, to: `v${i}`, since: null });
      expect(await there.exchangeLoad('plans', { from: 'X', to: 'B', since: 1 })).toEqual({
        found: 'v19',
        number: 24,
        known: null,
      });
      expect(await there.exchangeLoad('plans', { from: 'X', to: 'v0', since: 4 })).toMatchObject({ known: 5 });
    });

    test('is replaced by one of many at once', async () => {
      await here.exchangeLoad('plans', { from: null, to: 'A', since: null });
      const all = [1, 2, 3, 4, 5, 6].map((i) =>
        (i % 2 ? here : there).exchangeLoad('plans', { from: 'A', to: 'B', since: null }),
      );
      const found = (await Promise.all(all)).map((one) => one.found);
      expect(found.filter((state) => state === 'A')).toHaveLength(1);
    });
  });

  describe('records', () => {
    test('are listed newest first, page by page, each once', async () => {
      for (let i = 0; i < 25; i++)
        await (i % 2 ? here : there).put({ id: `r${i}`, revision: 1, text: String(i) }, KEEP);
      const found: string[] = [];
      for (let before: number | null = null; ; ) {
        const page = await here.list({ limit: 10, before });
        found.push(...page.map(({ text }) => text));
        // What is added meanwhile moves none from one page to the next.
        await there.put({ id: `later${found.length}`, revision: 1, text: 'later' }, KEEP);
        if (page.length < 10) break;
        before = page.at(-1)!.number;
      }
      expect(found).toEqual(Array.from({ length: 25 }, (_, i) => String(24 - i)));
    });

    test('that are put at the same time are all kept, their times in the order of their numbers', async () => {
      const ids = Array.from({ length: 40 }, (_, i) => `r${i}`);
      await Promise.all(ids.map((id, i) => (i % 2 ? here : there).put({ id, revision: 1, text: id }, KEEP)));
      const kept = await there.list({ limit: 100, before: null });
      expect(kept.map(({ id }) => id).sort()).toEqual(ids.sort());
      expect(kept.map(({ atMs }) => atMs)).toEqual(kept.map(({ atMs }) => atMs).sort((a, b) => b! - a!));
      expect(new Set(kept.map(({ number }) => number)).size).toBe(40);
    });

    test('are no more than are to be kept: the oldest go, also after the number was lowered', async () => {
      for (let i = 0; i < 8; i++) await here.put({ id: `r${i}`, revision: 1, text: String(i) }, { ...KEEP, keep: 5 });
      expect(await texts()).toEqual(['7', '6', '5', '4', '3']);
      await there.put({ id: 'last', revision: 1, text: 'last' }, { ...KEEP, keep: 2 });
      expect(await texts()).toEqual(['last', '7']);
    });

    test('that are begun remove none, and those that are removed leave the others their places', async () => {
      const keep = { ...KEEP, keep: 3 };
      for (let i = 0; i < 3; i++) await here.put({ id: `r${i}`, revision: 1, text: String(i) }, keep);
      // Two gateways at the same time, so that none of the records is ever the last one.
      let before = await there.put({ id: 'x', revision: 1, text: 'begun' }, { ...KEEP, keep: null });
      for (let i = 0; i < 300; i++) {
        const number = await here.put({ id: `x${i}`, revision: 1, text: 'begun' }, { ...KEEP, keep: null });
        await there.remove(i === 0 ? 'x' : `x${i - 1}`, i % 2 ? before : null);
        before = number;
      }
      expect(await texts()).toEqual(['begun', '2', '1', '0']);
      await there.put({ id: 'x299', revision: 2, text: 'done' }, { ...keep, number: before });
      expect(await texts()).toEqual(['done', '2', '1']);
      expect(await texts({ limit: 1, before })).toEqual(['2']);
      await here.put({ id: 'last', revision: 1, text: 'last' }, keep);
      expect(await texts()).toEqual(['last', 'done', '2']);
    });

    test('of which the last ones are removed do not use their numbers up', async () => {
      const first = await here.put({ id: 'a', revision: 1, text: 'a' }, KEEP);
      for (let i = 0; i < 20; i++) {
        const number = await here.put({ id: `x${i}`, revision: 1, text: 'begun' }, { ...KEEP, keep: null });
        await here.remove(`x${i}`, number);
      }
      await here.remove('none', null);
      expect(await texts()).toEqual(['a']);
      expect(await there.put({ id: 'b', revision: 1, text: 'b' }, KEEP)).toBeGreaterThan(first);
      expect(await texts()).toEqual(['b', 'a']);
    });
  });

  describe('refused attempts', () => {
    const refuse = (actor: string, action: string, id: string, text = id) => here.refuse({ id, actor, action, text });

    test('of one actor at one action in a minute are one entry, with their count, their times and the text of the last', async () => {
      const beforeMs = Date.now() - 1_000;
      for (let i = 0; i < 50; i++) await refuse('jo', 'key.revoke', `id${i}`, `text ${i}\n🐟`);
      await there.refuse({ id: 'other', actor: 'jo', action: 'key.update', text: 'u' });
      await there.refuse({ id: 'else', actor: 'ann', action: 'key.revoke', text: 'a' });
      const kept = await there.refusals();
      const revoked = kept.filter(({ text }) => text.startsWith('text'));
      // The minute may have turned meanwhile.
      expect(revoked.length).toBeLessThanOrEqual(2);
      expect(revoked.reduce((sum, { count }) => sum + count, 0)).toBe(50);
      expect(revoked.map(({ text }) => text)).toContain('text 49\n🐟');
      expect(revoked.map(({ id }) => id)).toContain('id0');
      for (const { firstMs, lastMs } of kept) {
        expect(firstMs).toBeGreaterThan(beforeMs);
        expect(lastMs).toBeGreaterThanOrEqual(firstMs!);
        expect(lastMs).toBeLessThan(Date.now() + 1_000);
      }
      expect(kept.filter(({ count }) => count === 1).map(({ id }) => id)).toEqual(
        expect.arrayContaining(['other', 'else']),
      );
      expect(await texts()).toEqual([]);
    });

    test('have a bound of their own: the actor with most entries loses one, and no record is removed', async () => {
      await here.put({ id: 'a', revision: 1, text: 'made' }, { ...KEEP, keep: 3 });
      await refuse('jo', 'key.revoke', 'jo1');
      const actions = Array.from({ length: MAX_REFUSALS + 50 }, (_, i) => `action${i}`);
      await Promise.all(actions.map((action) => refuse('flood', action, action)));
      await refuse('ann', 'key.revoke', 'ann1');
      const kept = await there.refusals();
      expect(kept).toHaveLength(MAX_REFUSALS);
      expect(kept.map(({ id }) => id)).toEqual(expect.arrayContaining(['jo1', 'ann1']));
      expect(await texts()).toEqual(['made']);
    });
  });
}
