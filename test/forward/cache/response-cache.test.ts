import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CacheKey, purgeIn, purgeText, ResponseCache } from '../../../src/forward/cache/response-cache.ts';
import { type CacheableRequest, StoredResponse, type Use } from '../../../src/forward/cache/stored-response.ts';

const clock = { nowMs: Date.UTC(2026, 10, 30, 12) };
const cacheOf = (maxBytes: number) => new ResponseCache({ maxBytes, maxBodyBytes: maxBytes }, () => clock.nowMs);
const { policies } = cacheOf(1);
const asking = (fields: Record<string, string> = {}): CacheableRequest => ({ target: '/a', fields });

function stored(fields: Record<string, string>, request = asking(), ttlSeconds = 0): StoredResponse | null {
  const head = { status: 200, servedBy: null, fields: Object.entries(fields).flat() };
  return StoredResponse.of(head, request, { policies, ttlSeconds });
}

const keyOf = (name: string, owner = 'key_1', route = '/v1/**'): CacheKey => ({
  ...{ whole: name, target: `store ${name}`, route, path: `/v1/${name}`, owner },
});

test.each<[string, Record<string, string>, Use | null]>([
  ['fresh', { 'Cache-Control': 'max-age=60' }, 'fresh'],
  ['fresh in capitals', { 'cache-control': 'MAX-AGE=60' }, 'fresh'],
  ['fresh for shared caches', { 'cache-control': 's-maxage=60, max-age=0' }, 'fresh'],
  ['fresh until a date', { expires: 'Mon, 30 Nov 2026 13:00:00 GMT' }, 'fresh'],
  ['without a valid date', { expires: 'Mon, 30 Nov 2026 13:0:00 GMT', etag: '"1"' }, 'validate'],
  ['older than its age allows', { 'cache-control': 'max-age=60', age: '61', etag: '"1"' }, 'validate'],
  ['with an age that is none', { 'cache-control': 'max-age=60', age: '61.5' }, 'fresh'],
  ['targeted at caches', { 'cache-control': 'no-store', 'cdn-cache-control': 'max-age=60' }, 'fresh'],
  ['not for caches', { 'cache-control': 'max-age=60', 'cdn-cache-control': 'no-store' }, null],
  ['with a wrong target', { 'cache-control': 'max-age=60', 'cdn-cache-control': 'no-store;;' }, 'fresh'],
  ['guessed by its last change', { 'last-modified': 'Thu, 01 Jan 1998 00:00:00 GMT' }, 'validate'],
  ['without anything to go by', {}, null],
])('a response %s (%j) is %s', (_, fields, use) => {
  expect(stored(fields)?.useFor(asking()) ?? null).toBe(use);
});

test('a response to a request with Authorization is stored only if it says so (RFC 9111 section 3.5)', () => {
  const request = asking({ authorization: 'Custom x' });
  expect(stored({ 'cache-control': 'max-age=60' }, request)).toBeNull();
  expect(stored({ 'cache-control': 'public, max-age=60' }, request)).not.toBeNull();
});

test('a fresh response becomes stale when its time is over, and is used while it is renewed only if it says so', () => {
  const strict = stored({ 'cache-control': 'max-age=60, must-revalidate', etag: '"1"' })!;
  const lenient = stored({ 'cache-control': 'max-age=60, stale-while-revalidate=30' })!;
  const uses = () => [strict, lenient].map((response) => response.useFor(asking()));
  expect(uses()).toEqual(['fresh', 'fresh']);
  clock.nowMs += 61_000;
  expect(uses()).toEqual(['validate', 'stale_while_revalidating']);
  clock.nowMs += 30_000;
  expect(uses()).toEqual(['validate', 'validate']);
});

test.each([
  [{ 'if-none-match': '*' }, true],
  [{ 'if-none-match': 'W/"a"' }, true],
  [{ 'if-none-match': '"b", "a"' }, true],
  [{ 'if-none-match': '"b"', 'if-modified-since': 'Mon, 30 Nov 2026 11:00:00 GMT' }, false],
  [{ 'if-modified-since': 'Mon, 30 Nov 2026 10:00:00 GMT' }, true],
  [{ 'if-modified-since': 'Mon, 30 Nov 2026 09:59:59 GMT' }, false],
  [{ 'if-modified-since': 'then' }, false],
  [{}, false],
])('a client that sends %j knows the response: %s', (fields, isKnown) => {
  const response = stored({
    ...{ 'cache-control': 'max-age=60', etag: '"a"', 'last-modified': 'Mon, 30 Nov 2026 10:00:00 GMT' },
  })!;
  expect(response.isKnownTo(asking(fields as Record<string, string>))).toBe(isKnown);
});

const VERSION = {
  etag: '"a"',
  'last-modified': 'Mon, 30 Nov 2026 10:00:00 GMT',
  date: 'Mon, 30 Nov 2026 11:00:00 GMT',
};

