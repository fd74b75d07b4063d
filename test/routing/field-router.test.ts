import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FieldCondition } from '../../src/http1/field-conditions.ts';
import { atOnce } from '../../src/io/steps.ts';
import { routerOf } from '../../src/routing/host-router.ts';
import { type Route, USAGE } from '../../src/routing/route.ts';
import { findCollisions, findUnserved } from '../../src/routing/router.ts';
import { processorMs } from '../support/stopwatch.ts';

// Routes by header fields (`when` of a route).

/** `x-a=1|2 x-b`: X-A is 1 or 2, and X-B is there. */
function conditions(text: string): readonly FieldCondition[] | null {
  if (text === '') return null;
  return text.split(' ').map((one) => {
    const [header = '', values] = one.split('=');
    return { header, is: values?.split('|') ?? null };
  });
}

const route = (path: string, when: string, more: Partial<Route> = {}): Route => ({
  ...USAGE,
  ...{ path, when: conditions(when), upstream: 'store', methods: ['GET'], ...more },
});

function matcher(...routes: Route[]) {
  const router = atOnce(routerOf(routes));
  return (
    fields: readonly string[],
    path = '/x',
    { method = 'GET', host = null as string | null, connection = '' } = {},
  ) => {
    const connectionNames = new Set(connection === '' ? [] : [connection]);
    const found = router.match(path, method, host, { fields: { rawHeaders: fields }, connectionNames });
    return found?.route === null
      ? `ambiguous${found.field === undefined ? '' : ` ${found.field}`}`
      : (found?.name ?? null);
  };
}

describe('of the routes with one path and method, the request goes to', () => {
  const match = matcher(
    route('/x', ''),
    route('/x', 'x-a'),
    route('/x', 'x-b'),
    route('/x', 'x-a=1|2'),
    route('/x', 'x-a=3'),
    route('/x', 'x-a=1 x-b'),
    route('/x', 'x-a=1 x-b=1'),
  );

  test.each([
    ['no field', [], '/x'],
    ['another field', ['X-C', '1'], '/x'],
    ['a value that none has', ['X-A', '9'], '/x (x-a)'],
    ['no value', ['X-A', ''], '/x (x-a)'],
    ['a value', ['X-A', '1'], '/x (x-a: 1)'],
    ['the other value of the same route', ['X-a', '2'], '/x (x-a: 1)'],
    ['the value of another route', ['x-A', '3'], '/x (x-a: 3)'],
    ['the value and another field', ['X-A', '1', 'X-B', '9'], '/x (x-a: 1, x-b)'],
    ['both values', ['X-B', '1', 'X-A', '1'], '/x (x-a: 1, x-b: 1)'],
    ['two fields without a value in common', ['X-B', '1', 'X-A', '9'], '/x (x-a)'],
    ['the value in other letters', ['X-B', '1', 'X-A', 'ONE'], '/x (x-a)'],
  ])('the most specific that holds, with %s', (_, fields, name) => {
    expect(match(fields)).toBe(name);
  });
});

describe('the path comes before the fields, and', () => {
  test('the more specific path has no route for the request then: no wider one serves it', () => {
    const match = matcher(route('/**', ''), route('/x', 'x-a=1'));
    expect([match(['X-A', '1']), match([]), match(['X-A', '1'], '/y')]).toEqual(['/x (x-a: 1)', null, '/**']);
  });

  test('the host comes before both', () => {
    const match = matcher(route('/**', '', { hosts: ['a.example'] }), route('/x', 'x-a=1'));
    const of = (host: string) => match(['X-A', '1'], '/x', { host });
    expect([of('a.example'), of('b.example')]).toEqual(['a.example/**', '/x (x-a: 1)']);
  });

  test('the method before the fields: a method of none of the routes is 405, and one of those that do not fit 404', () => {
    const match = matcher(route('/x', 'x-a=1', { methods: ['GET', 'POST'] }), route('/x', ''));
    const of = (method: string, fields: readonly string[]) => match(fields, '/x', { method });
    expect([of('POST', ['X-A', '1']), of('POST', []), of('HEAD', [])]).toEqual(['/x (x-a: 1)', null, '/x']);
    const router = atOnce(routerOf([route('/x', 'x-a=1')]));
    expect(router.match('/x', 'DELETE', null)).toMatchObject({
      route: { methods: ['GET', 'HEAD'] },
      allow: 'GET, HEAD',
    });
  });

  test('`/x/**` without a slash is chosen in the same way', () => {
    const router = atOnce(routerOf([route('/x/**', 'x-a=1'), route('/x/**', '')]));
    const fields = { fields: { rawHeaders: ['X-A', '1'] }, connectionNames: new Set<string>() };
    expect(router.match('/x', 'GET', null, fields)).toMatchObject({ name: '/x/** (x-a: 1)', isBare: true });
  });

  test('an odd path is passed if the route of its fields passes it', () => {
    const router = atOnce(routerOf([route('/x/**', 'x-a=1', { passes: ['encodedSlashes'] }), route('/x/**', '')]));
    const passes = (rawHeaders: string[]) =>
      router.faultOfOdd('/x/a%2Fb', 'odd', 'GET', null, { fields: { rawHeaders }, connectionNames: new Set() }) ===
      null;
    expect([passes(['X-A', '1']), passes([])]).toEqual([true, false]);
  });
});

