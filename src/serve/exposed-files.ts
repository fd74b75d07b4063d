import { readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Variables } from '../config/environment.ts';
import type { Settings } from '../config/settings.ts';

const SECRET_FILES = ['KEY_PEPPER_FILE', 'ADMIN_TOKEN_FILE', 'ADMIN_TOKENS_FILE', 'REDIS_URL_FILE'] as const;

/** Mode bits of users who are neither the owner nor in the group. A group may read: operators use it to grant access. */
const OTHERS = { read: 0o004, list: 0o005, enter: 0o001 };

/**
 * Warns of secret files, and of a data folder, that every user of this machine can read. Each sentence ends with the command
 * or setting that repairs it. A file in a folder that other users cannot enter is not exposed. If another user owns the data
 * folder, such as a volume that Kubernetes mounts, this user cannot change its mode, so the warnings name its exposed files
 * instead. Empty on Windows, which has no such modes.
 */
export function exposedFiles(env: Variables, settings: Settings): readonly string[] {
  if (process.platform === 'win32') return [];
  const named = SECRET_FILES.map((name) => ({ what: `the file of ${name}`, file: env[name] || null }));
  const keys = [...settings.upstreams].map(([name, { tls }]) => ({
    what: `the private key of the upstream ${name}`,
    file: tls?.key ?? null,
  }));
  const own = [
    { what: 'the private key of listen.tls', file: settings.listen.tls?.key ?? null },
    ...(settings.listen.tls?.certificates ?? []).map(({ key }, i) => ({
      what: `the private key of listen.tls.certificates[${i}]`,
      file: key,
    })),
    { what: 'the HMAC key of listen.tls.acme.eab', file: settings.listen.tls?.acme?.eab?.hmacKeyFile ?? null },
    { what: 'the secret of admin.oidc', file: settings.admin.oidc?.clientSecretFile ?? null },
    { what: 'the private key of admin.tls', file: settings.admin.tls?.key ?? null },
  ];
  return [
    ...[...named, ...own, ...keys].flatMap(({ what, file }) => (file === null ? [] : exposedFile(what, resolve(file)))),
    ...(settings.redis.url === null ? exposedFolder(resolve(settings.dataFolder)) : []),
  ];
}

function exposedFile(what: string, file: string): string[] {
  const found = statOf(file);
  // Only a regular file keeps a secret; a pipe or a device does not.
  if (!found?.stats.isFile() || (found.stats.mode & OTHERS.read) === 0 || !isReachable(found.path)) return [];
  // Kubernetes puts the files of a projected volume into a folder named after the time, such as `..2030_12_31_…`.
  const isProjected = /\/\.\.\d{4}_/.test(found.path);
  const remedy = isProjected ? 'Set `defaultMode: 0440` on its volume.' : `Run \`chmod 600 ${file}\`.`;
  return [`Every user of this machine can read ${what}, ${file}. ${remedy}`];
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

/** Whether other users can enter every folder above the file. */
function isReachable(path: string): boolean {
  const folder = dirname(path);
  if (folder === path) return true;
  const found = statOf(folder);
  return found !== null && (found.stats.mode & OTHERS.enter) !== 0 && isReachable(folder);
}

/** Follows links. Null if this process cannot read the metadata; the code that opens the file reports that better. */
function statOf(path: string): { readonly path: string; readonly stats: Stats } | null {
  try {
    return { path: realpathSync(path), stats: statSync(path) };
  } catch {
    return null;
  }
}
