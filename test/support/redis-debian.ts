import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RedisBinary } from './redis-binary.ts';

const run = promisify(execFile);

type VersionOf = (path: string, libraryPath: string | null) => Promise<string | null>;

/** Which lists of packages apt reads, as options of its commands. */
type Lists = readonly string[];

/**
 * Debian's redis-server with the libraries that this system lacks, downloaded and unpacked under `cacheFolder`. Needs
 * no root and installs nothing. A cache that no longer runs (the system was upgraded) is fetched again.
 *
 * @throws Error whose message says why it cannot be had here
 */
export async function debianRedis(cacheFolder: string, versionOf: VersionOf): Promise<RedisBinary> {
  const root = join(cacheFolder, 'debian-redis');
  const cached = await binaryIn(root, versionOf);
  if (cached !== null) return cached;
  console.log("Redis for the tests: none is installed, fetching Debian's package into node_modules/.cache …");
  await mkdir(cacheFolder, { recursive: true });
  await removeAbandoned(cacheFolder);
  // Everything happens in a folder of its own that takes its final name when it is whole: an interrupted download
  // leaves nothing that looks finished, and of two runs at once the second finds the work of the first.
  const work = await mkdtemp(join(cacheFolder, 'debian-redis.part-'));
  try {
    await fetchAndUnpack(work);
    if ((await binaryIn(join(work, 'root'), versionOf)) === null) throw new Error('the unpacked program does not run');
    await replace(join(work, 'root'), root, versionOf);
  } catch (error) {
    throw new Error(`Debian's package cannot be had: ${reasonOf(error)}`, { cause: error });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  const binary = await binaryIn(root, versionOf);
  if (binary === null) throw new Error(`Debian's package does not run from ${root}`);
  return binary;
}

/** The system's own lists first; where they are empty, unreadable or out of date, private ones. */
async function fetchAndUnpack(work: string): Promise<void> {
  try {
    await download(work, []);
  } catch (fromSystemLists) {
    try {
      await download(work, await privateLists(work));
    } catch (error) {
      throw new AggregateError([fromSystemLists, error], reasonOf(error));
    }
  }
  await mkdir(join(work, 'root'), { recursive: true });
  for (const name of await readdir(join(work, 'debs'))) {
    await run('dpkg', ['-x', join(work, 'debs', name), join(work, 'root')]);
  }
}

async function download(work: string, lists: Lists): Promise<void> {
  const debs = join(work, 'debs');
  await rm(debs, { recursive: true, force: true });
  await mkdir(debs);
  const plan = await apt([...lists, '--simulate', '--no-install-recommends', 'install', 'redis-server'], work);
  // The program itself is in redis-tools, redis-server only has the link to it: both, even if one is installed.
  const missing = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name as string);
  await apt([...lists, 'download', ...new Set(['redis-server', 'redis-tools', ...missing])], debs);
}

async function privateLists(work: string): Promise<Lists> {
  const state = join(work, 'state');
  const cache = join(work, 'cache');
  await mkdir(join(state, 'lists', 'partial'), { recursive: true });
  await mkdir(join(cache, 'archives', 'partial'), { recursive: true });
  // The hooks of this system are meant for its own lists, and fail without root.
  const settings = join(work, 'apt.conf');
  await writeFile(settings, ['Pre-Invoke', 'Post-Invoke', 'Post-Invoke-Success'].map(cleared).join(''));
  const lists = ['-c', settings, '-o', `Dir::State=${state}`, '-o', `Dir::Cache=${cache}`];
  // An unreachable extra source fails the command although Debian's own lists arrived; what matters shows next.
  await apt([...lists, 'update'], work).catch(() => {});
  return lists;
}

function cleared(hook: string): string {
  return `#clear APT::Update::${hook};\n`;
}

async function apt(args: readonly string[], cwd: string): Promise<string> {
  const options = [
    'APT::Sandbox::User=root',
    'Acquire::Retries=2',
    'Acquire::http::Timeout=20',
    'Acquire::https::Timeout=20',
  ];
  const { stdout } = await run('apt-get', ['-q', ...options.flatMap((option) => ['-o', option]), ...args], {
    cwd,
    env: { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' },
    timeout: 180_000,
    maxBuffer: 16 * 1024 * 1024,
  });
  return stdout;
}

async function binaryIn(root: string, versionOf: VersionOf): Promise<RedisBinary | null> {
  const path = join(root, 'usr', 'bin', 'redis-server');
  const libraryPath = (await Promise.all(['usr/lib', 'lib'].map((name) => libraryFolders(join(root, name)))))
    .flat()
    .join(':');
  const version = await versionOf(path, libraryPath);
  return version === null ? null : { path, libraryPath, version, origin: "Debian's package under node_modules/.cache" };
}

async function libraryFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && entry.name.includes('-linux-'))
    .map(({ name }) => join(folder, name));
}

async function replace(finished: string, root: string, versionOf: VersionOf): Promise<void> {
  // Another run may have put its own there meanwhile: then that one serves.
  if ((await binaryIn(root, versionOf)) !== null) return;
  await rm(root, { recursive: true, force: true });
  await rename(finished, root).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
}

/** What a killed run left an hour ago or earlier. */
async function removeAbandoned(cacheFolder: string): Promise<void> {
  const names = (await readdir(cacheFolder)).filter((name) => name.startsWith('debian-redis.part-'));
  for (const name of names) {
    const { mtimeMs } = await stat(join(cacheFolder, name)).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > 3_600_000) await rm(join(cacheFolder, name), { recursive: true, force: true });
  }
}

/** One line: apt's own complaint where there is one, instead of the command that node puts first. */
function reasonOf(error: unknown): string {
  const { message, stderr, code } = error as { message?: string; stderr?: string; code?: unknown };
  if (code === 'ENOENT') return 'this system has no apt-get and dpkg';
  const complaint = /^E: (.+)$/m.exec(stderr ?? '')?.[1];
  return complaint ?? (message ?? String(error)).split('\n')[0] ?? '';
}
