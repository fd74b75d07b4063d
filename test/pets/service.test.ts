import { connect } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { newService, raw } from './service.ts';

const PET = '{"name":"Rex","categoryId":4}';

describe('int64 over the wire', () => {
  test.each(['9007199254740993', '9223372036854775807', '-9223372036854775808', '0'])(
    'categoryId %s comes back with the digits it was sent with',
    async (digits) => {
      const service = await newService();
      const body = `{"name":"Far","categoryId":${digits},"status":"sold"}`;
      const created = await service.ask('POST', '/v1/pets', { body });
      expect(created.text).toBe(`{"id":6,"name":"Far","categoryId":${digits},"status":"sold"}`);
      expect((await service.ask('GET', '/v1/pets/6')).text).toBe(created.text);
      expect((await service.ask('GET', '/v1/pets?status=sold')).text).toContain(created.text);
    },
  );

  test('an id beyond 2^53 is assigned, found and located exactly, its neighbours are not', async () => {
    const service = await newService();
    const db = new DatabaseSync(service.databaseFile);
    db.exec('UPDATE sqlite_sequence SET seq = 9007199254740992');
    db.close();
    const created = await service.ask('POST', '/v1/pets', { body: PET });
    expect(created.text).toBe('{"id":9007199254740993,"name":"Rex","categoryId":4,"status":"available"}');
    expect(created.headers.location).toBe('/v1/pets/9007199254740993');
    expect((await service.ask('GET', '/v1/pets/9007199254740993')).text).toBe(created.text);
    expect((await service.ask('GET', '/v1/pets/9007199254740992')).status).toBe(404);
    expect((await service.ask('GET', '/v1/pets/9007199254740994')).status).toBe(404);
  });
});

