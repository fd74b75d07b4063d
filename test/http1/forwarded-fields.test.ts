import { describe, expect, test } from 'vitest';
import { beginsWith, FieldNames } from '../../src/http1/field-names.ts';
import {
  addConnectionNames,
  type ForwardedAs,
  fieldsWithoutSecrets,
  hasPunctuation,
  requestFields,
  requestTrailers,
  reservedByFolding,
  responseFields,
} from '../../src/http1/forwarded-fields.ts';

const AS: ForwardedAs = {
  isTraced: false,
  ...{ consumerId: null, plan: null, asKong: null, passesAuthorization: false, prefix: null },
  peer: '9.9.9.9',
  scheme: 'http',
  host: 'own',
  trustedPeer: false,
  via: 'gate',
  httpVersion: '1.1',
  allowedNames: new FieldNames([]),
  keyPlaces: null,
};
const OWN = ['Via', '1.1 gate', 'X-Forwarded-For', '9.9.9.9', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'own'];

const sent = (fields: readonly string[], as: Partial<ForwardedAs> = {}, listed: readonly string[] = []) =>
  requestFields(fields, new Set(listed), null, { ...AS, ...as });

describe('to the service', () => {
  test.each<[string, readonly string[], Partial<ForwardedAs>, readonly string[], readonly string[]]>([
    ['nothing but the own fields', [], {}, [], OWN],
    ['other fields in their order', ['A', '1', 'b', '2'], {}, [], ['A', '1', 'b', '2', ...OWN]],
    ['no field that Connection lists', ['A', '1', 'B', '2'], {}, ['b'], ['A', '1', ...OWN]],
    [
      'no consumer of the client',
      ['X-Consumer-Id', 'x', 'x-consumer-any', 'y', 'X-Consume', 'z'],
      {},
      [],
      ['X-Consume', 'z', ...OWN],
    ],
    ['no name that a service folds into one of ours', ['X_Consumer_Id', 'x', 'X.Y', 'y'], {}, [], OWN],
    [
      'but those that are allowed',
      ['x_y', '1', 'X_Z', '2'],
      { allowedNames: new FieldNames(['x_y']) },
      [],
      ['x_y', '1', ...OWN],
    ],
    [
      'no origin from a peer that is not trusted',
      ['X-Forwarded-For', '1', 'Forwarded', 'f', 'X-Real-Ip', 'r', 'x-forwarded-any', 'a'],
      {},
      [],
      OWN,
    ],
    ['no trace where the gateway has its own', ['TraceParent', 't', 'tracestate', 's'], { isTraced: true }, [], OWN],
    ['the trace of the client where it has none', ['traceparent', 't'], {}, [], ['traceparent', 't', ...OWN]],
    ['no cookie of the console', ['Cookie', 'tollgate=1; a=b'], {}, [], ['Cookie', 'a=b', ...OWN]],
    ['no Cookie field of nothing else', ['Cookie', 'tollgate=1'], {}, [], OWN],
    ['an empty Cookie as it is', ['cookie', ''], {}, [], ['cookie', '', ...OWN]],
    ['no Cookie that Connection lists', ['Cookie', 'a=b'], {}, ['cookie'], OWN],
    [
      'fields as long as those that are special',
      ['cookif', 'tollgate=1', 'refereq', '/?a', 'vib', 'x'],
      {},
      [],
      ['cookif', 'tollgate=1', 'refereq', '/?a', 'vib', 'x', ...OWN],
    ],
  ])('goes %s', (_, fields, as, listed, forwarded) => {
    expect(sent(fields, as, listed)).toEqual(forwarded);
  });

  test.each([
    'Connection',
    'Keep-Alive',
    'Proxy-Connection',
    'Proxy-Authenticate',
    'Proxy-Authorization',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Host',
    'Authorization',
    'Content-Length',
    'Expect',
    'X-Request-Id',
    'HTTP2-Settings',
  ])('never goes the client’s %s', (name) => {
    expect(sent([name, '1'])).toEqual(OWN);
  });

  test('the origin that a trusted peer names is kept, and the peer is added', () => {
    const fields = [
      'Via',
      '1.0 a',
      'via',
      '1.1 b',
      'X-Forwarded-For',
      '1.1.1.1',
      'x-forwarded-for',
      '',
      'X-Forwarded-For',
      '2.2.2.2',
    ];
    const origin = [
      'X-Forwarded-Proto',
      'HTTPS',
      'X-Forwarded-Host',
      'named',
      'X-Real-IP',
      '3',
      'X-Forwarded-Port',
      '4',
    ];
    expect(sent([...fields, ...origin], { trustedPeer: true })).toEqual([
      ...['X-Real-IP', '3', 'X-Forwarded-Port', '4', 'Via', '1.0 a, 1.1 b, 1.1 gate'],
      ...['X-Forwarded-For', '1.1.1.1, 2.2.2.2, 9.9.9.9', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'named'],
    ]);
  });

  test.each(['ftp', 'https, http', 'xhttp', ''])('a scheme of %j that a trusted peer names is ignored', (scheme) => {
    expect(sent(['X-Forwarded-Proto', scheme], { trustedPeer: true })).toEqual(OWN);
  });

  test('who calls, the length of the body, and no host if none was sent', () => {
    const as = { ...AS, host: null, consumerId: 'key-1', plan: 'free' };
    expect(requestFields([], new Set(), '12', as)).toEqual([
      ...OWN.slice(0, 6),
      ...['X-Consumer-Id', 'key-1', 'X-Consumer-Plan', 'free', 'Content-Length', '12'],
    ]);
  });

  test('the prefix that was taken from the path, after that of a trusted peer (reliability 537)', () => {
    const prefix = (value: string, trustedPeer: boolean) =>
      sent(['X-Forwarded-Prefix', value], { prefix: '/own', trustedPeer }).slice(8);
    expect(prefix('/outer', true)).toEqual(['X-Forwarded-Prefix', '/outer/own']);
    for (const wrong of ['/outer, /two', '/outer/', '//outer', 'outer', '/a b', ''])
      expect(prefix(wrong, true), wrong).toEqual(['X-Forwarded-Prefix', '/own']);
    expect(prefix('/forged', false)).toEqual(['X-Forwarded-Prefix', '/own']);
    expect(sent(['X-Forwarded-Prefix', '/outer'], { trustedPeer: true })).toEqual([
      'X-Forwarded-Prefix',
      '/outer',
      ...OWN,
    ]);
    expect(sent(['X-Forwarded-Prefix', '/forged'])).toEqual(OWN);
  });

  test('Authorization where it passes, unless Connection lists it', () => {
    const field = ['authorization', 'Digest a'];
    expect(sent(field, { passesAuthorization: true })).toEqual([...field, ...OWN]);
    expect([sent(field), sent(field, { passesAuthorization: true }, ['authorization'])]).toEqual([OWN, OWN]);
  });

  test('the fields of Kong, and none of the client’s under any spelling (reliability 536)', () => {
    const asKong = ['X-Credential-Identifier', 'key-1'];
    const names = [
      'x-credential-identifier',
      'X-Credential-Username',
      'X-Anonymous-Consumer',
      'X-Authenticated-Groups',
    ];
    const forged = [...names, 'X_Credential.Identifier', 'X-Consumer-Username'].flatMap((name) => [name, 'forged']);
    const allowedNames = new FieldNames(['x_credential.identifier']);
    expect(sent(forged, { asKong, allowedNames })).toEqual([...OWN, ...asKong]);
    expect(sent(['X-Credential-Identifier', 'a'])).toEqual(['X-Credential-Identifier', 'a', ...OWN]);
  });

  test('no field of Kong as a trailer (reliability 562)', () => {
    const names = [
      'x-credential-identifier',
      'x_credential.identifier',
      'x-authenticated-groups',
      'x-anonymous-consumer',
    ];
    const trailers = [...names, 'x-check'].flatMap((name) => [name, 'a']);
    const as = { keyPlaces: null, allowedNames: new FieldNames(['x_credential.identifier']) };
    expect(requestTrailers(trailers, { ...as, isAsKong: true })).toEqual(['x-check', 'a']);
    expect(requestTrailers(trailers, { ...as, isAsKong: false })).toEqual(trailers);
  });

  test('no key, in its field or in a Referer', () => {
    const keyPlaces = {
      fieldNames: new FieldNames(['x-key']),
      withoutKeys: (query: string) => query.replace('key=1', ''),
      ...{ withoutKeyCookies: (value: string) => value, withoutKeyProtocols: (value: string) => value },
    };
    const referer = (url: string) => sent(['X-Key', '1', 'Referer', url], { keyPlaces })[1];
    expect(referer('/a?key=1&b#key=1')).toBe('/a?&b#key=1');
    expect(referer('/key=1?key=1')).toBe('/key=1?');
    expect(referer('/key=1')).toBe('/key=1');
    expect(referer('/#?key=1')).toBe('/#?key=1'.replace('key=1', ''));
    expect(sent(['Referer', '/?key=1'])[1]).toBe('/?key=1');
    expect(sent(['X-Refer', '/?key=1'], { keyPlaces })[1]).toBe('/?key=1');
  });
});

