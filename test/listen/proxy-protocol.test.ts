import { once } from 'node:events';
import { createConnection } from 'node:net';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, test } from 'vitest';
import { readProxyHeader } from '../../src/listen/client-address.ts';
import { eventually } from '../support/conditions.ts';
import { accessLines, askHttp2, metricsOf, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { type GatewaySetup, openGateway, type TestGateway } from '../support/gateway.ts';
import { LATE_MS } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream } from '../support/upstream.ts';

const V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/** A version 2 header. */
function version2(command: number, family: number, payload: Buffer): Buffer {
  const head = Buffer.concat([V2, Buffer.from([command, family, 0, 0])]);
  head.writeUInt16BE(payload.length, 14);
  return Buffer.concat([head, payload]);
}

const IPV4 = Buffer.from([203, 0, 113, 7, 127, 0, 0, 1, 0xc3, 0x50, 0x1f, 0x90]);
const IPV6 = Buffer.concat([
  Buffer.from('20010db8000000000000000000000007', 'hex'),
  Buffer.alloc(16),
  Buffer.from([0xc3, 0x50, 0x1f, 0x90]),
]);
const MAPPED = Buffer.concat([
  Buffer.from('00000000000000000000ffffcb007107', 'hex'),
  Buffer.alloc(16),
  Buffer.from([0xc3, 0x50, 0x1f, 0x90]),
]);
const TLV = Buffer.concat([Buffer.from([0x04, 1, 0]), Buffer.alloc(256)]);

describe('the header says who the client is (PROXY protocol 1 and 2):', () => {
  test.each<[string, Buffer | string, string | null]>([
    ['version 1, IPv4', 'PROXY TCP4 203.0.113.7 127.0.0.1 50000 8080\r\n', '203.0.113.7'],
    ['version 1, IPv6', 'PROXY TCP6 2001:DB8::7 ::1 50000 8080\r\n', '2001:db8::7'],
    ['version 1, an IPv4-mapped address', 'PROXY TCP6 ::ffff:203.0.113.7 ::1 50000 8080\r\n', '203.0.113.7'],
    ['version 1, UNKNOWN', 'PROXY UNKNOWN\r\n', null],
    ['version 1, UNKNOWN with addresses', 'PROXY UNKNOWN ffff:f:: ffff:f:: 65535 65535\r\n', null],
    ['version 2, IPv4', version2(0x21, 0x11, IPV4), '203.0.113.7'],
    ['version 2, IPv6', version2(0x21, 0x21, IPV6), '2001:db8::7'],
    ['version 2, an IPv4-mapped address', version2(0x21, 0x21, MAPPED), '203.0.113.7'],
    ['version 2, with TLVs', version2(0x21, 0x11, Buffer.concat([IPV4, TLV])), '203.0.113.7'],
    ['version 2, LOCAL', version2(0x20, 0x11, IPV4), null],
    ['version 2, LOCAL with nothing', version2(0x20, 0x00, Buffer.alloc(0)), null],
    ['version 2, UNSPEC', version2(0x21, 0x00, Buffer.alloc(8)), null],
    ['version 2, a Unix socket', version2(0x21, 0x31, Buffer.alloc(216)), null],
  ])('%s', (_, header, address) => {
    const bytes = Buffer.from(header as string, 'latin1');
    const read = readProxyHeader(Buffer.concat([bytes, Buffer.from('GET / HTTP/1.1\r\n')]));
    expect(read).toEqual({
      kind: 'header',
      bytes: bytes.length,
      source: address === null ? null : { address, port: 50_000 },
    });
    for (let i = 0; i < bytes.length; i++) expect(readProxyHeader(bytes.subarray(0, i)).kind).toBe('partial');
  });

  test.each<[string, Buffer | string]>([
    ['a request', 'GET / HTTP/1.1\r\n'],
    ['a TLS hello', Buffer.from([0x16, 3, 1])],
    ['lower case', 'proxy TCP4 203.0.113.7 127.0.0.1 50000 8080\r\n'],
    ['an unknown family', 'PROXY TCP5 203.0.113.7 127.0.0.1 50000 8080\r\n'],
    ['UDP', 'PROXY UDP4 203.0.113.7 127.0.0.1 50000 8080\r\n'],
    ['IPv6 called IPv4', 'PROXY TCP4 ::1 ::1 50000 8080\r\n'],
    ['an address that is none', 'PROXY TCP4 203.0.113.256 127.0.0.1 50000 8080\r\n'],
    ['an octal address', 'PROXY TCP4 203.0.113.07 127.0.0.1 50000 8080\r\n'],
    ['a zone', 'PROXY TCP6 fe80::1%eth0 ::1 50000 8080\r\n'],
    ['a port that is none', 'PROXY TCP4 203.0.113.7 127.0.0.1 65536 8080\r\n'],
    ['a port with a zero before it', 'PROXY TCP4 203.0.113.7 127.0.0.1 050 8080\r\n'],
    ['two spaces', 'PROXY TCP4  203.0.113.7 127.0.0.1 50000 8080\r\n'],
    ['a field too many', 'PROXY TCP4 203.0.113.7 127.0.0.1 50000 8080 x\r\n'],
    ['a field too few', 'PROXY TCP4 203.0.113.7 127.0.0.1 50000\r\n'],
    ['UNKNOWN without a space', 'PROXY UNKNOWNX\r\n'],
    ['a line without end', `PROXY UNKNOWN ${'x'.repeat(107)}`],
    ['an unknown version', version2(0x11, 0x11, IPV4)],
    ['an unknown command', version2(0x22, 0x11, IPV4)],
    ['datagrams', version2(0x21, 0x12, IPV4)],
    ['a family that does not exist', version2(0x21, 0x41, Buffer.alloc(40))],
    ['addresses that are cut short', version2(0x21, 0x11, IPV4.subarray(0, 11))],
    ['more TLVs than anybody needs', version2(0x21, 0x11, Buffer.alloc(5_000))],
  ])('a fault: %s', (_, bytes) => {
    expect(readProxyHeader(Buffer.from(bytes as string, 'latin1')).kind).toBe('fault');
  });
});

