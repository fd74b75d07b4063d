import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';

// What an upstream can do wrong (reliability: a broken answer is visibly broken to the client, and no answer ends the
// process). The bytes of each case are what the upstream sends for a request whose query names the case.

const OK = 'HTTP/1.1 200 OK\r\n';
const TWO = `${OK}Content-Length: 2\r\n\r\n{}`;

/** Nothing usable came, so the gateway answers 502. */
const UNUSABLE: Record<string, string> = {
  garbage: 'hello\r\n\r\n',
  'http-0.9': '<html></html>',
  'two-lengths': `${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
  'two-lengths-in-one': `${OK}Content-Length: 2, 3\r\n\r\n{}`,
  'length-and-chunks': `${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'length-that-is-none': `${OK}Content-Length: two\r\n\r\n{}`,
  'negative-length': `${OK}Content-Length: -2\r\n\r\n{}`,
  'bare-lf': `HTTP/1.1 200 OK\nContent-Length: 2\n\n{}`,
  'folded-field': `${OK}X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}`,
  'gzip-transfer': `${OK}Transfer-Encoding: gzip\r\n\r\n{}`,
  'identity-transfer': `${OK}Transfer-Encoding: identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  'chunked-twice': `${OK}Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  'two-transfers': `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  'nearly-chunked': `${OK}Transfer-Encoding: \xfdchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  'gzip-chunked-transfer': `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  'status-000': 'HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\n{}',
  'status-099': 'HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\n{}',
  'status-1000': 'HTTP/1.1 1000 OK\r\nContent-Length: 2\r\n\r\n{}',
  'unasked-101': 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
  'bare-101': 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'huge-head': `${OK}X-A: ${'a'.repeat(20_000)}\r\nContent-Length: 2\r\n\r\n{}`,
  'many-fields': `${OK}${'X-A: b\r\n'.repeat(3_000)}Content-Length: 2\r\n\r\n{}`,
  'nul-in-value': `${OK}X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}`,
  'no-colon': `${OK}X-A\r\nContent-Length: 2\r\n\r\n{}`,
  'space-before-colon': `${OK}X-A : b\r\nContent-Length: 2\r\n\r\n{}`,
};

/** The head was good, so it is what comes after it that must show as broken. */
const CUT: Record<string, string> = {
  'short-length': `${OK}Content-Length: 10\r\n\r\nhalf`,
  'short-chunks': `${OK}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`,
  'short-chunk': `${OK}Transfer-Encoding: chunked\r\n\r\n8\r\nhalf`,
  'bad-chunk': `${OK}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n`,
};

/** Complete answers with something odd about them. */
const ODD: Record<string, [bytes: string, status: number, body: string]> = {
  'length-of-204': ['HTTP/1.1 204 No Content\r\nContent-Length: 14\r\n\r\n', 204, ''],
  'odd-reason': ['HTTP/1.1 200 \xe9 <script>\r\nContent-Length: 2\r\n\r\n{}', 200, '{}'],
  'no-reason': ['HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}', 200, '{}'],
  'trailer-and-length': [`${OK}Trailer: X-A\r\nContent-Length: 2\r\n\r\n{}`, 200, '{}'],
  'many-102': ['HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000) + TWO, 200, '{}'],
  'unasked-100': [`HTTP/1.1 100 Continue\r\n\r\n${TWO}`, 200, '{}'],
  'early-hints-that-lie': [`HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n${TWO}`, 200, '{}'],
  'obs-text': [`${OK}X-Name: caf\xe9\r\nContent-Length: 2\r\n\r\n{}`, 200, '{}'],
  'http-1.0': ['HTTP/1.0 200 OK\r\n\r\n{}', 200, '{}'],
  'until-close': [`${OK}\r\n{}`, 200, '{}'],
  'status-600': ['HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\n{}', 600, '{}'],
  'status-999': ['HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}', 999, '{}'],
  'status-599': ['HTTP/1.1 599 Odd\r\nContent-Length: 2\r\n\r\n{}', 599, '{}'],
  'proto-field': [`${OK}__proto__: x\r\nconstructor: y\r\nContent-Length: 2\r\n\r\n{}`, 200, '{}'],
};

let gateway: TestGateway;
let upstream: RawUpstream;
let key: string;
/** The connection of the answer that the upstream has begun and the test breaks off. */
let broken: Socket | null = null;

/** A part of an exchange: once the client has the head of the answer, its connection to the upstream is reset. */
const resetAfterHead = (responses: readonly unknown[]) => responses.length > 0 && broken!.resetAndDestroy();

beforeAll(async () => {
  const cases = new Map([...Object.entries(UNUSABLE), ...Object.entries(CUT)]);
  for (const [name, [bytes]] of Object.entries(ODD)) cases.set(name, bytes);
  upstream = await startRawUpstream((socket, request) => {
    const name = /\?([\w.-]+)/.exec(request.toString('latin1'))?.[1] ?? '';
    if (name === 'stall') socket.write(`${OK}Content-Length: 10\r\n\r\nhalf`);
    else if (name.startsWith('reset')) {
      broken = socket;
      socket.write(`${OK}${name === 'reset' ? 'Content-Length: 10\r\n' : ''}\r\nhalf`);
    } else if (cases.has(name)) socket.end(Buffer.from(cases.get(name) as string, 'latin1'));
    else socket.write(TWO);
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { bodyTimeout: '400ms', responseTimeout: '2s' },
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const ask = (name: string, line = `GET /v1/pets?${name} HTTP/1.1`) =>
  rawExchange(gateway.port, `${line}\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`, {
    methods: [line.split(' ')[0] as string],
  });

// After each of them the gateway must serve as if nothing had been.
afterEach(async () => {
  const { responses } = await ask('good');
  expect(responses.map(({ status, body }) => [status, body.toString()])).toEqual([[200, '{}']]);
});

test.each(Object.keys(UNUSABLE))(
  'an answer with %s is 502, at once, and the connection is not used again (reliability 78, 80, 81, 83)',
  async (name) => {
    const beganAtMs = performance.now();
    const { responses } = await ask(name);
    expect(responses.map(({ status }) => status)).toEqual([502]);
    expect(responses[0]?.json()).toEqual({ code: 'upstream_unavailable', message: expect.any(String), status: 502 });
    expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  },
);

test.each([...Object.keys(CUT), 'reset', 'reset-until-close', 'stall'])(
  'an answer that breaks off after its head (%s) breaks the client’s connection: it never ends as if it were whole (reliability 75, 76, 77)',
  async (name) => {
    const bytes = `GET /v1/pets?${name} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const parts = name.startsWith('reset') ? [bytes, resetAfterHead] : bytes;
    const { responses, closed } = await rawExchange(gateway.port, parts, { until: 'closed' });
    expect(responses).toHaveLength(1);
    expect(responses[0]?.status).toBe(200);
    expect(responses[0]?.complete).toBe(false);
    expect(closed).toBe(true);
  },
);