describe('to a policy', () => {
  const SHOWN_HOST = ['Host', 'own', 'Content-Length', '5'];
  const KEY_PLACES = {
    fieldNames: new FieldNames(['x-api-key']),
    withoutKeys: (query: string) => query.replace('k=1', ''),
    withoutKeyCookies: (value: string) => value,
    withoutKeyProtocols: (value: string) => value.replace('key.1', ''),
  };
  test.each<[string, readonly string[], Readonly<Record<string, string>>]>([
    ['fields in lower case, those of one name joined', ['A', '1', 'b', '2', 'a', '3'], { a: '1, 3', b: '2' }],
    ['the host and the length, which the gateway writes anew', SHOWN_HOST, { host: 'own', 'content-length': '5' }],
    ['no credentials', ['Authorization', 'a', 'Proxy-Authorization', 'b', 'X-Api-Key', 'c', 'Cookie', 'd'], {}],
    ['none under a name that folds into one', ['X_Tenant', 'a', 'Authorization_', 'b'], { x_tenant: 'a' }],
    ['no facts that the client made up', ['X-Consumer-Plan', 'a', 'X-Forwarded-For', 'b', 'Forwarded', 'c'], {}],
    ['nothing that Connection lists', ['Listed', 'a', 'B', '2'], { b: '2' }],
    ['no key in a Referer', ['Referer', 'https://a.example/?k=1#x'], { referer: 'https://a.example/?#x' }],
    [
      'no key in a protocol of a WebSocket',
      ['Sec-WebSocket-Protocol', 'key.1, chat'],
      { 'sec-websocket-protocol': ', chat' },
    ],
    ['no facts of Kong that the client made up', ['X-Credential-Identifier', 'a', 'X-Authenticated-Userid', 'b'], {}],
    ['names of every object', ['constructor', 'a', '__proto__', 'b'], { constructor: 'a' }],
  ])('go %s', (_what, fields, expected) => {
    const allowedNames = new FieldNames(['x_tenant']);
    const shown = fieldsWithoutSecrets(fields, new Set(['listed']), {
      allowedNames,
      keyPlaces: KEY_PLACES,
      asKong: [],
    });
    expect({ ...shown }).toEqual(expected);
    expect([Object.getPrototypeOf(shown), Object.isFrozen(shown)]).toEqual([null, true]);
  });

  test('go fields under allowed names, and a Referer as it was sent where no query has a key', () => {
    const allowedNames = new FieldNames(['x_cookie']);
    const fields = ['X_Cookie', 'b', 'Referer', '/?k=1'];
    const shown = fieldsWithoutSecrets(fields, new Set(), { allowedNames, keyPlaces: null, asKong: null });
    expect({ ...shown }).toEqual({ x_cookie: 'b', referer: '/?k=1' });
  });
});

