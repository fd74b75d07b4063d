import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { bearer, type Expected, KEY, type LoadRequest, messageOf } from '../../../tools/bench/request.ts';
import { SCENARIOS } from '../../../tools/bench/scenarios.ts';
import { steadyAnswer, verify } from '../../../tools/bench/verify.ts';

const TRIED = { scenario: SCENARIOS[0]!, keys: { good: ['good'], tiny: 'tiny', spent: 'spent', banned: 'banned' } };
const GET: LoadRequest = { method: 'GET', target: '/v1/pets', headers: bearer(), body: '' };
const TEXT = 'x'.repeat(284);
const CLAIMS = { checksKeys: true, limits: true, proxies: true };

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<{ port: number }> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close().closeAllConnections());
  return server.address() as AddressInfo;
}

function loadWith(expects: Partial<Expected>, request = GET) {
  const all = { status: 200, field: null, bodyBytes: 284, ...expects };
  return { load: { request, keyKind: all.status === 429 ? ('spent' as const) : ('good' as const), expects: all } };
}

test('a message has its fields, the length of its body, and a place for the key', () => {
  const message = messageOf({ ...GET, method: 'POST', body: '{}' }, 8080);
  expect(message).toBe(
    `POST /v1/pets HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 2\r\n\r\n{}`,
  );
});

describe('the answer that a load expects', () => {
  test('is refused with another status, field or length', async () => {
    const at = await serve((_request, response) => response.writeHead(200, { 'X-Plan': 'good' }).end(TEXT));
    const answered = (expects: Partial<Expected>) => steadyAnswer(loadWith(expects), at, TRIED);
    await expect(answered({})).resolves.toMatchObject({ status: 200, body: TEXT });
    await expect(answered({ field: ['X-Plan', 'good'] })).resolves.toMatchObject({ status: 200 });
    await expect(answered({ status: 308 })).rejects.toThrow('answered with 200, not 308');
    await expect(answered({ field: ['X-Plan', 'free'] })).rejects.toThrow('has good as X-Plan, not free');
    await expect(answered({ field: ['Location', '/'] })).rejects.toThrow('has nothing as Location');
    await expect(answered({ bodyBytes: 285 })).rejects.toThrow('has 284 bytes, not 285');
  });

  test('may be compressed: its decoded length counts, and the body stays as it came', async () => {
    const packed = gzipSync(TEXT);
    const at = await serve((_request, response) => response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(packed));
    const { body } = await steadyAnswer(loadWith({ field: ['Content-Encoding', 'gzip'] }), at, TRIED);
    expect(body).toHaveLength(packed.length);
  });

  test('is that of the spent key where the load is refused', async () => {
    const at = await serve(({ headers }, response) =>
      response.writeHead(headers.authorization === 'Bearer spent' ? 429 : 200).end(),
    );
    await expect(steadyAnswer(loadWith({ status: 429, bodyBytes: null }), at, TRIED)).resolves.toMatchObject({
      status: 429,
    });
  });
});

describe('a gateway with a load of its own', () => {
  /** Counts `tiny` to 3, knows `good`, and reads keys from X-API-Key alone. */
  async function limiter(): Promise<{ port: number }> {
    let used = 0;
    return serve(({ headers, url }, response) => {
      const key = headers['x-api-key'];
      if (key !== 'good' && key !== 'tiny') return response.writeHead(401).end();
      if (key === 'tiny') used++;
      const status = used > 3 && key === 'tiny' ? 429 : url === '/v1/silent' ? 504 : 200;
      return response.writeHead(status, { 'X-RateLimit-Remaining': String(3 - used) }).end(TEXT);
    });
  }
  const byHeader: LoadRequest = { ...GET, headers: { 'X-API-Key': KEY } };

  test('is tried with the request of its load, and must show its feature', async () => {
    const silent = { ...byHeader, target: '/v1/silent' };
    const tried = { claims: CLAIMS, ...loadWith({}, byHeader) };
    await verify({ ...tried, proof: { request: silent, status: 504 } }, await limiter(), TRIED);
    await expect(verify({ ...tried, proof: { request: silent, status: 200 } }, await limiter(), TRIED)).rejects.toThrow(
      'GET /v1/silent was answered with 504, not 200',
    );
    await expect(verify({ claims: CLAIMS, ...loadWith({}) }, await limiter(), TRIED)).rejects.toThrow(
      'request 1 of 3 was answered with 401',
    );
  });
});
