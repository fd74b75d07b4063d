import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { shadowIdOf } from '../../src/admit/account-id.ts';
import type { HistoryStore } from '../../src/admit/history-store.ts';
import type { KeyStore } from '../../src/identify/record-store.ts';
import { hashedUnder } from '../../src/identify/secret-marks.ts';
import { filterValues } from '../../src/model/attributes.ts';
import type { StoredKey } from '../../src/model/record.ts';
import { deleted } from '../../src/operations/key-changes.ts';
import { type KeyFilter, searchKeys } from '../../src/operations/key-search.ts';
import { recordAdmitted } from '../../src/stores/embedded/history-costs.ts';
import { FakeCustomers } from '../identify/fake-store.ts';
import { someCustomer } from '../identify/some-customer.ts';
import { PEPPER, someKey } from '../identify/some-key.ts';

interface SearchedStore {
  readonly keys: KeyStore;
  readonly history: Pick<HistoryStore, 'lastUsedMs'>;
  /** Writes what the store keeps of a consumer's use. */
  putHistory(consumerId: string, history: Uint8Array): Promise<void>;
}

const DAY_MS = 86_400_000;
/** In the middle of a day. */
const NOW_MS = Date.UTC(2026, 10, 22, 13, 30);
const LONG_AGO_MS = Date.UTC(2024, 0, 1);
const OLD_PEPPER = 'an old pepper of the tests';

export const EVERYTHING: KeyFilter = {
  text: null,
  meta: null,
  plan: null,
  ...filterValues(),
  expiringMs: null,
  customer: null,
  set: null,
  unusedDays: null,
  pepper: null,
  form: null,
  all: false,
};

/**
 * What a search over keys promises, on every store. `open` gives an empty one. Texts that are searched for have four letters
 * or a character that no id has: shorter ones are a part of some random ids.
 */
