import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { beforeEach, expect, test } from 'vitest';
import { listenForHttpChallenges } from '../../src/listen/http-challenge.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { LATE_MS } from '../support/room.ts';

const TOKEN = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA';
const PATH = '/.well-known/acme-challenge/';
let port: number;
let asked: string[];

beforeEach(async () => {
  asked = [];
  const listener = await listenForHttpChallenges({
    host: '127.0.0.1',
    port: 0,
    domains: ['api.example.com'],
    answerTo: async (token) => {
      asked.push(token);
      return token === TOKEN ? `${token}.thumbprint` : null;
    },
  });
  atEnd(() => listener.close());
  port = listener.port;
});

async function connected(localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = createConnection({ host: '127.0.0.1', port, localAddress });
  atEnd(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** The whole response to these bytes. */
async function answerTo(bytes: string): Promise<string> {
  const socket = await connected();
  socket.write(bytes, 'latin1');
  let text = '';
  socket.on('data', (piece) => {
    text += piece.toString('latin1');
  });
  await once(socket, 'close');
  return text;
}

const request = (method: string, path: string, host = 'api.example.com') =>
  `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

test('a token of an order under way is answered, to GET with its text and to HEAD without', async () => {
  expect(await answerTo(request('GET', PATH + TOKEN))).toMatch(
    new RegExp(`^HTTP/1.1 200 OK[\\s\\S]*\r\n\r\n${TOKEN}.thumbprint$`),
  );
  expect(await answerTo(request('HEAD', PATH + TOKEN))).toMatch(/^HTTP\/1.1 200 OK[\s\S]*\r\n\r\n$/);
});

test.each([
  ['POST', PATH + TOKEN, 405],
  ['DELETE', '/', 405],
  ['GET', `${PATH}unknown`, 404],
  ['GET', `${PATH}../../etc/passwd`, 404],
  ['GET', `${PATH}..%2f..%2fdata`, 404],
  ['GET', `${PATH}${'a'.repeat(257)}`, 404],
  ['GET', PATH, 404],
])('%s %s is %i, and no file is looked up (reliability 188)', async (method, path, status) => {
  expect(await answerTo(request(method, path))).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(asked.every((token) => /^[A-Za-z0-9_-]{1,256}$/.test(token))).toBe(true);
});

test.each([
  ['/v1/pets?a=1', 'API.example.com:80', 'https://api.example.com/v1/pets?a=1'],
  ['//evil.example/x', 'api.example.com', 'https://api.example.com//evil.example/x'],
])('GET %s for %s is redirected to the domain by https', async (path, host, location) => {
  expect(await answerTo(request('GET', path, host))).toMatch(`308 Permanent Redirect`);
  expect(await answerTo(request('GET', path, host))).toContain(`\r\nLocation: ${location}\r\n`);
});

test('a host that is no domain of the gateway is not redirected (reliability 188)', async () => {
  expect(await answerTo(request('GET', '/', 'evil.example'))).toMatch(/^HTTP\/1.1 404 /);
});

test.each([
  ['no HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'],
  ['a bare line', 'hello\r\n\r\n'],
  ['two lengths', 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
  ['a head of 64 KiB', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(65_536)}\r\n\r\n`],
])('%s ends the connection, and the next client is served (reliability 188)', async (_, bytes) => {
  expect(await answerTo(bytes)).toMatch(/^(HTTP\/1.1 4|$)/);
  expect(await answerTo(request('GET', PATH + TOKEN))).toContain('200 OK');
});

test('with 256 open connections the oldest makes room for the authority (reliability 188)', async () => {
  const first = await connected();
  const firstClosed = once(first.resume(), 'close');
  const others = await Promise.all(Array.from({ length: 255 }, () => connected()));
  expect(await answerTo(request('GET', PATH + TOKEN))).toContain('200 OK');
  await firstClosed;
  expect(others.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(200);
});

test('an address that opens connections all the time closes its own, and not the one of the authority (reliability 188)', async () => {
  const authority = await connected('127.0.0.2');
  let answered = '';
  authority.on('data', (piece) => {
    answered += piece;
  });
  const flood = await Promise.all(Array.from({ length: 600 }, async () => (await connected('127.0.0.3')).resume()));
  await eventually(() => expect(flood.filter(({ destroyed }) => destroyed).length).toBeGreaterThanOrEqual(600 - 256));
  expect(authority.destroyed).toBe(false);
  authority.write(request('GET', PATH + TOKEN));
  await once(authority, 'close');
  expect(answered).toContain('200 OK');
});

test('a connection is over after 5 s, however slowly its client writes (reliability 188)', async () => {
  const socket = await connected();
  socket.resume();
  const beganMs = performance.now();
  const writing = setInterval(() => socket.write('G'), 50);
  atEnd(() => clearInterval(writing));
  await once(socket, 'close');
  expect(performance.now() - beganMs).toBeLessThan(5_000 + LATE_MS);
});
