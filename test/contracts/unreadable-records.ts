import { beforeEach, describe, expect, test } from 'vitest';
import type { CustomerStore, KeyStore } from '../../src/identify/record-store.ts';
import { byReadability, UnreadableRecord } from '../../src/model/record.ts';
import { revoked } from '../../src/operations/key-changes.ts';
import { someCustomer } from '../identify/some-customer.ts';
import { someKey } from '../identify/some-key.ts';

/** What a record may have become, by how it came about. `null`: not even a text, where the store can have that. */
export const DAMAGES: Readonly<Record<string, (record: string) => string | null>> = {
  'cut off': (record) => record.slice(0, record.length / 2),
  'cut at its end': (record) => record.slice(0, -1),
  empty: () => '',
  binary: () => '\u0001\uFFFD\u0002"{',
  'other JSON': () => '{"name":"a program"}',
  'a list': () => '[1,2]',
  'a wrong member': (record) => record.replace(/"plan":"[^"]*"/, '"plan":7'),
  'with a moment that no date can be': (record) =>
    record.replace(/"expiresAtMs":null/, '"expiresAtMs":8640000000000001'),
  'the record of another id': (record) => record.replace(/"id":"([^"]*)"/, '"id":"$1x"'),
  'of another type': () => null,
};

interface DamagedStores {
  readonly keys: KeyStore;
  readonly customers: CustomerStore;
  /** Replaces what the store has under the name of a record. */
  readonly damage: (kind: 'key' | 'customer', id: string, change: (record: string) => string | null) => Promise<void>;
}

/** How every store treats a record that it has and cannot read: it is neither absent nor a reason for others to fail. */
export function unreadableRecordsContract(open: () => Promise<DamagedStores>): void {
  let stores: DamagedStores;
  beforeEach(async () => {
    stores = await open();
  });
  const page = { limit: 2, cursor: null };

  describe.each(Object.entries(DAMAGES))('a record that is %s', (_, change) => {
    test('is in each list of keys with its id, in its place, and fails whoever asks for it alone (reliability 361, 447)', async () => {
      const { keys, damage } = stores;
      const all = [1, 2, 3].map((createdAtMs) => someKey({ createdAtMs, customer: 'cus_mine' }));
      for (const { key } of all) await keys.create(key);
      const [first, bad, last] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0]];
      await damage('key', bad.key.id, change);
      for (const of of [{}, { customer: 'cus_mine' }]) {
        const one = await keys.list({ ...page, ...of });
        expect(one.records.map(({ id }) => id)).toEqual([first.key.id, bad.key.id]);
        expect(byReadability(one.records)).toMatchObject({ readable: [first.key], unreadable: [{ id: bad.key.id }] });
        expect(one.cursor).toBe(bad.key.id);
        expect(await keys.list({ ...page, ...of, cursor: one.cursor })).toEqual({ records: [last.key], cursor: null });
        const part = await keys.scan({ most: 9, cursor: null, mayMatch: () => true, ...of });
        expect(part.found.map(({ key, place }) => [key.id, place])).toEqual(all.map(({ key }, i) => [key.id, i + 1]));
        expect(part.found[1]!.key).toBeInstanceOf(UnreadableRecord);
      }
      const failure = { code: 'store_corrupt', id: bad.key.id, message: expect.stringContaining(bad.key.id) };
      await expect(keys.get(bad.key.id)).rejects.toMatchObject(failure);
      await expect(keys.findByDigest(bad.digest)).rejects.toMatchObject(failure);
      await expect(keys.ownerOf(bad.digest)).rejects.toMatchObject(failure);
      await expect(keys.update(bad.key.id, (one) => one)).rejects.toMatchObject(failure);
      await expect(keys.delete(bad.key.id, (one) => one)).rejects.toMatchObject(failure);
      expect(await keys.createEach([{ ...someKey().key, id: bad.key.id }, someKey().key])).toEqual([
        'taken',
        'created',
      ]);
      expect((await keys.update(last.key.id, (one) => revoked(one, 9)))!.record.revokedAtMs).toBe(9);
    });

    test('is in the list of customers with its id (reliability 361)', async () => {
      const { customers, damage } = stores;
      const all = [1, 2, 3].map((createdAtMs) => someCustomer({ createdAtMs }));
      for (const customer of all) await customers.create(customer);
      const [first, bad, last] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0]];
      await damage('customer', bad.id, change);
      const one = await customers.list(page);
      expect(byReadability(one.records)).toMatchObject({ readable: [first], unreadable: [{ id: bad.id }] });
      expect(await customers.list({ ...page, cursor: one.cursor })).toEqual({ records: [last], cursor: null });
      await expect(customers.get(bad.id)).rejects.toMatchObject({ code: 'store_corrupt', id: bad.id });
      await expect(customers.update(bad.id, (one) => one)).rejects.toMatchObject({ code: 'store_corrupt', id: bad.id });
    });
  });

  test('a search finds what does not even look like a record, whatever it asks for', async () => {
    const { keys, damage } = stores;
    const [good, bad] = [someKey({ createdAtMs: 1 }), someKey({ createdAtMs: 2 })];
    for (const { key } of [good, bad]) await keys.create(key);
    await damage('key', bad.key.id, DAMAGES['cut off']!);
    const { found, searched } = await keys.scan({ most: 9, cursor: null, mayMatch: () => false });
    expect([found.map(({ key }) => key.id), searched]).toEqual([[bad.key.id], 2]);
  });

  test('once it was removed, the key is restored under its id and its secrets', async () => {
    const { keys, damage } = stores;
    const { key, digest } = someKey();
    await keys.create(key);
    await damage('key', key.id, () => 'gone');
    await damage('key', key.id, () => '');
    expect(await keys.createEach([key])).toEqual(['taken']);
    await damage('key', key.id, () => REMOVED);
    expect(await keys.createEach([key])).toEqual(['created']);
    expect(await keys.findByDigest(digest)).toEqual(key);
  });
}

/** In place of a damage: the record is removed. */
export const REMOVED = 'removed';
