import { expect, test } from 'vitest';
import { faultOfOrigin } from '../../src/identify/origins.ts';

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
])('%j is no origin', (text) => {
  expect(faultOfOrigin(text)).toMatch(/^must be an origin as browsers send it, such as /);
});
