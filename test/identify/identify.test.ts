import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { digestOf } from '../../src/identify/api-key.ts';
import type { EndedSecret, Identity } from '../../src/identify/identify.ts';
import { PepperMarks } from '../../src/identify/secret-marks.ts';
import { certificateDigest } from '../../src/model/client-certificates.ts';
import { deleted } from '../../src/operations/key-changes.ts';
import { altered } from '../support/altered.ts';
import { FakeStore, identifierOn, told } from './fake-store.ts';
import { someCustomer } from './some-customer.ts';
import { someKey } from './some-key.ts';

describe('a good key', () => {
  test('is known by its id, plan and limits, and asked about only once', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({ limits: { minute: 5 }, name: 'n', owner: 'o' });
    await store.create(key);
    const { identifier } = identifierOn(store);
    const first = await identifier.identify(secret);
    expect(first).toMatchObject({
      kind: 'consumer',
      key: { id: key.id, plan: 'pro', limits: { minute: 5 }, name: 'n', owner: 'o', customer: null },
    });
    // The second answer is there at once, not a promise.
    expect(identifier.identify(secret)).toBe(first);
    expect(store.lookUps).toBe(1);
  });

  test('cannot be changed by whoever is told of it', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({ limits: { minute: 5 } });
    await store.create(key);
    const identity = await identifierOn(store).identifier.identify(secret);
    if (identity.kind !== 'consumer') throw new Error(identity.kind);
    expect(Object.isFrozen(identity) && Object.isFrozen(identity.key) && Object.isFrozen(identity.key.limits)).toBe(
      true,
    );
  });

  test('is the same consumer after it was confirmed, and another after it has changed', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    const consumer = async () => {
      const identity = await identifier.identify(secret);
      return identity.kind === 'consumer' ? identity.key : null;
    };
    const first = await consumer();
    identifier.forget(key.id);
    expect(await consumer()).toBe(first);
    await store.create({ ...key, plan: 'free' });
    identifier.forget(key.id);
    expect(await consumer()).toMatchObject({ plan: 'free' });
  });

  test('that another gateway puts under the new pepper between the two look-ups is found all the same', async () => {
    const { key, secret, digest } = someKey({}, 'old');
    const newDigest = digestOf(secret, 'new');
    const moved = { ...key, secrets: key.secrets.map((one) => ({ ...one, digest: newDigest })) };
    class MovingStore extends FakeStore {
      override async ownerOf(asked: string) {
        // The new one is looked for before the move, the old one after it.
        if (asked === digest) this.keys.set(key.id, moved);
        return super.ownerOf(asked);
      }
    }
    const store = new MovingStore();
    await store.create(key);
    const { identifier } = identifierOn(store, { peppers: ['new', 'old'] });
    expect(told(await identifier.identify(secret))).toBe(key.id);
    expect(store.lookUps).toBe(3);
  });

  test('asked for a hundred times at once is looked up once', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    const all = await Promise.all(Array.from({ length: 100 }, () => identifier.identify(secret)));
    expect(new Set(all.map(told))).toEqual(new Set([key.id]));
    expect(store.lookUps).toBe(1);
  });

  test('that may have changed is looked up once more and not again by those who wait, whenever the former look-up ends', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    const [former, present] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    store.gate = former.promise;
    const first = identifier.identify(secret);
    identifier.forget(key.id);
    store.gate = present.promise;
    const second = identifier.identify(secret);
    former.resolve();
    await first;
    // The former answer may be older than the change.
    const third = identifier.identify(secret);
    await turn();
    expect(store.lookUps).toBe(2);
    present.resolve();
    expect([await second, await third].map(told)).toEqual([key.id, key.id]);
  });
});

