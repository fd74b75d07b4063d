import { beforeAll, expect, test } from 'vitest';
import { routeRefusal } from '../../src/gateway/refusals.ts';
import { FieldBlock } from '../../src/http1/field-block.ts';
import { type Head, readHead } from '../../src/http1/request-head.ts';
import { atOnce } from '../../src/io/steps.ts';
import { type Deprecation, USAGE } from '../../src/routing/route.ts';
import { type Match, pathRouterOf } from '../../src/routing/router.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const SUNSET_MS = Date.UTC(2030, 11, 5);
const DEPRECATED = {
  countedAs: '/old',
  sinceMs: Date.UTC(2025, 11, 5),
  sunsetMs: SUNSET_MS,
  successor: '/v1/pets',
  link: null,
  brownouts: [],
};

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

test('410 endpoint_removed: a route past its sunset says so and where to go, counts, and reaches nobody', async () => {
  const before = Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
  const seen = upstream.requests.length;
  const answer = await gateway.get('/v1/gone', key);
  expect(answer.status).toBe(410);
  expect(await answer.json()).toEqual({
    code: 'endpoint_removed',
    message: expect.stringContaining('/v1/pets'),
    status: 410,
  });
  expect(answer.headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
  expect(answer.headers.get('deprecation')).toBe('@1577836800');
  expect(answer.headers.get('sunset')).toBe('Fri, 01 Jan 2021 00:00:00 GMT');
  expect(Number(answer.headers.get('x-ratelimit-remaining'))).toBe(before - 1);
  expect(upstream.requests).toHaveLength(seen);
});

test('a method that the removed route never had is 405, and a stranger is told of no sunset but that of the route', async () => {
  expect((await gateway.get('/v1/gone', key, { method: 'PUT' })).status).toBe(405);
  expect((await gateway.get('/v1/gone')).status).toBe(401);
});

/** What the gateway makes of an admitted GET of the one route, deprecated as told. */
function served(deprecated: Deprecation, nowMs: number) {
  const router = atOnce(pathRouterOf([{ ...USAGE, path: '/old', deprecated }]));
  const head = readHead(
    { method: 'GET', url: '/old', httpVersion: '1.1', fields: new FieldBlock(['Host', 'a']) },
    { maxUrlBytes: 100, maxHeaderBytes: 100 },
  ) as Head;
  return routeRefusal(router.match('/old', 'GET') as Match, head, nowMs);
}

test('what is served until the millisecond before the sunset is 410 from then on', () => {
  expect(served(DEPRECATED, SUNSET_MS - 1).kind).toBe('match');
  expect(served(DEPRECATED, SUNSET_MS)).toMatchObject({
    kind: 'error',
    error: { code: 'endpoint_removed', status: 410 },
  });
  expect(served({ ...DEPRECATED, sunsetMs: null }, Number.MAX_SAFE_INTEGER).kind).toBe('match');
});

test('a brownout says when the route is back, unless its sunset comes before that', () => {
  const fieldsIn = (toMs: number) => {
    const brownouts = [{ kind: 'once', fromMs: SUNSET_MS - 3_600_000, toMs }] as const;
    const found = served({ ...DEPRECATED, brownouts }, SUNSET_MS - 1_800_000);
    return found.kind === 'error' ? found.error.fields : null;
  };
  expect(fieldsIn(SUNSET_MS - 1_000)).toContain('Retry-After');
  expect(fieldsIn(SUNSET_MS)).not.toContain('Retry-After');
});
