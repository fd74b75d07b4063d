import { once } from 'node:events';
import { copyFile, readFile, rename, writeFile } from 'node:fs/promises';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, test } from 'vitest';
import { type CertificateAuthority, createAuthority } from '../support/certificates.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { runTollgate, temporaryFolder } from '../support/processes.ts';
import { SAME_ORIGIN, send, signIn } from './browser.ts';
import { openWithAdmin, STORES, startWithAdmin, TOKEN } from './operator.ts';

interface Certified {
  readonly authority: CertificateAuthority;
  readonly cert: string;
  readonly key: string;
}

async function withCertificate(): Promise<Certified> {
  const folder = await temporaryFolder();
  const authority = await createAuthority(folder);
  const pair = await authority.issue('first');
  const [cert, key] = [join(folder, 'admin.crt'), join(folder, 'admin.key')];
  await copyFile(pair.cert, cert);
  await copyFile(pair.key, key);
  return { authority, cert, key };
}

/** The name in the certificate that a listener presents. */
function nameAt(port: number, ca: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = connect({ port, host: '127.0.0.1', ca }, () => {
    resolve(String(socket.getPeerCertificate().subject.CN));
    socket.destroy();
  });
  socket.on('error', reject);
  return promise;
}

describe.each(['1', '2'])('the admin port with TLS of its own (WORKERS=%s)', (workers) => {
  /** Only a process has workers and follows its files. */
  const start = async ({ cert, key }: Certified, { more = '', follows = false } = {}) => {
    const setup = { admin: { tls: `{ cert: '${cert}', key: '${key}'${more} }` } };
    const store = await STORES.Redis!();
    return workers === '1' && !follows
      ? openWithAdmin(store, setup)
      : startWithAdmin({ ...store, WORKERS: workers }, setup);
  };
  let certified: Certified;
  let gateway: TestGateway;
  let asking: TestGateway;
  beforeAll(async () => {
    certified = await withCertificate();
    gateway = await start(certified, { follows: true });
    asking = await start(certified, { more: `, clientCa: '${certified.authority.cert}'` });
  });

  test('serves health, metrics, API and sessions over HTTPS alone, with a cookie of its host only', async () => {
    const { pem: ca } = certified.authority;
    const { adminPort } = gateway;
    const origin = `https://localhost:${adminPort}`;
    for (const path of ['/livez', '/readyz', '/metrics']) {
      expect((await send(`${origin}${path}`, 'GET', {}, { ca })).status).toBe(200);
    }
    const signedIn = await send(`${origin}/admin/session`, 'POST', SAME_ORIGIN, { body: { token: TOKEN }, ca });
    expect(signedIn.headers['set-cookie']).toEqual([
      expect.stringMatching(/^__Host-tollgate=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Secure$/),
    ]);
    const cookie = await signIn(origin, TOKEN, ca);
    const plainName = { Cookie: cookie.replace('__Host-', '') };
    expect((await send(`${origin}/admin/session`, 'GET', { Cookie: cookie }, { ca })).body.via).toBe('session');
    expect((await send(`${origin}/admin/session`, 'GET', plainName, { ca })).status).toBe(401);
    const statusFrom = async (from: string) => {
      const fields = { Cookie: cookie, 'Content-Type': 'application/json', Origin: from };
      return (await send(`${origin}/admin/keys`, 'POST', fields, { body: { plan: 'free' }, ca })).status;
    };
    expect(await statusFrom(origin)).toBe(201);
    expect(await statusFrom(origin.replace('https', 'http'))).toBe(403);
    const plain = await send(`http://localhost:${adminPort}/livez`);
    expect([plain.status, plain.body.code]).toEqual([400, 'invalid_request']);
    expect(plain.body.message).toBe(
      'Plain HTTP was sent to a port that speaks HTTPS. Begin the address with https://.',
    );
  });

  test('presents a new certificate when the files change, and keeps the earlier one if the new one cannot be used', async () => {
    const { authority, cert, key } = certified;
    expect(await nameAt(gateway.adminPort, authority.pem)).toBe('first');
    const second = await authority.issue('second');
    await rename(second.key, key);
    await rename(second.cert, cert);
    await eventually(async () => expect(await nameAt(gateway.adminPort, authority.pem)).toBe('second'));
    const third = await authority.issue('third');
    await rename(third.key, key);
    await eventually(() =>
      expect(gateway.process.stdout).toContain('the new TLS certificate of the admin port cannot be used'),
    );
    expect(await nameAt(gateway.adminPort, authority.pem)).toBe('second');
  });

  test('an optional client certificate that no authority has signed is refused, and none is accepted', async () => {
    const own = await withCertificate();
    const { authority } = own;
    const stranger = await (await createAuthority(await temporaryFolder())).issue('stranger');
    const { adminPort } = await start(own, { more: `, clientCa: '${authority.cert}', clientCertificate: optional` });
    const url = `https://localhost:${adminPort}/livez`;
    const strange = { cert: stranger.pem, key: await readFile(stranger.key, 'utf8') };
    await expect(send(url, 'GET', {}, { ca: authority.pem, own: strange })).rejects.toThrow();
    const known = await authority.issue('known');
    const signed = { cert: known.pem, key: await readFile(known.key, 'utf8') };
    expect((await send(url, 'GET', {}, { ca: authority.pem, own: signed })).status).toBe(200);
    expect((await send(url, 'GET', {}, { ca: authority.pem })).status).toBe(200);
  });

  // Attack: 65 KiB of groups and key shares in a ClientHello, or 100 KB of client certificates, cost OpenSSL up to half a second.
  test('a client whose handshake is longer than 8 KiB loses its connection (reliability 349)', async () => {
    const { adminPort } = asking;
    const open = async () => {
      const socket = connectTcp(adminPort, '127.0.0.1');
      await once(socket, 'connect');
      return socket.on('error', () => {}).resume();
    };
    const [other, socket] = [await open(), await open()];
    const closed = once(socket, 'close');
    const closedFirst = Promise.race([closed.then(() => 'long'), once(other, 'close').then(() => 'short')]);
    // A ClientHello of 65,535 bytes, in records of 4 KiB.
    const head = Buffer.from([22, 3, 1, 0x10, 0]);
    const body = Buffer.alloc(4096);
    Buffer.from([1, 0, 0xff, 0xff, 3, 3]).copy(body);
    other.write(Buffer.concat([head, body]));
    socket.write(Buffer.concat([head, body, head, Buffer.alloc(4096)]));
    // Not at the deadline of a handshake, which the other connection would have reached before.
    expect(await closedFirst).toBe('long');
    other.destroy();
  });

  test('a client certificate is asked for where the settings name an authority', async () => {
    const url = `https://localhost:${asking.adminPort}/livez`;
    await expect(send(url, 'GET', {}, { ca: certified.authority.pem })).rejects.toThrow();
  });
});

