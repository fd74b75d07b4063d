import { execFile } from 'node:child_process';
import { access, constants, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A program of this machine. */
export interface Tool {
  readonly path: string;
  /** The folder that the package was unpacked in; `/` for what is installed. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface Wanted {
  /** The program, as found on the PATH. */
  readonly program: string;
  /** Where the package has it. */
  readonly inPackage: string;
  readonly packages: readonly string[];
  /** Files below the root without which it is of no use, `*` being any one folder. */
  readonly needs?: readonly string[];
}

/** What the packages depend on without the bench using it. */
const UNUSED = /^(libnss3.*|nginx-(extras|light|full)|libnginx-mod-(?!http-(ndk|lua)$).*|.*-dev)$/;

/**
 * The program on the PATH, else Debian's package unpacked under `cacheFolder`: no root needed, nothing installed.
 * @throws Error whose message says why it cannot be had
 */
export async function findTool(wanted: Wanted, cacheFolder: string): Promise<Tool> {
  const installed = await onPath(wanted.program);
  if (installed !== null && (await hasAll('/', wanted.needs ?? []))) return { path: installed, root: '/', env: {} };
  const root = join(cacheFolder, 'debian-bench', wanted.packages[0]!);
  const cached = await inRoot(root, wanted);
  if (cached !== null) return cached;
  await fetchPackages(wanted, root).catch((error: { stderr?: string; message: string; code?: unknown }) => {
    if (error.code === 'ENOENT') throw new Error('it is not installed, and this system has no apt-get and dpkg');
    throw new Error(/^E: (.+)$/m.exec(error.stderr ?? '')?.[1] ?? error.message.split('\n')[0]!, { cause: error });
  });
  const tool = await inRoot(root, wanted);
  if (tool === null) throw new Error(`Debian's package ${wanted.packages[0]} lacks what is needed of it`);
  return tool;
}

/** A file of the tool's package, or of the system where it is installed. */
export async function fileOf({ root }: Tool, pattern: string): Promise<string | null> {
  const [folder, rest] = pattern.split('/*/');
  if (rest === undefined) return (await exists(join(root, pattern))) ? join(root, pattern) : null;
  for (const name of await readdir(join(root, folder!)).catch(() => [])) {
    const path = join(root, folder!, name, rest);
    if (await exists(path)) return path;
  }
  return null;
}

/** The folder takes its final name when it is whole. */
async function fetchPackages({ packages }: Wanted, root: string): Promise<void> {
  await mkdir(join(root, '..'), { recursive: true });
  const work = await mkdtemp(`${root}.part-`);
  const options = [
    '-q',
    '-o',
    'APT::Sandbox::User=root',
    '-o',
    'Acquire::Retries=2',
    '-o',
    'Acquire::http::Timeout=20',
  ];
  const settings = { cwd: work, timeout: 180_000, env: { ...process.env, LC_ALL: 'C' } };
  try {
    const plan = await run('apt-get', [...options, '-s', '--no-install-recommends', 'install', ...packages], settings);
    const missing = [...plan.stdout.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name!);
    const names = new Set([...packages, ...missing].filter((name) => !UNUSED.test(name)));
    await run('apt-get', [...options, 'download', ...names], settings);
    const debs = (await readdir(work)).filter((name) => name.endsWith('.deb'));
    for (const deb of debs) await run('dpkg', ['-x', join(work, deb), join(work, 'root')]);
    await rm(root, { recursive: true, force: true });
    await rename(join(work, 'root'), root);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function inRoot(root: string, { inPackage, needs = [] }: Wanted): Promise<Tool | null> {
  const path = join(root, inPackage);
  if (!(await exists(path)) || !(await hasAll(root, needs))) return null;
  const libraries = await Promise.all(
    ['usr/lib', 'lib'].map(async (name) => {
      const entries = await readdir(join(root, name)).catch(() => []);
      return entries.filter((entry) => entry.includes('-linux-')).map((entry) => join(root, name, entry));
    }),
  );
  const folders = libraries.flat();
  return { path, root, env: folders.length === 0 ? {} : { LD_LIBRARY_PATH: folders.join(':') } };
}

async function hasAll(root: string, needs: readonly string[]): Promise<boolean> {
  for (const need of needs) if ((await fileOf({ path: '', root, env: {} }, need)) === null) return false;
  return true;
}

async function onPath(program: string): Promise<string | null> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'].filter((folder) => folder !== '');
  for (const folder of folders) {
    const path = join(folder, program);
    if (await exists(path, constants.X_OK)) return path;
  }
  return null;
}

function exists(path: string, mode = constants.F_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