test.each(Object.keys(CUT))(
  'a head that comes together with a broken body (%s) reaches a client before its connection is cut (reliability 339)',
  async (name) => {
    const sent = get(`${gateway.origin}/v1/pets?${name}`, { headers: { authorization: `Bearer ${key}` } });
    // Rejects if the client reports an error first.
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    sent.on('error', () => {});
    expect(response.statusCode).toBe(200);
    await expect(text(response)).rejects.toThrow();
    expect(response.complete).toBe(false);
  },
);

test('a head that comes together with a broken body reaches a client of HTTP/2, then RST_STREAM (reliability 339)', async () => {
  const { gateway: encrypted, ca } = await openEncrypted({ upstream: upstream.origin });
  const own = await encrypted.createKey('endless');
  const session = await openHttp2(encrypted.port, ca);
  for (const name of Object.keys(CUT)) {
    const stream = session.request({ ':path': `/v1/pets?${name}`, authorization: `Bearer ${own.key}` });
    const [head] = await once(stream, 'response');
    expect(head[':status']).toBe(200);
    await expect(text(stream)).rejects.toThrow('Stream closed with error code');
  }
  session.close();
});

test('an answer to HTTP/1.0 that breaks off ends with a reset, since its end is the end of the connection (reliability 76, 77)', async () => {
  for (const name of ['short-chunks', 'reset-until-close']) {
    const bytes = `GET /v1/pets?${name} HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const parts = name === 'reset-until-close' ? [bytes, resetAfterHead] : bytes;
    const { responses, reset } = await rawExchange(gateway.port, parts, { until: 'closed' });
    expect(reset).toBe(true);
    expect(responses[0]?.complete ?? false).toBe(false);
  }
});

test('a stall in the body is noticed when bodyTimeout is over (reliability 75)', async () => {
  const stop = stopwatch();
  await rawExchange(gateway.port, `GET /v1/pets?stall HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`, {
    until: 'closed',
  });
  const took = stop();
  expect(took).toBeGreaterThan(380);
  expect(took).toBeLessThan(400 + LATE_MS);
});

test.each(Object.entries(ODD))(
  'an answer with %s is passed on (reliability 80, 82)',
  async (name, [, status, body]) => {
    const { responses } = await ask(name);
    const finals = responses.filter((response) => response.status >= 200);
    expect(finals.map((response) => [response.status, response.body.toString(), response.complete])).toEqual([
      [status, body, true],
    ]);
    expect(finals[0]?.reason).not.toContain('script');
    expect(finals[0]?.header('trailer')).toBeNull();
    if (status === 204) expect(finals[0]?.header('content-length')).toBeNull();
  },
);

test('a status beyond 599 counts as one of 5xx (reliability 337)', async () => {
  const counted = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    return Number(/^tollgate_requests_total\{[^}]*status="5xx",code="none"[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };
  const before = await counted();
  for (const name of ['status-600', 'status-999', 'status-999']) await ask(name);
  await eventually(async () => expect(await counted()).toBe(before + 3));
});

test('bytes behind an answer are never the answer to the next request (reliability 79)', async () => {
  const poisoned = `${TWO}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`;
  const other = await startRawUpstream((socket, _bytes, { connection, request }) => {
    socket.write(connection === 1 && request === 1 ? poisoned : TWO);
  });
  const alone = await openGateway({ upstream: other.origin });
  const own = await alone.createKey('free');
  for (let i = 0; i < 4; i++) {
    const answer = await alone.get('/v1/pets', own.key);
    expect(await answer.text()).not.toContain('poison');
  }
  expect(other.connections).toBeGreaterThan(1);
});

test.each([
  ['204', 'HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison', 'GET'],
  ['304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nstray', 'GET'],
  ['HEAD', `${OK}Content-Length: 5\r\n\r\nstray`, 'HEAD'],
])(
  'a body that %s must not have is not passed on, nor taken for the next answer (reliability 79)',
  async (_what, bytes, method) => {
    const other = await startRawUpstream((socket, _bytes, { connection, request }) => {
      socket.write(connection === 1 && request === 1 ? bytes : TWO);
    });
    const alone = await openGateway({ upstream: other.origin });
    const own = await alone.createKey('free');
    const first = await rawExchange(
      alone.port,
      `${method} /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\n\r\n`,
      { methods: [method] },
    );
    expect(first.bytes.toString()).not.toMatch(/stray|poison/);
    const next = await alone.get('/v1/pets', own.key);
    expect([next.status, await next.text()]).toEqual([200, '{}']);
  },
);

test('an unasked 100 after a POST, and one that follows 102, are left out: the answer is what counts (reliability 82)', async () => {
  const line = 'POST /v1/pets?unasked-100 HTTP/1.1';
  const { responses } = await rawExchange(
    gateway.port,
    `${line}\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n{}`,
    { methods: ['POST'] },
  );
  expect(responses.map(({ status }) => status)).toEqual([200]);
});

test('an answer to one client is never read by another: what comes unasked on an idle connection ends it (reliability 79)', async () => {
  let late: Socket | null = null;
  const other = await startRawUpstream((socket) => {
    late = socket;
    socket.write(TWO);
  });
  const alone = await openGateway({ upstream: other.origin });
  const [one, two] = [await alone.createKey('free'), await alone.createKey('free')];
  expect((await alone.get('/v1/pets', one.key)).status).toBe(200);
  (late as Socket | null)?.write(`${OK}Content-Length: 6\r\n\r\npoison`);
  await eventually(() => expect(other.open).toBe(0));
  expect(await (await alone.get('/v1/pets', two.key)).text()).toBe('{}');
});

test('an upstream that closes after each answer costs the client nothing (reliability 86)', async () => {
  const closing = await startRawUpstream((socket) =>
    socket.end(`${OK}Connection: close\r\nContent-Length: 2\r\n\r\n{}`),
  );
  const alone = await openGateway({ upstream: closing.origin });
  const own = await alone.createKey('free');
  const request = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\n\r\n`;
  const { responses } = await rawExchange(alone.port, [request, request, request], { until: 3, pauseMs: 30 });
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(responses.map((response) => response.header('connection'))).not.toContain('close');
  expect(closing.connections).toBe(3);
});

test('nothing of all this is left over', async () => {
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
  });
  expect(gateway.process.stdout + gateway.process.stderr).not.toMatch(/uncaught|a defect/i);
});