describe('a bad key', () => {
  test('with a wrong checksum or form is refused at once, without a look-up (reliability 56)', () => {
    const store = new FakeStore();
    const { identifier } = identifierOn(store);
    const { secret } = someKey();
    const wrong = altered(secret);
    for (const token of [wrong, '', '__proto__', '*', 'a.b.c', 'x'.repeat(8_192)]) {
      expect(identifier.identify(token)).toEqual({ kind: 'refused', code: 'invalid_api_key' });
    }
    expect(store.lookUps).toBe(0);
    expect(identifier.remembered).toEqual({ known: 0, unknown: 0 });
  });

  test('unknown, revoked or replaced is refused with the very same answer (reliability 48)', async () => {
    const store = new FakeStore();
    const revoked = someKey({ revokedAtMs: 1 });
    const fresh = someKey();
    const replaced = someKey();
    await store.create(revoked.key);
    const secrets = fresh.key.secrets;
    await store.create({ ...replaced.key, secrets, retired: replaced.key.secrets.map(({ digest }) => digest) });
    const { identifier } = identifierOn(store);
    const answers = [
      await identifier.identify(revoked.secret),
      await identifier.identify(replaced.secret),
      await identifier.identify(someKey().secret),
      identifier.identify('malformed'),
    ];
    // What differs between them is for operators alone.
    const told = answers as { kind: string; code: string; cause?: string; ended?: EndedSecret }[];
    expect(new Set(told.map(({ kind, code }) => `${kind} ${code}`)).size).toBe(1);
    const last4 = replaced.secret.slice(-4);
    expect(told.map(({ cause }) => cause)).toEqual([
      `${revoked.key.id} is revoked`,
      `the secret …${last4} of ${replaced.key.id} has ended`,
      'the key is well-formed, and the store has no record of it',
      undefined,
    ]);
    expect(told.map(({ ended }) => ended)).toEqual([
      { keyId: revoked.key.id, last4: revoked.secret.slice(-4) },
      { keyId: replaced.key.id, last4 },
      ...[undefined, undefined],
    ]);
  });

  test('of a deleted key names the key no more', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(deleted({ ...key, revokedAtMs: 1 }, 2));
    const identity = await identifierOn(store).identifier.identify(secret);
    expect(identity).toEqual({ kind: 'refused', code: 'invalid_api_key', cause: expect.stringContaining('no record') });
  });

  test('is not looked up again and again (reliability 50)', async () => {
    const store = new FakeStore();
    const { identifier } = identifierOn(store);
    const { secret } = someKey();
    for (let i = 0; i < 50; i++) await identifier.identify(secret);
    expect(store.lookUps).toBe(1);
  });

  test('that is made into a good one works within a second, even if nobody tells', async () => {
    const store = new FakeStore();
    const { identifier, pass } = identifierOn(store);
    const { key, secret } = someKey();
    expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
    await store.create(key);
    pass(999);
    expect(told(await identifier.identify(secret))).toBe(key.id);
  });

  test('does not match by its digest alone where the record has none like it (reliability 48)', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    store.ownerOf = async () => ({ ...key, secrets: [] });
    expect(told(await identifierOn(store).identifier.identify(secret))).toBe('invalid_api_key');
  });
});

describe('the end of a key', () => {
  test('comes at its very millisecond, although it is remembered', async () => {
    const store = new FakeStore();
    const { identifier, clock, pass } = identifierOn(store);
    const { key, secret } = someKey({ expiresAtMs: clock.wallMs + 100 });
    await store.create(key);
    expect(told(await identifier.identify(secret))).toBe(key.id);
    pass(99);
    expect(told(await identifier.identify(secret))).toBe(key.id);
    pass(1);
    expect(told(await identifier.identify(secret))).toBe('expired_api_key');
    expect(store.lookUps).toBe(1);
  });

  test('comes for a retired secret, and the new one goes on', async () => {
    const store = new FakeStore();
    const { identifier, clock, pass } = identifierOn(store);
    const old = someKey();
    const fresh = someKey();
    const retired = { ...old.key.secrets[0]!, expiresAtMs: clock.wallMs + 100 };
    await store.create({ ...old.key, secrets: [fresh.key.secrets[0]!, retired] });
    expect(told(await identifier.identify(old.secret))).toBe(old.key.id);
    pass(100);
    expect(told(await identifier.identify(old.secret))).toBe('expired_api_key');
    expect(told(await identifier.identify(fresh.secret))).toBe(old.key.id);
  });

  test('by revocation is obeyed at the next request once it is told that the key has changed', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    await identifier.identify(secret);
    await store.create({ ...key, revokedAtMs: 1 });
    identifier.forget(key.id);
    expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
    expect(identifier.remembered.known).toBe(0);
  });

  test('by revocation, where anything may have changed, is obeyed when the store has said so, at most 250 ms later', async () => {
    const store = new FakeStore();
    const [used, unused] = [someKey(), someKey()];
    const { identifier, pass } = identifierOn(store);
    for (const { key, secret } of [used, unused]) {
      await store.create(key);
      await identifier.identify(secret);
      await store.create({ ...key, revokedAtMs: 1 });
    }
    identifier.forget(null);
    expect(told(await identifier.identify(used.secret))).toBe(used.key.id);
    await turn();
    expect(told(await identifier.identify(used.secret))).toBe('invalid_api_key');
    // Said again and again, it is no excuse for more.
    for (let i = 0; i < 5; i++) {
      pass(50);
      identifier.forget(null);
    }
    expect(told(await identifier.identify(unused.secret))).toBe('invalid_api_key');
    expect(identifier.remembered.known).toBe(0);
  });

  test('is asked about a few keys at a time, while all of them go on, when anything may have changed', async () => {
    const store = new FakeStore();
    const keys = Array.from({ length: 200 }, () => someKey());
    const { identifier } = identifierOn(store);
    for (const { key, secret } of keys) {
      await store.create(key);
      await identifier.identify(secret);
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const before = store.lookUps;
    identifier.forget(null);
    // Several feeds say it when they are back.
    identifier.forget(null);
    for (const { key, secret } of keys) expect(told(identifier.identify(secret) as Identity)).toBe(key.id);
    expect(store.lookUps - before).toBe(32);
    store.gate = null;
    resolve();
    await turn();
    expect(store.lookUps - before).toBe(200);
  });

  test('by revocation holds against a look-up that was under way and had read the old record', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const early = identifier.identify(secret);
    await turn();
    await store.create({ ...key, revokedAtMs: 1 });
    identifier.forget(key.id);
    store.gate = null;
    const late = identifier.identify(secret);
    resolve();
    expect(told(await late)).toBe('invalid_api_key');
    await early;
    expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
  });

  test('by revocation that nobody told of is obeyed after the next confirmation', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier, pass } = identifierOn(store);
    await identifier.identify(secret);
    await store.create({ ...key, revokedAtMs: 1 });
    pass(10_000);
    // Answered from memory, and asked about in the background.
    expect(told(await identifier.identify(secret))).toBe(key.id);
    await turn();
    expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
  });
});

