import { beforeEach, expect, test } from 'vitest';
import type { KeyNetworkStore } from '../../src/operations/key-network-store.ts';

/** What every KeyNetworkStore promises. `open` gives an empty store. */
export function keyNetworkStoreContract(open: () => Promise<KeyNetworkStore>): void {
  let store: KeyNetworkStore;
  beforeEach(async () => {
    store = await open();
  });

  test('has the record of each key, and null for a key without one', async () => {
    const swaps = ['a', 'b'].map((keyId) => ({ keyId, before: null, after: `record of ${keyId}` }));
    expect(await store.swap(swaps)).toEqual([true, true]);
    expect(await store.read(['b', 'c', 'a'])).toEqual(['record of b', null, 'record of a']);
    expect(await store.read([])).toEqual([]);
  });

  test('writes no record that another gateway has changed since it was read, and the others', async () => {
    await store.swap([{ keyId: 'a', before: null, after: 'first' }]);
    const swaps = [
      { keyId: 'a', before: null, after: 'late' },
      { keyId: 'b', before: null, after: 'new' },
    ];
    expect(await store.swap(swaps)).toEqual([false, true]);
    expect(await store.swap([{ keyId: 'a', before: 'first', after: 'second' }])).toEqual([true]);
    expect(await store.read(['a', 'b'])).toEqual(['second', 'new']);
  });

  test('forgets a key and no other', async () => {
    await store.swap(['a', 'b'].map((keyId) => ({ keyId, before: null, after: keyId })));
    await store.forget('a');
    expect(await store.read(['a', 'b'])).toEqual([null, 'b']);
  });
}
