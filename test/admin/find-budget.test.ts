import { expect, test } from 'vitest';
import { MISSES_PER_ADDRESS, MISSES_PER_MINUTE } from '../../src/admin/find-budget.ts';
import { mint } from '../../src/identify/api-key.ts';
import { FakeStore } from '../identify/fake-store.ts';
import { adminApiWith } from './in-process.ts';

// Attack: a viewer guesses the secrets of imported keys, which may be short, with POST /admin/keys/find.

const tokens = Array.from({ length: 8 }, (_, i) => ({ name: `viewer${i}`, token: `the-token-of-a-viewer-${i}` }));
let made = 0;
const wrongSecret = () => mint((bytes) => Buffer.alloc(bytes, ++made % 248));

async function api() {
  const keys = new FakeStore();
  let looked = 0;
  const ownerOf = keys.ownerOf.bind(keys);
  keys.ownerOf = async (digest) => {
    looked++;
    return ownerOf(digest);
  };
  const made = await adminApiWith(keys, { tokens });
  const find = (secret: string, { token } = tokens[0]!) =>
    made.it('POST', '/admin/keys/find', { secret }, made.bearer(token));
  return { ...made, find, looked: () => looked };
}

test('beyond its budget of wrong secrets nothing is looked up for a person, also not by requests that come together (reliability 240)', async () => {
  const { find, it, looked, lines, bearer } = await api();
  const { key } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  const before = lines.length;
  const told = await Promise.all(Array.from({ length: MISSES_PER_MINUTE + 15 }, () => find(wrongSecret())));
  const codes = told.map(({ status, body }) => `${status} ${body.code}`).sort();
  expect(codes).toEqual([
    ...Array(MISSES_PER_MINUTE).fill('404 not_found'),
    ...Array(15).fill('429 too_many_failed_attempts'),
  ]);
  for (const { status, headers } of told) {
    if (status === 429) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  const lookedUp = looked();
  // The right secret is no exception, or guessing would go on.
  expect((await find(key)).status).toBe(429);
  expect(looked()).toBe(lookedUp);
  // Everything else stays possible, and others can still find keys.
  expect((await it('GET', '/admin/keys', undefined, bearer(tokens[0]!.token))).status).toBe(200);
  expect((await find(key, tokens[1])).body.key.plan).toBe('free');
  const line = { action: 'key.find', outcome: 'refused', code: 'not_found', who: 'admin', actor: 'viewer0', id: null };
  expect(lines.slice(before)).toEqual(Array(MISSES_PER_MINUTE).fill(expect.objectContaining(line)));
  expect(JSON.stringify(lines)).not.toContain(key.slice(8, -4));
});

test('five wrong secrets, and any number of right ones, are nothing to worry about (reliability 240)', async () => {
  const { find, it } = await api();
  const { key } = (await it('POST', '/admin/keys', { plan: 'free' })).body;
  for (let i = 0; i < 5; i++) expect((await find(wrongSecret())).status).toBe(404);
  for (let i = 0; i < 3 * MISSES_PER_MINUTE; i++) expect((await find(key)).status).toBe(200);
});

test('many people of one address have a budget together, to which what was refused does not count (reliability 240)', async () => {
  const { find, looked } = await api();
  // One person alone cannot use the budget of the address up.
  for (let i = 0; i < MISSES_PER_ADDRESS + 5; i++) await find(wrongSecret());
  expect(looked()).toBeGreaterThan(0);
  const statuses: number[] = [];
  for (const one of tokens.slice(1)) {
    for (let i = 0; i < MISSES_PER_MINUTE; i++) statuses.push((await find(wrongSecret(), one)).status);
  }
  expect(statuses.filter((status) => status === 404)).toHaveLength(MISSES_PER_ADDRESS - MISSES_PER_MINUTE);
});