describe('a key in use', () => {
  async function inUse(isCurrent: boolean) {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const changes = { isCurrent };
    const { identifier, pass } = identifierOn(store, { changes, staleKeysMs: 3_600_000 });
    const use = async (forMs: number) => {
      for (let passedMs = 0; passedMs < forMs; passedMs += 1_000) {
        expect(told(await identifier.identify(secret))).toBe(key.id);
        await turn();
        pass(1_000);
      }
    };
    return { store, changes, use };
  }

  test('is looked up once a minute while the feed of changes is current, and every ten seconds otherwise', async () => {
    const { store, changes, use } = await inUse(true);
    await use(600_000);
    expect(store.lookUps).toBe(10);
    changes.isCurrent = false;
    await use(600_000);
    expect(store.lookUps).toBeGreaterThanOrEqual(65);
  });

  test('counts as confirmed by the feed: it works for staleKeys after the store has left', async () => {
    const { store, changes, use } = await inUse(true);
    await use(55_000);
    store.isAway = true;
    changes.isCurrent = false;
    // The last confirmation was at 50 s.
    await use(3_590_000);
  });
});

describe('while the store is away', () => {
  test('known keys keep working for staleKeys and no longer, unknown ones are not called invalid', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier, pass } = identifierOn(store, { staleKeysMs: 60_000 });
    await identifier.identify(secret);
    store.isAway = true;
    expect(await identifier.identify(someKey().secret)).toEqual({ kind: 'unavailable' });
    for (let passedMs = 0; passedMs < 59_000; passedMs += 1_000) {
      expect(told(await identifier.identify(secret))).toBe(key.id);
      pass(1_000);
    }
    pass(1_000);
    expect(await identifier.identify(secret)).toEqual({ kind: 'unavailable' });
    store.isAway = false;
    expect(told(await identifier.identify(secret))).toBe(key.id);
  });

  test('a look-up that broke before it had begun is not the last one of its secret', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store);
    const find = store.ownerOf;
    store.ownerOf = () => {
      throw new Error('broken');
    };
    expect(told(await identifier.identify(secret))).toBe('unavailable');
    store.ownerOf = find;
    expect(told(await identifier.identify(secret))).toBe(key.id);
  });

  test('known keys keep working although anything may have changed, and are asked about again soon', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier, pass } = identifierOn(store);
    await identifier.identify(secret);
    store.isAway = true;
    identifier.forget(null);
    expect(told(await identifier.identify(secret))).toBe(key.id);
    const asked = store.lookUps;
    expect(told(await identifier.identify(secret))).toBe(key.id);
    expect(store.lookUps).toBe(asked);
    await turn();
    await store.create({ ...key, revokedAtMs: 1 });
    store.isAway = false;
    pass(999);
    expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
  });

  test('a key that was revoked before does not come back to life', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier, pass } = identifierOn(store);
    await identifier.identify(secret);
    await store.create({ ...key, revokedAtMs: 1 });
    identifier.forget(key.id);
    await identifier.identify(secret);
    store.isAway = true;
    pass(2_000);
    expect(told(await identifier.identify(secret))).toBe('unavailable');
  });
});

