import { once } from 'node:events';
import { copyFile, mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { beforeAll, expect, test } from 'vitest';
import { reset } from '../../src/io/graceful-close.ts';
import { type Certificate, type Certificates, createTlsStage } from '../../src/listen/tls.ts';
import { eventually } from '../support/conditions.ts';
import {
  accessLines,
  askHttp1,
  type EncryptedGateway,
  metricsOf,
  newAuthority,
  openEncrypted,
  openTls,
  startEncrypted,
} from '../support/encrypted.ts';
import { openGateway, PLANS, ROUTES } from '../support/gateway.ts';
import { runTollgate, temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startRawUpstream, startUpstream, type Upstream } from '../support/upstream.ts';

/** For what needs no settings of its own: whatever one client does, the next is served by the same gateway. */
let shared: EncryptedGateway & { readonly upstream: Upstream; readonly key: string };

beforeAll(async () => {
  const upstream = await startUpstream();
  const encrypted = await openEncrypted({ upstream: upstream.origin });
  const { key } = await encrypted.gateway.createKey('endless');
  shared = { ...encrypted, upstream, key };
});

const failedHandshakes = async () =>
  Number(/^tollgate_tls_handshake_failures_total (\d+)$/m.exec(await metricsOf(shared.gateway))?.[1] ?? 0);

/** The serial number of the certificate that a new connection is shown. */
async function serialShown(port: number): Promise<string> {
  const { socket } = await openTls(port, { rejectUnauthorized: false });
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
const head = (key: string, more = '') =>
  `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;

test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  '%s: requests are served, with forward secrecy and authenticated encryption, and the upstream is told https',
  async (version) => {
    const { gateway, ca, upstream, key } = shared;
    const [lines, requests] = [accessLines(gateway).length, upstream.requests.length];
    const line = await openTls(gateway.port, { ca, minVersion: version, maxVersion: version });
    expect(line.socket.getProtocol()).toBe(version);
    expect(line.socket.getCipher().standardName).toMatch(/^TLS_(ECDHE_ECDSA_WITH_)?(AES|CHACHA20).*(GCM|POLY1305)/);
    line.socket.write(head(key));
    await eventually(() => expect(line.text).toContain('{"ok":true}'));
    expect(upstream.requests[requests]?.values('x-forwarded-proto')).toEqual(['https']);
    await eventually(() =>
      expect(accessLines(gateway)[lines]).toMatchObject({ status: 200, clientAddress: '127.0.0.1' }),
    );
  },
);

test.each([
  ['TLS 1.1', { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }],
  ['CBC', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA' }],
  ['no forward secrecy', { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' }],
  ['no protocol in common', { ALPNProtocols: ['spdy/3'] }],
] as const)('%s: the handshake fails and is counted', async (_, options) => {
  const { gateway, ca } = shared;
  const before = await failedHandshakes();
  const line = await openTls(gateway.port, { ca, ...(options as object) });
  await eventually(() => expect(line.closed).toBe(true));
  expect(line.error).not.toBeNull();
  expect(await failedHandshakes()).toBe(before + 1);
});

// Fault: curl and PHP offer nothing else for HTTP/1.0, and nginx accepts it.
test('a client that offers http/1.0 alone is served', async () => {
  const { gateway, ca, key } = shared;
  const line = await openTls(gateway.port, { ca, ALPNProtocols: ['http/1.0'] });
  line.socket.write(`GET /v1/pets HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await eventually(() => expect(line.closed).toBe(true));
  expect(line.socket.alpnProtocol).toBe('http/1.0');
  expect(line.text).toMatch(/^HTTP\/1\.1 200 OK\r\n.*{"ok":true}$/s);
});

test('minVersion TLSv1.3 refuses TLS 1.2', async () => {
  const { gateway, ca } = await openEncrypted({ upstream: 'http://127.0.0.1:9' }, { minVersion: 'TLSv1.3' });
  const line = await openTls(gateway.port, { ca, maxVersion: 'TLSv1.2' });
  await eventually(() => expect([line.closed, line.error === null]).toEqual([true, false]));
});

test('a client that asks for a new handshake on a running connection gets none', async () => {
  const { gateway, ca } = shared;
  const line = await openTls(gateway.port, { ca, maxVersion: 'TLSv1.2' });
  const refused = await new Promise<Error | null>((resolve) => {
    line.socket.renegotiate({}, (error) => resolve(error));
    line.socket.once('close', () => resolve(line.error ?? new Error('closed')));
  });
  expect(refused).not.toBeNull();
});

test('sessions are resumed by ticket', async () => {
  const { gateway, ca } = await openEncrypted({ upstream: 'http://127.0.0.1:9' });
  const first = await openTls(gateway.port, { ca });
  const [session] = (await once(first.socket, 'session')) as [Buffer];
  const second = await openTls(gateway.port, { ca, session });
  expect(second.socket.isSessionReused()).toBe(true);
});

