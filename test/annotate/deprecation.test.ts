import { parseItem } from 'structured-headers';
import { expect, test } from 'vitest';
import { deprecationFields } from '../../src/annotate/deprecation.ts';

const SINCE_MS = Date.UTC(2025, 11, 5);
const SUNSET_MS = Date.UTC(2030, 11, 5);
const ALL = { sinceMs: SINCE_MS, sunsetMs: SUNSET_MS, successor: '/v1/pets', link: 'https://docs.example/old' };

const fieldsOf = (deprecation: typeof ALL | Record<string, unknown>) => {
  const raw = deprecationFields({ ...ALL, ...deprecation } as typeof ALL);
  return Object.fromEntries(raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1]]] : [])));
};

test('Deprecation is a date of a structured field (RFC 9745), Sunset an HTTP date (RFC 8594)', () => {
  const fields = fieldsOf(ALL);
  const [since] = parseItem(fields.Deprecation as string);
  expect((since as Date).getTime()).toBe(SINCE_MS);
  expect(fields.Sunset).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
});

test('Link names what follows, and with a page of explanation that one twice, for the two fields', () => {
  expect(fieldsOf(ALL).Link).toBe(
    '</v1/pets>; rel="successor-version", <https://docs.example/old>; rel="deprecation", <https://docs.example/old>; rel="sunset"',
  );
});

test.each([
  ['no sunset', { sunsetMs: null }, ['Deprecation', 'Link'], 2],
  ['no page', { link: null }, ['Deprecation', 'Sunset', 'Link'], 1],
  ['no successor', { successor: null }, ['Deprecation', 'Sunset', 'Link'], 2],
  ['neither page nor successor', { successor: null, link: null }, ['Deprecation', 'Sunset'], 0],
])('a route with %s announces what it has', (_what, differently, names, links) => {
  const fields = fieldsOf(differently);
  expect(Object.keys(fields)).toEqual(names);
  expect((fields.Link ?? '').split(/, (?=<)/).filter(Boolean)).toHaveLength(links);
});
