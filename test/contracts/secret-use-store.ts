import { beforeEach, expect, test } from 'vitest';
import { MAX_USES_OF_KEY, type SecretUse, type SecretUseStore } from '../../src/identify/secret-use-store.ts';

/** What every SecretUseStore promises. `open` gives an empty store. */
export function secretUseStoreContract(open: () => Promise<SecretUseStore>): void {
  let store: SecretUseStore;
  beforeEach(async () => {
    store = await open();
  });
  const use = (keyId: string, secret: string, day: string, present = [secret]): SecretUse => ({
    ...{ keyId, secret, day, present },
  });

  test('has the last day of each secret of each key, and null for what was never noted', async () => {
    await store.note([use('a', '1 x', '2026-11-20'), use('a', '2 y', '2026-11-21'), use('b', '1 x', '2026-11-22')]);
    await store.note([use('a', '1 x', '2026-11-23')]);
    expect(await store.of('a', ['2 y', '1 x', 'none'])).toEqual(['2026-11-21', '2026-11-23', null]);
    expect(await store.of('b', ['1 x'])).toEqual(['2026-11-22']);
    expect([await store.of('a', []), await store.of('c', ['1 x'])]).toEqual([[], [null]]);
  });

  test('keeps a bounded number for a key that is rotated without end: those that it still has (reliability 267)', async () => {
    const present = ['old', 'new'];
    await store.note([use('a', 'old', '2026-11-20', present)]);
    for (let i = 0; i < MAX_USES_OF_KEY; i++) await store.note([use('a', `ended ${i}`, '2026-11-21', present)]);
    await store.note([use('a', 'new', '2026-11-22', present)]);
    const ended = Array.from({ length: MAX_USES_OF_KEY }, (_, i) => `ended ${i}`);
    const kept = (await store.of('a', ended)).filter((day) => day !== null);
    expect(kept.length).toBeLessThan(MAX_USES_OF_KEY);
    expect(await store.of('a', present)).toEqual(['2026-11-20', '2026-11-22']);
  });

  test('forgets a key and no other', async () => {
    await store.note([use('a', 'x', '2026-11-20'), use('b', 'x', '2026-11-20')]);
    await store.forget('a');
    expect([await store.of('a', ['x']), await store.of('b', ['x'])]).toEqual([[null], ['2026-11-20']]);
  });
}