test('half a handshake counts as a connection and is cut at headersTimeout, and nobody else waits (reliability 61, 64)', async () => {
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({
    upstream: upstream.origin,
    listen: { headersTimeout: `${paced(800)}ms`, maxConnections: 3 },
  });
  const { key } = await gateway.createKey('free');
  const silent = createConnection(gateway.port, '127.0.0.1');
  const half = createConnection(gateway.port, '127.0.0.1');
  half.write(Buffer.from([0x16, 3, 1, 1, 0, 1]));
  const ends = [silent, half].map((socket) => {
    socket.on('error', () => {});
    socket.resume();
    const stop = stopwatch();
    return once(socket, 'close').then(stop);
  });
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_connections 2$/m));
  const answer = await askHttp1(gateway.port, ca, { path: '/v1/pets', headers: bearer(key) });
  expect(answer.status).toBe(200);
  for (const ms of await Promise.all(ends)) {
    expect(ms).toBeGreaterThan(paced(800) - 50);
    expect(ms).toBeLessThan(paced(800) + LATE_MS);
  }
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_connections 0$/m));
});

test('a head that comes too slowly over TLS gets 408 at the deadline (reliability 61)', async () => {
  const { gateway, ca } = await openEncrypted({
    upstream: 'http://127.0.0.1:9',
    listen: { headersTimeout: `${paced(500)}ms` },
  });
  const line = await openTls(gateway.port, { ca });
  line.socket.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-');
  await eventually(() => expect(line.closed).toBe(true));
  expect(line.text).toMatch(/^HTTP\/1\.1 408 /);
});

