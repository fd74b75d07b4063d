import { createConnection } from 'node:net';
import { describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { valuesOf } from '../support/http-message.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream, type UpstreamHandler } from '../support/upstream.ts';

// `cache` of a route: responses from memory by RFC 9111.

interface Cached {
  readonly gateway: TestGateway;
  readonly service: Upstream;
  readonly key: string;
}

/** A gateway with one cached route, before a service. @param cache of the route, as YAML */
async function cached(handler: UpstreamHandler, cache = 'true', more = ''): Promise<Cached> {
  const service = await startUpstream(handler);
  const routes = `\n  - { path: /v1/pets/**, methods: [GET, PUT, POST], upstream: store, cache: ${cache} }`;
  const gateway = await openGateway({ upstream: service.origin, routes, more });
  const { key } = await gateway.createKey('endless');
  return { gateway, service, key };
}

/** A service whose answers are numbered. */
function numbered(fields: Record<string, string>, status = 200): UpstreamHandler {
  let answers = 0;
  return (_request, response) => response.writeHead(status, fields).end(`answer ${++answers}`);
}

async function ask({ gateway, key }: Cached, path = '/v1/pets/1', init: RequestInit = {}, as = key) {
  const response = await gateway.get(path, as, init);
  return { status: response.status, fields: response.headers, text: await response.text() };
}

test('a fresh response is given from memory, counted as any request, and says its age', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60', age: '30', 'x-own': 'kept', etag: '"1"' }));
  const { key } = await all.gateway.createKey('free');
  const first = await ask(all, '/v1/pets/1', {}, key);
  expect(first.fields.get('cache-status')).toBe('Tollgate; fwd=uri-miss; fwd-status=200; stored');
  const second = await ask(all, '/v1/pets/1', {}, key);
  expect(second).toMatchObject({ status: 200, text: 'answer 1' });
  expect(second.fields.get('x-own')).toBe('kept');
  expect(Number(second.fields.get('age'))).toBeGreaterThanOrEqual(30);
  expect(second.fields.get('cache-status')).toMatch(/^Tollgate; hit; ttl=(30|29)$/);
  expect(Number(second.fields.get('x-ratelimit-remaining'))).toBe(
    Number(first.fields.get('x-ratelimit-remaining')) - 1,
  );
  expect(second.fields.get('x-request-id')).not.toBe(first.fields.get('x-request-id'));
  expect(all.service.requests).toHaveLength(1);
  await expect.poll(() => all.gateway.process.stdout).toMatch(/"upstream":null,"target":null.*"cache":"hit"/);
});

test('HEAD, and a client that has the response already, get no body from memory', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60', etag: 'W/"1"' }));
  await ask(all);
  const head = await ask(all, '/v1/pets/1', { method: 'HEAD' });
  expect([head.status, head.text, head.fields.get('content-length')]).toEqual([200, '', '8']);
  // `fetch` would send Cache-Control: no-cache beside the condition.
  const conditional = async (tags: string) => {
    const head = `GET /v1/pets/1 HTTP/1.1\r\nHost: 127.0.0.1:${all.gateway.port}\r\nAuthorization: Bearer ${all.key}\r\nIf-None-Match: ${tags}\r\n\r\n`;
    const [response] = (await rawExchange(all.gateway.port, head)).responses;
    return response!;
  };
  const known = await conditional('"0", "1"');
  expect([known.status, known.body.toString(), valuesOf(known.headers, 'etag')]).toEqual([304, '', ['W/"1"']]);
  const other = await conditional('"2"');
  expect([other.status, other.body.toString()]).toEqual([200, 'answer 1']);
  expect(all.service.requests).toHaveLength(1);
});

test('another caller, query or selected field gets a response of its own; a shared one is for all callers', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60' }), '{ fields: [Accept-Language] }');
  const other = await all.gateway.createKey('free');
  await ask(all);
  expect((await ask(all, '/v1/pets/1', {}, other.key)).text).toBe('answer 2');
  expect((await ask(all, '/v1/pets/1?a')).text).toBe('answer 3');
  expect((await ask(all, '/v1/pets/1', { headers: { 'accept-language': 'de' } })).text).toBe('answer 4');
  expect((await ask(all)).text).toBe('answer 1');

  const shared = await cached(numbered({ 'cache-control': 'max-age=60' }), '{ shared: true }');
  const second = await shared.gateway.createKey('free');
  await ask(shared);
  expect((await ask(shared, '/v1/pets/1', {}, second.key)).text).toBe('answer 1');
});

