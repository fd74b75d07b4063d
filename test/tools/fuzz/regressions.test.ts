import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { type RawUpstream, startRawUpstream } from '../../support/upstream.ts';

// What the fuzzer has found, each as it shrank.

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

let upstream: RawUpstream;
let gateway: TestGateway;
let key: string;
let answer: string;
let answerAfterMs: number;
let end: 'keep' | 'reset' | 'fin';
let seen: string[];

beforeAll(async () => {
  upstream = await startRawUpstream((socket, bytes) => {
    seen.push(bytes.toString('latin1').split('\r\n')[0]!);
    setTimeout(() => {
      socket.write(Buffer.from(answer, 'latin1'), () => {
        if (end === 'reset') socket.resetAndDestroy();
        if (end === 'fin') socket.end();
      });
    }, answerAfterMs);
  });
  gateway = await openGateway({ upstream: upstream.origin });
  key = (await gateway.createKey('endless')).key;
});

beforeEach(() => {
  answer = OK;
  answerAfterMs = 0;
  end = 'keep';
  seen = [];
});

const get = (path = '/v1/pets', fields = '') =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;

describe('what follows a request that ends the connection is never processed (RFC 9112 section 9.6)', () => {
  test.each([
    ['two Hosts', 'Host: a\r\n', ''],
    ['an invalid Host', 'Host: a b\r\n', ''],
    ['a Transfer-Encoding that is not spoken', 'Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'],
    ['two Transfer-Encodings', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'],
    ['an Authorization that comes twice', 'Authorization: Basic eDp5\r\n', ''],
    ['a body that a GET must not have', 'Content-Length: 1\r\n', 'x'],
  ])('%s', async (_, fields, body) => {
    const bytes = get('/v1/pets', fields) + body + get() + get();
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(closed).toBe(true);
    expect(responses).toHaveLength(1);
    expect(responses[0]?.status).toBeGreaterThanOrEqual(400);
    expect(responses[0]?.header('Connection')).toBe('close');
    expect(seen).toEqual([]);
  });

  test('a body that turns out too large, with a request behind it in the same packet', async () => {
    const small = await openGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '1KiB' } });
    const { key: other } = await small.createKey('endless');
    const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${other}\r\n`;
    const chunk = `500\r\n${'b'.repeat(0x500)}\r\n0\r\n\r\n`;
    const bytes = `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}${head}Content-Length: 0\r\n\r\n`;
    const { responses } = await rawExchange(small.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([413]);
    expect(seen.length).toBeLessThanOrEqual(1);
  });
});

describe('pipelined requests', () => {
  test('reach the upstream one after the other, and are answered in their order', async () => {
    answerAfterMs = 30;
    const { responses } = await rawExchange(gateway.port, get() + get('/v1/pets/1') + get('/v1/pets/2'), { until: 3 });
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(seen).toEqual(['GET /v1/pets HTTP/1.1', 'GET /v1/pets/1 HTTP/1.1', 'GET /v1/pets/2 HTTP/1.1']);
  });

  test('a malformed one spoils no answer to the good one before it', async () => {
    answerAfterMs = 50;
    const { responses } = await rawExchange(gateway.port, `${get()}GET / HTTP/1.1\r\nno colon\r\n\r\n`, {
      until: 'closed',
    });
    expect(responses.map(({ status }) => status)).toEqual([200, 400]);
  });

  test('one whose body is malformed is never forwarded while it waits', async () => {
    answerAfterMs = 50;
    const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
    const bytes = `${get()}${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`;
    const { responses } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([200, 400]);
    expect(seen).toEqual(['GET /v1/pets HTTP/1.1']);
  });

  test('beyond 64 KiB that wait, the client waits, and each is served', async () => {
    answerAfterMs = 5;
    const many = Math.ceil((70 * 1024) / get().length);
    const { responses } = await rawExchange(gateway.port, get().repeat(many), { until: many, withinMs: 30_000 });
    expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: many }, () => 200));
    expect(seen).toHaveLength(many);
  });
});

describe('an answer whose end is anybody’s guess is never passed on as whole', () => {
  const ask = () => rawExchange(gateway.port, get(), { until: 'closed', withinMs: 2_000 });
  const single = () => rawExchange(gateway.port, get());

  test('one without framing that is reset: the client’s connection breaks too', async () => {
    answer = 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it';
    end = 'reset';
    const { responses } = await ask();
    expect(responses.filter(({ status, complete }) => status === 200 && complete)).toEqual([]);
  });

  test('the same, ended in order, is whole', async () => {
    answer = 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it';
    end = 'fin';
    const { responses } = await single();
    expect(responses[0]).toMatchObject({ status: 200, complete: true });
    expect(responses[0]?.body.toString()).toBe('all of it');
  });

  test.each([
    'Transfer-Encoding: gzip',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: chunked, chunked',
    'Transfer-Encoding: \xfdchunked',
    'Transfer-Encoding: identity',
  ])('%s: 502', async (field) => {
    answer = `HTTP/1.1 200 OK\r\n${field}\r\n\r\n2\r\nok\r\n0\r\n\r\n`;
    end = 'fin';
    const { responses } = await single();
    expect(responses[0]?.status).toBe(502);
  });
});

test.each(['204 No Content', '103 Early Hints'])(
  'a %s never has a Content-Length, whatever the upstream says',
  async (line) => {
    answer = `HTTP/1.1 ${line}\r\nContent-Length: 14\r\nLink: </a>\r\n\r\n${line.startsWith('103') ? OK : ''}`;
    const { responses } = await rawExchange(gateway.port, get('/v1/pets', 'Sec-Fetch-Mode: navigate\r\n'));
    expect(responses[0]?.status).toBe(Number(line.slice(0, 3)));
    expect(responses[0]?.header('Content-Length')).toBeNull();
  },
);
