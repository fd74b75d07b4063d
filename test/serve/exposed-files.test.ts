import { chmod, chown, mkdir, rename, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfiguration } from '../../src/config/settings.ts';
import { exposedFiles } from '../../src/serve/exposed-files.ts';
import { createAuthority } from '../support/certificates.ts';
import { startGateway } from '../support/gateway.ts';
import { ROOT, runTollgate } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startUpstream } from '../support/upstream.ts';

/** A folder that every user may enter, as `/etc/tollgate` is. */
async function publicFolder(): Promise<string> {
  const folder = await temporaryFolder();
  await chmod(folder, 0o755);
  return folder;
}

async function fileIn(folder: string, mode: number, name = 'secret'): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, 'a-secret-of-twenty-or-more-letters');
  await chmod(file, mode);
  return file;
}

/** What is warned of under an environment, on an embedded store in `data`. */
async function warningsOf(data: string, env: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const whole = {
    TOLLGATE_CONFIG: join(ROOT, 'config', 'gateway.yaml'),
    TOLLGATE_PLANS: join(ROOT, 'plans.yaml'),
    TOLLGATE_DATA: data,
    ...env,
  };
  const read = await loadConfiguration(whole);
  if ('faults' in read) throw new Error(read.faults.join('\n'));
  return exposedFiles(whole, read.settings);
}

describe('a gateway and its commands', () => {
  test('warn of secrets and data that other users can read, with the chmod to run, and of nothing once it was run', async () => {
    const folder = await publicFolder();
    const authority = await createAuthority(folder);
    const { cert, key } = await authority.issue('localhost');
    await chmod(key, 0o644);
    const pepper = await fileIn(folder, 0o644, 'pepper');
    const data = join(folder, 'data');
    await mkdir(data);
    await chmod(data, 0o755);
    const { origin } = await startUpstream();
    const setup = {
      upstream: origin,
      listen: { tls: `{ cert: '${cert}', key: '${key}' }` },
      env: { KEY_PEPPER_FILE: pepper, TOLLGATE_DATA: data },
    };
    const gateway = await startGateway(setup);
    const cures = [`chmod 600 ${pepper}`, `chmod 600 ${key}`, `chmod 700 ${data}`];
    const { env } = gateway;
    const { stderr } = await runTollgate(['keys', 'list'], { env });
    for (const cure of cures) {
      expect(gateway.process.stdout).toContain(`Run \`${cure}\`.`);
      expect(stderr).toContain(`Run \`${cure}\`.`);
    }
    for (const [mode, file] of [
      [0o600, pepper],
      [0o600, key],
      [0o700, data],
    ] as const)
      await chmod(file, mode);
    expect((await runTollgate(['keys', 'list', '--json'], { env })).stderr).toBe('');
  });
});

describe('a secret file', () => {
  test.each(['KEY_PEPPER_FILE', 'ADMIN_TOKEN_FILE'])('%s is warned of where every user can read it', async (name) => {
    const [own, others] = [await publicFolder(), await publicFolder()];
    const data = join(own, 'data');
    expect(await warningsOf(data, { [name]: await fileIn(own, 0o600) })).toEqual([]);
    const file = await fileIn(others, 0o604);
    expect(await warningsOf(data, { [name]: file })).toEqual([
      `Every user of this machine can read the file of ${name}, ${file}. Run \`chmod 600 ${file}\`.`,
    ]);
  });

  test('that a group reads is as it should be: Kubernetes gives it to the group of the pod (0440)', async () => {
    const folder = await publicFolder();
    expect(await warningsOf(join(folder, 'data'), { KEY_PEPPER_FILE: await fileIn(folder, 0o440) })).toEqual([]);
  });

  test('in a folder that other users cannot enter is not exposed, whatever its own mode', async () => {
    const folder = await publicFolder();
    const inner = join(folder, 'private');
    await mkdir(inner, { mode: 0o700 });
    expect(await warningsOf(join(folder, 'data'), { KEY_PEPPER_FILE: await fileIn(inner, 0o644) })).toEqual([]);
  });

  test('of a Kubernetes volume is cured by the mode of the volume, since chmod is not possible there', async () => {
    const folder = await publicFolder();
    const moment = join(folder, '..2026_11_22_10_00_00.123456789');
    await mkdir(moment, { mode: 0o755 });
    await fileIn(moment, 0o644, 'key-pepper');
    await symlink('..2026_11_22_10_00_00.123456789', join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
    await symlink(join('..data', 'key-pepper'), join(folder, 'key-pepper'));
    const [warning, ...more] = await warningsOf(join(folder, 'data'), { KEY_PEPPER_FILE: join(folder, 'key-pepper') });
    expect(more).toEqual([]);
    expect(warning).toMatch(/Set `defaultMode: 0440` on its volume\.$/);
  });
});

describe('the data folder', () => {
  test.runIf(process.getuid?.() === 0)(
    'of another owner, as a mounted volume, is not warned of, but for its files',
    async () => {
      const data = join(await publicFolder(), 'data');
      await mkdir(data);
      await chmod(data, 0o2775);
      await chown(data, 12_345, 12_345);
      expect(await warningsOf(data, {})).toEqual([]);
      const file = await fileIn(data, 0o644, 'tollgate.db');
      expect(await warningsOf(data, {})).toEqual([
        `Every user of this machine can read a file of the data folder, ${file}. Run \`chmod 600 ${file}\`.`,
      ]);
    },
  );

  test('of a gateway has files that its user alone can read, the lock among them', async () => {
    const { env } = await startGateway({ upstream: (await startUpstream()).origin });
    const modeOf = async (name: string) => ((await stat(join(env.TOLLGATE_DATA!, name))).mode & 0o777).toString(8);
    expect(await modeOf('.')).toBe('700');
    for (const name of ['owner.lock', 'tollgate.db', 'tollgate.pepper'])
      expect([name, await modeOf(name)]).toEqual([name, '600']);
  });
});

test('the file of named admin tokens is a secret file', async () => {
  const folder = await publicFolder();
  const tokens = await fileIn(folder, 0o644, 'tokens.yaml');
  expect(await warningsOf(join(folder, 'data'), { ADMIN_TOKENS_FILE: tokens })).toEqual([
    `Every user of this machine can read the file of ADMIN_TOKENS_FILE, ${tokens}. Run \`chmod 600 ${tokens}\`.`,
  ]);
  await chmod(tokens, 0o640);
  expect(await warningsOf(join(folder, 'data'), { ADMIN_TOKENS_FILE: tokens })).toEqual([]);
});
