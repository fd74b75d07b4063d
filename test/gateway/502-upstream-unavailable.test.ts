import { beforeAll, expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS } from '../support/room.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: RawUpstream;
let key: string;

beforeAll(async () => {
  upstream = await startRawUpstream((socket, request) => {
    const how = /\?(\w+)/.exec(request.toString('latin1'))?.[1];
    if (how === 'reset') socket.resetAndDestroy();
    else if (how === 'closed') socket.end();
    else if (how === 'garbage') socket.end('SSH-2.0-OpenSSH_9.2p1\r\n');
    else if (how === 'half') socket.end('HTTP/1.1 200 OK\r\nContent-Le');
    else if (how === 'early') socket.resetAndDestroy();
    else socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
  });
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000'));
});

const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));

test.each(['reset', 'closed', 'garbage', 'half'])(
  '502 upstream_unavailable: an upstream that answers with %s; it counts, and no name of a server leaks (reliability 77, 78, 89)',
  async (how) => {
    const before = await remaining();
    const answer = await gateway.get(`/v1/pets?${how}`, key);
    const body = await answer.text();
    expect(answer.status).toBe(502);
    expect(JSON.parse(body)).toEqual({ code: 'upstream_unavailable', message: expect.any(String), status: 502 });
    expect(body).not.toMatch(/127\.0\.0\.1|ECONN|socket/i);
    expect(answer.headers.get('connection')).not.toBe('close');
    expect(await remaining()).toBe(before - 2);
  },
);

test('502 upstream_unavailable: a connection that is refused, at once (reliability 73)', async () => {
  const alone = await openGateway({ upstream: `http://127.0.0.1:${await freePort()}` });
  const own = await alone.createKey('free');
  const beganAtMs = performance.now();
  const answer = await alone.get('/v1/pets', own.key);
  expect(answer.status).toBe(502);
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  expect((await alone.get('/v1/pets', own.key, { method: 'POST', body: 'a body' })).status).toBe(502);
});

test('502 upstream_unavailable: a name that has no address (reliability 73)', async () => {
  const alone = await openGateway({
    upstream: 'http://nowhere.invalid:80',
    upstreamSettings: { connectTimeout: '15s' },
  });
  const own = await alone.createKey('free');
  const answer = await alone.get('/v1/pets', own.key);
  expect(answer.status).toBe(502);
  expect(await answer.text()).not.toContain('nowhere');
});

test.each(['Content-Length: 100', 'Transfer-Encoding: chunked'])(
  '502 upstream_unavailable: reaches a client that is still sending its body (%s) (reliability 84)',
  async (framing) => {
    const head = `POST /v1/pets?early HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${framing}\r\n\r\n`;
    const { responses, closed } = await rawExchange(gateway.port, [head, '4\r\nhalf\r\n'], {
      until: 'closed',
      pauseMs: 50,
    });
    expect(responses.map(({ status }) => status)).toEqual([502]);
    expect(responses[0]?.json()).toMatchObject({ code: 'upstream_unavailable' });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
  },
);

test('502 upstream_unavailable: reaches a client with a large body on its way', async () => {
  const head = `POST /v1/pets?early HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 1000000\r\n\r\n`;
  for (let i = 0; i < 5; i++) {
    const { responses } = await rawExchange(gateway.port, [head, 'a'.repeat(200_000)], { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([502]);
  }
});

test('the connection of the client serves on after a 502', async () => {
  const ask = (how: string) => `GET /v1/pets?${how} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, [ask('reset'), ask('good')], { until: 2, pauseMs: 100 });
  expect(responses.map(({ status }) => status)).toEqual([502, 200]);
});