describe('a field with several values', () => {
  const match = matcher(route('/x', 'x-a=1|2'), route('/x', 'x-a=3'), route('/x', 'x-b'), route('/x', ''));

  test.each([
    [['X-A', '1, 2'], '/x (x-a: 1)'],
    [['X-A', '1', 'X-A', '2'], '/x (x-a: 1)'],
    [['X-A', ' 1 ,\t2\t'], '/x (x-a: 1)'],
    [['X-A', ',,'], '/x'],
    [['X-A', '', 'X-A', '1'], 'ambiguous x-a'],
    [['X-A', '1,'], 'ambiguous x-a'],
    [['X-A', '7, 8'], '/x'],
    [['X-A', '1, 3'], 'ambiguous x-a'],
    [['X-A', '1', 'x-a', '7'], 'ambiguous x-a'],
    [['X-A', '7,3'], 'ambiguous x-a'],
    [['X-B', '1', 'X-B', '2'], '/x (x-b)'],
  ])('goes to one route, or nowhere: %j (reliability 570)', (fields, name) => {
    expect(match(fields)).toBe(name);
  });

  test('of thousands is not compared (reliability 573)', () => {
    const routes = Array.from({ length: 500 }, (_, i) => route('/x', `x-a=v${i}|w${i}`));
    const many = matcher(...routes);
    const fields = ['X-A', Array.from({ length: 5_000 }, (_, i) => `v${i}`).join(',')];
    expect(many(fields)).toBe('ambiguous x-a');
    expect(processorMs(() => many(fields))).toBeLessThan(100);
    expect(processorMs(() => many(['X-A', 'w499']))).toBeLessThan(100);
  });

  test('nor do thousands of routes hold up a reload, or another spelling of their path (reliability 573)', () => {
    const of = (path: string) => [
      ...Array.from({ length: 400 }, (_, i) =>
        route(path, `x-a=${Array.from({ length: 20 }, (_, j) => `v${i}-${j}`).join('|')}`),
      ),
      route(path, ''),
    ];
    const routes = [...of('/**'), ...of('/admin'), route('/admin/keys', 'x-a=1', { cost: 2 })];
    expect(processorMs(() => findCollisions(routes))).toBeLessThan(1_000);
    const steps = routerOf(routes);
    let longest = 0;
    for (let isDone = false; !isDone; ) {
      const before = process.threadCpuUsage();
      isDone = steps.next().done === true;
      longest = Math.max(longest, process.threadCpuUsage(before).user);
    }
    expect(longest / 1_000).toBeLessThan(250);
    const match = matcher(...of('/**'), route('/{name}', '', { cost: 2 }), ...of('/admin'), route('/admin', 'x-b'));
    expect(match(['X-A', 'v9-1'], '/Admin')).toBe('/{name}');
    expect(processorMs(() => Array.from({ length: 50 }, () => match(['X-A', 'v9-1'], '/Admin')))).toBeLessThan(100);
  });

  test('asks for a key first unless a route needs none', () => {
    const allowance = { id: 'a', allowance: {} } as Route['perAddress'];
    const asks = (...routes: Route[]) =>
      atOnce(routerOf(routes)).match('/x', 'GET', null, {
        ...{ fields: { rawHeaders: ['X-A', '1, 2'] }, connectionNames: new Set<string>() },
      });
    expect(asks(route('/x', 'x-a=1'), route('/x', ''))).toMatchObject({ route: null, asksForKey: true });
    expect(asks(route('/x', 'x-a=1'), route('/x', '', { perAddress: allowance }))).toMatchObject({ asksForKey: false });
  });
});

