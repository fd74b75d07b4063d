import { beforeEach, expect, test } from 'vitest';
import { type ExplanationStore, HOUR_MS, HOURS_KEPT, MAX_OF_HOUR } from '../../src/operations/explanation-store.ts';

const NOW_MS = Date.UTC(2026, 10, 30, 12, 30);

/** What every ExplanationStore promises. `open` gives an empty store. */
export function explanationStoreContract(open: () => Promise<ExplanationStore>): void {
  let store: ExplanationStore;
  beforeEach(async () => {
    store = await open();
  });
  const one = (requestId: string, atMs = NOW_MS, text = `why ${requestId}`) => ({ requestId, atMs, text });

  test('has the texts of a request id of the last day, and nothing of another', async () => {
    await store.keep([one('a'), one('b'), one('a', NOW_MS - HOUR_MS, 'before')]);
    expect(await store.of('a', NOW_MS)).toEqual(['why a', 'before']);
    expect([await store.of('b', NOW_MS), await store.of('c', NOW_MS)]).toEqual([['why b'], []]);
    expect(await store.of('a', NOW_MS + HOURS_KEPT * HOUR_MS)).toEqual(['why a']);
    expect(await store.of('a', NOW_MS + (HOURS_KEPT + 1) * HOUR_MS)).toEqual([]);
  });

  test('keeps a bounded number of an hour, of which none is pushed out or replaced (reliability 499)', async () => {
    await store.keep([one('first')]);
    await store.keep([one('first', NOW_MS, 'another while there is room')]);
    await store.keep(Array.from({ length: 2 * MAX_OF_HOUR }, (_, i) => one(`flood-${i}`)));
    await store.keep([one('first', NOW_MS, 'another'), one('late'), one('next', NOW_MS + HOUR_MS)]);
    const kept = ['first', `flood-${MAX_OF_HOUR - 2}`, `flood-${MAX_OF_HOUR - 1}`, 'late', 'next'];
    const found = await Promise.all(kept.map((id) => store.of(id, NOW_MS + HOUR_MS)));
    expect(found).toEqual([['why first'], [`why flood-${MAX_OF_HOUR - 2}`], [], [], ['why next']]);
  });
}
