import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What is compared and not used: fetched for the bench alone, never a dependency of the project. */
export const PEERS: Readonly<Record<string, string>> = {
  fastify: '5.12.8',
  '@fastify/rate-limit': '11.2.0',
  '@fastify/http-proxy': '11.6.3',
};

/**
 * Installs the peers below `cacheFolder` unless they are there in these versions.
 * @returns the folder to resolve them from
 * @throws Error with npm's own complaint
 */
export async function installPeers(cacheFolder: string): Promise<string> {
  const folder = join(cacheFolder, 'bench');
  if (await isThere(folder)) return folder;
  await mkdir(folder, { recursive: true });
  // Without a package.json of its own the folder would count as a part of the project.
  await writeFile(join(folder, 'package.json'), '{ "private": true }\n');
  const packages = Object.entries(PEERS).map(([name, version]) => `${name}@${version}`);
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--save-exact', '--loglevel=error'];
  await run('npm', ['install', '--prefix', folder, ...flags, ...packages], { cwd: folder, timeout: 180_000 }).catch(
    (error: { stderr?: string; message: string }) => {
      const complaint = /^npm error (?!code|errno|syscall|type)(.+)$/m.exec(error.stderr ?? '')?.[1];
      throw new Error(`npm cannot install it: ${complaint ?? error.message.split('\n')[0]}`, { cause: error });
    },
  );
  return folder;
}

async function isThere(folder: string): Promise<boolean> {
  for (const [name, version] of Object.entries(PEERS)) {
    const manifest = await readFile(join(folder, 'node_modules', name, 'package.json'), 'utf8').catch(() => '{}');
    if ((JSON.parse(manifest) as { version?: string }).version !== version) return false;
  }
  return true;
}

/** Loads a peer from where it was installed. */
export function loadPeer(folder: string, name: string): unknown {
  return createRequire(join(folder, 'package.json'))(name);
}
