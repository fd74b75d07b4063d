import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { privateRedis } from '../../support/redis.ts';
import { DOMAIN, readyzOf, shakeHands, startAcmeGateway, startPebble } from './pebble.ts';

const WITHIN = { withinMs: 30_000 };

test('TLS-ALPN-01: the gateway gets its first certificate on its public port', async () => {
  const pebble = await startPebble();
  const gateway = await startAcmeGateway(pebble);
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  const shown = await shakeHands(gateway.port);
  expect(shown.names).toBe(`DNS:${DOMAIN}`);
  expect(pebble.issued()).toBe(1);
});

test('HTTP-01: the gateway gets its first certificate through the listener of the challenge', async () => {
  const pebble = await startPebble();
  const acme = { challenge: 'http-01', httpPort: pebble.httpPort };
  const gateway = await startAcmeGateway(pebble, { acme, env: { PORT: '0' } });
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  expect((await shakeHands(gateway.port)).names).toBe(`DNS:${DOMAIN}`);
});

test('HTTP-01 with workers: one worker has the listener, and all take the certificate', async () => {
  const [pebble, redis] = await Promise.all([startPebble(), privateRedis()]);
  const acme = { challenge: 'http-01', httpPort: pebble.httpPort };
  const env = { PORT: '0', WORKERS: '2', REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' };
  const gateway = await startAcmeGateway(pebble, { acme, env });
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  expect(gateway.process.stdout.match(/answering HTTP-01 challenges/g)).toHaveLength(1);
  await eventually(async () => {
    for (let i = 0; i < 4; i++) expect((await shakeHands(gateway.port)).names).toBe(`DNS:${DOMAIN}`);
  });
  const path = `http://127.0.0.1:${pebble.httpPort}/v1/pets`;
  expect((await fetch(path, { redirect: 'manual' })).status).toBe(404);
});

test('an authority that refuses good nonces, asks for an account binding, and validates several domains', async () => {
  const hmac = Buffer.alloc(32, 7).toString('base64url');
  // In percent. acme-client tries a request six times: with 50 every fourth order would fail, with 20 one of a thousand.
  const pebble = await startPebble({ refusedNonces: 20, bindings: { 'kid-1': hmac } });
  const hmacKeyFile = join(await temporaryFolder(), 'hmac');
  await writeFile(hmacKeyFile, `${hmac}\n`, { mode: 0o600 });
  const acme = {
    domains: [DOMAIN, 'www.example.test'],
    email: 'ops@example.test',
    eab: { keyId: 'kid-1', hmacKeyFile },
  };
  const gateway = await startAcmeGateway(pebble, { acme });
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  expect((await shakeHands(gateway.port)).names).toBe(`DNS:${DOMAIN}, DNS:www.example.test`);
});

test('before the first certificate handshakes fail with an alert, /readyz says why, and the order succeeds when the authority comes', async () => {
  const pebble = await startPebble({ starts: false });
  const gateway = await startAcmeGateway(pebble);
  await gateway.process.until(/"msg":"no TLS certificate was issued"/);
  expect(await readyzOf(gateway)).toMatchObject({ status: 503, body: { certificate: 'missing' } });
  for (const ALPNProtocols of [[], ['h2', 'http/1.1'], ['acme-tls/1']]) {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { error } = await shakeHands(gateway.port, { ALPNProtocols, maxVersion });
      expect(error).toMatch(/ALERT_(HANDSHAKE_FAILURE|NO_APPLICATION_PROTOCOL)/);
    }
  }
  await pebble.restart();
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  const { stdout } = await gateway.command('doctor');
  expect(stdout).toMatch(new RegExp(`certificate of listen.tls.acme for ${DOMAIN} is valid until 20`));
});

test('clients with certificates of `clientCa` are served, others are not, and the authority needs none', async () => {
  const pebble = await startPebble();
  const clients = await newAuthority();
  const client = await clients.issue('client');
  const gateway = await startAcmeGateway(pebble, { tls: `, clientCa: ${clients.cert}` });
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  const pair = { cert: await readFile(client.cert), key: await readFile(client.key), maxVersion: 'TLSv1.2' as const };
  expect((await shakeHands(gateway.port, pair)).error).toBe(null);
  expect((await shakeHands(gateway.port, { maxVersion: 'TLSv1.2' })).error).toMatch(/HANDSHAKE_FAILURE|ECONNRESET/);
});