test('requests that differ in a field of Vary get responses of their own, and both are kept', async () => {
  const all = await cached(
    numbered({ 'cache-control': 'max-age=60', vary: 'Accept, X-Consumer-Plan' }),
    '{ shared: true }',
  );
  const other = await all.gateway.createKey('free');
  const as = (accept: string, key = all.key) => ask(all, '/v1/pets/1', { headers: { accept } }, key);
  await as('a/a');
  expect((await as('b/b')).text).toBe('answer 2');
  expect((await as('a/a', other.key)).text).toBe('answer 3');
  expect((await as('a/a')).text).toBe('answer 1');
  expect((await as('b/b')).text).toBe('answer 2');
});

test.each<[string, Record<string, string>]>([
  ['no-store', { 'cache-control': 'no-store' }],
  ['private', { 'cache-control': 'private, max-age=60' }],
  ['a cookie', { 'cache-control': 'public, max-age=60', 'set-cookie': 'session=1' }],
  ['Vary: *', { 'cache-control': 'max-age=60', vary: '*' }],
  ['Vary: X-Request-Id', { 'cache-control': 'max-age=60', vary: 'X-Request-Id' }],
  ['nothing of its freshness', { 'last-modified': 'Thu, 01 Jan 1998 00:00:00 GMT' }],
  ['max-age=0', { 'cache-control': 'max-age=0' }],
])('a response with %s is not given again without a question', async (_, fields) => {
  const all = await cached(numbered(fields), '{ shared: true }');
  for (const n of [1, 2, 3]) expect((await ask(all)).text).toBe(`answer ${n}`);
});

test('a response that says nothing of its freshness is kept for `ttl`, and `must-revalidate` does not keep a fresh one from being used', async () => {
  const silent = await cached(numbered({}), '{ ttl: 1m }');
  const strict = await cached(numbered({ 'cache-control': 'max-age=60, must-revalidate' }));
  for (const all of [silent, strict]) {
    await ask(all);
    expect((await ask(all)).text).toBe('answer 1');
  }
});

test('a stale response is confirmed by the service, whose 304 renews it', async () => {
  let answers = 0;
  const all = await cached((request, response) => {
    answers++;
    const fields = {
      'cache-control': answers === 1 ? 'max-age=0' : 'max-age=60',
      etag: '"v1"',
      'x-answer': String(answers),
    };
    if (request.headers['if-none-match'] === '"v1"') response.writeHead(304, fields).end();
    else response.writeHead(200, fields).end('whole');
  });
  await ask(all);
  const confirmed = await ask(all, '/v1/pets/1', { headers: { 'if-none-match': '"mine"' } });
  expect([confirmed.status, confirmed.text, confirmed.fields.get('x-answer')]).toEqual([200, 'whole', '2']);
  expect(confirmed.fields.get('cache-status')).toBe('Tollgate; fwd=stale; fwd-status=304');
  expect(all.service.requests[1]!.values('if-none-match')).toEqual(['"v1"']);
  expect((await ask(all)).fields.get('cache-status')).toMatch(/^Tollgate; hit/);
  expect(all.service.requests).toHaveLength(2);
});

test('a stale response is given at once while it is renewed in the background (`stale-while-revalidate`)', async () => {
  const gate = Promise.withResolvers<void>();
  let answers = 0;
  const all = await cached(async (_request, response) => {
    const answer = ++answers;
    if (answer > 1) await gate.promise;
    const fresh = answer === 1 ? 'max-age=0, stale-while-revalidate=60' : 'max-age=60';
    response.writeHead(200, { 'cache-control': fresh }).end(`answer ${answer}`);
  });
  await ask(all);
  for (let i = 0; i < 5; i++) expect((await ask(all)).text).toBe('answer 1');
  expect(all.service.requests).toHaveLength(2);
  gate.resolve();
  await expect.poll(async () => (await ask(all)).text).toBe('answer 2');
  expect(all.service.requests).toHaveLength(2);
});

