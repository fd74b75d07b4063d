import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { newKey } from '../../src/identify/key-changes.ts';
import type { KeyPage, StoredKey } from '../../src/identify/key-store.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { adminApiWith } from './in-process.ts';

const plan = { name: 'free', limits: { minute: 5 }, bans: null, enforce: true, shadow: {} };

/** A store that gives pages, and notes how much is asked of it at once. */
class PagedStore extends FakeStore {
  underWay = 0;
  most = { underWay: 0, limit: 0 };
  readonly #all: StoredKey[];
  constructor(keys: number) {
    super();
    let n = 0;
    const random = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => (n++ * 7 + i) % 248);
    const means = { plans: new Map([['free', plan]]), pepper: 'p', random, nowMs: 1 };
    const wishes = { plan: 'free', limits: {}, name: null, owner: null, expiresAtMs: null };
    this.#all = Array.from({ length: keys }, (_, i) => ({ ...newKey(wishes, means).key, id: `key_${i}` }));
  }
  override async list(page?: { readonly limit: number; readonly cursor: string | null }): Promise<KeyPage> {
    const { limit, cursor } = page!;
    this.underWay++;
    this.most = { underWay: Math.max(this.most.underWay, this.underWay), limit: Math.max(this.most.limit, limit) };
    await turn();
    this.underWay--;
    const from = cursor === null ? 0 : this.#all.findIndex(({ id }) => id === cursor) + 1;
    const keys = this.#all.slice(from, from + limit);
    return { keys, cursor: from + limit < this.#all.length ? keys.at(-1)!.id : null };
  }
}

test('however many lists of keys are asked for at once, the store is read by one of them, a hundred keys at a time', async () => {
  const store = new PagedStore(950);
  const { it } = await adminApiWith(store);
  const told = await Promise.all(Array.from({ length: 8 }, () => it('GET', '/admin/keys?limit=900')));
  for (const { status, body } of told) {
    expect([status, body.keys.length, body.cursor]).toEqual([200, 900, 'key_899']);
    expect(new Set(body.keys.map(({ id }: { id: string }) => id)).size).toBe(900);
  }
  expect(store.most).toEqual({ underWay: 1, limit: 100 });
});
