import { expect, test } from 'vitest';
import { listChanges } from '../../src/operations/audit-report.ts';
import type { AuditStore, KeptRecord } from '../../src/operations/audit-store.ts';
import { FakeAuditStore } from '../admin/fake-audit-store.ts';

/** A history whose records have these times, the oldest first. */
function historyOf(times: readonly number[]) {
  const reads: (number | null)[] = [];
  const actor = { kind: 'token', name: 'ADMIN_TOKEN' };
  const text = JSON.stringify({ action: 'key.update', outcome: 'done', actor, after: null });
  const records: KeptRecord[] = times.map((atMs, i) => ({ number: i + 1, id: `r${i + 1}`, atMs, text }));
  const list = async ({ limit, before }: { readonly limit: number; readonly before: number | null }) => {
    reads.push(before);
    return records
      .slice(0, (before ?? times.length + 1) - 1)
      .slice(-limit)
      .toReversed();
  };
  const store: AuditStore = Object.assign(new FakeAuditStore(), { list });
  return { store, reads };
}

const ANY = { key: null, actor: null, action: null, sinceMs: null, untilMs: null };
const FILTER = { ...ANY, sinceMs: 1_000 };

test('changes since a moment include those before one that was recorded while the clock was behind', async () => {
  const { store } = historyOf([10, 1_001, 20, 1_003, 9_999, 1_005]);
  const { changes, cursor } = await listChanges(store, FILTER, { limit: 10, cursor: null });
  expect(changes.map(({ id }) => id)).toEqual(['r6', 'r5', 'r4', 'r2']);
  expect(cursor).toBeNull();
});

test('a history is read no further than a part that is older than the moment', async () => {
  const { store, reads } = historyOf([...Array(10_000).fill(10), 1_001]);
  const { changes } = await listChanges(store, FILTER, { limit: 10, cursor: null });
  expect(changes.map(({ id }) => id)).toEqual(['r10001']);
  expect(reads).toHaveLength(2);
});

test('changes of one kind before a moment are listed', async () => {
  const { store } = historyOf([1_001, 1_002, 1_003]);
  const idsOf = async (filter: Partial<Parameters<typeof listChanges>[1]>) => {
    const { changes } = await listChanges(store, { ...ANY, ...filter }, { limit: 10, cursor: null });
    return changes.map(({ id }) => id);
  };
  expect(await idsOf({ untilMs: 1_003, sinceMs: 1_002 })).toEqual(['r2']);
  expect(await idsOf({ action: 'key.update' })).toEqual(['r3', 'r2', 'r1']);
  expect(await idsOf({ action: 'key.revoke' })).toEqual([]);
});

test('an entry that cannot be read is listed once, whatever its time, and counts towards the limit (reliability 390)', async () => {
  const { store } = historyOf([1_001, 1_002, 1_003, 1_004]);
  const list = store.list.bind(store);
  const damaged = async (page: Parameters<typeof list>[0]) =>
    (await list(page)).map((one) =>
      one.number === 2 ? { ...one, id: '2', atMs: null, text: 'x' } : one.number === 3 ? { ...one, text: '{' } : one,
    );
  const broken: AuditStore = Object.assign(store, { list: damaged });
  const found: (readonly string[])[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: Awaited<ReturnType<typeof listChanges>> = await listChanges(broken, FILTER, { limit: 2, cursor });
    found.push([...page.changes, ...page.unreadable].map(({ id }) => id));
    cursor = page.cursor;
    if (cursor === null) break;
  }
  expect(found).toEqual([
    ['r4', 'r3'],
    ['r1', '2'],
  ]);
  const early = await listChanges(broken, { ...ANY, untilMs: 1_003 }, { limit: 9, cursor: null });
  expect([early.changes.length, early.unreadable.map(({ id }) => id)]).toEqual([1, ['2']]);
});
