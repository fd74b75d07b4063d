import { readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Variables } from '../config/environment.ts';
import type { Settings } from '../config/settings.ts';

const SECRET_FILES = ['KEY_PEPPER_FILE', 'ADMIN_TOKEN_FILE', 'REDIS_URL_FILE'] as const;

/** Mode bits of users who are neither the owner nor in the group: a group is there for processes that are meant to read. */
const OTHERS = { read: 0o004, list: 0o005, enter: 0o001 };

/**
 * Warns of what every user of this machine can read: files that hold a secret, and the embedded store's folder. Each
 * sentence ends with what to run. A file in a folder that other users cannot enter is not exposed. Of a folder that is
 * somebody else's, as a volume that Kubernetes mounts for its group, only files that are exposed are warned of: its mode
 * is not for this user to change. Empty on Windows, which has no such modes.
 */
export function exposedFiles(env: Variables, settings: Settings): readonly string[] {
  if (process.platform === 'win32') return [];
  const named = SECRET_FILES.map((name) => ({ what: `the file of ${name}`, file: env[name] || null }));
  const keys = [...settings.upstreams].map(([name, { tls }]) => ({
    what: `the private key of the upstream ${name}`,
    file: tls?.key ?? null,
  }));
  const own = { what: 'the private key of listen.tls', file: settings.listen.tls?.key ?? null };
  return [
    ...[...named, own, ...keys].flatMap(({ what, file }) => (file === null ? [] : exposedFile(what, resolve(file)))),
    ...(settings.redis.url === null ? exposedFolder(resolve(settings.dataFolder)) : []),
  ];
}

function exposedFile(what: string, file: string): string[] {
  const found = statOf(file);
  // A pipe or a device is read once or has no content to keep.
  if (!found?.stats.isFile() || (found.stats.mode & OTHERS.read) === 0 || !isReachable(found.path)) return [];
  // Kubernetes writes the files of a volume into a folder that it names after the moment.
  const isProjected = /\/\.\.\d{4}_/.test(found.path);
  const cure = isProjected ? 'Set `defaultMode: 0440` on its volume.' : `Run \`chmod 600 ${file}\`.`;
  return [`Every user of this machine can read ${what}, ${file}. ${cure}`];
}

function exposedFolder(folder: string): string[] {
  const found = statOf(folder);
  if (!found?.stats.isDirectory() || (found.stats.mode & OTHERS.list) === 0 || !isReachable(found.path)) return [];
  if (found.stats.uid === process.getuid?.()) {
    return [`Every user of this machine can look into the data folder, ${folder}. Run \`chmod 700 ${folder}\`.`];
  }
  if ((found.stats.mode & OTHERS.enter) === 0) return [];
  return readdirSync(folder).flatMap((name) => exposedFile('a file of the data folder', join(folder, name)));
}

/** Whether other users can come as far as the folder that has it. */
function isReachable(path: string): boolean {
  const folder = dirname(path);
  if (folder === path) return true;
  const found = statOf(folder);
  return found !== null && (found.stats.mode & OTHERS.enter) !== 0 && isReachable(folder);
}

/** Of what a link leads to; null where this process cannot see it, which whatever opens it says better. */
function statOf(path: string): { readonly path: string; readonly stats: Stats } | null {
  try {
    return { path: realpathSync(path), stats: statSync(path) };
  } catch {
    return null;
  }
}