test.each<[string, string | null, object | 'beyond' | null]>([
  ['bytes=0-0', null, { from: 0, to: 1 }],
  ['bytes=2-', null, { from: 2, to: 10 }],
  ['BYTES=2-99', null, { from: 2, to: 10 }],
  ['bytes=-3', null, { from: 7, to: 10 }],
  ['bytes=-99', null, { from: 0, to: 10 }],
  [`bytes=0-${'9'.repeat(400)}`, null, { from: 0, to: 10 }],
  ['bytes=10-', null, 'beyond'],
  [`bytes=${'9'.repeat(400)}-`, null, 'beyond'],
  ['bytes=-0', null, 'beyond'],
  ['bytes=4-2', null, null],
  ['bytes=0-1,4-5', null, null],
  ['lines=0-1', null, null],
  ['bytes=-', null, null],
  ['bytes=0-1', '"a"', { from: 0, to: 2 }],
  ['bytes=0-1', 'W/"a"', null],
  ['bytes=0-1', '"b"', null],
  ['bytes=0-1', 'Mon, 30 Nov 2026 10:00:00 GMT', { from: 0, to: 2 }],
  ['bytes=0-1', 'Mon, 30 Nov 2026 10:00:01 GMT', null],
])('of ten bytes, a client that asks for %s if it is of %s gets %j (reliability 586)', (range, ifRange, part) => {
  const whole = stored({ 'cache-control': 'max-age=60', ...VERSION })!.withBody(Buffer.alloc(10));
  expect(whole.partFor(asking({ range, ...(ifRange !== null && { 'if-range': ifRange }) }))).toEqual(part);
});

test('a part is taken by no validator that other versions may have, and of no empty body (reliability 586)', () => {
  const asked = (fields: Record<string, string>, ifRange: string, length = 10) =>
    stored({ 'cache-control': 'max-age=60', ...VERSION, ...fields })!
      .withBody(Buffer.alloc(length))
      .partFor(asking({ range: 'bytes=0-1', 'if-range': ifRange }));
  expect(asked({ etag: 'W/"a"' }, 'W/"a"')).toBeNull();
  expect(asked({ date: VERSION['last-modified'] }, VERSION['last-modified'])).toBeNull();
  expect(asked({ date: 'then' }, VERSION['last-modified'])).toBeNull();
  expect(asked({}, '"a"', 0)).toBeNull();
});

test('the memory is bounded in all and for each caller, whatever is kept, and finds nothing that was removed (reliability 558)', () => {
  const kept = fc.record({
    name: fc.constantFrom(...Array.from({ length: 12 }, (_, i) => `n${i}`)),
    owner: fc.constantFrom('key_1', 'key_2', 'key_3'),
    length: fc.integer({ min: 0, max: 9_000 }),
    accept: fc.constantFrom('a', 'b'.repeat(4_000)),
  });
  const does = fc.oneof(kept, fc.record({ changed: fc.constantFrom('n0', 'n1') }), fc.record({ purged: kept }));
  fc.assert(
    fc.property(fc.array(does, { maxLength: 60 }), (all) => {
      const cache = cacheOf(64 * 1024);
      for (const one of all) {
        if ('changed' in one) {
          cache.changed(`store ${one.changed}`);
          expect(cache.find(keyOf(one.changed), asking({ accept: 'a' }))).toBeNull();
        } else if ('purged' in one) {
          cache.purge({ route: null, path: `/v1/${one.purged.name}` });
          expect(cache.find(keyOf(one.purged.name), asking({ accept: 'a' }))).toBeNull();
        } else {
          const request = asking({ accept: one.accept });
          const response = stored({ 'cache-control': 'max-age=60', vary: 'Accept' }, request)!;
          cache.keep(keyOf(one.name, one.owner), request, response.withBody(Buffer.alloc(one.length)));
        }
        expect(cache.bytes).toBeLessThanOrEqual(64 * 1024);
      }
      const cleared = cache.bytes > 0;
      expect(cache.purge({ route: '/v1/**', path: null }) > 0).toBe(cleared);
      expect(cache.bytes).toBe(0);
    }),
  );
  const one = cacheOf(64 * 1024);
  for (let i = 0; i < 50; i++) one.keep(keyOf(`n${i}`), asking(), stored({ 'cache-control': 'max-age=60' })!);
  expect(one.bytes).toBeLessThanOrEqual(16 * 1024);
  expect(one.find(keyOf('n49'), asking())).not.toBeNull();
  expect(one.find(keyOf('n0'), asking())).toBeNull();
});

test('what is kept of a request for Vary counts', () => {
  const [small, large] = ['a', 'a'.repeat(16_384)].map((accept) => {
    return stored({ 'cache-control': 'max-age=60', vary: 'Accept' }, asking({ accept }))!.bytes;
  });
  expect(large! - small!).toBeGreaterThanOrEqual(16_383);
});

test('a purge is the same behind the store, and what cannot be read removes everything', () => {
  for (const purge of [
    { route: null, path: null },
    { route: '/v1/**', path: '/ü' },
  ]) {
    expect(purgeText(purge)).toMatch(/^[\w-]+$/);
    expect(purgeIn(purgeText(purge))).toEqual(purge);
  }
  for (const text of [null, '', '!', Buffer.from('[1,2]').toString('base64url')]) {
    expect(purgeIn(text)).toEqual({ route: null, path: null });
  }
});
