import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { NAMES } from '../../src/certificates/certificate-store.ts';
import { EmbeddedCertificateStore } from '../../src/stores/embedded/certificates.ts';
import { RedisCertificateStore } from '../../src/stores/redis/certificates.ts';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { circuitFor } from '../../src/stores/redis/shards.ts';
import { certificateStoreContract } from '../contracts/certificate-store.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/processes.ts';
import { redisCommand, testRedis } from '../support/redis.ts';

const LEASE = NAMES.lease('one');
const [MINE, THEIRS] = [
  { name: LEASE, holder: 'mine' },
  { name: LEASE, holder: 'theirs' },
];

describe('records of certificates in files', () => {
  certificateStoreContract(async () => new EmbeddedCertificateStore(await temporaryFolder()));

  test('only their user can read them, and what a crash left half-written is removed and never read', async () => {
    const data = await temporaryFolder();
    const folder = join(data, 'certificates');
    await mkdir(folder, { mode: 0o700 });
    const certificate = NAMES.certificate('one');
    await writeFile(join(folder, `${certificate}.0a1b.draft`), 'half');
    const store = new EmbeddedCertificateStore(data);
    expect(await store.read(certificate)).toBe(null);
    await store.write(MINE, [{ name: certificate, text: 'whole', keptMs: null }]);
    expect(await readdir(folder)).toEqual([certificate]);
    expect(await readFile(join(folder, certificate), 'utf8')).toBe('whole');
    expect([(await stat(folder)).mode & 0o777, (await stat(join(folder, certificate))).mode & 0o777]).toEqual([
      0o700, 0o600,
    ]);
  });

  test('a certificate for other domains removes the one before, which nothing needs any more', async () => {
    const data = await temporaryFolder();
    const store = new EmbeddedCertificateStore(data);
    for (const id of ['one', 'two']) {
      const names = [NAMES.certificate(id), NAMES.latest, NAMES.account('a')];
      await store.write(
        MINE,
        names.map((name) => ({ name, text: id, keptMs: null })),
      );
    }
    const files = await readdir(join(data, 'certificates'));
    expect(files.sort()).toEqual([NAMES.account('a'), NAMES.latest, NAMES.certificate('two')].sort());
  });

  test('a folder that cannot be used is a failure that names it', async () => {
    const data = join(await temporaryFolder(), 'file');
    await writeFile(data, '');
    const store = new EmbeddedCertificateStore(data);
    await expect(store.write(MINE, [{ name: NAMES.latest, text: 'a', keptMs: null }])).rejects.toThrow(
      /cannot be written/,
    );
  });
});

describe('records of certificates in Redis', () => {
  const open = async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    const redis = connectRedis({ url, connectTimeoutMs: 5_000 });
    const circuit = circuitFor(redis, { timeoutMs: 5_000, failures: 3, probeEveryMs: 200 });
    atEnd(() => {
      circuit.close();
      redis.disconnect();
    });
    await untilReady(redis, 5_000);
    return { url, store: new RedisCertificateStore({ redis, circuit }) };
  };
  certificateStoreContract(async () => (await open()).store);

  test('one holder has the lease, and whoever has lost it writes nothing', async () => {
    const { url, store } = await open();
    const record = (text: string) => [{ name: NAMES.latest, text, keptMs: null }];
    expect([await store.lease(MINE, 60_000), await store.lease(THEIRS, 60_000)]).toEqual([true, false]);
    expect([await store.write(THEIRS, record('theirs')), await store.read(NAMES.latest)]).toEqual([false, null]);
    await store.release(THEIRS);
    expect(await store.write(MINE, record('mine'))).toBe(true);
    // The lease of a process that was paused has ended, and another one has it.
    await redisCommand(url, 'DEL', `tg:{acme}:${LEASE}`);
    expect(await store.lease(THEIRS, 60_000)).toBe(true);
    expect([await store.write(MINE, record('late')), await store.read(NAMES.latest)]).toEqual([false, 'mine']);
  });

  test('leases, challenges and certificates expire by themselves', async () => {
    const { url, store } = await open();
    await store.lease(MINE, 60_000);
    await store.write(MINE, [
      { name: NAMES.challenge('a'), text: 'x', keptMs: 600_000 },
      { name: NAMES.account('a'), text: 'x', keptMs: null },
    ]);
    const lifetimes = [LEASE, NAMES.challenge('a'), NAMES.account('a')].map((name) =>
      redisCommand(url, 'PTTL', `tg:{acme}:${name}`).then(Number),
    );
    const [lease, challenge, account] = await Promise.all(lifetimes);
    expect([lease! > 50_000 && lease! <= 60_000, challenge! > 590_000 && challenge! <= 600_000, account]).toEqual([
      true,
      true,
      -1,
    ]);
  });
});
