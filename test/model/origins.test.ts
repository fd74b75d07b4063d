import { expect, test } from 'vitest';
import { comesFromOrigin, faultOfOrigin } from '../../src/model/origins.ts';

test.each([
  'https://app.example.com',
  'https://*.example.com',
  'https://*.example.com:8443',
  'http://localhost:3000',
  'http://*.localhost:3000',
  'http://127.0.0.1:8080',
  'http://[::1]:8080',
  'https://xn--bcher-kva.example',
  'capacitor://localhost',
  'chrome-extension://abcdefghijklmnop',
])('%s is an origin', (text) => {
  expect(faultOfOrigin(text)).toBeNull();
});

test.each([
  ['https://app.example.com/', 'https://app.example.com'],
  ['https://app.example.com/cart', 'https://app.example.com'],
  ['https://App.Example.com', 'https://app.example.com'],
  ['HTTPS://app.example.com', 'https://app.example.com'],
  ['https://app.example.com:443', 'https://app.example.com'],
  ['http://app.example.com:80', 'http://app.example.com'],
  ['https://*.Example.com:443', 'https://*.example.com'],
  ['https://bücher.example', 'https://xn--bcher-kva.example'],
  ['http://[0:0::1]', 'http://[::1]'],
])('%s is a fault that names %s', (text, right) => {
  expect(faultOfOrigin(text)).toBe(`must be written as browsers send it: ${right}`);
  expect(faultOfOrigin(right)).toBeNull();
});

test.each([
  '',
  '*',
  'null',
  'app.example.com',
  '//app.example.com',
  'https://',
  'https://*',
  'https://*.com',
  'https://*.192.0.2.1',
  'https://*app.example.com',
  'https://app.*.com',
  'https://*.*.example.com',
  'https://user@app.example.com',
  'https://app.example.com:0',
  'https://app.example.com, https://b.example',
  `https://${'a'.repeat(300)}.example`,
])('%j is no origin', (text) => {
  expect(faultOfOrigin(text)).toMatch(/^must be an origin as browsers send it, such as /);
});

const LIST = ['https://app.example.com', 'https://*.example.org:8443'];
const origin = (value: string) => ['Accept', '*/*', 'Origin', value];
const referer = (value: string) => ['Referer', value];

test.each<[string, readonly string[], string, boolean]>([
  ['a listed page', origin('https://app.example.com'), 'POST', true],
  ['a listed page that reads', origin('https://app.example.com'), 'GET', true],
  ['a subdomain', origin('https://a.example.org:8443'), 'POST', true],
  ['a subdomain of a subdomain', origin('https://a-1.b_2.example.org:8443'), 'POST', true],
  ['the domain itself', origin('https://example.org:8443'), 'POST', false],
  ['a subdomain without a name', origin('https://.example.org:8443'), 'POST', false],
  ['a subdomain of another scheme', origin('http://a.example.org:8443'), 'POST', false],
  ['a subdomain with another port', origin('https://a.example.org'), 'POST', false],
  ['a path that ends like a subdomain', origin('https://evil.example/.example.org:8443'), 'POST', false],
  ['a user that looks like a subdomain', origin('https://x:y@a.example.org:8443'), 'POST', false],
  ['another page', origin('https://app.example.com.evil.example'), 'POST', false],
  ['another page with a listed referer', [...origin('null'), ...referer('https://app.example.com/')], 'GET', false],
  ['two origins', [...origin('https://app.example.com'), ...origin('https://app.example.com')], 'POST', false],
  ['no page', [], 'GET', false],
  ['the page itself, that reads', referer('https://app.example.com/cart?a=b'), 'GET', true],
  ['the page itself, that asks for a head', referer('https://app.example.com/cart'), 'HEAD', true],
  ['the page itself, that writes without an origin', referer('https://app.example.com/cart'), 'POST', false],
  ['another page by its referer', referer('https://evil.example/https://app.example.com'), 'GET', false],
  ['a referer that is no URL', referer('app.example.com'), 'GET', false],
])('%s, with %o of %s: %s', (_who, fields, method, comes) => {
  expect(comesFromOrigin(LIST, fields, method)).toBe(comes);
});
