import { beforeEach, describe, expect, test } from 'vitest';
import { DURABLE } from '../../src/admit/ledger.ts';
import { Failure } from '../../src/failure.ts';
import type { KeyStore, RecordPage } from '../../src/identify/record-store.ts';
import { certificateDigest } from '../../src/model/client-certificates.ts';
import type { StoredKey } from '../../src/model/record.ts';
import { deleted, revoked, rotated } from '../../src/operations/key-changes.ts';
import { someKey } from '../identify/some-key.ts';

/**
 * What every KeyStore promises. `open` gives an empty store, twice: as two processes would have it, each with a
 * connection of its own.
 */
export function keyStoreContract(open: () => Promise<{ readonly here: KeyStore; readonly there: KeyStore }>): void {
  let here: KeyStore;
  let there: KeyStore;
  beforeEach(async () => {
    ({ here, there } = await open());
  });
  const everyKey = async (limit = 100) => {
    const pages: RecordPage<StoredKey>['records'][] = [];
    for (let cursor: string | null = null; ; ) {
      const page = await there.list({ limit, cursor });
      pages.push(page.records);
      cursor = page.cursor;
      if (cursor === null) return pages;
    }
  };

  describe('an id that is reserved for a name', () => {
    test('is the first one, for all that ask at the same time (reliability 251)', async () => {
      const ids = await Promise.all(
        [here, there, here, there].map((store, i) => store.reserve('some name', `key_${i}`, 60_000)),
      );
      expect(new Set(ids).size).toBe(1);
      expect(await there.reserve('another name', 'key_other', 60_000)).toBe('key_other');
    });

    test('is free again when its time has passed', async () => {
      expect(await here.reserve('short', 'key_a', 1)).toBe('key_a');
      await expect.poll(() => there.reserve('short', 'key_b', 60_000)).toBe('key_b');
    });
  });

  describe('a key that was created', () => {
    test('is found whole by its digest and by its id, also elsewhere', async () => {
      const { key, digest } = someKey({
        limits: { minute: 5, day: 'unlimited' },
        name: 'Ünïcode 🐟',
        owner: 'o',
        notes: 'two\nlines',
        creation: { salt: 's', body: 'b' },
        expiresAtMs: 9,
      });
      expect(await here.create(key)).toEqual(DURABLE);
      for (const store of [here, there]) {
        expect(await store.findByDigest(digest)).toEqual(key);
        expect(await store.get(key.id)).toEqual(key);
      }
    });

    test('is found although it is revoked or expired', async () => {
      const { key, digest } = someKey({ revokedAtMs: 1, expiresAtMs: 2 });
      await here.create(key);
      expect(await there.findByDigest(digest)).toEqual(key);
    });

    test('is not made again under the same id, and stays as it was', async () => {
      const { key } = someKey();
      await here.create(key);
      const twin = someKey({ id: key.id, plan: 'free' });
      await expect(there.create(twin.key)).rejects.toMatchObject({ code: 'refused' });
      expect(await here.get(key.id)).toEqual(key);
      expect(await here.findByDigest(twin.digest)).toBeNull();
    });

    test('keeps its secret to itself: another key with it is refused whole', async () => {
      const { key, digest } = someKey();
      await here.create(key);
      const thief = someKey({ secrets: key.secrets });
      await expect(there.create(thief.key)).rejects.toMatchObject({ code: 'refused' });
      expect(await here.get(thief.key.id)).toBeNull();
      expect((await here.findByDigest(digest))?.id).toBe(key.id);
      expect((await everyKey()).flat()).toEqual([key]);
    });
  });

  describe('many keys at once', () => {
    test('are each created whole or not at all, and of each it is said', async () => {
      const [one, two, three] = [someKey(), someKey(), someKey()];
      await there.create(one.key);
      const sameId = someKey({ id: one.key.id });
      const sameSecret = someKey({ secrets: one.key.secrets });
      const keys = [two.key, sameId.key, sameSecret.key, three.key];
      expect(await here.createEach(keys)).toEqual(['created', 'taken', 'taken', 'created']);
      for (const { key, digest } of [one, two, three]) expect(await there.findByDigest(digest)).toEqual(key);
      expect(await there.findByDigest(sameId.digest)).toBeNull();
      expect(await there.get(sameSecret.key.id)).toBeNull();
      expect((await everyKey()).flat()).toHaveLength(3);
    });

    test('that are the same one are created once', async () => {
      const { key } = someKey();
      expect([...(await here.createEach([key, key]))].sort()).toEqual(['created', 'taken']);
      expect((await everyKey()).flat()).toEqual([key]);
    });

    test('may be none', async () => {
      expect(await here.createEach([])).toEqual([]);
    });
  });

  test.each(['', 'unknown', '__proto__', '*', "'; DROP TABLE keys", '\0'])('%j finds nothing', async (text) => {
    expect(await here.findByDigest(text)).toBeNull();
    expect(await here.get(text)).toBeNull();
    expect(await here.update(text, (key) => key)).toBeNull();
  });

  describe('a change', () => {
    test('is seen elsewhere at once', async () => {
      const { key, digest } = someKey();
      await here.create(key);
      const changed = await here.update(key.id, (before) => ({ ...before, plan: 'business' }));
      expect(changed).toEqual({ record: { ...key, plan: 'business' }, durability: DURABLE });
      expect(await there.findByDigest(digest)).toEqual(changed!.record);
    });

    test('loses no other change made at the same time', async () => {
      const { key } = someKey({ name: '' });
      await here.create(key);
      const letters = [...'abcdefghijklmnopqrst'];
      await Promise.all(
        letters.map((letter, i) =>
          (i % 2 ? here : there).update(key.id, (before) => ({ ...before, name: before.name + letter })),
        ),
      );
      expect([...(await here.get(key.id))!.name!].sort()).toEqual(letters);
    });

    test('that throws comes through, and nothing is stored', async () => {
      const { key, digest } = someKey();
      await here.create(key);
      const fault = new Failure('refused', 'no');
      const refuse = () => {
        throw fault;
      };
      await expect(here.update(key.id, refuse)).rejects.toBe(fault);
      expect(await there.findByDigest(digest)).toEqual(key);
      expect(await here.update(key.id, (before) => ({ ...before, plan: 'free' }))).toMatchObject({
        record: { plan: 'free' },
      });
    });

    test('takes away a secret: it can no longer be found, the new one can', async () => {
      const { key, digest } = someKey();
      const next = someKey();
      await here.create(key);
      await here.update(key.id, (before) => ({ ...before, secrets: next.key.secrets }));
      expect(await there.findByDigest(digest)).toBeNull();
      expect((await there.findByDigest(next.digest))?.id).toBe(key.id);
    });

    test('that retires a secret keeps whose it was, and nobody else gets it', async () => {
      const { key, digest } = someKey();
      const next = someKey();
      await here.create(key);
      const retire = (before: StoredKey) => rotated(before, next.key.secrets[0]!, 0, 5);
      const after = (await here.update(key.id, retire))!.record;
      expect(after).toMatchObject({ retired: [digest] });
      expect(await there.findByDigest(digest)).toBeNull();
      for (const one of [digest, next.digest]) expect(await there.ownerOf(one)).toEqual(after);
      const thief = someKey({ secrets: key.secrets });
      await expect(there.create(thief.key)).rejects.toMatchObject({ code: 'refused' });
      expect(await there.createEach([thief.key])).toEqual(['taken']);
      await here.update(key.id, (before) => ({ ...before, retired: [] }));
      expect(await there.ownerOf(digest)).toBeNull();
      expect(await there.ownerOf('unknown')).toBeNull();
    });

    test('cannot take the secret of another key', async () => {
      const mine = someKey();
      const yours = someKey();
      await here.create(mine.key);
      await here.create(yours.key);
      const steal = (before: StoredKey) => ({ ...before, secrets: [...before.secrets, ...yours.key.secrets] });
      await expect(here.update(mine.key.id, steal)).rejects.toMatchObject({ code: 'refused' });
      expect((await there.findByDigest(yours.digest))?.id).toBe(yours.key.id);
      expect(await there.get(mine.key.id)).toEqual(mine.key);
    });

    test('carries along what a later version has stored and this one does not know', async () => {
      const { key, digest } = someKey();
      const fromLater = { ...key, region: 'eu', secrets: [{ ...key.secrets[0]!, origin: 'admin' }] };
      await here.create(fromLater);
      await here.update(key.id, (before) => ({ ...before, plan: 'free' }));
      expect(await there.findByDigest(digest)).toEqual({ ...fromLater, plan: 'free' });
    });
  });

  describe('a name of client certificates', () => {
    const SHOP = 'uri:spiffe://example.com/shop';
    const certificates = [SHOP, 'dns:shop.internal'];
    const owners = () =>
      Promise.all(certificates.map((name) => there.ownerOf(certificateDigest(name)).then((key) => key?.id ?? null)));

    test('belongs to one key: another one is not made with it, nor given it, and stays as it was (reliability 274)', async () => {
      const { key } = someKey({ certificates });
      await here.create(key);
      expect(await owners()).toEqual([key.id, key.id]);
      const { key: other, digest } = someKey({ certificates: ['dns:other', SHOP] });
      await expect(there.create(other)).rejects.toThrow('There is already a key with this certificate.');
      expect([await here.get(other.id), await here.findByDigest(digest)]).toEqual([null, null]);
      expect(await here.createEach([other, someKey().key])).toEqual(['taken', 'created']);
      const { certificates: _, ...without } = other;
      await there.create(without);
      const change = there.update(other.id, (present) => ({ ...present, certificates: [SHOP] }));
      await expect(change).rejects.toThrow('There is already a key with this certificate.');
      expect(await here.get(other.id)).toEqual(without);
      expect(await owners()).toEqual([key.id, key.id]);
      // No secret is found by the name of a certificate.
      expect(await here.findByDigest(certificateDigest(SHOP))).toBeNull();
    });

    test('is free for another key once its key gives it up, is revoked or is deleted', async () => {
      for (const end of [
        (key: StoredKey) => ({ ...key, certificates: ['dns:shop.internal'] }),
        (key: StoredKey) => revoked(key, 9),
      ]) {
        const [{ key }, { key: next }] = [someKey({ certificates: [SHOP] }), someKey({ certificates: [SHOP] })];
        await here.create(key);
        await here.update(key.id, end);
        await there.create(next);
        expect(await owners()).toContain(next.id);
        await here.update(key.id, (present) => revoked(present, 9));
        await here.update(next.id, (present) => revoked(present, 9));
        await here.delete(next.id, (present) => deleted(present, 10));
        expect(await owners()).toEqual([null, null]);
      }
    });
  });

  test('a rotation and a revocation at the same time both take effect', async () => {
    for (let round = 0; round < 10; round++) {
      const { key, digest } = someKey();
      const fresh = someKey();
      await here.create(key);
      const results = await Promise.allSettled([
        here.update(key.id, (before) => rotated(before, fresh.key.secrets[0]!, 1_000, 5)),
        there.update(key.id, (before) => revoked(before, 5)),
      ]);
      // The rotation may come second and is then refused; the revocation is never lost.
      const isRotated = results[0].status === 'fulfilled';
      const after = await here.findByDigest(digest);
      expect(after).toMatchObject({ revokedAtMs: 5 });
      expect(after!.secrets).toHaveLength(isRotated ? 2 : 1);
      expect((await there.findByDigest(fresh.digest))?.revokedAtMs).toBe(isRotated ? 5 : undefined);
    }
  });

  test('a secret that two gateways re-hash to and fro stays to be found', async () => {
    for (let round = 0; round < 10; round++) {
      const { key } = someKey();
      const [first] = key.secrets;
      await here.create(key);
      const put = (store: KeyStore, i: number) =>
        store.update(key.id, (before) => ({ ...before, secrets: [{ ...first!, digest: `${key.id}.${i % 3 && 1}` }] }));
      await Promise.all(Array.from({ length: 20 }, (_, i) => put(i % 2 ? here : there, i)));
      const after = (await here.get(key.id))!;
      expect(await here.findByDigest(after.secrets[0]!.digest)).toEqual(after);
    }
  });

  describe('a key that is deleted', () => {
    const bury = (key: StoredKey) => deleted(key, 9);
    const gone = async () => {
      const { key, digest } = someKey({ revokedAtMs: 1, name: 'n', owner: 'o', notes: 'x', retired: ['before'] });
      await here.create(key);
      return { key, digest, done: await here.delete(key.id, bury) };
    };

    test('is gone everywhere: by id, by digest and from the list, and cannot be changed', async () => {
      const { key, digest, done } = await gone();
      expect(done).toEqual({ before: key, durability: DURABLE });
      for (const store of [here, there]) {
        expect(await store.get(key.id)).toBeNull();
        expect(await store.findByDigest(digest)).toBeNull();
        expect(await store.update(key.id, (before) => ({ ...before, plan: 'free' }))).toBeNull();
      }
      expect((await everyKey()).flat()).toEqual([]);
    });

    test('leaves a tombstone of its id and digests alone, which no new key can take', async () => {
      const { key, digest } = await gone();
      const tombstone = { plan: '', limits: {}, name: null, owner: null, expiresAtMs: null, secrets: [] };
      const rest = { id: key.id, createdAtMs: key.createdAtMs, revokedAtMs: 1, deletedAtMs: 9 };
      const left = { ...tombstone, ...rest, retired: ['before', digest] };
      expect(await there.get(key.id, { evenDeleted: true })).toEqual(left);
      expect(await there.ownerOf(digest)).toEqual(left);
      expect(await there.ownerOf('before')).toEqual(left);
      await expect(there.create(someKey({ id: key.id }).key)).rejects.toMatchObject({ code: 'refused' });
      await expect(there.create(someKey({ secrets: key.secrets }).key)).rejects.toMatchObject({ code: 'refused' });
      expect(await there.createEach([key])).toEqual(['taken']);
    });

    test('is deleted once: a second time finds the tombstone and changes nothing', async () => {
      const { key } = await gone();
      const tombstone = await here.get(key.id, { evenDeleted: true });
      expect((await there.delete(key.id, (before) => deleted(before, 99)))?.before).toEqual(tombstone);
      expect(await here.get(key.id, { evenDeleted: true })).toEqual(tombstone);
    });

    test('stays as it is where it must not be deleted, and none is made where there is none', async () => {
      const { key, digest } = someKey();
      await here.create(key);
      await expect(here.delete(key.id, bury)).rejects.toMatchObject({ code: 'conflict' });
      expect(await there.findByDigest(digest)).toEqual(key);
      expect(await here.delete('key_none', bury)).toBeNull();
    });

    test('is a cursor all the same: the keys behind it are listed, each once', async () => {
      const keys = [1, 2, 2, 2, 3].map((createdAtMs) => someKey({ createdAtMs, revokedAtMs: 1 }).key);
      for (const key of keys) await here.create(key);
      const order = keys.toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
      const first = await here.list({ limit: 3, cursor: null });
      for (const { id } of order.slice(1, 3)) await there.delete(id, bury);
      expect((await here.list({ limit: 3, cursor: first.cursor })).records).toEqual(order.slice(3));
      expect((await everyKey()).flat()).toEqual([order[0], ...order.slice(3)]);
    });
  });

  describe('a list', () => {
    test('of nothing is one empty page', async () => {
      expect(await here.list({ limit: 10, cursor: null })).toEqual({ records: [], cursor: null });
    });

    test.each([1, 7, 24, 25, 26])('in pages of %i has every key once, by the time of its creation', async (limit) => {
      // Some are of the same millisecond.
      const keys = Array.from({ length: 25 }, (_, i) => someKey({ createdAtMs: 1_000 + Math.floor(i / 4) }).key);
      for (const key of keys.toReversed()) await here.create(key);
      const pages = await everyKey(limit);
      expect(pages.every((page, i) => page.length === limit || i === pages.length - 1)).toBe(true);
      expect(pages.at(-1)!.length).toBeGreaterThan(0);
      const order = keys.toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
      expect(pages.flat()).toEqual(order);
    });

    test('goes on from its cursor although keys are added meanwhile', async () => {
      const keys = [1, 2, 3, 4].map((createdAtMs) => someKey({ createdAtMs }).key);
      for (const key of keys) await here.create(key);
      const first = await here.list({ limit: 2, cursor: null });
      await here.create(someKey({ createdAtMs: 0 }).key);
      const second = await here.list({ limit: 2, cursor: first.cursor });
      expect([...first.records, ...second.records]).toEqual(keys);
    });

    test('of a customer has the keys whose record names it, whatever was moved to and fro', async () => {
      const of = (customer: string) => ({ limit: 2, cursor: null, customer });
      const mine = [1, 2, 3].map((createdAtMs) => someKey({ createdAtMs, customer: 'cus_mine' }).key);
      const theirs = someKey({ customer: 'cus_theirs' }).key;
      for (const key of [...mine, theirs, someKey().key]) await here.create(key);
      const first = await there.list(of('cus_mine'));
      expect(first.records).toEqual(mine.slice(0, 2));
      expect((await there.list({ ...of('cus_mine'), cursor: first.cursor })).records).toEqual(mine.slice(2));
      expect(await there.list(of('cus_none'))).toEqual({ records: [], cursor: null });
      const part = await there.scan({ most: 9, cursor: null, mayMatch: () => true, customer: 'cus_theirs' });
      expect(part).toEqual({ found: [{ key: theirs, place: 1 }], searched: 1, cursor: null });
      const to = (customer: string | undefined) => (key: StoredKey) => {
        const { customer: _, ...rest } = key;
        return customer === undefined ? rest : { ...rest, customer };
      };
      const moves = ['cus_mine', 'cus_theirs', undefined, 'cus_mine', 'cus_theirs', undefined, 'cus_theirs'];
      await Promise.all(moves.map((customer, i) => (i % 2 ? here : there).update(theirs.id, to(customer))));
      const { customer } = (await here.get(theirs.id))!;
      for (const id of ['cus_mine', 'cus_theirs']) {
        const { records: keys } = await there.list({ ...of(id), limit: 9 });
        expect(keys.some((key) => key.id === theirs.id)).toBe(customer === id);
      }
      await here.update(mine[0]!.id, (key) => revoked(key, 5));
      await here.delete(mine[0]!.id, (key) => deleted(key, 9));
      expect((await there.list(of('cus_mine'))).records[0]).toEqual(mine[1]);
    });

    test('refuses a cursor that it has not given out', async () => {
      await expect(here.list({ limit: 2, cursor: 'key_none' })).rejects.toMatchObject({ code: 'refused' });
    });
  });
}
