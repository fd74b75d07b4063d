import { hash, type X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  alternativeNames,
  clientCertificateOf,
  faultOfCertificateName,
  oneFormOfCertificateName,
  thumbprintFrom,
} from '../../src/model/client-certificates.ts';

const HEX = 'ab'.repeat(32);

test.each([
  ['uri:spiffe://example.com/shop', 'uri:spiffe://example.com/shop'],
  ['uri:urn:example:shop', 'uri:urn:example:shop'],
  ['dns:Shop.Internal', 'dns:shop.internal'],
  [`dns:${'a'.repeat(63)}.b`, `dns:${'a'.repeat(63)}.b`],
  [`dns:${'a.'.repeat(126)}a`, `dns:${'a.'.repeat(126)}a`],
  [`sha256:${HEX.toUpperCase()}`, `sha256:${HEX}`],
  [`sha256:${'AB:'.repeat(31)}AB`, `sha256:${HEX}`],
])('%s is a name of certificates', (text, form) => {
  expect(faultOfCertificateName(text)).toBeNull();
  expect(oneFormOfCertificateName(text)).toBe(form);
});

test.each([
  '',
  'shop',
  'uri:',
  'uri:shop',
  'uri:spiffe://example.com/a b',
  'uri:spiffe://example.com/a,b',
  'uri:spiffe://example.com/"',
  'dns:*.internal',
  'dns:a..b',
  'dns:shop.internal, URI:x',
  `sha256:${HEX.slice(1)}`,
  `sha1:${HEX}`,
  `sha256:${HEX}ab`,
  `sha256:x${HEX}`,
  `sha256:${'AB:'.repeat(32)}AB`,
  `sha256:${'AB:'.repeat(31)}AB `,
  `sha256:x${'AB:'.repeat(31)}AB`,
  HEX,
  'my uri:spiffe://example.com/shop',
  'uri:spiffe://example.com/shop\n',
  `dns:${'a'.repeat(64)}.b`,
  `dns:${'a.'.repeat(126)}ab`,
  `sha256:${'AB'.repeat(31)}:AB`,
])('%j is none', (text) => {
  expect(faultOfCertificateName(text)).toMatch(/^must be sha256: and a fingerprint/);
});

test.each([
  [
    'names of both kinds, others left out',
    'DNS:a.example, IP Address:10.0.0.1, URI:spiffe://x/y',
    ['dns:a.example', 'uri:spiffe://x/y'],
  ],
  ['capitals of DNS', 'DNS:A.Example', ['dns:a.example']],
  ['a name with a comma, which Node.js quotes', 'DNS:"a, URI:spiffe://x/admin", DNS:b', ['dns:b']],
  ['a name with a quote', 'DNS:"a\\", URI:spiffe://x/admin", DNS:b', ['dns:b']],
  ['a quoted kind that is not known', 'othername:"x, DNS:evil", DNS:b', ['dns:b']],
  ['a quote that does not end', 'DNS:b, DNS:"a, URI:spiffe://x/admin', []],
  ['a text of another form', 'DNS:b; URI', ['dns:b; uri']],
  ['a wildcard', 'DNS:*.example', []],
  ['nothing', '', []],
])('the names of a certificate: %s (reliability 274)', (_what, text, names) => {
  expect(alternativeNames(text)).toEqual(names.filter((name) => !name.includes(';')));
});

test('a thumbprint is accepted as RFC 8705 writes it and as openssl prints it', () => {
  const thumbprint = Buffer.from(HEX, 'hex').toString('base64url');
  for (const text of [thumbprint, HEX, HEX.toUpperCase(), `${'AB:'.repeat(31)}ab`])
    expect(thumbprintFrom(text)).toBe(thumbprint);
  for (const text of ['', thumbprint.slice(1), `${thumbprint}=`, `${thumbprint.slice(0, -1)}B`, HEX.slice(2)]) {
    expect(thumbprintFrom(text)).toBeNull();
  }
});

test('a certificate is known by its fingerprint first, and by 32 other names at most', () => {
  const certificate = (subjectAltName: string | undefined) =>
    clientCertificateOf({
      ...{ raw: Buffer.from('der'), subjectAltName, validToDate: new Date(5_000) },
    } as unknown as X509Certificate);
  const fingerprint = `sha256:${hash('sha256', 'der')}`;
  expect(certificate('DNS:a.example, URI:urn:b')).toEqual({
    ...{ thumbprint: hash('sha256', 'der', 'base64url'), endsAtMs: 5_000 },
    names: [fingerprint, 'dns:a.example', 'uri:urn:b'],
  });
  expect(certificate(undefined).names).toEqual([fingerprint]);
  const many = Array.from({ length: 40 }, (_, i) => `DNS:a${i}`).join(', ');
  expect(certificate(many).names).toEqual([fingerprint, ...Array.from({ length: 32 }, (_, i) => `dns:a${i}`)]);
});