async function start(listen: GatewaySetup['listen']) {
  const upstream = await startUpstream();
  const gateway = await openGateway({ upstream: upstream.origin, listen: { proxyProtocol: 'true', ...listen } });
  const { key } = await gateway.createKey('endless');
  return { upstream, gateway, key };
}

const request = (key: string, more = '') =>
  `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n${more}\r\n`;

/** Sends pieces, each in a packet of its own, and gathers what comes until the connection ends. */
async function talk({ port }: TestGateway, pieces: readonly (string | Buffer)[]): Promise<string> {
  const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
  let text = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  for (const piece of pieces) {
    await new Promise((resolve) => socket.write(Buffer.from(piece as string, 'latin1'), resolve));
    await new Promise(setImmediate);
  }
  if (!socket.destroyed) await once(socket, 'close');
  return text;
}

const HEADER = 'PROXY TCP4 203.0.113.7 127.0.0.1 50000 8080\r\n';
const LOOPBACK = '[127.0.0.1]';

describe('behind a proxy that is trusted', () => {
  /** One gateway for all: each of these tests looks at what is new since it began. */
  let it: Awaited<ReturnType<typeof start>>;

  beforeAll(async () => {
    it = await start({ trustedProxies: LOOPBACK });
  });

  test.each<[string, (key: string) => (string | Buffer)[]]>([
    ['in one packet with the request', (key) => [HEADER + request(key)]],
    ['in a packet of its own', (key) => [HEADER, request(key)]],
    ['byte by byte', (key) => [...HEADER, ...request(key).slice(0, 30), request(key).slice(30)]],
    [
      'cut in the middle of a version 2 header',
      (key) => {
        const header = version2(0x21, 0x11, Buffer.concat([IPV4, TLV]));
        return [
          header.subarray(0, 14),
          header.subarray(14, 30),
          Buffer.concat([header.subarray(30), Buffer.from(request(key))]),
        ];
      },
    ],
  ])('the address that a trusted proxy names is the client, in the log and for the upstream: %s', async (_, pieces) => {
    const { gateway, upstream, key } = it;
    const [sent, logged] = [upstream.requests.length, accessLines(gateway).length];
    expect(await talk(gateway, pieces(key))).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(upstream.requests[sent]?.values('x-forwarded-for')).toEqual(['203.0.113.7']);
    await eventually(() => expect(accessLines(gateway)).toHaveLength(logged + 1));
    expect(accessLines(gateway)[logged]).toMatchObject({ clientAddress: '203.0.113.7' });
  });

  test('failed authentications are counted for the client and not for the proxy (reliability 49)', async () => {
    const { gateway } = it;
    const logged = accessLines(gateway).length;
    const remaining = (text: string) => /X-RateLimit-Remaining: (\d+)/.exec(text)?.[1];
    const from = (address: string) => talk(gateway, [`PROXY TCP4 ${address} 127.0.0.1 1 2\r\n${request('wrong')}`]);
    expect([remaining(await from('203.0.113.7')), remaining(await from('203.0.113.7'))]).toEqual(['29', '28']);
    expect(remaining(await from('203.0.113.8'))).toBe('29');
    await eventually(() => expect(accessLines(gateway)).toHaveLength(logged + 3));
  });

  test('LOCAL and UNKNOWN leave the address of the socket', async () => {
    const { gateway, key } = it;
    const logged = accessLines(gateway).length;
    await talk(gateway, [Buffer.concat([version2(0x20, 0, Buffer.alloc(0)), Buffer.from(request(key))])]);
    await talk(gateway, [`PROXY UNKNOWN\r\n${request(key)}`]);
    await eventually(() => expect(accessLines(gateway)).toHaveLength(logged + 2));
    const addresses = accessLines(gateway).map(({ clientAddress }) => clientAddress);
    expect(addresses.slice(logged)).toEqual(['127.0.0.1', '127.0.0.1']);
  });

  test.each<[string, string | Buffer]>([
    ['a request without a header', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a malformed header', 'PROXY TCP4 nowhere 127.0.0.1 1 2\r\nGET / HTTP/1.1\r\n\r\n'],
    ['a header without end', `PROXY UNKNOWN ${'x'.repeat(5_000)}`],
  ])('a trusted proxy that begins with %s is closed unanswered, and counted (reliability 25)', async (_, bytes) => {
    const { gateway, upstream } = it;
    const refused = async () =>
      Number(/^tollgate_proxy_headers_refused_total (\d+)$/m.exec(await metricsOf(gateway))?.[1]);
    const [before, sent] = [await refused(), upstream.requests.length];
    expect(await talk(gateway, [bytes])).toBe('');
    expect(await refused()).toBe(before + 1);
    expect(upstream.requests).toHaveLength(sent);
  });
});

test('a client that a PROXY header names is believed in no X-Forwarded-For, unless it is trusted itself (reliability 31)', async () => {
  const { gateway, upstream, key } = await start({ trustedProxies: '[127.0.0.1, 198.51.100.0/24]' });
  const spoofed = 'X-Forwarded-For: 192.0.2.1\r\n';
  await talk(gateway, [HEADER + request(key, spoofed)]);
  await talk(gateway, [`PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n${request(key, spoofed)}`]);
  const sent = upstream.requests.map((it) => it.values('x-forwarded-for'));
  // What a proxy says is kept, and behind it stands whose connection it is.
  expect(sent).toEqual([['203.0.113.7'], ['192.0.2.1, 198.51.100.9']]);
  await eventually(() => expect(accessLines(gateway)).toHaveLength(2));
  expect(accessLines(gateway).map(({ clientAddress }) => clientAddress)).toEqual(['203.0.113.7', '192.0.2.1']);
});

test('half a header is closed at headersTimeout, or when its sender leaves (reliability 61)', async () => {
  const { gateway } = await start({ trustedProxies: LOOPBACK, headersTimeout: '600ms' });
  const stop = stopwatch();
  expect(await talk(gateway, ['PROXY TC'])).toBe('');
  const took = stop();
  expect(took).toBeGreaterThan(550);
  expect(took).toBeLessThan(600 + LATE_MS);
  const left = createConnection(gateway.port, '127.0.0.1');
  left.on('error', () => {});
  await once(left, 'connect');
  left.write('PROXY', () => left.resetAndDestroy());
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_connections 0$/m));
});