test('requests for one response wait for the first of them, and the next one takes its place if its client leaves', async () => {
  const gate = Promise.withResolvers<void>();
  const all = await cached(async (_request, response, recorded) => {
    await gate.promise;
    response.writeHead(200, { 'cache-control': 'max-age=60' }).end(`for ${recorded.values('x-name')[0]}`);
  }, '{ shared: true }');
  const named = (name: string, signal?: AbortSignal) =>
    ask(all, '/v1/pets/1', { headers: { 'x-name': name }, ...(signal === undefined ? {} : { signal }) });
  const leaving = new AbortController();
  const first = named('first', leaving.signal).catch(() => 'left');
  await expect.poll(() => all.service.requests.length).toBe(1);
  const waiting = Array.from({ length: 20 }, (_, i) => named(`n${i}`));
  await expect
    .poll(async () => await (await fetch(`http://127.0.0.1:${all.gateway.adminPort}/metrics`)).text())
    .toMatch(/^tollgate_in_flight 21$/m);
  leaving.abort();
  expect(await first).toBe('left');
  await expect.poll(() => all.service.requests.length).toBe(2);
  gate.resolve();
  const texts = (await Promise.all(waiting)).map(({ text }) => text);
  expect(new Set(texts).size).toBe(1);
  expect(all.service.requests).toHaveLength(2);
});

test('requests for a response that is not stored do not wait for each other', async () => {
  const gate = Promise.withResolvers<void>();
  const all = await cached(async (_request, response) => {
    response.writeHead(200, { 'cache-control': 'no-store' }).flushHeaders();
    await gate.promise;
    response.end('late');
  }, '{ shared: true }');
  const asked = Array.from({ length: 5 }, () => ask(all));
  await expect.poll(() => all.service.requests.length).toBe(5);
  gate.resolve();
  for (const { text } of await Promise.all(asked)) expect(text).toBe('late');
});

test('a change through the gateway removes what is stored for its target, for all callers', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60' }));
  const other = await all.gateway.createKey('free');
  await ask(all);
  await ask(all, '/v1/pets/1', {}, other.key);
  await ask(all, '/v1/pets/2');
  await ask(all, '/v1/pets/1', { method: 'PUT', body: 'new' });
  expect((await ask(all, '/v1/pets/2')).text).toBe('answer 3');
  expect((await ask(all, '/v1/pets/1', {}, other.key)).text).toBe('answer 5');
  expect((await ask(all)).text).toBe('answer 6');
});

test('requests for several parts, and those with a condition for a change, go to the service', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60', etag: '"1"' }));
  await ask(all);
  const parts = await ask(all, '/v1/pets/1', { headers: { range: 'bytes=0-1,3-4' } });
  const conditional = await ask(all, '/v1/pets/1', { headers: { 'if-match': '"1"' } });
  expect([parts.text, conditional.text]).toEqual(['answer 2', 'answer 3']);
  expect(parts.fields.get('cache-status')).toBeNull();
  const anew = await ask(all, '/v1/pets/1', { headers: { 'cache-control': 'no-cache' } });
  expect(anew.text).toBe('answer 4');
  expect(anew.fields.get('cache-status')).toBe('Tollgate; fwd=request; fwd-status=200; stored');
});