export function keySearchContract(open: () => Promise<SearchedStore>): void {
  let store: SearchedStore;
  let customers: FakeCustomers;
  beforeEach(async () => {
    store = await open();
    customers = new FakeCustomers();
  });
  const page = (filter: Partial<KeyFilter>, limit = 100, cursor: string | null = null) =>
    searchKeys(
      { ...EVERYTHING, ...filter },
      { limit, cursor },
      { ...store, customers, peppers: [PEPPER, OLD_PEPPER], nowMs: NOW_MS },
    );
  const search = async (filter: Partial<KeyFilter>, limit = 100) => {
    const pages: Awaited<ReturnType<typeof page>>[] = [];
    for (let cursor: string | null = null; ; ) {
      const next = await page(filter, limit, cursor);
      pages.push(next);
      cursor = next.cursor;
      if (cursor === null) return pages;
    }
  };
  const ids = async (filter: Partial<KeyFilter>, limit = 100) =>
    (await search(filter, limit)).flatMap(({ keys }) => keys.map(({ key }) => key.id));
  const put = async (differently: Partial<StoredKey> = {}) => {
    const { key } = someKey({ createdAtMs: LONG_AGO_MS, ...differently });
    await store.keys.create(key);
    return key;
  };

  test('finds the keys of a customer, alone or with other conditions, and by the plan that the customer has now', async () => {
    const customer = someCustomer({ plan: 'business' });
    await customers.create(customer);
    const [mine, revoked] = [
      await put({ customer: customer.id }),
      await put({ customer: customer.id, revokedAtMs: 1 }),
    ];
    const theirs = await put({ customer: 'cus_other', plan: 'business' });
    const own = await put({ plan: 'business' });
    expect(await ids({ customer: customer.id })).toEqual([mine.id]);
    expect((await ids({ customer: customer.id, all: true })).toSorted()).toEqual([mine.id, revoked.id].toSorted());
    expect(await ids({ customer: customer.id, text: own.id })).toEqual([]);
    expect(await ids({ text: customer.id.slice(2) })).toEqual([mine.id]);
    expect((await ids({ plan: 'business' })).toSorted()).toEqual([mine.id, own.id].toSorted());
    expect(await ids({ plan: 'pro' })).toEqual([]);
    expect(await ids({ customer: theirs.customer!, plan: 'business' })).toEqual([]);
  });

  test('finds keys by the pepper and the form of a secret that works, and by what is not known (reliability 590)', async () => {
    const secretUnder = (pepper: string, more: object = {}) => ({
      ...{ ...hashedUnder(randomBytes(32), pepper), last4: 'aB3_', createdAtMs: 1, expiresAtMs: null },
      ...more,
    });
    const current = secretUnder(PEPPER, { form: 'own' });
    const old = () => secretUnder(OLD_PEPPER, { form: 'sk_*' });
    const all = {
      current: await put({ createdAtMs: 1, secrets: [current] }),
      old: await put({ createdAtMs: 2, secrets: [secretUnder(PEPPER), old()] }),
      removed: await put({ createdAtMs: 3, secrets: [secretUnder('a pepper that was removed')] }),
      // As the version before makes it, also with a name that the quick test of the record cannot read.
      unknown: await put({ createdAtMs: 4, name: '"digest":"é' }),
    };
    // Their secrets do not work.
    await put({ createdAtMs: 5, secrets: [old()], revokedAtMs: 1 });
    await put({ createdAtMs: 6, secrets: [old()], expiresAtMs: NOW_MS });
    await put({ createdAtMs: 7, secrets: [secretUnder(PEPPER), { ...old(), expiresAtMs: NOW_MS }] });
    for (const pepper of ['old', 'removed', 'unknown'] as const) {
      expect([pepper, await ids({ pepper })]).toEqual([pepper, [all[pepper].id]]);
    }
    expect(await ids({ pepper: 'current' })).toEqual(expect.arrayContaining([all.current.id, all.old.id]));
    expect(await ids({ form: 'own' })).toEqual([all.current.id]);
    expect(await ids({ form: 'sk_*' })).toEqual([all.old.id]);
    expect(await ids({ pepper: 'old', form: 'unknown' })).toEqual([]);
    expect(await ids({ pepper: 'unknown', form: 'unknown' })).toEqual([all.unknown.id]);
  });

  test.each([
    ['part', 'a part of the name'],
    ['PART OF', 'a Part of the name'],
    ['%', '100 % wool'],
    ['r_s', 'under_score'],
    ['*', 'all * of it'],
    ['.*', 'a .* pattern'],
    ['\\', 'back\\slash'],
    ['"', 'a "quoted" name'],
    ['\0', 'a \0 inside'],
    ['\u007f', 'delete \u007f'],
    ['[a', 'open [a bracket'],
    ["'; DROP TABLE keys", "Bobby'; DROP TABLE keys; --"],
    ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
    ['🐟', 'fish 🐟'],
    ['\ud83d', 'half a fish \ud83d'],
    ['שלום', 'שלום עולם'],
    ['\u202e', 'turned \u202e round'],
    ['ISTANBUL', 'istanbul'],
    ['istanbul', 'İSTANBUL'],
    ['İstanbul', 'istanbul'],
    ['diyarbakir', 'Diyarbakır'],
    ['DIYARBAKIR', 'Diyarbakır'],
    ['strasse', 'Lange Straße'],
    ['STRAßE', 'Lange Strasse'],
    ['ΟΔΌΣ', 'οδός'],
    ['café', 'cafe\u0301'],
    ['x'.repeat(1_000), `${'X'.repeat(1_000)}!`],
  ])('%j finds a key by its name %j, and by such an owner, and no other key', async (text, name) => {
    await put({ name: 'something else', owner: 'nobody' });
    await put();
    const [named, owned] = [await put({ name, createdAtMs: 1 }), await put({ owner: name, createdAtMs: 2 })];
    expect(await ids({ text })).toEqual([named.id, owned.id]);
    expect(await ids({ owner: name })).toEqual([owned.id]);
    expect(await ids({ text, owner: `${name}?` })).toEqual([]);
  });

  test('a text finds parts of ids in any case, and no part of the record that is none of these', async () => {
    const key = await put({ name: null, owner: null, notes: 'notes of it' });
    expect(await ids({ text: key.id.slice(3, 12).toLowerCase() })).toEqual([key.id]);
    for (const text of ['notes', 'createdAtMs', '"', ':', key.secrets[0]!.digest.slice(0, 10), 'null']) {
      expect(await ids({ text }), text).toEqual([]);
    }
  });

  test('the whole id of a key finds it alone by a look-up, however many keys there are', async () => {
    for (let i = 0; i < 5; i++) await put();
    const key = await put();
    await put({ name: `was ${key.id}` });
    const found = await page({ text: key.id });
    const none = { keys: [], unreadable: [], cursor: null };
    expect(found).toEqual({ ...none, keys: [{ key }], searched: 1 });
    expect(await page({ text: key.id, plan: 'free' })).toEqual({ ...none, searched: 1 });
    expect(await page({ text: 'key_0000000000000000' })).toEqual({ ...none, searched: 0 });
  });

  test('four characters find the key with a secret that ends so and still works, in their case', async () => {
    const secret = { digest: 'd', last4: 'a-3z', createdAtMs: 1, expiresAtMs: null };
    const now = await put({ secrets: [secret], createdAtMs: 1 });
    await put({ secrets: [{ ...secret, digest: 'e', expiresAtMs: NOW_MS }] });
    const later = await put({ secrets: [{ ...secret, digest: 'f', expiresAtMs: NOW_MS + 1 }], createdAtMs: 2 });
    expect(await ids({ text: 'a-3z' })).toEqual([now.id, later.id]);
    expect(await ids({ text: 'A-3Z' })).toEqual([]);
    expect(await ids({ text: '-3z' })).toEqual([]);
  });

  test('a text finds no key by the empty end of a secret of which only the hash is known', async () => {
    await put({ secrets: [{ digest: 'd', last4: '', createdAtMs: 1, expiresAtMs: null }] });
    expect(await ids({ text: 'zz-nothing' })).toEqual([]);
  });

  test('plan and owner must be the whole text, and all conditions must hold', async () => {
    const one = await put({ plan: 'free', owner: 'acme', name: 'one-1' });
    await put({ plan: 'free', owner: 'acme' });
    await put({ plan: 'free-2', owner: 'acme', name: 'one-1' });
    await put({ plan: 'free', owner: 'Acme', name: 'one-1' });
    expect(await ids({ plan: 'free', owner: 'acme', text: 'ONE-1' })).toEqual([one.id]);
    expect(await ids({ plan: 'fre' })).toEqual([]);
    expect(await ids({ plan: 'constructor' })).toEqual([]);
  });

  test.each([
    [-1, false],
    [0, false],
    [1, true],
    [30 * DAY_MS, true],
    [30 * DAY_MS + 1, false],
  ])('a key that ends %i ms from now is expiring within 30 days: %j', async (inMs, isFound) => {
    await put();
    const { id } = await put({ expiresAtMs: NOW_MS + inMs });
    expect(await ids({ expiringMs: 30 * DAY_MS })).toEqual(isFound ? [id] : []);
  });

  test('revoked keys are found only if they are asked for, and deleted ones never', async () => {
    const live = await put({ createdAtMs: 1 });
    const revoked = await put({ createdAtMs: 2, revokedAtMs: 5 });
    const { id } = await put({ createdAtMs: 3, revokedAtMs: 5 });
    await store.keys.delete(id, (key) => deleted(key, 9));
    expect(await ids({})).toEqual([live.id]);
    expect(await ids({ all: true })).toEqual([live.id, revoked.id]);
    expect(await ids({ text: id, all: true })).toEqual([]);
  });

  describe('a key is unused for 30 days', () => {
    const used = (key: StoredKey, atMs: number, id = key.id) => store.putHistory(id, recordAdmitted(null, atMs, 1));
    const startOfDay = Date.UTC(2026, 9, 24);

    test.each([
      ['the last hour before', startOfDay - 1, '2026-10-23'],
      ['the first hour of', startOfDay, null],
      ['the last hour of', NOW_MS, null],
    ])('by %s these days, today included', async (_, atMs, day) => {
      const key = await put();
      await used(key, atMs);
      const [{ keys }] = (await search({ unusedDays: 30 })) as [Awaited<ReturnType<typeof page>>];
      expect(keys).toEqual(day === null ? [] : [{ key, lastUsedOn: day }]);
    });

    test('if nothing is known of its use, and it is older than that', async () => {
      const key = await put({ createdAtMs: startOfDay - 1 });
      await put({ createdAtMs: startOfDay });
      const [{ keys }] = (await search({ unusedDays: 30 })) as [Awaited<ReturnType<typeof page>>];
      expect(keys).toEqual([{ key, lastUsedOn: null }]);
    });

    test('unless its plan was only watched in that time: the later of both histories counts', async () => {
      const key = await put();
      await used(key, startOfDay - 5 * DAY_MS);
      await used(key, NOW_MS, shadowIdOf(key.id));
      expect(await ids({ unusedDays: 30 })).toEqual([]);
    });
  });

  test('pages together give exactly the keys that match, each once and in order, and count each key once', async () => {
    // Longer than the first read of a page.
    const texts = ['alpha', 'Beta', 'gämma', 'İ', '"x"', null];
    const made: StoredKey[] = [];
    for (let i = 0; i < 230; i++) {
      const of = (n: number) => texts[(i * 7 + n) % texts.length]!;
      made.push(
        someKey({
          createdAtMs: 1_000 + Math.floor(i / 3),
          name: of(i),
          owner: of(i * i),
          plan: i % 3 === 0 ? 'free' : 'pro',
          revokedAtMs: i % 5 === 0 ? 1 : null,
          expiresAtMs: i % 4 === 0 ? NOW_MS + i * DAY_MS : null,
        }).key,
      );
    }
    await store.keys.createEach(made);
    const order = made.toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
    const inAnyCase: Record<string, RegExp> = { alph: /alph/i, BETA: /beta/i, GÄM: /gäm/i, i: /[iİ]/i, '"': /"/ };
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          text: fc.constantFrom(null, ...Object.keys(inAnyCase)),
          plan: fc.constantFrom(null, 'free', 'pro', 'none'),
          owner: fc.constantFrom(null, 'alpha', 'gämma', '"x"'),
          expiringMs: fc.constantFrom(null, 50 * DAY_MS),
          all: fc.boolean(),
        }),
        fc.integer({ min: 1, max: 300 }),
        async ({ text, plan, owner, expiringMs, all }, limit) => {
          const expected = order.filter((key) => {
            const holds = (part: string | null) => part !== null && inAnyCase[text!]!.test(part);
            if (text !== null && ![key.id, key.name, key.owner].some(holds)) return false;
            if (plan !== null && key.plan !== plan) return false;
            if (owner !== null && key.owner !== owner) return false;
            if (expiringMs !== null && !(key.expiresAtMs! > NOW_MS && key.expiresAtMs! <= NOW_MS + expiringMs))
              return false;
            return all || key.revokedAtMs === null;
          });
          const pages = await search({ text, plan, owner, expiringMs, all }, limit);
          expect(pages.flatMap(({ keys }) => keys.map(({ key }) => key))).toEqual(expected);
          expect(pages.every(({ keys }, i) => keys.length === limit || i === pages.length - 1)).toBe(true);
          expect(pages.reduce((sum, { searched }) => sum + searched, 0)).toBe(made.length);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('keys that are made and revoked between two pages neither hide nor repeat another', async () => {
    const made: StoredKey[] = [];
    for (let i = 0; i < 12; i++) made.push(await put({ name: i % 2 ? 'yes!' : 'no!', createdAtMs: 1_000 + i }));
    const found: string[] = [];
    let cursor: string | null = null;
    for (let i = 0; ; i++) {
      const next = await page({ text: 'yes!' }, 2, cursor);
      found.push(...next.keys.map(({ key }) => key.id));
      cursor = next.cursor;
      if (cursor === null) break;
      // Before the cursor, and the key of the cursor itself.
      await put({ name: 'yes!', createdAtMs: i });
      await store.keys.update(cursor, (key) => ({ ...key, revokedAtMs: 5 }));
      await store.keys.delete(cursor, (key) => deleted(key, 9));
    }
    expect(found).toEqual(made.filter(({ name }) => name === 'yes!').map(({ id }) => id));
  });

  test('a cursor that no page has given is refused', async () => {
    await expect(page({ text: 'a' }, 1, 'key_none')).rejects.toMatchObject({ code: 'refused' });
  });
}
