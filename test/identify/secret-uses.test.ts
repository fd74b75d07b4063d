import { expect, test } from 'vitest';
import { type SecretUse, secretName } from '../../src/identify/secret-use-store.ts';
import { SecretUses } from '../../src/identify/secret-uses.ts';
import { atEnd } from '../support/endings.ts';
import { FakeStore, identifierOn } from './fake-store.ts';
import { someKey } from './some-key.ts';

const DAY_MS = 86_400_000;

/** Notes into an array, or fails. */
function usesInto(noted: SecretUse[][], isAway = () => false) {
  const note = async (uses: readonly SecretUse[]) => {
    if (isAway()) throw new Error('away');
    noted.push([...uses]);
  };
  const uses = new SecretUses({ store: { note } });
  atEnd(() => uses.writes.close());
  return uses;
}

test('a secret is noted once on each day on which it is used, by any number of requests (reliability 267)', async () => {
  const store = new FakeStore();
  const { key, secret } = someKey();
  await store.create(key);
  const noted: SecretUse[][] = [];
  const uses = usesInto(noted);
  const { identifier, clock, pass } = identifierOn(store, { onUse: (...use) => uses.note(...use) });
  clock.wallMs = Date.parse('2026-11-21T23:00:00Z');
  const useMany = async () => {
    for (let i = 0; i < 100; i++) {
      await identifier.identify(secret);
      await uses.writes.flush();
      pass(1_000);
    }
    identifier.forget(key.id);
    await identifier.identify(secret);
    await uses.writes.flush();
  };
  await useMany();
  const use = { keyId: key.id, secret: secretName(key.secrets[0]!), present: key.secrets.map(secretName) };
  expect(noted).toEqual([[{ ...use, day: '2026-11-21' }]]);
  pass(DAY_MS);
  await useMany();
  expect(noted.slice(1)).toEqual([[{ ...use, day: '2026-11-22' }]]);
});

test('each secret of a key is noted for itself, and what no key has is not noted', async () => {
  const store = new FakeStore();
  const [{ key, secret }, other] = [someKey(), someKey()];
  await store.create({ ...key, secrets: [...other.key.secrets, ...key.secrets] });
  const seen: string[] = [];
  const { identifier } = identifierOn(store, {
    onUse: (_, { last4 }) => {
      seen.push(last4);
      return true;
    },
  });
  for (const one of [other.secret, someKey().secret, secret]) await identifier.identify(one);
  expect(seen).toEqual([other.secret.slice(-4), secret.slice(-4)]);
});

test('uses that the store does not accept are written later, and a use that found no room is noted again', async () => {
  const noted: SecretUse[][] = [];
  let isAway = true;
  const uses = usesInto(noted, () => isAway);
  const { key } = someKey();
  expect(uses.note(key, key.secrets[0]!, DAY_MS)).toBe(true);
  await uses.writes.flush();
  isAway = false;
  await uses.writes.flush();
  expect(noted).toHaveLength(1);

  const store = new FakeStore();
  const one = someKey();
  await store.create(one.key);
  let calls = 0;
  const { identifier, pass } = identifierOn(store, { onUse: () => ++calls > 1 });
  for (let i = 0; i < 4; i++) {
    await identifier.identify(one.secret);
    pass(11_000);
    await new Promise(setImmediate);
  }
  expect(calls).toBe(2);
});

test('no more than 10,000 uses wait, and one flush writes 50 (reliability 267)', async () => {
  const noted: SecretUse[][] = [];
  const uses = usesInto(noted);
  const { key } = someKey();
  const outcomes = Array.from({ length: 10_001 }, (_, i) => uses.note({ ...key, id: `key_${i}` }, key.secrets[0]!, 0));
  expect(outcomes.filter((wasNoted) => !wasNoted)).toHaveLength(1);
  await uses.writes.flush();
  expect(noted.map(({ length }) => length)).toEqual([50]);
  await uses.writes.close();
  expect(noted.map(({ length }) => length)).toEqual([50, 9_950]);
});
