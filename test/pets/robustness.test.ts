import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startPets } from '../../src/pets/server.ts';
import { newFolder, newService, raw } from './service.ts';

describe('broken requests', () => {
  test.each([
    ['no HTTP at all', 'hello\r\n\r\n', 400, 'invalid_request'],
    ['no Host', 'GET /v1/pets HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    [
      'two lengths',
      'POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      400,
      'invalid_request',
    ],
    [
      'a broken chunk',
      'POST /v1/pets HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
      'invalid_request',
    ],
    ['a head of 20 kB', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
    [
      'an expectation',
      'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nConnection: close\r\n\r\n',
      417,
      'expectation_failed',
    ],
  ])('%s: an Error body, and the next client is served', async (_what, bytes, status, code) => {
    const service = await newService();
    const text = await raw(service.port, bytes);
    const [head = '', body = ''] = text.split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toMatch(/^content-type: application\/json$/im);
    expect(head).toContain(`Content-Length: ${Buffer.byteLength(body)}`);
    expect(JSON.parse(body)).toEqual({ code, message: expect.stringMatching(/\.$/), status });
    expect((await service.ask('GET', '/v1/pets')).status).toBe(200);
  });

  test('a client that leaves in the middle of its body adds nothing and harms nobody', async () => {
    const service = await newService();
    const head = 'POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n';
    for (const leave of ['destroy', 'resetAndDestroy'] as const) {
      const socket = connect(service.port, '127.0.0.1');
      await once(socket, 'connect');
      await new Promise((sent) => socket.write(`${head}{"name":"Rex","categoryId":4}`, sent));
      socket[leave]();
      await once(socket, 'close');
    }
    expect(JSON.parse((await service.ask('GET', '/v1/pets')).text)).toHaveLength(5);
    expect(service.reported).toEqual([]);
  });
});

describe('keep-alive', () => {
  test('idle connections are promised 75 s, longer than a gateway keeps them', async () => {
    const { port } = await newService();
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    const [head] = await once(socket, 'data');
    socket.destroy();
    expect(String(head)).toContain('Keep-Alive: timeout=75');
  });
});

describe('close', () => {
  test('a running request finishes, idle connections end, new ones are refused', async () => {
    const service = await newService();
    const idle = connect(service.port, '127.0.0.1');
    idle.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(idle, 'data');
    const body = '{"name":"Last","categoryId":1}';
    const busy = connect(service.port, '127.0.0.1');
    const length = `Content-Length: ${body.length}\r\nContent-Type: application/json\r\nExpect: 100-continue`;
    busy.write(`POST /v1/pets HTTP/1.1\r\nHost: x\r\n${length}\r\n\r\n`);
    // The service has begun the request when it says that it wants the body.
    expect(String((await once(busy, 'data'))[0])).toContain('100 Continue');

    const idleEnded = once(idle, 'close');
    const closed = service.close();
    await idleEnded;
    const [refused] = await once(connect(service.port, '127.0.0.1'), 'error');
    expect(refused.code).toBe('ECONNREFUSED');
    busy.write(body);
    const [answer] = await once(busy, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1\.1 201 Created\r\n/);
    expect(String(answer)).toMatch(/^Connection: close\r$/im);
    await closed;
    await service.close();

    const again = await newService(service.databaseFile);
    expect((await again.ask('GET', '/v1/pets/6')).text).toContain('"Last"');
  });

  test('an upload that never ends is cut off when the time to drain is over', async () => {
    const databaseFile = join(newFolder(), 'pets.db');
    const pets = await startPets({ host: '127.0.0.1', port: 0, databaseFile, drainMs: 100 });
    const stuck = connect(pets.port, '127.0.0.1');
    stuck.write('POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n');
    await once(stuck, 'data');
    const cut = once(stuck, 'close');
    await pets.close();
    await cut;
  });
});