describe('a request for a part', () => {
  /** A service that has ten bytes, and answers a Range itself. */
  const ten: UpstreamHandler = (request, response) => {
    const own = { 'cache-control': 'max-age=60', etag: '"1"', 'content-digest': 'sha-256=:YQ==:', 'x-own': 'kept' };
    const isPart = request.headers.range !== undefined;
    response.writeHead(isPart ? 206 : 200, isPart ? { ...own, 'content-range': 'bytes 0-0/10' } : own);
    response.end(isPart ? '0' : '0123456789');
  };
  const raw = async ({ gateway, key }: Cached, ...fields: string[]) => {
    const lines = [`Host: 127.0.0.1:${gateway.port}`, `Authorization: Bearer ${key}`, ...fields].join('\r\n');
    const [response] = (await rawExchange(gateway.port, `GET /v1/pets/1 HTTP/1.1\r\n${lines}\r\n\r\n`)).responses;
    const [range = null] = valuesOf(response!.headers, 'content-range');
    return { status: response!.status, range, text: response!.body.toString(), headers: response!.headers };
  };

  test('is answered with 206 from a stored response, which keeps its fields', async () => {
    const all = await cached(ten);
    await ask(all);
    const part = await raw(all, 'Range: bytes=2-4');
    expect(part).toMatchObject({ status: 206, range: 'bytes 2-4/10', text: '234' });
    expect(['content-length', 'etag', 'x-own'].map((name) => valuesOf(part.headers, name))).toEqual([
      ['3'],
      ['"1"'],
      ['kept'],
    ]);
    expect(valuesOf(part.headers, 'content-digest')).toEqual([]);
    expect(valuesOf(part.headers, 'cache-status')[0]).toMatch(/^Tollgate; hit/);
    expect(await raw(all, 'Range: bytes=20-')).toMatchObject({ status: 416, range: 'bytes */10', text: '' });
    const known = await raw(all, 'Range: bytes=2-4', 'If-None-Match: "1"');
    expect(known).toMatchObject({ status: 304, range: null, text: '' });
    expect(all.service.requests).toHaveLength(1);
  });

  test('goes to the service while nothing is stored, whose part is neither kept nor given to others (reliability 585)', async () => {
    const all = await cached(ten, '{ shared: true }');
    expect(await raw(all, 'Range: bytes=0-0')).toMatchObject({ status: 206, text: '0' });
    expect((await ask(all)).text).toBe('0123456789');
    expect((await ask(all)).fields.get('cache-status')).toMatch(/^Tollgate; hit/);
    expect(all.service.requests).toHaveLength(2);
  });

  test('of another version than the stored one gets all of it (reliability 586)', async () => {
    const all = await cached(ten);
    await ask(all);
    expect(await raw(all, 'Range: bytes=2-4', 'If-Range: "1"')).toMatchObject({ status: 206, text: '234' });
    expect(await raw(all, 'Range: bytes=2-4', 'If-Range: "0"')).toMatchObject({ status: 200, text: '0123456789' });
  });

  test('of a stale response is given while the whole is renewed in the background', async () => {
    let answers = 0;
    const all = await cached((_request, response) => {
      const fresh = ++answers === 1 ? 'max-age=0, stale-while-revalidate=60' : 'max-age=60';
      response.writeHead(200, { 'cache-control': fresh }).end(`answer ${answers}`);
    });
    await ask(all);
    expect(await raw(all, 'Range: bytes=-1')).toMatchObject({ status: 206, text: '1' });
    await expect.poll(async () => (await raw(all, 'Range: bytes=-1')).text).toBe('2');
    expect(all.service.requests[1]!.values('range')).toEqual([]);
  });
});

test('what is fresh is given while the service is away, and to a caller whose places at it are taken', async () => {
  const gate = Promise.withResolvers<void>();
  const all = await cached(async (request, response) => {
    if (request.url === '/v1/pets/slow') await gate.promise;
    response.writeHead(200, { 'cache-control': 'max-age=60' }).end('stored');
  });
  await ask(all);
  await all.service.close();
  expect(await ask(all)).toMatchObject({ status: 200, text: 'stored' });
  expect((await ask(all, '/v1/pets/2')).status).toBe(502);
  gate.resolve();
});

