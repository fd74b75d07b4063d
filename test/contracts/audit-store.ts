import { beforeEach, describe, expect, test } from 'vitest';
import type { AuditStore } from '../../src/operations/audit-store.ts';

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
      expect(kept.map(({ atMs }) => atMs)).toEqual(kept.map(({ atMs }) => atMs).sort((a, b) => b - a));
      expect(new Set(kept.map(({ number }) => number)).size).toBe(40);
    });

    test('are no more than are to be kept: the oldest go, also after the number was lowered', async () => {
      for (let i = 0; i < 8; i++) await here.put({ id: `r${i}`, revision: 1, text: String(i) }, { ...KEEP, keep: 5 });
      expect(await texts()).toEqual(['7', '6', '5', '4', '3']);
      await there.put({ id: 'last', revision: 1, text: 'last' }, { ...KEEP, keep: 2 });
      expect(await texts()).toEqual(['last', '7']);
    });
  });
}