test('a field that Connection lists is not there, for no service gets it (reliability 571)', () => {
  const match = matcher(route('/x', 'x-a=1'), route('/x', ''));
  expect(match(['X-A', '1', 'Connection', 'X-A'], '/x', { connection: 'x-a' })).toBe('/x');
});

describe('another spelling of a path (reliability 572)', () => {
  const admin = { scopes: ['admin'] };

  test('is ambiguous if any route of the path is stricter, whatever the fields', () => {
    const match = matcher(route('/**', ''), route('/admin', 'x-a=1', admin), route('/admin', ''));
    expect([match(['X-A', '1'], '/Admin'), match([], '/Admin')]).toEqual(['ambiguous', 'ambiguous']);
    const wider = matcher(route('/**', '', admin), route('/**', 'x-a=1'), route('/admin', '', admin));
    expect(wider([], '/Admin')).toBe('ambiguous');
  });

  test('is ambiguous if the path leaves some requests to no route', () => {
    const match = matcher(route('/**', ''), route('/admin', 'x-a=1'));
    expect([match([], '/admin'), match([], '/Admin')]).toEqual([null, 'ambiguous']);
  });

  test('is served if all have the same rules', () => {
    const match = matcher(route('/**', ''), route('/admin', 'x-a=1'), route('/admin', ''));
    expect(match(['X-A', '1'], '/Admin')).toBe('/**');
  });
});

test('the request goes to the route that a small model chooses, and only equally specific ones depend on their order', () => {
  const values = fc.option(fc.subarray(['1', '2', '3'], { minLength: 1 }), { nil: undefined });
  const when = fc.record({ 'x-a': values, 'x-b': values, present: fc.subarray(['x-a', 'x-b', 'x-c']) });
  const field = fc.tuple(fc.constantFrom('X-A', 'X-B', 'X-C', 'X-D'), fc.constantFrom('1', '2', '3', '4'));
  fc.assert(
    fc.property(
      fc.array(when, { maxLength: 8 }),
      fc.uniqueArray(field, { selector: ([name]) => name }),
      (given, sent) => {
        const all = given.map(({ present, ...exact }) => {
          const texts = Object.entries(exact).flatMap(([name, is]) =>
            is === undefined ? [] : [`${name}=${is.join('|')}`],
          );
          const others = present.filter((name) => exact[name as 'x-a'] === undefined);
          return route('/x', [...texts, ...others].join(' '));
        });
        const collided = new Set(findCollisions(all).map(({ index }) => index));
        const sound = all.filter((_, i) => !collided.has(i));
        const fields = new Map(sent.map(([name, value]) => [name.toLowerCase(), value]));
        const holds = ({ when }: Route) =>
          (when ?? []).every(
            ({ header, is }) => fields.has(header) && (is === null || is.includes(fields.get(header)!)),
          );
        const rank = ({ when }: Route) => (when ?? []).reduce((sum, { is }) => sum + (is === null ? 1 : 100), 0);
        const fitting = sound.filter(holds);
        const best = fitting.filter((one) => rank(one) === Math.max(...fitting.map(rank)));
        expect(
          new Set(
            best.map(({ when }) =>
              when
                ?.map(({ header, is }) => `${header}${is === null}`)
                .sort()
                .join(),
            ),
          ).size,
        ).toBe(best.length);
        for (const order of [sound, sound.toReversed()]) {
          const found = atOnce(routerOf(order)).match('/x', 'GET', null, {
            ...{ fields: { rawHeaders: sent.flat() }, connectionNames: new Set<string>() },
          });
          const first = order.find((one) => best.includes(one));
          expect(found?.route?.when ?? null).toEqual(first?.when ?? null);
          expect(found === null).toBe(first === undefined);
        }
      },
    ),
  );
});

test('routes collide if they name the same fields with a value of each in common, and say which requests no route takes', () => {
  const routes = [
    route('/x', 'x-a=1|2'),
    route('/x', 'x-a=2'),
    route('/x', 'x-a=3'),
    route('/x', 'x-a'),
    route('/x', 'x-b x-a=1'),
    route('/x', 'x-a=1|9 x-b'),
    route('/y', 'x-a=1', { methods: ['GET', 'POST'] }),
    route('/y', ''),
  ];
  expect(findCollisions(routes).map(({ index, with: other }) => [index, other])).toEqual([
    [1, 0],
    [5, 4],
  ]);
  expect(findUnserved(routes)).toEqual([0, 6]);
});
