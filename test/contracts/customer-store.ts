import { beforeEach, expect, test } from 'vitest';
import { DURABLE } from '../../src/admit/ledger.ts';
import type { CustomerStore } from '../../src/identify/record-store.ts';
import type { Listed, StoredCustomer } from '../../src/model/record.ts';
import { someCustomer } from '../identify/some-customer.ts';

/**
 * What every CustomerStore promises. `open` gives an empty store, twice: as two processes would have it, each with a
 * connection of its own.
 */
export function customerStoreContract(
  open: () => Promise<{ readonly here: CustomerStore; readonly there: CustomerStore }>,
): void {
  let here: CustomerStore;
  let there: CustomerStore;
  beforeEach(async () => {
    ({ here, there } = await open());
  });
  const bury = ({ id, createdAtMs }: StoredCustomer): StoredCustomer => ({
    ...someCustomer({ id, createdAtMs, plan: '' }),
    deletedAtMs: 9,
  });

  test('a customer that was created is found whole, also elsewhere', async () => {
    const customer = someCustomer({
      limits: { minute: 5, day: 'unlimited' },
      name: 'Ünï 🐟',
      owner: 'o',
      notes: 'a\nb',
    });
    expect(await here.create(customer)).toEqual(DURABLE);
    for (const store of [here, there]) expect(await store.get(customer.id)).toEqual(customer);
  });

  test('a customer is not made again under the same id, and stays as it was', async () => {
    const customer = someCustomer();
    await here.create(customer);
    await expect(there.create({ ...customer, plan: 'free' })).rejects.toMatchObject({ code: 'refused' });
    expect(await here.get(customer.id)).toEqual(customer);
  });

  test.each(['', 'unknown', '__proto__', '*', "'; DROP TABLE customers", '\0'])('%j finds nothing', async (text) => {
    expect(await here.get(text)).toBeNull();
    expect(await here.update(text, (one) => one)).toBeNull();
    expect(await here.delete(text, bury)).toBeNull();
  });

  test('changes at the same time all take effect, and fields of a later version stay', async () => {
    const customer = { ...someCustomer({ name: '' }), region: 'eu' };
    await here.create(customer);
    const letters = [...'abcdefghijklmnopqrst'];
    const add = (letter: string) => (before: StoredCustomer) => ({ ...before, name: before.name + letter });
    await Promise.all(letters.map((letter, i) => (i % 2 ? here : there).update(customer.id, add(letter))));
    const after = await there.get(customer.id);
    expect([...after!.name!].sort()).toEqual(letters);
    expect(after).toEqual({ ...customer, name: after!.name });
  });

  test('a change that throws comes through, and nothing is stored', async () => {
    const customer = someCustomer();
    await here.create(customer);
    const fault = new Error('no');
    const refuse = () => {
      throw fault;
    };
    await expect(here.update(customer.id, refuse)).rejects.toBe(fault);
    await expect(here.delete(customer.id, refuse)).rejects.toBe(fault);
    expect(await there.get(customer.id)).toEqual(customer);
  });

  test('a deleted customer is gone everywhere but as a tombstone, whose id no other takes', async () => {
    const customer = someCustomer({ name: 'n' });
    await here.create(customer);
    expect(await here.delete(customer.id, bury)).toEqual({ before: customer, durability: DURABLE });
    for (const store of [here, there]) {
      expect(await store.get(customer.id)).toBeNull();
      expect(await store.get(customer.id, { evenDeleted: true })).toEqual(bury(customer));
      expect(await store.update(customer.id, (one) => one)).toBeNull();
      expect(await store.list({ limit: 9, cursor: null })).toEqual({ records: [], cursor: null });
    }
    await expect(there.create(customer)).rejects.toMatchObject({ code: 'refused' });
    expect((await there.delete(customer.id, (one) => one))!.before).toEqual(bury(customer));
  });

  test.each([1, 3, 7, 8])('a list in pages of %i has each customer once, the oldest first', async (limit) => {
    const customers = [3, 1, 1, 2, 2, 2, 4].map((createdAtMs) => someCustomer({ createdAtMs }));
    for (const customer of customers) await here.create(customer);
    const found: Listed<StoredCustomer>[] = [];
    let cursor: string | null = null;
    do {
      const page = await there.list({ limit, cursor });
      found.push(...page.records);
      cursor = page.cursor;
    } while (cursor !== null);
    expect(found).toEqual(customers.toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1)));
  });

  test('a cursor leads on although its customer is deleted meanwhile, and an unknown one is refused', async () => {
    const [first, second, third] = [1, 2, 3].map((createdAtMs) => someCustomer({ createdAtMs }));
    for (const customer of [first!, second!, third!]) await here.create(customer);
    await here.delete(second!.id, bury);
    const page = { limit: 9, cursor: second!.id };
    expect(await there.list(page)).toEqual({ records: [third], cursor: null });
    await expect(there.list({ limit: 9, cursor: 'cus_none' })).rejects.toMatchObject({ code: 'refused' });
  });
}