describe('answers', () => {
  test.each(['6', '0', '-1', 'x', '1.0', '01', '+1', '%31', '%zz', '9223372036854775808', '1;x', '..', '%00'])(
    'GET /v1/pets/%s is 404 pet_not_found',
    async (petId) => {
      const service = await newService();
      const { status, text } = await service.ask('GET', `/v1/pets/${petId}`);
      expect([status, JSON.parse(text).code]).toEqual([404, 'pet_not_found']);
    },
  );

  test('store orders are 501 not_implemented', async () => {
    const service = await newService();
    const { status, text } = await service.ask('GET', '/v1/store/orders');
    expect([status, JSON.parse(text).code]).toEqual([501, 'not_implemented']);
  });

  test.each([
    '/',
    '/v1',
    '/v1/pets/',
    '/v1/pets/1/x',
    '/V1/pets',
    '//v1/pets',
    '/v1/%70ets',
    '/v1/store',
    '/constructor',
  ])('%s is 404 not_found', async (path) => {
    const service = await newService();
    const { status, text } = await service.ask('GET', path);
    expect([status, JSON.parse(text)]).toEqual([404, { code: 'not_found', message: expect.any(String), status: 404 }]);
  });

  test.each([
    ['DELETE', '/v1/pets', 'GET, HEAD, POST'],
    ['PUT', '/v1/pets/1', 'GET, HEAD'],
    ['POST', '/v1/store/orders', 'GET, HEAD'],
    ['OPTIONS', '/healthz', 'GET, HEAD'],
    ['POST', '/openapi.json', 'GET, HEAD'],
  ])('%s %s is 405 and Allow says %s', async (method, path, allow) => {
    const service = await newService();
    const { status, headers, text } = await service.ask(method, path);
    expect([status, headers.allow, JSON.parse(text).code]).toEqual([405, allow, 'method_not_allowed']);
  });

  test.each(['/v1/pets?limit=2', '/v1/pets/1', '/v1/pets/999', '/v1/store/orders', '/healthz', '/openapi.json'])(
    'HEAD %s has the head of GET and no body',
    async (path) => {
      const service = await newService();
      const got = await service.ask('GET', path);
      const head = await service.ask('HEAD', path);
      expect(head.text).toBe('');
      expect({ ...head.headers, date: null }).toEqual({ ...got.headers, date: null });
      expect(head.status).toBe(got.status);
      expect(head.headers['content-length']).toBe(String(Buffer.byteLength(got.text)));
    },
  );

  test('the absolute form of a request target is understood', async () => {
    const { port } = await newService();
    const text = await raw(port, 'GET http://any.example/v1/pets/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(text).toContain('"Biscuit"');
  });

  test('health is 200', async () => {
    const service = await newService();
    const { status, headers, text } = await service.ask('GET', '/healthz');
    expect([status, headers['content-type'], text]).toEqual([200, 'application/json', '{"status":"ok"}']);
  });

  test('a defect of the database is 500 without a word of it, is reported, and the service goes on', async () => {
    const service = await newService();
    const db = new DatabaseSync(service.databaseFile);
    db.exec('ALTER TABLE pets RENAME TO gone');
    const { status, text } = await service.ask('GET', '/v1/pets');
    expect([status, JSON.parse(text).code]).toEqual([500, 'internal_error']);
    expect(text).not.toMatch(/sqlite|table/i);
    expect(String(service.reported[0])).toContain('no such table');
    db.exec('ALTER TABLE gone RENAME TO pets');
    db.close();
    expect((await service.ask('GET', '/v1/pets')).status).toBe(200);
  });
});

describe('the form of a body', () => {
  test.each([
    ['application/json'],
    ['Application/JSON; charset=UTF-8'],
    ['application/json;charset="utf-8"'],
    ['application/json; v=1'],
  ])('Content-Type %s is taken', async (type) => {
    const service = await newService();
    expect((await service.ask('POST', '/v1/pets', { body: PET, headers: { 'Content-Type': type } })).status).toBe(201);
  });

  test('a body without Content-Type is JSON', async () => {
    const service = await newService();
    const text = await raw(
      service.port,
      `POST /v1/pets HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${PET.length}\r\n\r\n${PET}`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 201 /);
  });

  test.each([
    ['text/plain', ['text/plain']],
    ['what curl -d says by itself', ['application/x-www-form-urlencoded']],
    ['application/json5', ['application/json5']],
    ['application/problem+json', ['application/problem+json']],
    ['a charset that is not UTF-8', ['application/json; charset=latin1']],
    ['a list', ['application/json, text/plain']],
    ['two of them', ['application/json', 'application/json']],
  ])('Content-Type: %s is 400 and adds nothing', async (_what, types) => {
    const service = await newService();
    const lines = types.map((type) => `Content-Type: ${type}\r\n`).join('');
    const text = await raw(
      service.port,
      `POST /v1/pets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}Content-Length: ${PET.length}\r\n\r\n${PET}`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text).toMatch(/"code":"invalid_request","message":"Content-Type /);
    expect(JSON.parse((await service.ask('GET', '/v1/pets')).text)).toHaveLength(5);
  });

  test('a Content-Encoding is 400', async () => {
    const service = await newService();
    const { status, text } = await service.ask('POST', '/v1/pets', {
      body: PET,
      headers: { 'Content-Encoding': 'gzip' },
    });
    expect([status, text]).toEqual([400, expect.stringContaining('Content-Encoding')]);
  });

  test('a body of exactly 1 MiB is read, one byte more is 413, declared or chunked, and the answer arrives', async () => {
    const service = await newService();
    const fitting = PET.padEnd(1024 * 1024, ' ');
    const chunked = { 'Transfer-Encoding': 'chunked' };
    for (const headers of [{}, chunked]) {
      expect((await service.ask('POST', '/v1/pets', { body: fitting, headers })).status).toBe(201);
      const refused = await service.ask('POST', '/v1/pets', { body: `${fitting} `, headers });
      expect([refused.status, refused.headers.connection]).toEqual([413, 'close']);
    }
  });

  test('a client that reads only after it has sent all of its 3 MiB is not reset and finds its 413', async () => {
    const { port } = await newService();
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    const write = (text: string) =>
      new Promise<void>((sent, failed) => socket.write(text, (error) => (error ? failed(error) : sent())));
    await write('POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 3145728\r\n\r\n');
    for (let piece = 0; piece < 48; piece += 1) {
      await write(' '.repeat(65_536));
      // A turn of the loop for the service, which must go on reading: closing would break one of the next writes.
      await setImmediate();
    }
    socket.end();
    const text = Buffer.concat(await socket.toArray()).toString('utf8');
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    expect(JSON.parse(text.split('\r\n\r\n')[1]!).code).toBe('payload_too_large');
  });

  test('a refused body leaves the connection open for the next request', async () => {
    const { port } = await newService();
    const bad = 'POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}';
    const text = await raw(port, `${bad}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200']);
  });
});
