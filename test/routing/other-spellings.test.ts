import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainAllowance } from '../../src/admit/allowance.ts';
import type { WindowLimit } from '../../src/admit/windows.ts';
import { fieldRulesOf } from '../../src/http1/field-rules.ts';
import { atOnce } from '../../src/io/steps.ts';
import { boundedReserve, type Charge, type Reserve } from '../../src/meter/charge.ts';
import { factorOf } from '../../src/meter/factor.ts';
import { looserRules } from '../../src/routing/bounds.ts';
import { PathGroups } from '../../src/routing/path-groups.ts';
import { pathTemplateOf } from '../../src/routing/path-template.ts';
import { plainPath } from '../../src/routing/pattern.ts';
import { type Route, USAGE } from '../../src/routing/route.ts';
import { pathRouterOf } from '../../src/routing/router.ts';
import { SEED, tries } from '../support/sample.ts';

test.each([
  ['/v1/search', '/v1/search'],
  ['/v1/Search;a=1/X', '/v1/search/x'],
  ['/v1/search%3Ba;b/x', '/v1/search/x'],
  ['/v1/search%20%2e./x', '/v1/search/x'],
  ['/%20v1/a.b', '/v1/a.b'],
  ['/v1/.../x', '/v1/.../x'],
  ['/v1/caf%C3%A9', '/v1/café'],
  ['/v1/CAF%C3%89', '/v1/café'],
  ['/v1/tas%E2%84%AA%C5%BF', '/v1/tasks'],
  ['/v1/stra%C3%9Fe', '/v1/strasse'],
  ['/v1/%C3%9Cber;x/%C9', '/v1/über/é'],
  ['/v1/%2573', '/v1/%73'],
  ['/', '/'],
  ['/v1/;x', '/v1/'],
])('%s in its plainest form is %s', (path, plain) => {
  expect(plainPath(path)).toBe(plain);
});

