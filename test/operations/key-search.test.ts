import { expect, test } from 'vitest';
import type { KeyScan } from '../../src/identify/record-store.ts';
import { searchKeys } from '../../src/operations/key-search.ts';
import { EVERYTHING } from '../contracts/key-search.ts';
import { FakeCustomers } from '../identify/fake-store.ts';
import { someKey } from '../identify/some-key.ts';

const customers = new FakeCustomers();
const MILLION = 1_000_000;

/** A list of a million keys of which none is found but, if `matches` is set, all. */
function millionKeys(matches: boolean) {
  const { key } = someKey({ createdAtMs: 0 });
  const reads: number[] = [];
  const scan = async ({ most, cursor }: { most: number; cursor: string | null }): Promise<KeyScan> => {
    reads.push(most);
    const from = cursor === null ? 0 : Number(cursor);
    const searched = Math.min(most, MILLION - from);
    const found = matches ? Array.from({ length: searched }, (_, i) => ({ key, place: i + 1 })) : [];
    return { found, searched, cursor: from + searched < MILLION ? String(from + searched) : null };
  };
  return { reads, keys: { scan, get: async () => null } };
}

test('a page of a search without matches ends after bounded work, reads a few keys at a time, and the pages reach the end', async () => {
  const { reads, keys } = millionKeys(false);
  const history = { lastUsedMs: async () => [] };
  let cursor: string | null = null;
  let pages = 0;
  let searched = 0;
  do {
    const page = await searchKeys(
      { ...EVERYTHING, text: 'none' },
      { limit: 100, cursor },
      { keys, customers, history, peppers: ['p'], nowMs: 1 },
    );
    expect(page.keys).toEqual([]);
    expect(page.searched).toBeLessThanOrEqual(100_250);
    pages++;
    searched += page.searched;
    cursor = page.cursor;
  } while (cursor !== null);
  expect([searched, pages]).toEqual([MILLION, 10]);
  expect(Math.max(...reads)).toBeLessThanOrEqual(250);
});

test('a page ends sooner if the last use of each key has to be looked up', async () => {
  const { keys } = millionKeys(true);
  const nowMs = Date.UTC(2026, 10, 22);
  // All were used today.
  const history = { lastUsedMs: async (ids: readonly string[]) => ids.map(() => nowMs) };
  const page = await searchKeys(
    { ...EVERYTHING, unusedDays: 30 },
    { limit: 100, cursor: null },
    { keys, customers, history, peppers: ['p'], nowMs },
  );
  expect(page).toEqual({ keys: [], unreadable: [], cursor: expect.any(String), searched: expect.any(Number) });
  expect(page.searched).toBeLessThanOrEqual(20_250);
});