test('bodies beyond `cache.maxBodyBytes` pass and are not stored, and one caller fills a quarter of the memory', async () => {
  const large = 'x'.repeat(100_000);
  let answers = 0;
  const handler: UpstreamHandler = (request, response) => {
    answers++;
    response
      .writeHead(200, { 'cache-control': 'max-age=60' })
      .end(request.url === '/v1/pets/large' ? large : large.slice(0, 40_000));
  };
  const all = await cached(handler, 'true', 'cache: { maxBytes: 1MiB, maxBodyBytes: 64KiB }');
  for (const _ of [1, 2]) expect((await ask(all, '/v1/pets/large')).text).toHaveLength(100_000);
  expect(answers).toBe(2);
  const other = await all.gateway.createKey('free');
  await ask(all, '/v1/pets/others', {}, other.key);
  for (let i = 0; i < 20; i++) await ask(all, `/v1/pets/${i}`);
  answers = 0;
  await ask(all, '/v1/pets/others', {}, other.key);
  await ask(all, '/v1/pets/19');
  expect(answers).toBe(0);
  const metrics = await (await fetch(`http://127.0.0.1:${all.gateway.adminPort}/metrics`)).text();
  const [, bytes] = /^tollgate_cache_bytes (\d+)$/m.exec(metrics)!;
  expect(Number(bytes)).toBeGreaterThan(200_000);
  expect(Number(bytes)).toBeLessThan(400_000);
});

test('an operator removes what is stored by path or by route', async () => {
  const all = await cached(numbered({ 'cache-control': 'max-age=60' }));
  const texts = async () => [(await ask(all)).text, (await ask(all, '/v1/pets/2?q')).text];
  expect(await texts()).toEqual(['answer 1', 'answer 2']);
  await all.gateway.command('cache', 'purge', '--path', '/v1/pets/2');
  expect(await texts()).toEqual(['answer 1', 'answer 3']);
  await all.gateway.command('cache', 'purge', '--route', '/v1/pets/**');
  expect(await texts()).toEqual(['answer 4', 'answer 5']);
  for (const route of ['/v1/dogs', '/v1/pets', '/v1/pet/**']) {
    const { code, stderr } = await all.gateway.command('cache', 'purge', '--route', route);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`no route ${route}, so nothing was removed.`)]);
    expect(stderr).toContain('Routes with `cache`: /v1/pets/**');
  }
  expect(await texts()).toEqual(['answer 4', 'answer 5']);
});

test('no client reads without a question what the service gives only after one (reliability 563)', async () => {
  for (const control of [
    'no-cache',
    'max-age=0',
    'max-age=0, stale-while-revalidate=0',
    'no-cache, stale-while-revalidate=60',
  ]) {
    const all = await cached((request, response) => {
      const isLetIn = request.headers['x-who'] === 'friend';
      response.writeHead(isLetIn ? 200 : 403, { 'cache-control': control, etag: '"1"' }).end(isLetIn ? 'secret' : 'no');
    }, '{ shared: true }');
    await ask(all, '/v1/pets/1', { headers: { 'x-who': 'friend' } });
    for (const asking of ['max-stale', 'max-stale=99999', 'only-if-cached']) {
      expect((await ask(all, '/v1/pets/1', { headers: { 'cache-control': asking } })).text).toBe('no');
    }
  }
});

test('requests for a response that is stale at once are asked together, not one after another (reliability 564)', async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const all = await cached(async (_request, response) => {
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
    response.writeHead(200, { 'cache-control': 'public, max-age=0', etag: '"1"' }).end('late');
  }, '{ shared: true }');
  const asked = Array.from({ length: 6 }, () => ask(all));
  await expect.poll(() => gates.length).toBe(1);
  gates[0]!.resolve();
  await expect.poll(() => gates.length).toBe(6);
  for (const gate of gates) gate.resolve();
  for (const { text } of await Promise.all(asked)) expect(text).toBe('late');
});

test('others wait for a response that does not end a second, and no longer (reliability 564)', async () => {
  const gate = Promise.withResolvers<void>();
  let answers = 0;
  const all = await cached(async (_request, response) => {
    response.writeHead(200, { 'cache-control': 'max-age=60' }).write('half');
    if (++answers === 1) await gate.promise;
    response.end('whole');
  }, '{ shared: true }');
  const slow = ask(all);
  await expect.poll(() => answers).toBe(1);
  expect((await ask(all)).text).toBe('halfwhole');
  expect((await ask(all)).fields.get('cache-status')).toMatch(/^Tollgate; hit/);
  gate.resolve();
  await slow;
});

