import { expect, test } from 'vitest';
import { onlyFromOf } from '../../src/identify/known-customers.ts';
import {
  type AttributeEdits,
  type Attributes,
  attributesIn,
  changedAttributes,
  metaEdits,
  withoutAttributes,
} from '../../src/model/attributes.ts';

const THUMBPRINT = 'A'.repeat(43);
const FULL: Attributes = {
  name: "Jo's shop",
  owner: null,
  scopes: ['orders:read'],
  addresses: ['192.0.2.7'],
  origins: ['https://app.example.com'],
  certificates: ['dns:shop.internal'],
  boundTo: THUMBPRINT,
  meta: { team: 'blue', area: 'north' },
};
const many = (count: number, text: (i: number) => string) => Array.from({ length: count }, (_, i) => text(i));
const pairs = (count: number) => Object.fromEntries(many(count, (i) => `a${i}`).map((name) => [name, 'b']));
const address = (i: number) => `10.0.0.${i}`;
const origin = (i: number) => `https://a${i}.example`;
const certificate = (i: number) => `dns:a${i}.example`;

type Members = { readonly [Member in keyof Attributes]?: Attributes[Member] | undefined };

test.each<[string, AttributeEdits, Members]>([
  ['keeps what is not named', {}, {}],
  ['keeps what is undefined', { scopes: undefined, meta: undefined }, {}],
  ['puts a list in the place of a list', { scopes: ['a', 'b'] }, { scopes: ['a', 'b'] }],
  ['names each member of a list once', { scopes: ['a', 'b', 'a'] }, { scopes: ['a', 'b'] }],
  [
    'removes by null',
    { scopes: null, boundTo: null, meta: null },
    { scopes: undefined, boundTo: undefined, meta: undefined },
  ],
  ['removes by an empty list', { addresses: [], origins: [] }, { addresses: undefined, origins: undefined }],
  [
    'adds pairs to metadata',
    { meta: { tier: 'gold', team: 'red' } },
    { meta: { team: 'red', area: 'north', tier: 'gold' } },
  ],
  ['removes pairs of metadata by null', { meta: { team: null } }, { meta: { area: 'north' } }],
  ['removes metadata with its last pair', { meta: { team: null, area: null } }, { meta: undefined }],
  [
    'writes addresses in their one form',
    { addresses: ['2001:DB8:0::/32', '10.0.0.0/8'] },
    { addresses: ['2001:db8::/32', '10.0.0.0/8'] },
  ],
  ['writes thumbprints in their one form', { boundTo: '0'.repeat(64) }, { boundTo: THUMBPRINT }],
  [
    'writes names of certificates in their one form',
    { certificates: ['dns:Shop.Internal'] },
    { certificates: ['dns:shop.internal'] },
  ],
  ['takes as many members as are allowed', { scopes: many(32, String) }, { scopes: many(32, String) }],
  ['takes 64 addresses', { addresses: many(64, address) }, { addresses: many(64, address) }],
  ['takes 32 origins', { origins: many(32, origin) }, { origins: many(32, origin) }],
  ['takes 16 certificates', { certificates: many(16, certificate) }, { certificates: many(16, certificate) }],
  [
    'takes a value of 256 characters',
    { meta: { team: '😀'.repeat(256) } },
    { meta: { team: '😀'.repeat(256), area: 'north' } },
  ],
])('a change %s', (_what, edits, changed) => {
  const expected = { ...FULL, ...changed };
  const present = Object.fromEntries(Object.entries(expected).filter(([, value]) => value !== undefined));
  expect(changedAttributes(FULL, edits)).toStrictEqual(present);
});

test('a change of a record without attributes adds only those that are given', () => {
  const none = { name: null, owner: null };
  expect(changedAttributes({}, {})).toStrictEqual(none);
  expect(changedAttributes({}, { meta: { a: 'b', c: null } })).toStrictEqual({ ...none, meta: { a: 'b' } });
  expect(changedAttributes({ meta: pairs(15) }, { meta: { team: 'x' } }).meta).toEqual({ ...pairs(15), team: 'x' });
});

test.each<[string, AttributeEdits, string]>([
  ['a scope with a blank', { scopes: ['a', 'b c'] }, 'scopes.1 must be 1 to 128 visible characters'],
  ['an empty scope', { scopes: [''] }, 'scopes.0 must be 1 to 128'],
  ['too many scopes', { scopes: many(33, String) }, 'scopes must be a list of at most 32'],
  ['too many addresses', { addresses: many(65, address) }, 'addresses must be a list of at most 64'],
  ['a name instead of an address', { addresses: ['localhost'] }, 'addresses.0 '],
  ['a page instead of an origin', { origins: ['https://a.example/cart'] }, 'origins.0 must be written as browsers'],
  ['too many origins', { origins: many(33, origin) }, 'origins must be a list of at most 32'],
  ['a certificate without its kind', { certificates: ['shop.internal'] }, 'certificates.0 '],
  ['too many certificates', { certificates: many(17, certificate) }, 'certificates must be a list of at most 16'],
  ['a thumbprint that is too short', { boundTo: 'A'.repeat(42) }, 'boundTo must be the SHA-256'],
  ['metadata with a capital', { meta: { Team: 'a' } }, 'meta.Team must be 1 to 32 lower-case letters'],
  ['metadata with an empty text', { meta: { team: '' } }, 'meta.team must be a text of 1 to 256'],
  ['metadata with a long text', { meta: { team: 'a'.repeat(257) } }, 'meta.team must be a text of 1 to 256'],
  ['metadata with a line break', { meta: { team: 'a\nb' } }, 'meta.team must be a text of 1 to 256'],
  ['metadata with half a character', { meta: { team: '\ud800' } }, 'meta.team must be a text of 1 to 256'],
  ['more pairs with those that are there', { meta: pairs(15) }, 'meta must be at most 16 pairs'],
])('%s is refused', (_what, edits, message) => {
  expect(() => changedAttributes(FULL, edits)).toThrow(
    expect.objectContaining({
      code: 'refused',
      message: expect.stringMatching(new RegExp(`^${RegExp.escape(message)}.*\\.$`)),
    }),
  );
});

test('a record falls into its attributes and the rest', () => {
  const { origins: _, ...rest } = FULL;
  const record = { id: 'key_1', ...rest };
  const { owner: __, ...present } = rest;
  expect(attributesIn(record)).toStrictEqual(present);
  expect(withoutAttributes(record)).toStrictEqual({ id: 'key_1' });
});

test('metadata becomes what is wanted as a whole', () => {
  const wanted = { area: 'south', tier: 'gold' };
  expect(metaEdits(FULL.meta, wanted)).toEqual({ team: null, ...wanted });
  expect(changedAttributes(FULL, { meta: metaEdits(FULL.meta, wanted) }).meta).toEqual(wanted);
  expect(metaEdits(undefined, wanted)).toEqual(wanted);
});

test('where requests must come from is null where any place will do', () => {
  expect(onlyFromOf({ addresses: undefined, origins: undefined, boundTo: undefined })).toBeNull();
  expect(onlyFromOf({ addresses: ['::1'], origins: undefined, boundTo: THUMBPRINT })).toStrictEqual({
    addresses: ['::1'],
    boundTo: THUMBPRINT,
  });
});
