import { describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

// A page of another origin calls through the gateway: its browser asks first, without a key, and shows the page only what
// the answers allow.

const PAGE = 'https://app.example.com';
const upstream = await startUpstream((_request, response) => {
  response.setHeader('Access-Control-Allow-Origin', '*').setHeader('Vary', 'Accept').end('{}');
});
const gateway = await openGateway({
  upstream: upstream.origin,
  more: `cors: { origins: ['${PAGE}'], expose: [ETag] }`,
});
const { key } = await gateway.createKey('small');
const preflight = (path: string, fields: Record<string, string> = {}) =>
  gateway.get(path, undefined, {
    method: 'OPTIONS',
    headers: { Origin: PAGE, 'Access-Control-Request-Method': 'POST', ...fields },
  });

describe('a preflight', () => {
  test('is answered without a key, at no cost and without the service behind', async () => {
    for (let i = 0; i < 40; i++) {
      const answer = await preflight('/v1/pets');
      expect(answer.status).toBe(204);
      expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
      expect(answer.headers.get('access-control-allow-methods')).toBe('GET, HEAD, POST');
      expect(answer.headers.get('access-control-allow-headers')).toContain('Authorization');
      // The budget of failed authentications is untouched as well.
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('30');
    }
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe('2');
  });

  test.each([
    ['an origin that is not allowed', '/v1/pets', { Origin: 'https://evil.test' }],
    ['a path without a route', '/v1/secret', {}],
  ])('of %s is allowed nothing', async (_what, path, fields) => {
    const answer = await preflight(path, fields);
    expect(answer.status).toBe(204);
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
  });

  test('is one only with Origin and the method that is asked for: any other OPTIONS needs a key', async () => {
    expect((await gateway.get('/v1/pets', undefined, { method: 'OPTIONS' })).status).toBe(401);
    expect((await gateway.get('/v1/pets', undefined, { method: 'OPTIONS', headers: { Origin: PAGE } })).status).toBe(
      401,
    );
  });

  test('is told apart in the log', async () => {
    await eventually(() => expect(gateway.process.stdout).toContain('"judgement":"preflight"'));
  });
});

describe('an answer', () => {
  const answerTo = (origin: string, path = '/v1/pets', as = key) =>
    gateway.get(path, as, { headers: { Origin: origin } });

  test('to an allowed origin lets the page read it and its rate-limit fields; the upstream’s own word is dropped', async () => {
    const { headers } = await answerTo(PAGE);
    expect(headers.get('access-control-allow-origin')).toBe(PAGE);
    expect(headers.get('access-control-expose-headers')).toMatch(/X-RateLimit-Remaining.*RateLimit.*Retry-After.*ETag/);
    expect(headers.get('vary')).toBe('Accept, Origin');
  });

  test('to another origin says nothing of it, and caches can tell', async () => {
    const { headers } = await answerTo('https://evil.test');
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(headers.get('vary')).toBe('Accept, Origin');
  });

  test.each([
    [401, '/v1/pets', 'wrong'],
    [429, '/v1/pets', key],
  ])('%d is readable too: the page learns why and for how long', async (status, path, as) => {
    const answer = await answerTo(PAGE, path, as);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
  });
});

test('without `cors` nothing is said, and the upstream’s own word is passed on', async () => {
  const plain = await openGateway({ upstream: upstream.origin });
  const own = await plain.createKey('free');
  const answer = await plain.get('/v1/pets', own.key, { headers: { Origin: PAGE } });
  expect(answer.headers.get('access-control-allow-origin')).toBe('*');
  expect(answer.headers.get('access-control-expose-headers')).toBeNull();
  const asked = await plain.get('/v1/pets', undefined, {
    method: 'OPTIONS',
    headers: { Origin: PAGE, 'Access-Control-Request-Method': 'GET' },
  });
  expect(asked.status).toBe(401);
});
