import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  faultOfFieldValue,
  faultOfRequestField,
  faultOfResponseField,
  fieldRulesOf,
  type Variables,
  withFields,
  withoutDropped,
  withRules,
} from '../../src/http1/field-rules.ts';
import { linesOf } from '../../src/http1/fields.ts';

const KNOWN: Variables = {
  'consumer.id': 'key_1',
  'consumer.name': 'Zoë & co, 100%',
  plan: 'free',
  'request.id': 'abc',
  'client.address': '::1',
  'customer.id': 'cus_1',
  'customer.name': null,
  meta: { team: 'Blå', 'cost-centre_2': '7 %', constructor: 'own' },
};

describe('fields are changed in the order upstream, route, and in each remove, set, add:', () => {
  const apply = (...changes: Parameters<typeof fieldRulesOf>[1]) =>
    withRules(['X-A', '1', 'x-a', '2', 'X-B', '3'], fieldRulesOf('request', changes)!, KNOWN);
  test.each<[string, Parameters<typeof fieldRulesOf>[1], string[]]>([
    ['set replaces all of the name', [{ set: { 'X-a': 'n' } }], ['X-B', '3', 'X-a', 'n']],
    ['add leaves them', [{ add: { 'X-B': 'n' } }], ['X-A', '1', 'x-a', '2', 'X-B', '3', 'X-B', 'n']],
    ['remove and add in one', [{ remove: ['X-A'], add: { 'X-A': 'n' } }], ['X-B', '3', 'X-A', 'n']],
    ['the route removes what the upstream sets', [{ set: { 'X-A': 'u' } }, { remove: ['x-A'] }], ['X-B', '3']],
    [
      'the route sets what the upstream adds',
      [{ add: { 'X-A': 'u' } }, { set: { 'x-a': 'r' } }],
      ['X-B', '3', 'x-a', 'r'],
    ],
    ['the route adds to it', [{ set: { 'X-A': 'u' } }, { add: { 'X-A': 'r' } }], ['X-B', '3', 'X-A', 'u', 'X-A', 'r']],
  ])('%s', (_how, changes, fields) => {
    expect(apply(...changes)).toEqual(fields);
  });

  test('without changes there are no rules', () => {
    expect(fieldRulesOf('request', [undefined, {}, { remove: [] }])).toBeNull();
  });

  test('an interim response loses what is dropped and gets nothing', () => {
    const rules = fieldRulesOf('response', [{ set: { Link: 'x' }, add: { 'X-N': 'n' } }])!;
    expect(withoutDropped(['link', 'y', 'X-K', 'k'], rules)).toEqual(['X-K', 'k']);
  });
});

test('a value has what is known of the request; braces that name nothing stay', () => {
  const rules = fieldRulesOf('request', [
    { set: { 'X-W': '{plan}/{consumer.id} {"a":1} {}', 'X-N': '<{consumer.name}>', 'X-C': '{client.address}' } },
  ])!;
  expect(withRules([], rules, KNOWN)).toEqual([
    ...['X-W', 'free/key_1 {"a":1} {}'],
    ...['X-N', '<Zo%C3%AB%20&%20co,%20100%25>'],
    ...['X-C', '::1'],
  ]);
});

test('metadata of the consumer is written by its name, and what it lacks leaves the field out, names of every object included (reliability 273)', () => {
  const set = {
    'X-Team': '{consumer.meta.team}/{customer.id}',
    'X-Centre': '{consumer.meta.cost-centre_2}',
    'X-Own': '{consumer.meta.constructor}',
    'X-None': 'a{consumer.meta.tier}',
    'X-Object': '{consumer.meta.valueOf}',
    'X-Customer': '{customer.name}',
  };
  const { 'X-Object': _, ...valid } = set;
  expect(withRules([], fieldRulesOf('request', [{ set: valid }])!, KNOWN)).toEqual([
    ...['X-Team', 'Bl%C3%A5/cus_1'],
    ...['X-Centre', '7%20%25'],
    ...['X-Own', 'own'],
  ]);
  const bare = { ...KNOWN, meta: {} };
  expect(withRules([], fieldRulesOf('request', [{ set: { 'X-Own': '{consumer.meta.constructor}' } }])!, bare)).toEqual(
    [],
  );
  for (const text of [
    '{consumer.meta.valueOf}',
    '{consumer.meta.Team}',
    '{consumer.meta.}',
    '{consumer.meta}',
    '{consumer.meta.a b}',
  ]) {
    expect(faultOfFieldValue(text)).toContain(`has ${text}, which the gateway does not know`);
  }
});

test('names of responses are compared as they stand: clients fold none', () => {
  const rules = fieldRulesOf('response', [{ remove: ['X-A', 'x_b'] }])!;
  expect(withoutDropped(['X_A', '1', 'x-a', '2', 'X-B', '3', 'X_B', '4'], rules)).toEqual(['X_A', '1', 'X-B', '3']);
});

