import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../support/conditions.ts';
import { freePort } from '../../../support/free-port.ts';
import { openGateway, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { LATE_MS, paced } from '../../../support/room.ts';
import { stopwatch } from '../../../support/stopwatch.ts';
import { type RawUpstream, startRawUpstream } from '../../../support/upstream.ts';
import {
  asking,
  HANDSHAKE,
  logged,
  metric,
  openWebSocket,
  rawClient,
  startWebSocketUpstream,
  switching,
  WEBSOCKET_ROUTES,
  type WebSocketUpstream,
} from '../../../support/web-sockets.ts';

// What a tunnel carries, and what a gateway that joins two connections must not let pass. Attacks: see each test.

const OPEN = ['tollgate_websockets', 'tollgate_connections', 'tollgate_in_flight'];

let gateway: TestGateway;
let upstream: WebSocketUpstream;
let key: string;

beforeAll(async () => {
  upstream = await startWebSocketUpstream();
  gateway = await startGateway({ upstream: upstream.origin, routes: WEBSOCKET_ROUTES });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

/** What the upstream says, which speaks for itself. */
let speak: (socket: Socket, bytes: Buffer) => unknown = () => {};
let raw: RawUpstream;
let own: TestGateway;
let ownKey: string;

beforeAll(async () => {
  raw = await startRawUpstream((socket, bytes) => speak(socket, bytes));
  own = await startGateway({
    upstream: raw.origin,
    routes: WEBSOCKET_ROUTES,
    upstreamSettings: {
      connectTimeout: `${paced(500)}ms`,
      responseTimeout: `${paced(700)}ms`,
      bodyTimeout: `${paced(700)}ms`,
    },
    listen: { writeTimeout: `${paced(1_000)}ms` },
    more: 'websockets: { idleTimeout: 1500ms }',
  });
  ({ key: ownKey } = await own.createKey('endless'));
});

/** A client of the gateway before that upstream. @param handler what it says in this test */
function stage(handler: typeof speak) {
  speak = handler;
  const first = raw.connections;
  return {
    ask: (target?: string, fields?: string) => rawClient(own, asking(ownKey, target, fields)),
    received: () => raw.received.slice(first).join(''),
  };
}

async function expectNothingLeft() {
  await eventually(async () => {
    expect(raw.open).toBe(0);
    for (const name of OPEN) expect(`${name} ${await metric(own, name)}`).toBe(`${name} 0`);
  });
}

const lastClosed = () => logged(own, 'websocket closed').at(-1);

describe('a WebSocket carries what is said', () => {
  test('text, binary, nothing at all and fragments, in both directions, as they were', async () => {
    const { socket } = await openWebSocket(gateway, key, '/v1/live', { perMessageDeflate: false });
    const said = async () => {
      const [data, isBinary] = (await once(socket, 'message')) as [Buffer, boolean];
      return [data.toString('latin1'), isBinary];
    };
    socket.send('hällo');
    expect(await said()).toEqual([Buffer.from('hällo').toString('latin1'), false]);
    socket.send(Buffer.from([0, 255, 13, 10]));
    expect(await said()).toEqual(['\x00\xff\r\n', true]);
    socket.send('');
    expect(await said()).toEqual(['', false]);
    for (const [part, fin] of [
      ['in ', false],
      ['three ', false],
      ['parts', true],
    ] as const)
      socket.send(part, { fin });
    expect(await said()).toEqual(['in three parts', false]);
    socket.terminate();
  });

  test('ping and pong, and compression that both sides agree on', async () => {
    const { socket, answer } = await openWebSocket(gateway, key);
    expect(answer.headers['sec-websocket-extensions']).toContain('permessage-deflate');
    socket.ping('are you there');
    expect(String((await once(socket, 'pong'))[0])).toBe('are you there');
    socket.send('a'.repeat(100_000));
    expect(String((await once(socket, 'message'))[0])).toHaveLength(100_000);
    socket.terminate();
  });

  test.each([1000, 1001, 3999, 4999])('close code %i with its reason, from either side', async (code) => {
    const one = await openWebSocket(gateway, key);
    const server = [...upstream.sockets].at(-1)!;
    one.socket.close(code, 'because');
    const [seen, why] = (await once(server, 'close')) as [number, Buffer];
    expect([seen, String(why)]).toEqual([code, 'because']);
    const other = await openWebSocket(gateway, key);
    [...upstream.sockets].at(-1)!.close(code, 'because');
    const [told, reason] = (await once(other.socket, 'close')) as [number, Buffer];
    expect([told, String(reason)]).toEqual([code, 'because']);
  });

  test('a message of 64 MiB there and back, without being held in memory', async () => {
    const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8'))![1]);
    const { socket } = await openWebSocket(gateway, key, '/v1/live', { perMessageDeflate: false });
    const idle = rss() / 1024;
    const size = 64 * 1024 * 1024;
    const sent = Buffer.alloc(size, 'x');
    const peaks: number[] = [];
    for (let i = 0; i < 4; i++) {
      let peak = 0;
      const watch = setInterval(() => {
        peak = Math.max(peak, rss() / 1024);
      }, 10);
      socket.send(sent);
      const [data] = (await once(socket, 'message')) as [Buffer];
      clearInterval(watch);
      expect(data.equals(sent)).toBe(true);
      peaks.push(peak);
    }
    // How much garbage lies about at a peak is the collector's choice: what is kept would show in each of them.
    expect(Math.min(...peaks.slice(1))).toBeLessThan(peaks[0]! + 32);
    expect(Math.max(...peaks)).toBeLessThan(idle + 128);
    socket.terminate();
  });

  test('a client that does not read holds its upstream up, and takes no memory', async () => {
    const { ask } = stage((socket) => {
      socket.write(switching());
      const piece = Buffer.alloc(64 * 1024);
      const fill = () => {
        while (!socket.destroyed && socket.write(piece));
        socket.once('drain', fill);
      };
      fill();
    });
    const client = await ask();
    await client.head();
    client.socket.pause();
    const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${own.process.pid}/status`, 'utf8'))![1]);
    const start = rss();
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((rss() - start) / 1024).toBeLessThan(24);
    client.socket.destroy();
    await expectNothingLeft();
  });
});

describe('the bytes between', () => {
  test('what the client sends ahead is passed on once, and never before the 101 (reliability 26)', async () => {
    // Attack: a tunnel that opens on the request alone lets whatever stands behind it reach the upstream (CVE-2026-2833).
    const early = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
    let agree = () => {};
    let seen = Buffer.alloc(0);
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (chunk: Buffer) => {
        seen = Buffer.concat([seen, chunk]);
      });
      agree = () => socket.write(`${switching()}first`);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const one = await openGateway({ upstream: `http://127.0.0.1:${port}`, routes: WEBSOCKET_ROUTES });
    const { key: oneKey } = await one.createKey('free');
    const client = await rawClient(one, `${asking(oneKey)}${early}`);
    client.socket.write('more');
    await eventually(() => seen.includes('\r\n\r\n'));
    // What the client has sent was there before the request for this.
    await metric(one, 'tollgate_in_flight');
    expect(seen.toString('latin1').split('\r\n\r\n').slice(1)).toEqual(['']);
    agree();
    expect(String(await client.after(5))).toBe('first');
    await eventually(() => expect(seen.toString('latin1').split('\r\n\r\n').slice(1).join('|')).toContain('more'));
    expect(seen.toString('latin1').slice(seen.indexOf('\r\n\r\n') + 4)).toBe(`${early}more`);
    client.socket.destroy();
    server.close();
  });

  test('a flood ahead of the 101 is held to a bound', async () => {
    const { ask } = stage(() => {});
    const client = await ask();
    client.socket.on('error', () => {});
    let accepted = 0;
    const piece = Buffer.alloc(64 * 1024);
    const flood = setInterval(() => {
      if (!client.socket.writableNeedDrain) accepted += client.socket.write(piece) ? piece.length : 0;
    }, 1);
    const { status } = await client.answer();
    clearInterval(flood);
    expect(status).toBe(504);
    expect(accepted).toBeLessThan(16 * 1024 * 1024);
    client.socket.destroy();
    await expectNothingLeft();
  });

  test('what is no 101 does not let anything of the client through (reliability 26)', async () => {
    const { ask, received } = stage((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'));
    const client = await ask();
    client.socket.write('GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n');
    const answer = await client.answer();
    expect([answer.status, answer.body.toString()]).toEqual([200, '{}']);
    expect(answer.header('connection')).toBe('close');
    expect(answer.header('x-ratelimit-limit')).not.toBeNull();
    expect(received()).not.toContain('smuggled');
    await expectNothingLeft();
  });

  test('one that closes its half may go on reading: the other gets both (half-close)', async () => {
    const { ask, received } = stage((socket) => {
      socket.removeAllListeners('end').once('end', () => socket.end('heard them'));
      socket.write(switching());
    });
    const client = await ask();
    await client.head();
    client.socket.end('last words');
    expect(String(await client.after(10))).toBe('heard them');
    await eventually(() => client.ended);
    expect(received()).toMatch(/last words$/);
    await expectNothingLeft();
    await eventually(() => expect(lastClosed()).toMatchObject({ reason: 'client_closed', bytesIn: 10, bytesOut: 10 }));
  });
});

describe('an upstream that does not agree', () => {
  test.each([
    ['the accept of another key', switching().replace(/Accept: ./, 'Accept: A'), 502],
    ['no accept', switching().replace(/Sec-WebSocket-Accept.*\r\n/, ''), 502],
    ['two accepts', switching('Sec-WebSocket-Accept: x\r\n'), 502],
    ['another protocol', switching().replace('websocket', 'h2c'), 502],
    ['two protocols', switching('Upgrade: h2c\r\n'), 502],
    ['101 without Upgrade', switching().replace(/Upgrade: websocket\r\n/, ''), 502],
    ['200 with the fields of a 101', switching().replace('101 Switching Protocols', '200 OK'), [200, 502]],
    ['a control byte in a field', switching('X-A: a\x01b\r\n'), 502],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n', 502],
    ['a status of no class', 'HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n', 999],
    ['a status that is none', 'HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n', 502],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}', 502],
    ['a coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}', 502],
  ] as const)('%s: no tunnel (reliability 26, 78)', async (_, bytes, expected) => {
    const { ask, received } = stage((socket) => socket.write(bytes, 'latin1'));
    const client = await ask();
    client.socket.write('behind');
    const { status, header } = await client.answer();
    expect([expected].flat()).toContain(status);
    expect(header('x-ratelimit-limit')).not.toBeNull();
    expect(received()).not.toContain('behind');
    await expectNothingLeft();
  });

  test('an ordinary answer is passed on with what every answer has, and the connection ends with it', async () => {
    const { ask } = stage((socket) =>
      socket.write(
        'HTTP/1.1 403 Forbidden\r\nX-RateLimit-Limit: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno,\r\n4\r\n no!\r\n0\r\n\r\n',
      ),
    );
    const client = await ask();
    const answer = await client.answer();
    expect([answer.status, answer.body.toString()]).toEqual([403, 'no, no!']);
    expect(answer.header('x-ratelimit-limit')).toBe('999999999999999');
    expect(answer.header('x-hop')).toBeNull();
    expect(answer.header('set-cookie')).toBe('a, b');
    await expectNothingLeft();
  });

  test('an answer that breaks off looks broken (reliability 75, 76)', async () => {
    for (const end of ['destroy', 'resetAndDestroy', 'pause'] as const) {
      const { ask } = stage((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', () => socket[end]());
      });
      const client = await ask();
      await eventually(() => client.closed);
      expect(client.bytes.toString()).toMatch(/half$/);
      expect(client.reset).toBe(true);
      await expectNothingLeft();
    }
  });

  test('a large answer to a client that reads slowly arrives whole', async () => {
    const body = Buffer.alloc(8 * 1024 * 1024, 'y');
    const { ask } = stage((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
      socket.write(body);
    });
    const client = await ask();
    await client.head();
    client.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 300));
    client.socket.resume();
    expect((await client.answer()).body.length).toBe(body.length);
  });
});

describe('an upstream that is not there', () => {
  test('refused: 502; too late: 504; closed without an answer: 502 (reliability 73, 74)', async () => {
    const { ask } = stage((socket, bytes) => {
      if (bytes.includes('/v1/live/close')) socket.destroy();
      if (bytes.includes('/v1/live/reset')) socket.resetAndDestroy();
      if (bytes.includes('/v1/live/fin')) socket.end();
    });
    for (const [path, status] of [
      ['close', 502],
      ['reset', 502],
      ['fin', 502],
      ['silent', 504],
    ]) {
      const client = await ask(`/v1/live/${path}`);
      expect((await client.answer()).status).toBe(status);
    }
    await expectNothingLeft();
    const gone = await openGateway({ upstream: `http://127.0.0.1:${await freePort()}`, routes: WEBSOCKET_ROUTES });
    const { key: goneKey } = await gone.createKey('free');
    expect((await (await rawClient(gone, asking(goneKey))).answer()).status).toBe(502);
  });

  // Attack: http-proxy-3 leaves the upstream's connection open when the client goes before the 101; clients that come
  // and go use up all that the upstream has.
  test.each(['destroy', 'resetAndDestroy', 'end'] as const)(
    'a client that leaves before the 101 (%s) takes the connection to the upstream with it (reliability 93)',
    async (leave) => {
      const { ask } = stage(() => {});
      for (const early of ['', 'early bytes']) {
        const client = await ask();
        if (early !== '') client.socket.write(early);
        await eventually(() => expect(raw.open).toBe(1));
        client.socket[leave]();
        await eventually(() => expect(raw.open).toBe(0), { withinMs: 500 });
      }
      await expectNothingLeft();
      await eventually(() =>
        expect(
          logged(own, 'request')
            .slice(-2)
            .map(({ status }) => status),
        ).toEqual([499, 499]),
      );
    },
  );
});

describe('a tunnel ends on both sides', () => {
  test.each([
    ['client', 'destroy', 'client_closed'],
    ['client', 'resetAndDestroy', 'client_lost'],
    ['upstream', 'destroy', 'upstream_closed'],
    ['upstream', 'resetAndDestroy', 'upstream_lost'],
  ] as const)('the %s leaves (%s)', async (who, how, reason) => {
    let serving: Socket | null = null;
    const { ask } = stage((socket) => {
      serving = socket;
      socket.write(switching());
    });
    const client = await ask();
    await client.head();
    const leaving = who === 'client' ? client.socket : (serving as unknown as Socket);
    leaving[how]();
    await eventually(() => client.ended || client.closed);
    if (reason === 'upstream_lost') expect(client.reset).toBe(true);
    client.socket.end();
    await expectNothingLeft();
    await eventually(() => expect(lastClosed()).toMatchObject({ reason }));
  });

  test('no byte in either direction for `idleTimeout` ends it; one in time does not', async () => {
    const { ask } = stage((socket) => socket.write(switching()));
    const client = await ask();
    await client.head();
    let lastMs = 0;
    for (let i = 0; i < 9; i++) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      lastMs = performance.now();
      client.socket.write('.');
    }
    expect(client.ended).toBe(false);
    const stop = stopwatch();
    await eventually(() => client.ended || client.closed);
    expect(performance.now() - lastMs).toBeGreaterThan(1_400);
    // Whoever looked only once in each idleTimeout would see it after up to twice that.
    expect(stop()).toBeLessThan(1_500 + LATE_MS);
    await expectNothingLeft();
    await eventually(() => expect(lastClosed()).toMatchObject({ reason: 'idle' }));
    expect(await metric(own, 'tollgate_websockets_total{outcome="idle"}')).toBe(1);
  });

  test('the deadlines of HTTP do not touch it', async () => {
    const echo = await startWebSocketUpstream();
    const ms = (quiet: number) => `${paced(quiet)}ms`;
    const one = await openGateway({
      upstream: echo.origin,
      routes: WEBSOCKET_ROUTES,
      listen: { headersTimeout: ms(200), requestTimeout: ms(300), idleTimeout: ms(200), writeTimeout: ms(200) },
      upstreamSettings: { responseTimeout: ms(300), bodyTimeout: ms(300) },
    });
    const { key: oneKey } = await one.createKey('free');
    const { socket } = await openWebSocket(one, oneKey);
    await new Promise((resolve) => setTimeout(resolve, paced(1_200)));
    socket.send('still here');
    expect(String((await once(socket, 'message'))[0])).toBe('still here');
    socket.terminate();
  });
});

describe('once one side has closed its half', () => {
  const finMs = paced(800);
  let halves: TestGateway;
  let halvesKey: string;

  beforeAll(async () => {
    const more = `websockets: { maxPerKey: 1, idleTimeout: 1m, finTimeout: ${finMs}ms }`;
    halves = await openGateway({ upstream: raw.origin, routes: WEBSOCKET_ROUTES, more });
    ({ key: halvesKey } = await halves.createKey('endless'));
  });

  /** A client with a WebSocket to an upstream that does not close its half by itself. */
  async function open() {
    const serving = Promise.withResolvers<Socket>();
    speak = (socket) => {
      socket.removeAllListeners('end');
      socket.write(switching());
      serving.resolve(socket);
    };
    const client = await rawClient(halves, asking(halvesKey));
    expect(await client.head()).toMatch(/^HTTP\/1\.1 101 /);
    return { client, service: await serving.promise };
  }

  async function expectEnded(reason: string, { client, service }: Awaited<ReturnType<typeof open>>) {
    await eventually(async () => {
      expect(client.closed || client.ended).toBe(true);
      expect(await metric(halves, 'tollgate_websockets')).toBe(0);
      expect(logged(halves, 'websocket closed').at(-1)).toMatchObject({ reason });
    });
    client.socket.destroy();
    service.destroy();
  }

  test('by the client, and the service keeps its own open: the place of the client is free within `finTimeout` (reliability 161)', async () => {
    const leaving = await open();
    leaving.client.socket.end();
    await expectEnded('client_closed', leaving);
    // `maxPerKey` is 1.
    const next = await open();
    next.client.socket.end();
    await expectEnded('client_closed', next);
  });

  test('by the service, and the client keeps its own open: both are closed within `finTimeout`', async () => {
    const both = await open();
    both.service.end('the last word');
    expect(String(await both.client.after(13))).toBe('the last word');
    await expectEnded('upstream_closed', both);
  });

  test('by the client, which goes on receiving: it gets all of an answer that takes longer than `finTimeout`', async () => {
    const both = await open();
    const { client, service } = both;
    client.socket.end();
    for (let sent = 0; sent < 3 * finMs; sent += finMs / 4) {
      await new Promise((resolve) => setTimeout(resolve, finMs / 4));
      service.write('more');
    }
    service.end('!');
    await eventually(() => client.closed);
    expect(client.bytes.toString('latin1')).toMatch(/\r\n\r\n(more){12}!$/);
    await expectEnded('client_closed', both);
  });

  test('by the client, which then reads slower than `finTimeout`: nothing of what waits for it is cut off', async () => {
    const both = await open();
    const { client, service } = both;
    client.socket.end();
    client.socket.pause();
    // More than the buffers of the system hold between them.
    const size = 32 * 1024 * 1024;
    const headBytes = client.bytes.length;
    service.end(Buffer.alloc(size));
    await new Promise((resolve) => setTimeout(resolve, 2.5 * finMs));
    client.socket.resume();
    await eventually(() => client.ended || client.closed, { withinMs: 20_000 });
    expect(client.bytes.length).toBe(headBytes + size);
    await expectEnded('client_closed', both);
  });
});

describe('another protocol than WebSocket', () => {
  test('that the route names is tunnelled when the upstream agrees to that very one', async () => {
    const agreed = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat/2\r\n\r\nwelcome';
    const { ask, received } = stage((socket) => socket.write(agreed));
    const client = await ask('/v1/chat', 'Connection: Upgrade\r\nUpgrade: Chat/2\r\n');
    expect(await client.head()).toMatch(/^HTTP\/1\.1 101 .*\r\nConnection: Upgrade\r\nUpgrade: Chat\/2\r\n/);
    expect(String(await client.after(7))).toBe('welcome');
    client.socket.write('hello');
    await eventually(() => received().endsWith('hello'));
    client.socket.destroy();
    await expectNothingLeft();
  });

  test('a 101 to WebSocket where that was not asked for is none (reliability 335)', async () => {
    const { ask } = stage((socket) => socket.write(switching()));
    const client = await ask('/v1/chat', HANDSHAKE.replace('websocket', 'chat/2'));
    expect((await client.answer()).status).toBe(502);
  });
});