const encoded = (character: string) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`;

/** A literal segment in one of the spellings that some services read as the same. */
function spelled(segment: string, { letters, before, after }: Spelling): string {
  const written = [...segment].map((character, i) => {
    const how = letters[i % letters.length]!;
    const one =
      how % 2 === 0
        ? character
        : character === character.toUpperCase()
          ? character.toLowerCase()
          : character.toUpperCase();
    return how < 2 ? one : encoded(one);
  });
  return before + written.join('') + after;
}

interface Spelling {
  readonly letters: readonly number[];
  readonly before: string;
  readonly after: string;
}

const spelling: fc.Arbitrary<Spelling> = fc.record({
  letters: fc.array(fc.nat(3), { minLength: 1, maxLength: 4 }),
  before: fc.constantFrom('', '', '%20'),
  after: fc.constantFrom('', '', ';', ';a=1', '%3Bb', '%3b', '.', '%2e', '%20', '%20%20', '.%20;c.d', ';A;%20'),
});
const literal = fc.constantFrom('admin', 'Admin', 'a.b', 'v1', 'X', 'a-b_c~d', 'search;x', "o'k");
const inner = fc.array(fc.oneof({ weight: 3, arbitrary: literal }, { weight: 1, arbitrary: fc.constant('{name}') }), {
  minLength: 1,
  maxLength: 4,
});

/** A path of the pattern, each literal in a spelling of its own. */
function pathOf(pattern: readonly string[], spellings: readonly Spelling[]): string {
  const segments = pattern.map((segment, i) => (segment === '{name}' ? 'Some7' : spelled(segment, spellings[i]!)));
  return `/${segments.join('/')}`;
}

const spellings = fc.array(spelling, { minLength: 4, maxLength: 4 });
/** Each name is written once in a pattern. */
const named = (pattern: readonly string[]) =>
  `/${pattern.map((one, i) => (one === '{name}' ? `{n${i}}` : one)).join('/')}`;

test('whatever spelling of a path a client sends, its group sees it (reliability 346)', () => {
  fc.assert(
    fc.property(inner, spellings, fc.boolean(), (pattern, how, isWide) => {
      const groups = new PathGroups([{ routes: [named(pattern) + (isWide ? '/**' : '')] }]);
      expect(groups.matching({ path: pathOf(pattern, how) + (isWide ? '/Rest;x' : ''), method: 'GET' }) & 1).toBe(1);
    }),
    { seed: SEED, numRuns: tries(2_000, 50_000) },
  );
});

const routeOf = (path: string, rules: Partial<Route> = {}): Route => ({ ...USAGE, path, upstream: 'store', ...rules });

test('no spelling of a path reaches its service by a wider route without its scopes (reliability 346)', () => {
  fc.assert(
    fc.property(inner, spellings, fc.nat(4), fc.boolean(), (pattern, how, at, isWide) => {
      fc.pre(pattern.some((segment) => segment !== '{name}'));
      const outer = `/${pattern
        .slice(0, at % pattern.length)
        .map((_, i) => `{n${i}}`)
        .concat('**')
        .join('/')}`;
      const path = named(pattern) + (isWide ? '/**' : '');
      const routes = [routeOf(outer), routeOf(path, { scopes: ['admin'] })];
      const sent = pathOf(pattern, how) + (isWide ? '/rest' : '');
      const found = atOnce(pathRouterOf(routes)).match(sent, 'GET');
      expect(found?.route?.path).not.toBe(outer);
      // With the same rules both serve it, except what differs by its encoding alone.
      const alike = atOnce(pathRouterOf([routeOf(outer), routeOf(path)])).match(sent, 'GET');
      if (!sent.includes('%')) expect([outer, path]).toContain(alike?.route?.path);
    }),
    { seed: SEED, numRuns: tries(2_000, 50_000) },
  );
});

test.each([
  ['/v1/caf%C3%A9', '/v1/Caf%C3%89'],
  ['/v1/CAF%C3%89', '/v1/caf%C3%A9;x'],
  ['/v1/tasks', '/v1/tas%E2%84%AAs'],
  ['/v1/tasks', '/v1/ta%C5%BFks'],
])('a path of %s is found in %s (reliability 346)', (pattern, sent) => {
  const router = atOnce(pathRouterOf([routeOf('/v1/**'), routeOf(pattern, { scopes: ['admin'] })]));
  expect(router.match(sent, 'GET')?.route).toBeNull();
  expect(new PathGroups([{ routes: [pattern] }]).matching({ path: sent, method: 'GET' }) & 1).toBe(1);
});

test.each<[string, readonly Route[], string, string, string | null]>([
  [
    'the second of two routes that differ in capitals is stricter',
    [routeOf('/v1/**'), routeOf('/v1/Admin'), routeOf('/v1/admin', { scopes: ['a'] })],
    'GET',
    '/v1/ADMIN',
    null,
  ],
  [
    'the first of two routes that differ in capitals is stricter',
    [routeOf('/v1/**'), routeOf('/v1/Admin', { scopes: ['a'] }), routeOf('/v1/admin')],
    'GET',
    '/v1/ADMIN',
    null,
  ],
  [
    'the less specific of two routes around it is stricter',
    [routeOf('/v1/{id}'), routeOf('/v1/**', { scopes: ['a'] }), routeOf('/v1/admin', { scopes: ['a'] })],
    'GET',
    '/v1/Other',
    '/v1/{id}',
  ],
  ...(['GET', 'POST'] as const).map((method): [string, readonly Route[], string, string, string | null] => [
    `only one of the methods of the route around it is looser, for ${method}`,
    [
      routeOf('/v1/{id}', { methods: ['GET'], scopes: ['a'] }),
      routeOf('/v1/{name}', { methods: ['POST'] }),
      routeOf('/v1/admin', { methods: ['GET', 'POST'], scopes: ['a'] }),
    ],
    method,
    '/v1/Admin',
    method === 'GET' ? '/v1/{id}' : null,
  ]),
])(
  'where %s, another spelling is served by the right one or by none (reliability 346)',
  (_where, routes, method, path, served) => {
    expect(atOnce(pathRouterOf(routes)).match(path, method)?.route?.path ?? null).toBe(served);
  },
);

test('a wider route serves what is another path in every reading, and a stricter one by its method', () => {
  const scopes = ['admin'];
  const router = atOnce(
    pathRouterOf([
      routeOf('/v1/**', { methods: ['DELETE', 'GET'] }),
      routeOf('/v1/orders/{id}', { methods: ['DELETE'], scopes }),
      routeOf('/v1/orders/{id}', { methods: ['GET'] }),
      routeOf('/v1/{kind}/secret', { scopes }),
    ]),
  );
  const found = (path: string, method = 'GET') => {
    const match = router.match(path, method);
    return match === null ? null : (match.route?.path ?? 'ambiguous');
  };
  expect(found('/v1/Orders/7')).toBe('/v1/**');
  expect(found('/v1/Orders/7', 'DELETE')).toBe('ambiguous');
  // `orders/{id}` wins in every reading.
  expect(found('/v1/orders/secret;x')).toBe('/v1/orders/{id}');
  // A service that keeps capitals and drops parameters means `{kind}/secret`, one that ignores both `orders/{id}`.
  expect(found('/v1/Orders/secret;x')).toBe('ambiguous');
  expect(found('/v1/Orders/secrets;x')).toBe('/v1/**');
});

const NONE = { kind: 'respond', status: 404, body: '', contentType: 'text/plain', headers: null } as const;
const minute = (limit: number) => ({ window: 'minute' as const, lengthMs: 60_000, limit });
const limited = (...limits: readonly WindowLimit[]): Partial<Route> => ({
  perAddress: { id: 'a', allowance: plainAllowance('a', limits) },
});
const rows = (reserve: number | Reserve, more: Partial<Charge> = {}): Partial<Route> => ({
  charges: [
    {
      unit: 'rows',
      reserve: typeof reserve === 'number' ? { kind: 'fixed', amount: reserve } : reserve,
      sources: [],
      refund: [],
      ...more,
    },
  ],
});
const STATED = { kind: 'header', name: 'x-rows', otherwise: 10, least: 2, most: 50 } as const;
/** From 1 to 10 of a number of the request, times a number; and 1. */
const summed = (times: number): Reserve =>
  boundedReserve({
    kind: 'sum',
    parts: [
      { reserve: { kind: 'header', name: 'x-a', otherwise: 5, least: 1, most: 10 }, times: factorOf(times)! },
      { reserve: { kind: 'fixed', amount: 1 }, times: factorOf(1)! },
    ],
    least: 0,
    most: 1000,
  });
const priced = (times: number) => {
  const part = { source: { kind: 'json', pointer: ['rows'] }, of: '/rows', times: factorOf(times)! } as const;
  return { sources: [{ kind: 'sum', parts: [part] }] } as const;
};
const inJson = (pointer: string) => ({ sources: [{ kind: 'json', pointer: [pointer] }] }) as const;
const fieldsOf = (direction: 'request' | 'response', set: Record<string, string>, remove: readonly string[] = []) =>
  fieldRulesOf(direction, [{ set, remove }]);
const redirect = (pattern: string, to: string, origin = ''): Partial<Route> => ({
  reply: { kind: 'redirect', status: 308, origin, path: pathTemplateOf(pattern, to) },
});
const FRIDAYS = { kind: 'weekly', days: [5], fromMinute: 0, toMinute: 60 } as const;
const RETIRED = { countedAs: 'a', sinceMs: 0, sunsetMs: 1, successor: null, link: null, brownouts: [] };

test.each<[string, Partial<Route>, Partial<Route>, string | null]>([
  ['a scope', {}, { scopes: ['a'] }, 'without the scope a'],
  ['one scope more', { scopes: ['a'] }, { scopes: ['a', 'b', 'c'] }, 'without the scope b c'],
  ['the same scope', { scopes: ['a', 'b'] }, { scopes: ['b'] }, null],
  ['a key', limited(), {}, 'no key'],
  ['no key', {}, limited(minute(5)), null],
  ['a lower limit', limited(minute(60)), limited(minute(5)), '60 instead of 5 per minute and address'],
  ['a limit', limited(), limited(minute(5)), 'any number instead of 5 per minute and address'],
  ['the same limit', limited(minute(5)), limited(minute(5)), null],
  ['a higher limit', limited(minute(5)), limited(minute(6)), null],
  ['fewer methods', { methods: ['DELETE', 'GET'] }, {}, null],
  ['addresses', {}, { addresses: ['10.0.0.0/8'] }, 'from other addresses'],
  ['fewer addresses', { addresses: ['10.0.0.0/8', '::1'] }, { addresses: ['10.0.0.0/8'] }, 'from other addresses'],
  ['more addresses', { addresses: ['::1'] }, { addresses: ['10.0.0.0/8', '::1'] }, null],
  ['all addresses', { addresses: ['::1'] }, {}, null],
  ['a policy', { policies: ['b'] }, { policies: ['a'] }, 'without the policy a'],
  ['a check of its requests', {}, { description: 'a.yaml' }, 'without the check against a.yaml'],
  ['another check', { description: 'a.yaml' }, { description: 'b.yaml' }, 'without the check against b.yaml'],
  ['the same check', { description: 'a.yaml' }, { description: 'a.yaml' }, null],
  ['no check', { description: 'a.yaml' }, {}, null],
  ['a higher cost', {}, { cost: 2 }, 'cost 1 instead of 2'],
  ['a lower cost', { cost: 2 }, {}, null],
  ['a unit', {}, rows(1), 'without a charge in rows'],
  ['a unit less', rows(1), {}, null],
  ['a higher charge of one unit', rows(1), rows(100), 'another charge in rows'],
  ['a lower charge of one unit', rows(100), rows(1), null],
  [
    'a unit, and a higher charge of another one',
    rows(1),
    { charges: [...rows(2).charges!, ...rows(1, { unit: 'tokens' }).charges!] },
    'without a charge in tokens, another charge in rows',
  ],
  ['the same charge', rows(STATED, inJson('rows')), rows({ ...STATED }, inJson('rows')), null],
  ['a charge that its answer states', rows(1), rows(1, inJson('rows')), 'another charge in rows'],
  ['a fixed charge, within a stated one', rows(5, inJson('rows')), rows(1), 'another charge in rows'],
  ['no charge, within a stated one', rows(5, inJson('rows')), rows(0), null],
  ['a charge from elsewhere', rows(1, inJson('count')), rows(1, inJson('rows')), 'another charge in rows'],
  ['a higher reserve', rows(1, inJson('rows')), rows(2, inJson('rows')), 'another charge in rows'],
  ['a lower reserve', rows(2, inJson('rows')), rows(1, inJson('rows')), null],
  ['at most the reserve of the other', rows(50, inJson('rows')), rows(STATED, inJson('rows')), null],
  ['a charge that its request states', rows(49), rows(STATED), 'another charge in rows'],
  ['at most the charge of the other', rows(50), rows(STATED), null],
  ['at least the charge of the other', rows(STATED), rows(2), null],
  ['more than the least charge of the other', rows(STATED), rows(3), 'another charge in rows'],
  ['the same sum', rows(summed(3), priced(2)), rows(summed(3), priced(2)), null],
  ['a sum at a higher price', rows(summed(3), priced(2)), rows(summed(3), priced(2.5)), 'another charge in rows'],
  ['a higher sum in advance', rows(summed(3)), rows(summed(4)), 'another charge in rows'],
  ['at most the sum of the other', rows(31), rows(summed(3)), null],
  ['at least the sum of the other', rows(summed(3)), rows(4), null],
  ['more than the least sum of the other', rows(summed(3)), rows(5), 'another charge in rows'],
  ['no refund', rows(1, { refund: [404] }), rows(1), 'another charge in rows'],
  ['no refund of a lower charge', rows(5, { refund: [404] }), rows(1), 'another charge in rows'],
  ['fewer refunds', rows(1, { refund: [404, 500] }), rows(1, { refund: [404] }), 'another charge in rows'],
  ['more refunds', rows(1, { refund: [404] }), rows(1, { refund: [404, 500] }), null],
  ['a refund', rows(1), rows(1, { refund: ['4xx'] }), null],
  ['smaller bodies', {}, { maxBodyBytes: 1024 }, 'larger bodies'],
  ['larger bodies', { maxBodyBytes: 512 }, { maxBodyBytes: 1024 }, null],
  ['no bodies with GET', { allowsBody: true }, {}, 'bodies of GET, HEAD, DELETE and OPTIONS'],
  ['bodies with GET, within one with such', { allowsBody: true }, { allowsBody: true }, null],
  ['no upgrades', { upgrades: ['websocket'] }, {}, 'upgrades to websocket'],
  ['an upgrade', {}, { upgrades: ['websocket'] }, null],
  ['a rule for its request', {}, { requestHeaders: fieldsOf('request', { a: 'b' }) }, 'other rules for request fields'],
  [
    'no rule for its request',
    { requestHeaders: fieldsOf('request', { authorization: 'Basic YTpi' }) },
    {},
    'other rules for request fields',
  ],
  [
    'the same rule for its request',
    { requestHeaders: fieldsOf('request', { 'X-A': '{plan}' }) },
    { requestHeaders: fieldsOf('request', { 'X-A': '{plan}' }) },
    null,
  ],
  [
    'a response field less',
    {},
    { responseHeaders: fieldsOf('response', {}, ['X-Internal']) },
    'without removing the response field x-internal',
  ],
  ['a response field of its own', {}, { responseHeaders: fieldsOf('response', { 'X-A': 'b' }) }, null],
  ['a sunset', {}, { deprecated: RETIRED }, 'no sunset'],
  ['an earlier sunset', { deprecated: { ...RETIRED, sunsetMs: 2 } }, { deprecated: RETIRED }, 'a later sunset'],
  ['a later sunset', { deprecated: RETIRED }, { deprecated: { ...RETIRED, sunsetMs: 2 } }, null],
  ['the same sunset', { deprecated: RETIRED }, { deprecated: RETIRED }, null],
  ['brownouts', { deprecated: RETIRED }, { deprecated: { ...RETIRED, brownouts: [FRIDAYS] } }, 'without its brownouts'],
  [
    'brownouts, within one that is not deprecated',
    {},
    { deprecated: { ...RETIRED, sunsetMs: null, brownouts: [FRIDAYS] } },
    'without its brownouts',
  ],
  [
    'one brownout more',
    { deprecated: { ...RETIRED, brownouts: [FRIDAYS] } },
    { deprecated: { ...RETIRED, brownouts: [{ ...FRIDAYS }, { ...FRIDAYS, days: [6] }] } },
    'without its brownouts',
  ],
  [
    'the same brownouts',
    { deprecated: { ...RETIRED, brownouts: [{ ...FRIDAYS, days: [6] }, FRIDAYS] } },
    { deprecated: { ...RETIRED, brownouts: [{ ...FRIDAYS }] } },
    null,
  ],
  ['a redirect', {}, redirect('/v1/admin', '/v2/admin'), 'forwarded'],
  ['a redirect to another host', {}, redirect('/v1/admin', '/v1/admin', 'https://a.example'), 'forwarded'],
  ['a redirect to a spelling of itself', {}, redirect('/v1/admin', '/v1/ADMIN'), null],
  [
    'its own way to the service',
    {},
    { upstream: 'b', timeouts: { responseTimeoutMs: 1, bodyTimeoutMs: 1 }, rewrite: pathTemplateOf('/v1/admin', '/a') },
    null,
  ],
  ['an answer of the gateway', {}, { reply: NONE }, 'forwarded'],
  ['an answer of the gateway, within another one', { reply: NONE }, { reply: NONE }, null],
])('a route with %s is stricter than the one around it, or not (reliability 346, 380)', (_what, outer, inner, rule) => {
  const [one, other] = [routeOf('/v1/**', outer), routeOf('/v1/admin', inner)];
  expect(looserRules(one, other)).toEqual(rule === null ? [] : [rule]);
  const router = atOnce(pathRouterOf([one, other]));
  expect(router.match('/v1/Admin', 'GET')?.route === null).toBe(rule !== null);
});

test('a route with stricter rules is not stricter than one around it that is not forwarded (reliability 346)', () => {
  const router = atOnce(pathRouterOf([routeOf('/v1/**', { reply: NONE }), routeOf('/v1/admin', { scopes: ['a'] })]));
  expect(router.match('/v1/Admin', 'GET')?.route?.path).toBe('/v1/**');
});

test('another spelling does not give a path a method that its route lacks (reliability 346)', () => {
  const router = atOnce(pathRouterOf([routeOf('/v1/**', { methods: ['DELETE', 'GET'] }), routeOf('/v1/admin')]));
  expect(router.match('/v1/Admin', 'DELETE')?.route).toBeNull();
  expect(router.match('/v1/Admin', 'GET')?.route?.path).toBe('/v1/**');
});

test("the gateway's own route refuses no other spelling: no service gets it", () => {
  const router = atOnce(pathRouterOf([USAGE, routeOf('/**', limited())]));
  expect(router.match('/Usage', 'GET')?.route?.path).toBe('/**');
  expect(router.match('/usage', 'GET')?.route).toBe(USAGE);
});
