import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { RecordPage } from '../../src/identify/record-store.ts';
import type { StoredKey } from '../../src/model/record.ts';
import { newKey } from '../../src/operations/key-changes.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { FakeAuditStore } from './fake-audit-store.ts';
import { adminApiWith } from './in-process.ts';

const plan = { name: 'free', limits: { minute: 5 }, bans: null, enforce: true, shadow: {} };

const VIEWER = 'the-token-of-a-viewer-1';

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
  override async list(page?: {
    readonly limit: number;
    readonly cursor: string | null;
  }): Promise<RecordPage<StoredKey>> {
    const { limit, cursor } = page!;
    this.underWay++;
    this.most = { underWay: Math.max(this.most.underWay, this.underWay), limit: Math.max(this.most.limit, limit) };
    await turn();
    this.underWay--;
    const from = cursor === null ? 0 : this.#all.findIndex(({ id }) => id === cursor) + 1;
    const keys = this.#all.slice(from, from + limit);
    return { records: keys, cursor: from + limit < this.#all.length ? keys.at(-1)!.id : null };
  }
}

test('however many lists of keys are asked for at once, the store is read by one of them, 250 keys at a time', async () => {
  const store = new PagedStore(950);
  const { it } = await adminApiWith(store);
  const told = await Promise.all(Array.from({ length: 8 }, () => it('GET', '/admin/keys?limit=900')));
  for (const { status, body } of told) {
    expect([status, body.keys.length, body.cursor]).toEqual([200, 900, 'key_899']);
    expect(new Set(body.keys.map(({ id }: { id: string }) => id)).size).toBe(900);
  }
  expect(store.most).toEqual({ underWay: 1, limit: 250 });
});

test('a list whose client has left before its turn is not read (reliability 168)', async () => {
  const gate = Promise.withResolvers<void>();
  let reads = 0;
  const keys = new (class extends FakeStore {
    override async list(): Promise<RecordPage<StoredKey>> {
      reads++;
      await gate.promise;
      return { records: [], cursor: null };
    }
  })();
  const { it, leave } = await adminApiWith(keys);
  const first = it('GET', '/admin/keys');
  await eventually(() => expect(reads).toBe(1));
  for (let i = 0; i < 20; i++) await leave('/admin/keys');
  const last = it('GET', '/admin/keys');
  gate.resolve();
  expect([(await first).status, (await last).status, reads]).toEqual([200, 200, 2]);
});

// Attack: a list that looks through a hundred thousand keys or records for one. The embedded store answers within the same
// turn of the event loop, and all other requests waited for more than a second.
test.each(['/admin/keys?limit=1', '/admin/audit?key=key_none'])(
  'GET %s lets other work run after each part that it reads of a store that answers at once',
  async (path) => {
    const turns = countTurns();
    const readIn: number[] = [];
    const keys = new (class extends FakeStore {
      override async list(page?: {
        readonly limit: number;
        readonly cursor: string | null;
      }): Promise<RecordPage<StoredKey>> {
        readIn.push(turns.count);
        return { records: [], cursor: readIn.length < 20 ? `key_${readIn.length}${page!.limit}` : null };
      }
    })();
    const audit = new (class extends FakeAuditStore {
      override async list({ limit }: { readonly limit: number }) {
        readIn.push(turns.count);
        const record = { number: 1, id: 'r', atMs: 1, text: '{"of":"another key"}' };
        return Array.from({ length: readIn.length < 20 ? limit : 0 }, () => record);
      }
    })();
    const { it } = await adminApiWith(keys, { audit });
    expect((await it('GET', path)).status).toBe(200);
    turns.stop();
    expect(readIn).toHaveLength(20);
    expect(new Set(readIn).size).toBe(20);
  },
);

/** Counts the turns of the event loop. */
function countTurns() {
  const turns = { count: 0, stop: () => clearImmediate(next) };
  let next = setImmediate(function again() {
    turns.count++;
    next = setImmediate(again);
  });
  return turns;
}

// Attack: a viewer asks for long lists on many connections, and the console of everybody else shows nothing.
test('people take turns: whoever asks once waits for one list of somebody who asks for many (reliability 238)', async () => {
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const audit = new (class extends FakeAuditStore {
    override async refusals() {
      order.push('flood');
      await gate.promise;
      return [];
    }
  })();
  const keys = new (class extends FakeStore {
    override async list(): Promise<RecordPage<StoredKey>> {
      order.push('other');
      return { records: [], cursor: null };
    }
  })();
  const { it, bearer, arrived } = await adminApiWith(keys, { audit, tokens: [{ name: 'vera', token: VIEWER }] });
  const flood = Array.from({ length: 60 }, () => it('GET', '/admin/audit', undefined, bearer(VIEWER)));
  await eventually(() => expect(order).toEqual(['flood']));
  // One runs and 32 wait.
  const busy = await Promise.race(flood);
  expect([busy.status, busy.body.code, busy.headers.get('retry-after')]).toEqual([503, 'busy', '1']);
  await eventually(() => expect(arrived()).toBe(60));
  const other = it('GET', '/admin/keys');
  await eventually(() => expect(arrived()).toBe(61));
  await turn();
  gate.resolve();
  expect((await other).status).toBe(200);
  const told = await Promise.all(flood);
  expect(told.map(({ status }) => status).sort()).toEqual([...Array(33).fill(200), ...Array(27).fill(503)]);
  expect(order.indexOf('other')).toBeLessThanOrEqual(2);
});

test('a page of changes ends after bounded work, with a cursor from which the others follow (reliability 238)', async () => {
  const text = (actor: string) =>
    JSON.stringify({ action: 'key.update', outcome: 'done', actor: { kind: 'token', name: actor } });
  const [RECORDS, MAX_READ] = [50_000, 20_000];
  let read = 0;
  const audit = new (class extends FakeAuditStore {
    override async list({ limit, before }: { readonly limit: number; readonly before: number | null }) {
      const from = Math.min(before ?? RECORDS + 1, RECORDS + 1) - 1;
      const length = Math.min(limit, from);
      read += length;
      return Array.from({ length }, (_, i) => {
        const number = from - i;
        return { number, id: `r${number}`, atMs: number, text: text(number === 5 ? 'jo' : 'ann') };
      });
    }
  })();
  const { it } = await adminApiWith(new FakeStore(), { audit });
  const pages: number[] = [];
  for (let path = '/admin/audit?actor=jo'; ; ) {
    const before = read;
    const { body, headers } = await it('GET', path);
    expect(read - before).toBeLessThanOrEqual(MAX_READ);
    pages.push(body.changes.length);
    if (body.cursor === null) break;
    path = /^<(.*)>; rel="next"$/.exec(headers.get('link')!)![1]!;
  }
  expect(pages).toEqual([0, 0, 1]);
});
