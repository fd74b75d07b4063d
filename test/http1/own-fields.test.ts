import { parseItem } from 'structured-headers';
import { expect, test } from 'vitest';
import { faultOfResponseField } from '../../src/http1/field-rules.ts';
import { responseFields } from '../../src/http1/forwarded-fields.ts';
import { announcementOf, OWN_FIELDS, ownNames, REPLACED_BY } from '../../src/http1/own-fields.ts';

const SINCE_MS = Date.UTC(2025, 11, 5);
const SUNSET_MS = Date.UTC(2030, 11, 5);
const ALL = { sinceMs: SINCE_MS, sunsetMs: SUNSET_MS, successor: '/v1/pets', link: 'https://docs.example/old' };

/** Other settings of the route are left out: it has none of them. */
const announced = (deprecated: object | null) => announcementOf({ deprecated } as Parameters<typeof announcementOf>[0]);

const fieldsOf = (deprecation: typeof ALL | Record<string, unknown>) => {
  const raw = announced({ ...ALL, ...deprecation })!.fields;
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

test('a deprecated route drops the Deprecation and Sunset of the service, also without a sunset, and adds to its Link', () => {
  const { settings } = announced({ ...ALL, sunsetMs: null })!;
  const replaced = settings.map((setting) => REPLACED_BY.get(setting)!);
  const sent = ['Deprecation', '@1', 'sunset', 'x', 'Link', '</a>; rel="next"'];
  expect(responseFields(sent, replaced, 200)).toEqual(sent.slice(4));
  expect(announced(null)).toBeNull();
});

// Fault: a set with methods among the settings. Workers get copies, in which it had none: each response of the route was a 502.
test('what a route announces is data that a worker can be sent', () => {
  const announcement = announced(ALL);
  expect(structuredClone(announcement)).toStrictEqual(announcement);
});

test.each(OWN_FIELDS.filter(({ replaces }) => replaces !== undefined))(
  'what replaces $name of the service is set by no setting of fields',
  ({ name, replaces }) => {
    expect(ownNames(replaces!)).toContain(name.toLowerCase());
    expect(faultOfResponseField(name)).toContain(replaces === 'always' ? 'leave it out' : `use \`${replaces}\``);
    if (replaces === 'always') expect(responseFields([name, 'x'], [], 200)).toEqual([]);
  },
);