test.each([
  ['a PROXY header that nobody asked for', 'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n'],
  ['a TLS record of nonsense', '\x16\x03\x01\x00\x05\x01\x00\x00\x01\xff'],
  ['nulls', '\0'.repeat(2_000)],
])('%s instead of a handshake: closed, and the gateway lives (reliability 25)', async (_, bytes) => {
  const { gateway, ca, upstream, key } = shared;
  const before = upstream.requests.length;
  const socket = createConnection(gateway.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  socket.write(bytes, 'latin1');
  await once(socket, 'close');
  expect((await askHttp1(gateway.port, ca, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
  expect(upstream.requests).toHaveLength(before + 1);
});

test('plain HTTP instead of a handshake is answered: 400, a sentence and a close, counted, and one line a minute (reliability 25)', async () => {
  const { gateway, ca, upstream, key } = shared;
  const before = upstream.requests.length;
  for (const method of ['GET', 'POST', 'HEAD', 'PUT']) {
    const { bytes } = await rawExchange(gateway.port, `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n`);
    const [top, body] = bytes.toString().split('\r\n\r\n');
    expect(top).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nContent-Type: application\/json\r\n/);
    expect(top).toContain('\r\nConnection: close\r\n');
    const message = 'Plain HTTP was sent to a port that speaks HTTPS. Begin the address with https://.';
    expect(JSON.parse(body!)).toEqual({ code: 'invalid_request', message, status: 400 });
  }
  await eventually(async () =>
    expect(await metricsOf(gateway)).toMatch(/^tollgate_unparsed_requests_total\{code="invalid_request"\} 4$/m),
  );
  const lines = () => gateway.process.stdout.split('\n').filter((line) => line.includes('plain HTTP was sent'));
  await eventually(() => expect(lines()).not.toEqual([]));
  const warning = { level: 40, clientAddress: '127.0.0.1', count: 1 };
  expect(lines().map((line) => JSON.parse(line))).toEqual([expect.objectContaining(warning)]);
  expect((await askHttp1(gateway.port, ca, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
  expect(upstream.requests).toHaveLength(before + 1);
});

test('connections that are reset in the middle of the handshake leave nothing behind (reliability 95)', async () => {
  const { gateway } = shared;
  for (let i = 0; i < 100; i++) {
    const socket = createConnection(gateway.port, '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(Buffer.from([0x16, 3, 1, 0, 200, 1]), () => socket.resetAndDestroy());
  }
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_connections 0$/m));
  expect(gateway.process.stderr).toBe('');
});

test('an answer that breaks off is seen to be broken through TLS too (reliability 75, 76)', async () => {
  const upstream = await startRawUpstream((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf', () => socket.destroy());
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const line = await openTls(gateway.port, { ca });
  line.socket.write(head(key));
  await eventually(() => expect(line.closed).toBe(true));
  expect(line.text === '' || line.text.endsWith('half')).toBe(true);
  expect(line.error?.code).toBe('ECONNRESET');
  await eventually(() => expect(accessLines(gateway)).toHaveLength(1));
  expect(gateway.process.stdout).not.toMatch(/a defect|uncaught/);
});

test('a renewed certificate is shown to new connections, however its files are replaced, and running ones go on', async () => {
  const upstream = await startUpstream();
  const authority = await newAuthority();
  const [first, second, third] = [
    await authority.issue('localhost', 5),
    await authority.issue('localhost', 40),
    await authority.issue('localhost', 50),
  ];
  // As Kubernetes mounts a secret: links through a folder that is swapped as a whole.
  const mount = await temporaryFolder();
  const version = async (name: string, pair: typeof first) => {
    await mkdir(join(mount, name));
    await copyFile(pair.cert, join(mount, name, 'tls.crt'));
    await copyFile(pair.key, join(mount, name, 'tls.key'));
    await symlink(name, join(mount, '..data.new'));
    await rename(join(mount, '..data.new'), join(mount, '..data'));
  };
  await version('one', first);
  for (const file of ['tls.crt', 'tls.key']) await symlink(`..data/${file}`, join(mount, file));
  const [cert, key] = [join(mount, 'tls.crt'), join(mount, 'tls.key')];
  const gateway = await openGateway({ upstream: upstream.origin, listen: { tls: `{ cert: ${cert}, key: ${key} }` } });
  const { key: apiKey } = await gateway.createKey('free');
  const running = await openTls(gateway.port, { ca: authority.pem });
  const before = await serialShown(gateway.port);

  await version('two', second);
  await eventually(async () => expect(await serialShown(gateway.port)).not.toBe(before), { withinMs: 4_000 });
  const after = await serialShown(gateway.port);
  expect(await metricsOf(gateway)).toMatch(/^tollgate_tls_reloads_total\{outcome="loaded"\} 1$/m);
  const [, expires] = /^tollgate_tls_certificate_expiry_timestamp_seconds (\S+)$/m.exec(await metricsOf(gateway))!;
  expect(Number(expires) / 86_400 - Date.now() / 86_400_000).toBeCloseTo(40, 0);
  running.socket.write(head(apiKey));
  await eventually(() => expect(running.text).toContain('{"ok":true}'));

  // As an editor saves: a new file takes the name.
  for (const [from, to] of [
    [third.cert, cert],
    [third.key, key],
  ] as const) {
    await copyFile(from, `${to}.tmp`);
    await rename(`${to}.tmp`, to);
  }
  await eventually(async () => expect(await serialShown(gateway.port)).not.toBe(after), { withinMs: 4_000 });
  expect(gateway.process.stdout).not.toContain('cannot be used');
});

test('a pair that does not match, or is broken, leaves the one before in force and is told once', async () => {
  const authority = await newAuthority();
  const [first, second] = [await authority.issue('localhost'), await authority.issue('localhost')];
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await copyFile(first.cert, cert);
  await copyFile(first.key, key);
  const gateway = await openGateway({
    upstream: 'http://127.0.0.1:9',
    listen: { tls: `{ cert: ${cert}, key: ${key} }` },
  });
  const before = await serialShown(gateway.port);
  const refusals = () => gateway.process.stdout.match(/the new TLS certificate cannot be used/g)?.length ?? 0;

  await copyFile(second.key, key);
  await eventually(() => expect(refusals()).toBe(1), { withinMs: 5_000 });
  expect(gateway.process.stdout).toContain('is not the key of the certificate in');
  await writeFile(cert, 'no certificate');
  await eventually(() => expect(refusals()).toBe(2), { withinMs: 5_000 });
  expect(await serialShown(gateway.port)).toBe(before);
  expect(await metricsOf(gateway)).toMatch(/^tollgate_tls_reloads_total\{outcome="refused"\} 2$/m);

  await copyFile(second.cert, cert);
  await eventually(async () => expect(await serialShown(gateway.port)).not.toBe(before), { withinMs: 4_000 });
  expect(refusals()).toBe(2);
});

test.each([
  [
    'a missing file',
    async (folder: string) => [join(folder, 'none.crt'), join(folder, 'none.key')],
    'cannot be read (ENOENT)',
  ],
  [
    'a key of another certificate',
    async () => {
      const authority = await newAuthority();
      return [(await authority.issue('localhost')).cert, (await authority.issue('localhost')).key];
    },
    'is not the key of the certificate in',
  ],
  [
    'files the wrong way round',
    async () => {
      const { cert, key } = await (await newAuthority()).issue('localhost');
      return [key, cert];
    },
    'has no certificate in PEM form',
  ],
])('%s at the start: one sentence, exit 1, and nothing of the key in it', async (_, pair, words) => {
  const folder = await temporaryFolder();
  const [cert, key] = (await pair(folder)) as [string, string];
  const upstreams = 'upstreams: { store: { targets: [http://127.0.0.1:9] } }';
  await writeFile(
    join(folder, 'gateway.yaml'),
    `listen: { port: 0, tls: { cert: ${cert}, key: ${key} } }\nadmin: { port: 0 }\n${upstreams}\nroutes:${ROUTES}`,
  );
  await writeFile(join(folder, 'plans.yaml'), PLANS);
  const { code, stdout, stderr } = await runTollgate(['serve'], {
    env: { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: join(folder, 'plans.yaml') },
  });
  expect(code).toBe(1);
  expect(stderr).toContain(words);
  const secret = await readFile(key, 'utf8').catch(() => '-----BEGIN');
  for (const line of secret.split('\n').filter((it) => it.length > 8)) expect(stdout + stderr).not.toContain(line);
});

test('with clientCa only clients with a certificate of that authority are served', async () => {
  const clients = await newAuthority();
  const strangers = await newAuthority();
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin }, { clientCa: clients.cert });
  const { key } = await gateway.createKey('free');
  const ask = async (identity: object) => {
    const line = await openTls(gateway.port, { ca, ...identity });
    line.socket.write(head(key, 'Connection: close\r\n'));
    await eventually(() => expect(line.closed).toBe(true));
    return /^HTTP\/1\.1 (\d+)/.exec(line.text)?.[1] ?? null;
  };
  const identityOf = async ({ cert, key: own }: { cert: string; key: string }) => ({
    cert: await readFile(cert),
    key: await readFile(own),
  });
  expect(await ask({})).toBeNull();
  expect(await ask(await identityOf(await strangers.issue('mallory')))).toBeNull();
  expect(await ask(await identityOf(await clients.issue('alice')))).toBe('200');
  expect(upstream.requests).toHaveLength(1);
});

test('with clientCertificate optional nobody has to show one, and who shows a bad one is not served', async () => {
  const clients = await newAuthority();
  const strangers = await newAuthority();
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted(
    { upstream: upstream.origin },
    { clientCa: clients.cert, clientCertificate: 'optional' },
  );
  const { key } = await gateway.createKey('free');
  expect((await askHttp1(gateway.port, ca, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
  const mallory = await strangers.issue('mallory');
  const line = await openTls(gateway.port, {
    ca,
    cert: await readFile(mallory.cert),
    key: await readFile(mallory.key),
  });
  line.socket.write(head(key));
  await eventually(() => expect(line.closed).toBe(true));
  expect(line.text).toBe('');
  expect(upstream.requests).toHaveLength(1);
});

test('SIGTERM: what has not finished its handshake is closed, what runs is finished, exit 0', async () => {
  const held: (() => void)[] = [];
  const upstream = await startUpstream((_request, response) => void held.push(() => response.end('{"late":true}')));
  const { gateway, ca } = await startEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const running = await openTls(gateway.port, { ca });
  running.socket.write(head(key));
  await eventually(() => expect(held).toHaveLength(1));
  const silent = createConnection(gateway.port, '127.0.0.1');
  silent.on('error', () => {}).resume();
  await once(silent, 'connect');
  gateway.process.signal('SIGTERM');
  await once(silent, 'close');
  expect(running.closed).toBe(false);
  held[0]?.();
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(running.text).toContain('{"late":true}');
});

// Attack: what makes the gateway reset a connection in the very turn in which it was encrypted. Node 26.10 crashes where
// the TCP connection and the encrypted one are both destroyed then.
test('a connection that is reset within the callback of its handshake ends, and the process lives', async () => {
  const authority = await newAuthority();
  const { cert, key } = await authority.issue('localhost');
  const current = {
    cert: await readFile(cert, 'utf8'),
    key: await readFile(key, 'utf8'),
    clientCa: null,
  } as unknown as Certificate;
  const stage = createTlsStage({
    minVersion: 'TLSv1.2',
    clientCertificate: 'none',
    certificates: { current } as Certificates,
    handshakeTimeoutMs: 5_000,
    http2: false,
    onSecure: (socket) => reset(socket.on('error', () => {})),
    onFailure: () => {},
    onWaste: () => {},
    answerPlainHttp: () => {},
  });
  const server = createServer(stage.take).listen(0, '127.0.0.1');
  await once(server, 'listening');
  for (let i = 0; i < 20; i++) {
    const client = connect({
      port: (server.address() as AddressInfo).port,
      host: '127.0.0.1',
      ca: authority.pem,
      servername: 'localhost',
    });
    const ended = new Promise<void>((resolve) => client.on('error', () => resolve()).on('close', () => resolve()));
    await ended;
    client.destroy();
  }
  server.close();
});
