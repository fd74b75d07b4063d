import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { temporaryFolder } from './processes.ts';
import { privateRedis } from './redis.ts';
import { localRedis, redisOnPath, versionOf } from './redis-binary.ts';
import { debianRedis } from './redis-debian.ts';
import { findSharedRedis } from './redis-finder.ts';

/** A folder of shell scripts by name. */
async function programs(scripts: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(folder, name), 0o755);
  }
  return folder;
}

const REDIS = 'echo "Redis server v=9.8.7 sha=0"';
const VALKEY = 'echo "Valkey server v=8.1.0 sha=0"';

describe('a program on the PATH', () => {
  test('is used, redis-server before valkey-server', async () => {
    const valkey = await programs({ 'valkey-server': VALKEY });
    const redis = await programs({ 'redis-server': REDIS });
    expect(await redisOnPath({ PATH: `${valkey}:${redis}` })).toMatchObject({ version: 'redis-server 9.8.7' });
    expect(await redisOnPath({ PATH: valkey })).toMatchObject({ version: 'valkey-server 8.1.0', libraryPath: null });
  });

  test('is passed over when it does not run', async () => {
    const broken = await programs({ 'redis-server': 'exit 127' });
    const works = await programs({ 'redis-server': REDIS });
    expect(await redisOnPath({ PATH: broken })).toBeNull();
    expect(await redisOnPath({ PATH: `${broken}:${works}` })).toMatchObject({ path: join(works, 'redis-server') });
  });

  test('is used before anything is downloaded', async () => {
    const PATH = await programs({ 'redis-server': REDIS });
    const cache = await temporaryFolder();
    expect(await localRedis(cache, { PATH })).toMatchObject({ origin: 'on the PATH' });
    expect(await readdir(cache)).toEqual([]);
  });
});

describe("Debian's package", () => {
  // What apt-get and dpkg would do, as far as it is visible: which packages are asked for, and what is unpacked.
  const APT = `
    echo "$@" >> "$LOG"
    case "$*" in
      *--simulate*) echo 'Inst liblzf1 (3.6-3 Debian [amd64])' ;;
      *download*) touch one.deb ;;
    esac`;
  const DPKG = `mkdir -p "$3/usr/bin"; printf '#!/bin/sh\\n${REDIS}\\n' > "$3/usr/bin/redis-server"; chmod +x "$3/usr/bin/redis-server"`;

  async function withPrograms(scripts: Record<string, string>) {
    const cache = join(await temporaryFolder(), 'cache');
    const log = join(await temporaryFolder(), 'log');
    await writeFile(log, '');
    vi.stubEnv('PATH', `${await programs(scripts)}:${process.env.PATH}`);
    vi.stubEnv('LOG', log);
    vi.spyOn(console, 'log').mockImplementation(() => {});
    onTestFinished(() => {
      vi.unstubAllEnvs();
      vi.restoreAllMocks();
    });
    const asked = () => readFile(log, 'utf8');
    return { cache, asked };
  }

  test('is fetched with the libraries that are missing, once', async () => {
    const { cache, asked } = await withPrograms({ 'apt-get': APT, dpkg: DPKG });
    expect(await debianRedis(cache, versionOf)).toMatchObject({ version: 'redis-server 9.8.7' });
    expect(await asked()).toMatch(/download redis-server redis-tools liblzf1\n/);
    const before = await asked();
    await debianRedis(cache, versionOf);
    expect(await asked()).toBe(before);
    expect(await readdir(cache)).toEqual(['debian-redis']);
  });

  test('comes by private lists where the lists of the system are empty or old', async () => {
    const emptyLists = `case "$*" in *' -c '*) ;; *) echo 'E: Unable to locate package' >&2; exit 100 ;; esac`;
    const { cache, asked } = await withPrograms({ 'apt-get': `${emptyLists}\n${APT}`, dpkg: DPKG });
    expect(await debianRedis(cache, versionOf)).toMatchObject({ version: 'redis-server 9.8.7' });
    expect(await asked()).toMatch(/Dir::State=\S*debian-redis\.part-\S* .*update\n/);
  });

  test('that arrives only half leaves nothing behind, and the reason is told', async () => {
    const dies = `${APT}\ncase "$*" in *download*) echo 'E: Connection failed' >&2; exit 100 ;; esac`;
    const { cache } = await withPrograms({ 'apt-get': dies, dpkg: DPKG });
    await expect(debianRedis(cache, versionOf)).rejects.toThrow("Debian's package cannot be had: Connection failed");
    expect(await readdir(cache)).toEqual([]);
  });

  test('that does not run is no find, and a cached one that no longer runs is fetched again', async () => {
    const broken = await withPrograms({ 'apt-get': APT, dpkg: DPKG.replace(REDIS, 'exit 1') });
    await expect(debianRedis(broken.cache, versionOf)).rejects.toThrow('does not run');
    const { cache } = await withPrograms({ 'apt-get': APT, dpkg: DPKG });
    await mkdir(join(cache, 'debian-redis', 'usr', 'bin'), { recursive: true });
    await writeFile(join(cache, 'debian-redis', 'usr', 'bin', 'redis-server'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    expect(await debianRedis(cache, versionOf)).toMatchObject({ version: 'redis-server 9.8.7' });
  });

  test('is not looked for on a system without apt-get', async () => {
    const { cache } = await withPrograms({});
    vi.stubEnv('PATH', await temporaryFolder());
    await expect(debianRedis(cache, versionOf)).rejects.toThrow('this system has no apt-get and dpkg');
  });
});

describe('TEST_REDIS', () => {
  test('may be the address of a server that runs', async () => {
    const { url, stop } = await privateRedis();
    const { shared, end } = await findSharedRedis({ TEST_REDIS: url });
    await end();
    expect(shared).toMatchObject({ kind: 'url', url, version: expect.stringMatching(/^(redis|valkey)-server \d/) });
    await stop();
    const gone = await findSharedRedis({ TEST_REDIS: url });
    expect(gone.shared).toMatchObject({ kind: 'none', reason: expect.stringContaining('does not answer') });
  });

  test('that is something else is answered with what it can be', async () => {
    const { shared } = await findSharedRedis({ TEST_REDIS: 'docker' });
    expect(shared).toMatchObject({
      kind: 'none',
      reason: expect.stringMatching(/can be local, container or redis:.*apt-get install redis-server/),
    });
  });
});