test('what a trusted proxy says of host and scheme, and cookies, tell responses apart (reliability 556)', async () => {
  const service = await startUpstream(numbered({ 'cache-control': 'max-age=60' }));
  const routes = '\n  - { path: /v1/pets/**, methods: [GET], upstream: store, cache: { shared: true } }';
  const listen = { trustedProxies: '[127.0.0.1]' };
  const gateway = await openGateway({ upstream: service.origin, routes, listen });
  const { key } = await gateway.createKey('endless');
  const all = { gateway, service, key };
  const each: Record<string, string>[] = [
    { 'x-forwarded-proto': 'https' },
    { 'x-forwarded-proto': 'http' },
    { 'x-forwarded-host': 'a.example' },
    { 'x-forwarded-host': 'b.example' },
    { cookie: 'session=alice' },
    { cookie: 'session=bob' },
  ];
  for (const headers of each) await ask(all, '/v1/pets/1', { headers });
  expect(service.requests).toHaveLength(each.length);
  for (const [i, headers] of each.entries()) {
    expect((await ask(all, '/v1/pets/1', { headers })).text).toBe(`answer ${i + 1}`);
  }
});

test('a response from memory is rewritten for its client as one of the service is', async () => {
  const service = await startUpstream((_request, response) =>
    response
      .writeHead(200, { 'cache-control': 'max-age=60', location: `http://127.0.0.1:${service.port}/pets/1` })
      .end('x'),
  );
  const routes =
    '\n  - { path: /v1/**, methods: [GET], upstream: store, cache: true, rewrite: { stripPrefix: /v1, location: true } }';
  const gateway = await openGateway({ upstream: service.origin, routes });
  const { key } = await gateway.createKey('endless');
  for (const _ of [1, 2]) {
    const { status, fields } = await ask({ gateway, service, key });
    expect([status, fields.get('location')]).toEqual([200, '/v1/pets/1']);
  }
  expect(service.requests).toHaveLength(1);
});

test('what is under way when the target is changed, or purged, is not stored', async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const all = await cached(async (request, response) => {
    if (request.method === 'GET') {
      const gate = Promise.withResolvers<void>();
      response.writeHead(200, { 'cache-control': 'max-age=60' }).write('old');
      gates.push(gate);
      await gate.promise;
    }
    response.end();
  });
  const changes = [
    () => ask(all, '/v1/pets/1', { method: 'PUT', body: 'new' }),
    () => all.gateway.command('cache', 'purge', '--path', '/v1/pets/1'),
  ];
  for (const [i, change] of changes.entries()) {
    const old = ask(all);
    await expect.poll(() => gates.length).toBe(2 * i + 1);
    await change();
    gates[2 * i]!.resolve();
    await old;
    const next = ask(all);
    await expect.poll(() => gates.length).toBe(2 * i + 2);
    gates[2 * i + 1]!.resolve();
    await next;
    await all.gateway.command('cache', 'purge');
  }
});

test('a large stored body waits for its client, who is disconnected if it does not read', async () => {
  const large = Buffer.alloc(12 * 1024 * 1024, 'x');
  const more = 'cache: { maxBytes: 64MiB, maxBodyBytes: 16MiB }';
  const service = await startUpstream((_request, response) =>
    response.writeHead(200, { 'cache-control': 'max-age=60' }).end(large),
  );
  const routes = '\n  - { path: /v1/pets/**, methods: [GET], upstream: store, cache: { shared: true } }';
  const gateway = await openGateway({ upstream: service.origin, routes, more, listen: { writeTimeout: '500ms' } });
  const { key } = await gateway.createKey('endless');
  const all = { gateway, service, key };
  for (const _ of [1, 2]) expect((await ask(all)).text).toHaveLength(large.length);
  expect(service.requests).toHaveLength(1);
  const head = `GET /v1/pets/1 HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const socket = createConnection(gateway.port, '127.0.0.1').pause();
  socket.write(head);
  await expect.poll(() => gateway.process.stdout).toMatch(/"status":499.*"cache":"hit"/);
  socket.destroy();
});
