import { readFile } from 'node:fs/promises';
import { createServer as createHttp, type RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { beforeAll, expect, test } from 'vitest';
import { Directory, DirectoryError, printable, retryAfterOf } from '../../src/certificates/directory.ts';
import { faultOf, orderCertificate } from '../../src/certificates/order.ts';
import type { CertificateAuthority, CertificatePair } from '../support/certificates.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';

let authority: CertificateAuthority;
let pair: CertificatePair;

beforeAll(async () => {
  authority = await newAuthority();
  pair = await authority.issue('localhost');
});

/** A directory at `/dir` that answers what the test says. */
async function hostile(
  answer: RequestListener,
): Promise<{ readonly url: string; readonly ask: () => Promise<unknown> }> {
  const server = createServer({ cert: await readFile(pair.cert), key: await readFile(pair.key) }, answer);
  const { port } = await listen(server);
  atEnd(() => server.closeAllConnections());
  const url = `https://localhost:${port}/dir`;
  return { url, ask: () => directory(url).request(url, 'get') };
}

const ca = () => Buffer.from(authority.pem);
const noPause = async () => {};
const directory = (url: string, signal = new AbortController().signal) =>
  new Directory({ url, ca: ca(), wallMs: () => 0, sleep: noPause, signal });

/** A whole order at this directory. */
const orderAt = (url: string) =>
  orderCertificate({
    acme: {
      ...{ domains: ['localhost'], email: null, directory: url, directoryCa: null, httpPort: 80, eab: null },
      challenge: 'tls-alpn-01',
    },
    ...{ directoryCa: ca(), hmacKey: null, account: null, wallMs: () => Date.now(), sleep: noPause },
    keepAccount: async () => {},
    publish: async () => {},
    signal: new AbortController().signal,
  });

test.each<[string, RequestListener, RegExp]>([
  [
    'an HTML page',
    (_, response) => response.setHeader('Content-Type', 'text/html').end('<html>'),
    /Unable to locate|no ACME/,
  ],
  ['broken JSON', (_, response) => response.setHeader('Content-Type', 'application/json').end('{'), /broken JSON/],
  [
    'JSON that is no object',
    (_, response) => response.setHeader('Content-Type', 'application/json').end('7'),
    /broken JSON/,
  ],
  [
    'a redirect',
    (_, response) => response.writeHead(302, { Location: 'https://127.0.0.1/admin' }).end(),
    /answered 302/,
  ],
  [
    'URLs of another origin',
    (_, response) =>
      response.setHeader('Content-Type', 'application/json').end('{"newNonce":"http://169.254.169.254/"}'),
    /outside of|Unable to locate/,
  ],
  [
    'another protocol',
    ({ socket }) => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    /another protocol/,
  ],
])('a directory that answers %s is refused with a sentence (reliability 185)', async (_, answer, sentence) => {
  const { url } = await hostile(answer);
  await expect(orderAt(url)).rejects.toThrow(sentence);
});

test('an order with more authorizations than domains is refused, and none of them is asked for (reliability 199)', async () => {
  const asked: string[] = [];
  const { url } = await hostile(({ url: path = '' }, response) => {
    asked.push(path);
    const at = (name: string) => new URL(name, url).href;
    const urls = ['newNonce', 'newAccount', 'newOrder'].map((name) => [name, at(`/${name}`)]);
    const authorizations = Array.from({ length: 5_000 }, (_, i) => at(`/authorization/${i}`));
    const body = path === '/dir' ? Object.fromEntries(urls) : { status: 'pending', authorizations };
    response.writeHead(path === '/dir' || path === '/newNonce' ? 200 : 201, {
      ...{ 'Content-Type': 'application/json', 'Replay-Nonce': 'nonce', Location: at(`${path}/1`) },
    });
    response.end(JSON.stringify(body));
  });
  await expect(orderAt(url)).rejects.toThrow('more proofs than domains');
  expect(asked.at(-1)).toBe('/newOrder');
});

test('a redirect is not followed, and another origin is not asked (reliability 185)', async () => {
  let asked = 0;
  const inner = createHttp((_, response) => {
    asked++;
    response.end();
  });
  const { port } = await listen(inner);
  const target = `http://127.0.0.1:${port}/`;
  const redirecting = await hostile((_, response) => response.writeHead(307, { Location: target }).end());
  await expect(redirecting.ask()).rejects.toThrow(/answered 307/);
  await expect(directory(redirecting.url).request(target, 'get')).rejects.toThrow(/outside of/);
  expect(asked).toBe(0);
});

// getaddrinfo does not know `*.localhost` (RFC 6761); the resolver of the process does.
test('a directory is found by the resolver of the process', async () => {
  const { url } = await hostile((_, response) => response.end());
  const named = url.replace('localhost', 'acme.localhost');
  // The certificate is that of localhost: the directory was reached.
  await expect(directory(named).request(named, 'get')).rejects.toThrow('ERR_TLS_CERT_ALTNAME_INVALID');
});

test('a body without an end is cut off (reliability 185)', async () => {
  let isClosed = false;
  const { ask } = await hostile((_, response) => {
    response.once('close', () => {
      isClosed = true;
    });
    const send = () => {
      while (!isClosed && response.write(Buffer.alloc(16_384, 'a')));
    };
    response.on('drain', send);
    send();
  });
  await expect(ask()).rejects.toThrow(/more than 256 KiB/);
  await expect.poll(() => isClosed).toBe(true);
});

test('an order that is given up ends its request at once', async () => {
  const arrived = Promise.withResolvers<void>();
  const { url } = await hostile(() => arrived.resolve());
  const giving = new AbortController();
  const asked = directory(url, giving.signal).request(url, 'get');
  await arrived.promise;
  giving.abort(new Error('given up'));
  await expect(asked).rejects.toThrow('given up');
});

test('a 503 is repeated, a refusal is not, and Retry-After and the problem are told', async () => {
  let asked = 0;
  const busy = await hostile((_, response) => (asked++ < 2 ? response.writeHead(503) : response).end('well'));
  expect(await busy.ask()).toMatchObject({ status: 200, data: 'well' });
  asked = 0;
  const problem = JSON.stringify({ type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too\nmany\u001b[31m' });
  const refusing = await hostile((_, response) => {
    asked++;
    response.writeHead(429, { 'Retry-After': '3600', 'Content-Type': 'application/problem+json' }).end(problem);
  });
  const error = (await refusing.ask().catch((thrown) => thrown)) as DirectoryError;
  expect(error).toBeInstanceOf(DirectoryError);
  expect(error).toMatchObject({ kind: 'refused', problem: 'rateLimited', retryAfterMs: 3_600_000 });
  expect(error.message).toBe('The authority has answered 429 rateLimited: too many [31m');
  expect(asked).toBe(1);
});

test.each([
  ['120', 120_000],
  ['Thu, 01 Jan 1970 00:01:00 GMT', 60_000],
  ['soon', 0],
  ['-5', 0],
  [undefined, 0],
])('Retry-After: %s is %i ms', (value, expected) => {
  expect(retryAfterOf(value, 0)).toBe(expected);
});

test('a text of the authority is one bounded line', () => {
  expect(printable(`a\r\n${'b'.repeat(20)}`, 5)).toBe('a bbb…');
});

test('a certificate is refused unless it is one, for every domain, and valid now (reliability 186)', async () => {
  const issued = (cert: string, domains = ['localhost']) => ({ key: '', cert, domains });
  const now = Date.now();
  const dead = await authority.issue('localhost', -1);
  expect(faultOf(issued(pair.pem), now)).toBe(null);
  expect(faultOf(issued(pair.pem, ['localhost', 'other.example.com']), now)).toMatch('is not for other.example.com');
  expect(faultOf(issued(dead.pem), now)).toMatch('has expired');
  expect(faultOf(issued(pair.pem), now - 30 * 86_400_000)).toMatch('is not valid yet');
  for (const page of ['<html>', '', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----']) {
    expect(faultOf(issued(page), now)).toMatch('is no certificate in PEM form');
  }
});