describe('a change of peppers', () => {
  const under = (peppers: readonly string[], store: FakeStore) => identifierOn(store, { peppers });

  test('keeps every key working and re-hashes it when it is used', async () => {
    const store = new FakeStore();
    const { key, secret, digest } = someKey({}, 'old');
    await store.create(key);
    expect(told(await under(['new', 'old'], store).identifier.identify(secret))).toBe(key.id);
    await expect.poll(() => store.keys.get(key.id)?.secrets[0]?.digest).not.toBe(digest);
    expect(store.keys.get(key.id)?.secrets[0]).toMatchObject({ last4: secret.slice(-4) });
    // The old pepper can go.
    expect(told(await under(['new'], store).identifier.identify(secret))).toBe(key.id);
    expect(told(await under(['old'], store).identifier.identify(secret))).toBe('invalid_api_key');
  });

  test('marks the pepper of a secret that is used, also where a version that knows no marks has hashed it again (reliability 591)', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({}, 'old');
    await store.create(key);
    const marks = new PepperMarks(['new', 'old']);
    const pepper = () => marks.pepperOf(store.keys.get(key.id)!.secrets[0]!);
    const use = async (...peppers: string[]) => {
      const { identifier } = under(peppers, store);
      expect(told(await identifier.identify(secret))).toBe(key.id);
      await turn();
    };
    expect(pepper()).toBe('unknown');
    await use('old');
    // A store that has had one pepper needs no marks.
    expect([store.updates, pepper()]).toEqual([0, 'unknown']);
    await use('old', 'new');
    expect(pepper()).toBe('old');
    const hashedByFormer = (digest: string) => {
      const present = store.keys.get(key.id)!;
      store.keys.set(key.id, { ...present, secrets: present.secrets.map((one) => ({ ...one, digest })) });
    };
    hashedByFormer(digestOf(secret, 'new'));
    expect(pepper()).toBe('unknown');
    await use('new', 'old');
    expect([store.updates, pepper()]).toEqual([2, 'current']);
    await use('new', 'old');
    expect(store.updates).toBe(2);
  });

  test('that is over still marks what is used', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({}, 'new');
    await store.create(key);
    const { identifier } = identifierOn(store, { peppers: ['new'], hadOtherPepper: () => true });
    await identifier.identify(secret);
    await turn();
    expect(new PepperMarks(['new']).pepperOf(store.keys.get(key.id)!.secrets[0]!)).toBe('current');
  });

  test('is tried again when the store was away for it', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({}, 'old');
    await store.create(key);
    const { identifier } = under(['new', 'old'], store);
    const update = store.update.bind(store);
    store.update = async () => {
      throw new Error('away');
    };
    await identifier.identify(secret);
    await turn();
    store.update = update;
    identifier.forget(null);
    await identifier.identify(secret);
    await turn();
    expect(told(await under(['new'], store).identifier.identify(secret))).toBe(key.id);
  });

  test('seen in another order by another gateway sets off no quarrel: each re-hashes a secret once', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({}, 'old');
    await store.create(key);
    const gateways = [under(['new', 'old'], store), under(['old', 'new'], store)];
    for (let i = 0; i < 20; i++) {
      for (const { identifier } of gateways) {
        expect(told(await identifier.identify(secret))).toBe(key.id);
        await turn();
        identifier.forget(key.id);
      }
    }
    expect(store.updates).toBeLessThanOrEqual(2);
  });

  test('that another gateway undid is made once more when that one is gone', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey({}, 'old');
    await store.create(key);
    const [last, leaving] = [under(['new', 'old'], store), under(['old', 'new'], store)];
    for (const { identifier } of [last, leaving]) {
      await identifier.identify(secret);
      await turn();
    }
    expect(told(await under(['new'], store).identifier.identify(secret))).toBe('invalid_api_key');
    for (let minute = 0; minute < 2; minute++) {
      last.pass(61_000);
      last.identifier.forget(key.id);
      await last.identifier.identify(secret);
      await turn();
    }
    expect(told(await under(['new'], store).identifier.identify(secret))).toBe(key.id);
  });
});

