import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { AcmeCertificates, type AcmeOptions } from '../../src/certificates/acme-certificates.ts';
import { type Issued, idOf, readFailed, sealingUnder, UNSEALED } from '../../src/certificates/acme-records.ts';
import {
  type CertificateStore,
  type Lease,
  NAMES,
  type RecordChange,
} from '../../src/certificates/certificate-store.ts';
import { DirectoryError } from '../../src/certificates/directory.ts';
import type { OrderOptions } from '../../src/certificates/order.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';

const ACME = {
  domains: ['localhost'],
  ...{ email: null, directory: 'https://ca.test/dir', directoryCa: null, httpPort: 80, eab: null },
  challenge: 'tls-alpn-01',
} as const;
const ID = idOf(ACME.directory, ACME.domains);
const DAY_MS = 86_400_000;

let first: Issued;
let second: Issued;

beforeAll(async () => {
  const authority = await newAuthority();
  const issue = async () => {
    const { cert, key } = await authority.issue('localhost', 30);
    return { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8'), domains: ['localhost'] };
  };
  [first, second] = [await issue(), await issue()];
});

/** A store in memory, which several gateways may share. */
class MemoryStore implements CertificateStore {
  readonly isShared = true;
  readonly records = new Map<string, string>();
  isAway = false;
  reads = 0;
  #holder: string | null = null;

  async read(name: string): Promise<string | null> {
    this.reads++;
    if (this.isAway) throw new Error('away');
    return this.records.get(name) ?? null;
  }
  async lease({ holder }: Lease): Promise<boolean> {
    this.#holder ??= holder;
    return this.#holder === holder;
  }
  async release({ holder }: Lease): Promise<void> {
    if (this.#holder === holder) this.#holder = null;
  }
  async write({ holder }: Lease, changes: readonly RecordChange[]): Promise<boolean> {
    if (this.isAway) throw new Error('away');
    if (this.#holder !== holder) return false;
    for (const { name, text } of changes) {
      if (text === null) this.records.delete(name);
      else this.records.set(name, text);
    }
    return true;
  }
  /** What the next process finds: the records, and a lease that has ended. */
  afterCrash(): MemoryStore {
    const next = new MemoryStore();
    for (const [name, text] of this.records) next.records.set(name, text);
    return next;
  }
  get failed() {
    return readFailed(this.records.get(NAMES.attempt(ID)) ?? null);
  }
}

interface Gateway {
  readonly certificates: AcmeCertificates;
  readonly orders: OrderOptions[];
  readonly failures: string[];
  readonly troubles: string[];
}

/** The time of all gateways, Unix milliseconds; each sleep lets it pass at once, by real turns of the event loop. */
const clock = { ms: Date.now() };

async function gateway(
  store: CertificateStore,
  order: (options: OrderOptions) => Promise<Issued>,
  more: Partial<AcmeOptions> = {},
): Promise<Gateway> {
  const [orders, failures, troubles]: [OrderOptions[], string[], string[]] = [[], [], []];
  const certificates = await AcmeCertificates.open({
    acme: ACME,
    clientCa: null,
    store,
    sealing: UNSEALED,
    events: {
      onLoaded: () => {},
      onOrdering: () => {},
      onIssued: () => {},
      onFailed: ({ why }) => failures.push(why),
      onTrouble: (why) => troubles.push(why),
    },
    wallMs: () => clock.ms,
    random: () => 0,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, Math.min(ms, 2))),
    order: (options) => {
      orders.push(options);
      return order(options);
    },
    ...more,
  });
  atEnd(() => certificates.close());
  certificates.begin();
  return { certificates, orders, failures, troubles };
}

const pemOf = ({ certificates }: Gateway) => certificates.current?.cert.toString() ?? null;
const serves = (one: Gateway, issued: Issued) => eventually(() => expect(pemOf(one)).toBe(issued.cert));

test('an attempt is stored as failed before the authority hears of it, and removed after its success (reliability 184)', async () => {
  const store = new MemoryStore();
  let before: unknown = null;
  const one = await gateway(store, async () => {
    before = store.failed;
    return first;
  });
  await serves(one, first);
  await eventually(() => expect(store.failed).toBe(null));
  expect(before).toMatchObject({ failures: 1, kind: 'refused' });
});

test('a gateway that crashes during each order waits longer each time, and a restart does not shorten it (reliability 184)', async () => {
  const waits: number[] = [];
  let left = new MemoryStore();
  for (let start = 0; start < 3; start++) {
    const store = left.afterCrash();
    const crashing = await gateway(store, () => new Promise(() => {}));
    await eventually(() => expect(crashing.orders).toHaveLength(1));
    waits.push(store.failed!.nextTryAtMs - clock.ms);
    left = store.afterCrash();
    clock.ms += waits.at(-1)! - 1;
    const early = await gateway(left, async () => first);
    await eventually(() => expect(left.reads).toBeGreaterThan(10));
    expect(early.orders).toEqual([]);
    await early.certificates.close();
    clock.ms += 1;
  }
  expect(waits).toEqual([120_000, 240_000, 480_000]);
  clock.ms = Date.now();
});

test('a renewal that fails leaves the certificate in use, and the next try waits as long as the authority asks', async () => {
  const store = new MemoryStore();
  const answers = [() => first, () => fail('rateLimited', 7_200_000), () => second];
  const one = await gateway(store, async () => answers.shift()!());
  await serves(one, first);
  clock.ms = Date.now() + 25 * DAY_MS;
  await eventually(() => expect(one.failures).toEqual(['refused: rateLimited']));
  expect(pemOf(one)).toBe(first.cert);
  clock.ms += 7_199_000;
  await eventually(() => expect(store.failed?.nextTryAtMs).toBe(clock.ms + 1_000));
  expect(one.orders).toHaveLength(2);
  clock.ms += 1_000;
  await serves(one, second);
  clock.ms = Date.now();
});

test('of several gateways on one store one orders, and the others take its certificate', async () => {
  const store = new MemoryStore();
  const all = await Promise.all([1, 2, 3, 4].map(() => gateway(store, async () => first)));
  for (const one of all) await serves(one, first);
  expect(all.flatMap(({ orders }) => orders)).toHaveLength(1);
});

test('a certificate of another key is refused: nothing is stored and the one before stays (reliability 186)', async () => {
  const store = new MemoryStore();
  const answers = [first, { ...second, key: first.key }];
  const one = await gateway(store, async () => answers.shift()!);
  await serves(one, first);
  await eventually(() => expect(store.failed).toBe(null));
  const before = store.records.get(NAMES.certificate(ID));
  clock.ms = Date.now() + 25 * DAY_MS;
  await eventually(() => expect(one.failures[0]).toMatch('is not the key of the certificate'));
  expect([store.records.get(NAMES.certificate(ID)), pemOf(one)]).toEqual([before, first.cert]);
  clock.ms = Date.now();
});

test('under a wrong pepper nothing is ordered, so that what is stored under the right one stays (reliability 186)', async () => {
  const store = new MemoryStore();
  let isRight = false;
  const one = await gateway(store, async () => first, { mayOrder: () => isRight });
  await eventually(() => expect(store.reads).toBeGreaterThan(10));
  expect([one.orders.length, store.records.size]).toEqual([0, 0]);
  isRight = true;
  await serves(one, first);
});

test('an issued certificate is used although the store is away, and stored when it is back', async () => {
  const store = new MemoryStore();
  const one = await gateway(store, async () => {
    store.isAway = true;
    return first;
  });
  await serves(one, first);
  await eventually(() => expect(one.troubles).toEqual(['Error: away']));
  store.isAway = false;
  await eventually(() => expect(store.records.has(NAMES.certificate(ID))).toBe(true));
  expect(one.orders).toHaveLength(1);
});

test('a certificate that is due for renewal at once, as under a wrong clock, is used and not ordered again and again (reliability 198)', async () => {
  const store = new MemoryStore();
  // Certificates of 30 days, seen by a clock that is 25 days ahead.
  clock.ms = Date.now() + 25 * DAY_MS;
  const answers = [first, second];
  const one = await gateway(store, async () => answers.shift()!);
  await serves(one, first);
  await eventually(() => expect(store.failed).toMatchObject({ failures: 1, nextTryAtMs: clock.ms + 120_000 }));
  expect(store.failed!.why).toMatch(/is to be renewed already\. Check the clock/);
  const { reads } = store;
  await eventually(() => expect(store.reads).toBeGreaterThan(reads + 10));
  expect(one.orders).toHaveLength(1);
  clock.ms += 120_000;
  await serves(one, second);
  await eventually(() => expect(store.failed).toMatchObject({ failures: 2, nextTryAtMs: clock.ms + 240_000 }));
  clock.ms = Date.now();
});

test('what an authority says is stored and told as one bounded line, whoever threw it', async () => {
  const store = new MemoryStore();
  const one = await gateway(store, async () => {
    throw new Error(`\u001b[2Jbad\nnonce${'x'.repeat(200_000)}`);
  });
  await eventually(() => expect(one.failures).toHaveLength(1));
  expect(one.failures[0]).toMatch(/^The order was given up: +\[2Jbad noncex+…$/);
  expect(store.failed!.why.length).toBeLessThan(1_000);
});

test('sealed records open under their own name and an earlier pepper, and under nothing else', () => {
  const [before, after] = [sealingUnder(['old']), sealingUnder(['new', 'old'])];
  const sealed = before.seal('account.1', 'PRIVATE');
  expect(sealed).not.toContain('PRIVATE');
  expect(after.open('account.1', sealed)).toBe('PRIVATE');
  expect(before.seal('account.1', 'PRIVATE')).not.toBe(sealed);
  for (const [sealing, name, text] of [
    [after, 'account.2', sealed],
    [sealingUnder(['other']), 'account.1', sealed],
    [after, 'account.1', `${sealed.slice(0, -2)}${sealed.endsWith('AA') ? 'BA' : 'AA'}`],
    [after, 'account.1', ''],
    [after, 'account.1', randomUUID()],
  ] as const) {
    expect(sealing.open(name, text)).toBe(null);
  }
});

function fail(problem: string, retryAfterMs: number): never {
  throw new DirectoryError(`refused: ${problem}`, { problem, retryAfterMs });
}