describe('to the client', () => {
  const received = (fields: readonly string[], status = 200, alsoOwn: readonly string[] = []) =>
    responseFields(fields, [new FieldNames(alsoOwn)], status);

  test('goes what is not the gateway’s own, not of one hop and no cookie of the console', () => {
    const fields = [
      'A',
      '1',
      'RateLimit',
      '2',
      'Keep-Alive',
      '3',
      'Own',
      '4',
      'Set-Cookie',
      'tollgate=1',
      'Set-Cookie',
      'b=1',
    ];
    expect(received(fields, 200, ['own'])).toEqual(['A', '1', 'Set-Cookie', 'b=1']);
    // As long as the special names.
    expect(
      received(['Set-Cookif', 'tollgate=1', 'Connectiom', 'x', 'X', '1', 'Content-Lengti', '5'], 204),
    ).toHaveLength(8);
  });

  test('goes nothing that Connection lists, wherever it stands', () => {
    expect(received(['X', '1', 'Connection', 'x', 'connection', 'Y, z', 'Y', '2', 'A', '3'])).toEqual(['A', '3']);
  });

  test.each([
    [100, false],
    [199, false],
    [200, true],
    [204, false],
    [205, true],
    [304, true],
  ])('Content-Length with %i: %s', (status, goes) => {
    expect(received(['content-length', '5'], status)).toEqual(goes ? ['content-length', '5'] : []);
  });
});

test('a name is reserved if it folds into one of ours', () => {
  for (const name of [
    'Host',
    'x_request_id',
    'X.Consumer.Anything',
    'x_forwarded_any',
    'X-Real_IP',
    'TRACEPARENT',
    'via',
  ]) {
    expect(reservedByFolding(name), name).toBe(name.toLowerCase().replaceAll(/[_.]/g, '-'));
  }
  for (const name of ['Accept', 'x-consumer', 'x-forwarded', 'hosts', '0host'])
    expect(reservedByFolding(name), name).toBeNull();
  expect(['a-b', 'a_b', 'a.b'].map(hasPunctuation)).toEqual([false, true, true]);
});

test('a set of names knows each of them in any case, and no other', () => {
  const names = new FieldNames(['ab', 'cd', 'x']);
  expect(['ab', 'AB', 'Cd', 'X'].map((name) => names.has(name))).toEqual([true, true, true, true]);
  expect(['ac', 'abc', 'a', '', 'bb', 'y'].map((name) => names.has(name))).toEqual([
    false,
    false,
    false,
    false,
    false,
    false,
  ]);
  // Whether one begins so: what is ruled out here is never compared.
  expect([
    names.mayHave(2, 0x61),
    names.mayHave(2, 0x43),
    names.mayHave(1, 0x61),
    names.mayHave(3, 0x61),
    names.mayHave(0, 0x61),
  ]).toEqual([true, true, false, false, false]);
  expect([beginsWith('X-Ab', 'x-'), beginsWith('x', 'x-'), beginsWith('Y-Ab', 'x-'), beginsWith('', 'x')]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test('names in a Connection field are kept in lower case, without empty ones', () => {
  const names = new Set<string>();
  addConnectionNames(' A ,, b,', names);
  expect([...names]).toEqual(['a', 'b']);
});