test('a field with a variable that the request lacks is not written, and the client’s own is gone (reliability 171)', () => {
  const rules = fieldRulesOf('request', [{ set: { 'X-Who': 'id={consumer.id}' } }])!;
  expect(withRules(['x-who', 'root'], rules, { ...KNOWN, 'consumer.id': null })).toEqual([]);
});

test('a client’s name that a service folds into one that is set is dropped (reliability 152, 167)', () => {
  const rules = fieldRulesOf('request', [{ set: { 'X-Tenant': 'a', my_field: 'b' } }])!;
  const sent = ['X_Tenant', 'root', 'x.tenant', 'root', 'My-Field', 'root', 'X-Tenants', 'kept'];
  expect(withRules(sent, rules, KNOWN)).toEqual(['X-Tenants', 'kept', 'X-Tenant', 'a', 'my_field', 'b']);
});

test('fields of a policy stand in place of those that a service takes for them, as they are', () => {
  expect(withFields(['X_Tenant', 'root', 'a', '1', 'A-B', '2'], { 'X-Tenant': '{plan}', 'a-b': '3' })).toEqual([
    ...['a', '1', 'X-Tenant', '{plan}', 'a-b', '3'],
  ]);
});

test('no value of a variable breaks a line or is taken for another value (reliability 171)', () => {
  const rules = fieldRulesOf('request', [{ set: { 'X-N': '[{consumer.name}]' } }])!;
  const lineOf = (name: string) => linesOf(withRules([], rules, { ...KNOWN, 'consumer.name': name }));
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '\r\nX-Evil: 1', '\0', '\n', '\ud800'),
      (name, more) => {
        expect(lineOf(name + more)).toMatch(/^X-N: \[[!-~]*\]\r\n$/);
      },
    ),
    { numRuns: 2_000 },
  );
  expect(lineOf('a b')).not.toBe(lineOf('a%20b'));
});

describe('refused', () => {
  test.each(['', ' a', 'a ', 'a\r\nX-B: 1', 'a\nb', 'a\0', 'ä', 'x'.repeat(4097), '{consumer.email}', '{plans}'])(
    'as a value: %j (reliability 171)',
    (value) => {
      expect(faultOfFieldValue(value)).not.toBeNull();
    },
  );

  test.each([
    ...['Host', 'Connection', 'keep-alive', 'Transfer-Encoding', 'Content-Length', 'TE', 'Upgrade', 'Via', 'Expect'],
    ...['X-Request-Id', 'X-Consumer-Id', 'x_consumer.role', 'X-Forwarded-For', 'Forwarded', 'X-Real-IP', 'traceparent'],
    ...['Sec-WebSocket-Key', 'sec_websocket.key', 'Content_Length', 'Proxy-Authorization', 'HTTP2-Settings'],
  ])('in requests: %s (reliability 171)', (name) => {
    expect(faultOfRequestField(name)).not.toBeNull();
  });

  test.each([
    ...[
      'Connection',
      'Transfer-Encoding',
      'Content-Length',
      'Trailer',
      'Upgrade',
      'Via',
      'X-Request-Id',
      'Retry-After',
    ],
    ...['X-RateLimit-Limit', 'x-ratelimit-other', 'RateLimit', 'RateLimit-Policy', 'Sunset', 'Deprecation', 'Date'],
    ...['Access-Control-Allow-Origin', 'Sec-WebSocket-Accept', 'Content-Encoding', 'X-Consumer-Id'],
  ])('in responses: %s (reliability 171)', (name) => {
    expect(faultOfResponseField(name)).not.toBeNull();
  });

  test.each([
    ['Access-Control-Max-Age', 'use `cors`'],
    ['Deprecation', 'use `deprecated`'],
    ['SUNSET', 'use `deprecated`'],
    ['Date', 'leave it out'],
  ])('%s with a word about what to do: %s', (name, advice) => {
    expect(faultOfResponseField(name)).toContain(advice);
  });

  test('with the variables that there are', () => {
    expect(faultOfFieldValue('{a.b}{plan}')).toBe(
      'has {a.b}, which the gateway does not know; it knows {consumer.id}, {consumer.name}, {customer.id}, {customer.name}, {plan}, {request.id}, {client.address}, {consumer.meta.NAME}',
    );
  });

  test('and nothing else', () => {
    for (const name of [
      'Authorization',
      'Cookie',
      'X-Own',
      'closed',
      'X-Close',
      'sec-websocket',
      'max-forwards-x',
      'Accept',
      'User-Agent',
    ])
      expect(faultOfRequestField(name)).toBeNull();
    for (const name of [
      'Server',
      'Dated',
      'X-Via',
      'Vias',
      'access-control',
      'Set-Cookie',
      'Cache-Control',
      'Strict-Transport-Security',
      'Location',
    ])
      expect(faultOfResponseField(name)).toBeNull();
    for (const value of ['x'.repeat(4096), '!', '~', 'a\tb', 'a b', '{plan}', '{a', '}', '{ plan }', '{Plan}'])
      expect(faultOfFieldValue(value)).toBeNull();
  });
});
