import { describe, expect, test } from 'vitest';
import { CorsFields, type CorsRules } from '../../src/annotate/cors.ts';

const RULES: CorsRules = {
  origins: ['https://app.example.com', 'http://localhost:5173'],
  headers: ['Authorization', 'Content-Type'],
  expose: ['ETag', 'Link'],
  credentials: false,
  maxAgeSeconds: 600,
};
const record = (fields: string[]) => {
  const pairs = fields.flatMap((name, i) => (i % 2 === 0 ? [[name, fields[i + 1]]] : []));
  expect(new Set(pairs.map(([name]) => name)).size).toBe(pairs.length);
  return Object.fromEntries(pairs);
};
const of = (rules: Partial<CorsRules> = {}) => new CorsFields({ ...RULES, ...rules });

describe('an answer', () => {
  test('to an allowed origin names it, varies by it, and lets the page read the rate-limit fields', () => {
    const fields = record(of().ofAnswer('https://app.example.com'));
    expect(fields).toMatchObject({ 'Access-Control-Allow-Origin': 'https://app.example.com', Vary: 'Origin' });
    const exposed = String(fields['Access-Control-Expose-Headers']).split(', ');
    expect(exposed).toEqual(expect.arrayContaining(['X-RateLimit-Remaining', 'RateLimit', 'Retry-After', 'ETag']));
    expect(new Set(exposed).size).toBe(exposed.length);
  });

  test.each([
    null,
    'null',
    'https://app.example.com.evil.test',
    'https://APP.example.com',
    'http://app.example.com',
    'https://app.example.com:8443',
    'https://app.example.com, https://evil.test',
    '*',
    '__proto__',
  ])('to %j allows nothing, and still varies by the origin', (origin) => {
    expect(of().ofAnswer(origin)).toEqual(['Vary', 'Origin']);
  });

  test('allows cookies only where the settings say so', () => {
    expect(record(of().ofAnswer('http://localhost:5173'))).not.toHaveProperty('Access-Control-Allow-Credentials');
    expect(record(of({ credentials: true }).ofAnswer('http://localhost:5173'))).toMatchObject({
      'Access-Control-Allow-Credentials': 'true',
    });
  });

  test('with `*` is the same for all, so a cache need not tell them apart', () => {
    const any = of({ origins: ['*'] });
    expect(any.ofAnswer('https://a.test')).toEqual(any.ofAnswer(null));
    expect(record(any.ofAnswer(null))).not.toHaveProperty('Vary');
    expect(record(any.ofAnswer(null))).toMatchObject({ 'Access-Control-Allow-Origin': '*' });
  });
});

describe('a preflight', () => {
  const vary = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers';

  test('of an allowed origin is told the methods of the route, the fields, and for how long', () => {
    expect(record(of().ofPreflight('http://localhost:5173', 'GET, HEAD, POST'))).toEqual({
      'Access-Control-Allow-Origin': 'http://localhost:5173',
      'Access-Control-Allow-Methods': 'GET, HEAD, POST',
      'Access-Control-Allow-Headers': 'Authorization, Content-Type',
      'Access-Control-Max-Age': '600',
      Vary: vary,
    });
  });

  test.each([
    ['an origin that is not allowed', 'https://evil.test', 'GET'],
    ['no origin', null, 'GET'],
    ['a path without a route', 'http://localhost:5173', null],
  ])('of %s is allowed nothing', (_what, origin, methods) => {
    expect(of().ofPreflight(origin, methods)).toEqual(['Vary', vary]);
  });
});