describe('memory', () => {
  test('has a bound against a flood of made-up keys with good checksums, and no good key is pushed out by it (reliability 50)', async () => {
    const store = new FakeStore();
    const { key, secret } = someKey();
    await store.create(key);
    const { identifier } = identifierOn(store, { bounds: { known: 10, unknown: 1_000 } });
    const good = await identifier.identify(secret);
    for (let i = 0; i < 50_000; i++) await identifier.identify(someKey().secret);
    expect(identifier.remembered).toEqual({ known: 1, unknown: 1_000 });
    expect(identifier.identify(secret)).toBe(good);
  });

  test('has a bound for good keys too, and one that was pushed out still obeys its revocation', async () => {
    const store = new FakeStore();
    const keys = Array.from({ length: 30 }, () => someKey());
    for (const { key } of keys) await store.create(key);
    const { identifier } = identifierOn(store, { bounds: { known: 10, unknown: 10 } });
    for (const { secret } of keys) await identifier.identify(secret);
    expect(identifier.remembered.known).toBe(10);
    for (const { key } of keys) {
      await store.create({ ...key, revokedAtMs: 1 });
      identifier.forget(key.id);
    }
    for (const { secret } of keys) expect(told(await identifier.identify(secret))).toBe('invalid_api_key');
    expect(identifier.remembered.known).toBe(0);
  });
});

describe('of a certificate, by its fingerprint and its other names', () => {
  const [FINGERPRINT, URI, DNS] = [`sha256:${'a'.repeat(64)}`, 'uri:spiffe://example.com/shop', 'dns:shop.internal'];
  test.each<[string, readonly (readonly string[])[], number | null]>([
    ['no key has a name of it', [[], ['dns:other']], null],
    ['the key of its fingerprint', [[URI], [FINGERPRINT], [DNS]], 1],
    ['the only key of its other names', [[], [DNS]], 1],
    ['the key of several of its names', [[DNS, URI]], 0],
    ['several keys with one name each are none', [[URI], [DNS]], null],
  ])('%s', async (_what, names, found) => {
    const store = new FakeStore();
    const keys = names.map((certificates) => someKey({ certificates }).key);
    for (const key of keys) await store.create(key);
    const { identifier } = identifierOn(store);
    const first = await identifier.identifyCertificate([FINGERPRINT, URI, DNS]);
    expect(told(first)).toBe(found === null ? 'invalid_api_key' : keys[found]!.id);
    // It is remembered, and answered at once.
    expect(identifier.identifyCertificate([FINGERPRINT, URI, DNS])).toBe(first);
  });

  test('neither a deleted key nor one that the store finds without the name', async () => {
    class LenientStore extends FakeStore {
      override async ownerOf(digest: string) {
        return digest === certificateDigest(DNS) ? [...this.keys.values()][0]! : null;
      }
    }
    for (const differently of [{ certificates: [DNS], deletedAtMs: 1 }, { certificates: [URI] }, {}]) {
      const store = new LenientStore();
      await store.create(someKey(differently).key);
      expect(told(await identifierOn(store).identifier.identifyCertificate([FINGERPRINT, DNS]))).toBe(
        'invalid_api_key',
      );
    }
  });
});

test('a key of which one secret was forgotten for others is looked up anew by the other secret after a change', async () => {
  const [one, two] = [someKey(), someKey()];
  const key = { ...one.key, secrets: [...one.key.secrets, ...two.key.secrets] };
  const [more, store] = [someKey(), new FakeStore()];
  await store.create(key);
  await store.create(more.key);
  const { identifier } = identifierOn(store, { bounds: { known: 2, unknown: 2 } });
  for (const secret of [one.secret, two.secret, more.secret]) await identifier.identify(secret);
  await store.create({ ...key, plan: 'free' });
  identifier.forget(key.id);
  expect(await identifier.identify(two.secret)).toMatchObject({ key: { plan: 'free' } });
});

test('a change of a customer is known at once to the tokens that name it, and to its keys', async () => {
  const store = new FakeStore();
  const { key, secret } = someKey({ customer: 'cus_1' });
  await store.create(key);
  const { identifier, customers, stored } = identifierOn(store);
  const customer = someCustomer({ id: 'cus_1', plan: 'free' });
  await stored.create(customer);
  expect(await identifier.identify(secret)).toMatchObject({ key: { plan: 'free' } });
  await stored.create({ ...customer, plan: 'pro' });
  identifier.forget('cus_1');
  expect(await customers.of('cus_1')).toMatchObject({ plan: 'pro' });
  expect(await identifier.identify(secret)).toMatchObject({ key: { plan: 'pro' } });
});
