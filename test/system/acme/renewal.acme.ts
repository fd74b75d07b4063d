import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startReplica } from '../../support/gateway.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { DOMAIN, readyzOf, shakeHands, startAcmeGateway, startPebble } from './pebble.ts';

const WITHIN = { withinMs: 40_000 };
const KEY_PEPPER = 'a pepper that only the tests use';

test('a certificate is renewed before it ends, and clients get the new one without a failed handshake', async () => {
  const pebble = await startPebble({ validForS: 24 });
  const gateway = await startAcmeGateway(pebble);
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  const first = await shakeHands(gateway.port);
  await eventually(async () => {
    const shown = await shakeHands(gateway.port);
    if (shown.error !== null || shown.expiresAtMs < Date.now()) throw new Error(`a client failed: ${shown.error}`);
    expect(shown.serial).not.toBe(first.serial);
    expect(Date.now()).toBeLessThan(first.expiresAtMs);
  }, WITHIN);
});

test('a restart uses the stored certificate and orders nothing, and no key is readable by others or logged', async () => {
  const pebble = await startPebble();
  const gateway = await startAcmeGateway(pebble);
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  const { serial } = await shakeHands(gateway.port);
  await gateway.process.stop();
  await pebble.stop();
  const again = await startReplica(gateway);
  expect(await readyzOf(again)).toMatchObject({ status: 200 });
  expect((await shakeHands(again.port)).serial).toBe(serial);
  expect([pebble.issued(), again.process.stdout.includes('ordering')]).toEqual([1, false]);
  const folder = join(gateway.env.TOLLGATE_DATA!, 'certificates');
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  const files = await readdir(folder);
  expect(files.filter((file) => file.endsWith('.draft'))).toEqual([]);
  for (const file of files) expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600);
  const own = files.find((file) => file.startsWith('certificate.') && file !== 'certificate.latest')!;
  const { key } = JSON.parse(await readFile(join(folder, own), 'utf8')) as { key: string };
  for (const { process } of [gateway, again]) {
    expect(process.stdout + process.stderr).not.toContain('PRIVATE KEY');
    expect(process.stdout + process.stderr).not.toContain(key.split('\n')[1]);
  }
});

test('gateways with workers on one Redis order once, all show the certificate, and Redis holds no readable key', async () => {
  const [pebble, redis] = await Promise.all([startPebble(), privateRedis()]);
  const env = { REDIS_URL: redis.url, KEY_PEPPER, WORKERS: '2' };
  const one = await startAcmeGateway(pebble, { env });
  const other = await startReplica({ ...one, env: { ...one.env, PORT: '0' } });
  await eventually(async () => expect(await readyzOf(one)).toMatchObject({ status: 200 }), WITHIN);
  const serial = await eventually(async () => {
    const shown = await shakeHands(one.port);
    expect(shown.error).toBe(null);
    return shown.serial;
  });
  // Each new connection goes to the worker with the fewest, so that four in a row meet both.
  await eventually(async () => {
    for (let i = 0; i < 4; i++) expect((await shakeHands(other.port)).serial).toBe(serial);
    for (let i = 0; i < 4; i++) expect((await shakeHands(one.port)).serial).toBe(serial);
  }, WITHIN);
  expect(pebble.issued()).toBe(1);
  const ordering = [one, other].flatMap(
    ({ process }) => process.stdout.match(/"msg":"ordering a TLS certificate"/g) ?? [],
  );
  expect(ordering).toHaveLength(1);
  const names = (await redisCommand(redis.url, 'KEYS', 'tg:{acme}:*')) as string[];
  expect(names.some((name) => name.includes('certificate.')) && names.some((name) => name.includes('account.'))).toBe(
    true,
  );
  for (const name of names) {
    const text = String(await redisCommand(redis.url, 'GET', name));
    expect(text).not.toMatch(/PRIVATE|BEGIN/);
  }
  const { stdout } = await one.command('doctor');
  expect(stdout).toMatch(new RegExp(`certificate of listen.tls.acme for ${DOMAIN} is valid until 20`));
});

test('other domains at the next start: the certificate before serves until the new one is issued', async () => {
  const pebble = await startPebble();
  const gateway = await startAcmeGateway(pebble);
  await eventually(async () => expect(await readyzOf(gateway)).toMatchObject({ status: 200 }), WITHIN);
  await gateway.process.stop();
  const more = await startAcmeGateway(pebble, {
    acme: { domains: [DOMAIN, 'www.example.test'] },
    env: { TOLLGATE_DATA: gateway.env.TOLLGATE_DATA },
  });
  expect((await shakeHands(more.port)).names).toBe(`DNS:${DOMAIN}`);
  await eventually(async () => expect((await shakeHands(more.port)).names).toContain('www.example.test'), WITHIN);
});