test('a certificate that cannot be used ends the start with a sentence that names admin.tls', async () => {
  const { cert } = await withCertificate();
  const { code, stderr } = await startFailing(`{ cert: '${cert}', key: '${cert}' }`);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/admin\.tls: .*has no private key/)]);
});

async function startFailing(tls: string) {
  const folder = await temporaryFolder();
  await writeFile(
    join(folder, 'gateway.yaml'),
    `listen: { port: 0 }\nadmin: { port: 0, tls: ${tls} }\nupstreams: { store: { targets: ['http://127.0.0.1:9'] } }\nroutes: [{ path: /a, methods: [GET], upstream: store }]\n`,
  );
  return runTollgate(['serve'], {
    env: { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_DATA: join(folder, 'data') },
  });
}

test('a command checks the certificate, and takes an authority of its own from NODE_EXTRA_CA_CERTS (reliability 475)', async () => {
  const authority = await createAuthority(await temporaryFolder());
  const { cert, key } = await authority.issue('localhost alone', 30, { dns: ['localhost'] });
  const { adminPort } = await openWithAdmin(await STORES['the embedded store']!(), {
    admin: { tls: `{ cert: '${cert}', key: '${key}' }` },
  });
  const list = (env: Readonly<Record<string, string>>, host = 'localhost') => {
    const TOLLGATE_GATEWAY = `https://${host}:${adminPort}`;
    return runTollgate(['keys', 'list'], { env: { TOLLGATE_GATEWAY, TOLLGATE_TOKEN: TOKEN, ...env } });
  };
  expect(await list({ NODE_EXTRA_CA_CERTS: authority.cert })).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('There are no keys.'),
  });
  const foreign = await list({});
  expect([foreign.code, foreign.stderr]).toEqual([
    1,
    expect.stringMatching(/^The TLS certificate of .* is not accepted: [^.]+\. If .* NODE_EXTRA_CA_CERTS, or .*\n$/),
  ]);
  const careless = await list({ NODE_TLS_REJECT_UNAUTHORIZED: '0' });
  expect([careless.code, careless.stderr]).toEqual([1, expect.stringContaining('is not accepted')]);
  const another = await list({ NODE_EXTRA_CA_CERTS: authority.cert }, '127.0.0.1');
  expect(another.stderr).toMatch(/is not accepted: Hostname\/IP does not match/);
});