test('a header of somebody who is not trusted is no header (reliability 25, 31)', async () => {
  const { gateway, upstream, key } = await start({ trustedProxies: '[192.0.2.1]' });
  expect(await talk(gateway, [HEADER + request(key)])).toMatch(/^HTTP\/1\.1 400 /);
  expect(upstream.requests).toHaveLength(0);
  expect(await talk(gateway, [request(key)])).toMatch(/^HTTP\/1\.1 200 /);
});

test('before TLS: HTTP/1.1 and HTTP/2 learn the address that the header names', async () => {
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({
    upstream: upstream.origin,
    listen: { proxyProtocol: 'true', trustedProxies: LOOPBACK },
  });
  const { key } = await gateway.createKey('endless');
  const encrypted = async (ALPNProtocols: string[]) => {
    const raw = createConnection(gateway.port, '127.0.0.1');
    raw.write(HEADER);
    const socket = connect({ socket: raw, ca, servername: 'localhost', ALPNProtocols });
    socket.on('error', () => {});
    await once(socket, 'secureConnect');
    return socket;
  };
  const first = await encrypted(['http/1.1']);
  first.write(request(key));
  const [chunk] = (await once(first, 'data')) as [Buffer];
  expect(chunk.toString()).toMatch(/^HTTP\/1\.1 200 OK/);
  const second = await encrypted(['h2']);
  const session = await openHttp2(gateway.port, ca, second);
  const answer = await askHttp2(session, { path: '/v1/pets', headers: { authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(200);
  expect(upstream.requests.map((it) => it.values('x-forwarded-for'))).toEqual([['203.0.113.7'], ['203.0.113.7']]);
  await eventually(() => expect(accessLines(gateway)).toHaveLength(2));
  for (const line of accessLines(gateway)) expect(line).toMatchObject({ clientAddress: '203.0.113.7', status: 200 });
});
