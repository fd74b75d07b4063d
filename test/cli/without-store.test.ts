import { execFile } from 'node:child_process';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { ALL_COMMANDS } from '../../src/main.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { hasStore } from '../../src/stores/embedded/open.ts';
import { ROOT, temporaryFolder } from '../support/processes.ts';
import { entriesOf, runCommand as run } from '../support/run-command.ts';

/** The commands whose work is to write files or to serve. Every other one, also a new one, is tried here. */
const WRITERS = [
  'serve',
  'init',
  'start',
  'pets',
  'schema',
  'docs',
  'keys create',
  'keys import',
  'keys apply',
  'keys restore',
];

interface Outcome {
  readonly name: string;
  readonly line: string;
  readonly code: number;
  readonly stderr: string;
}

/**
 * Runs the examples of all commands that are no writers in a process with this working directory.
 * @param more further words for the commands that take a store
 */
async function tryAll(
  folder: string,
  settings: Record<string, string> = {},
  more: readonly string[] = [],
): Promise<readonly Outcome[]> {
  const program = `
    import { ALL_COMMANDS, main } from ${JSON.stringify(join(ROOT, 'src/main.ts'))};
    const outcomes = [];
    for (const { name, examples, environment } of ALL_COMMANDS) {
      if (${JSON.stringify(WRITERS)}.includes(name)) continue;
      for (const line of examples) {
        let stderr = '';
        const words = [.../\\btollgate (.*?)(?:\\)| [<>|] .*)?$/.exec(line)[1].matchAll(/"([^"]*)"|(\\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
        const onStore = environment.includes('KEY_PEPPER');
        const code = await main(onStore ? [...words, ...${JSON.stringify(more)}] : words, {
          env: process.env, out: () => {}, error: (text) => { stderr += text; }, isTerminal: false, hiddenInput: async () => 'some secret',
        });
        outcomes.push({ name, line, code, stderr });
      }
    }
    process.stdout.write(JSON.stringify(outcomes));
    process.exit();`;
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, BACKUP_PASSPHRASE: 'a passphrase of the tests', ...settings };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
    cwd: folder,
    env,
  });
  return JSON.parse(stdout);
}

const SETTINGS = {
  TOLLGATE_CONFIG: join(ROOT, 'config/gateway.yaml'),
  TOLLGATE_PLANS: join(ROOT, 'plans.yaml'),
};

describe('where there is no store', () => {
  test('no command that does not write for a living makes a folder, a store, a pepper or anything else', async () => {
    const folder = await temporaryFolder();
    const outcomes = await tryAll(folder);
    expect(new Set(outcomes.map(({ name }) => name)).size).toBe(ALL_COMMANDS.length - WRITERS.length);
    expect(await readdir(folder)).toEqual([]);
    for (const { line, stderr } of outcomes) expect(stderr, line).not.toMatch(/defect/);
  });

  test('a command that looks for something in the store says that there is none and what to do, and its exit code is 1', async () => {
    const cases: { readonly store: string; readonly words?: readonly string[]; readonly made?: string }[] = [
      { store: 'data' },
      { store: 'data', made: 'data' },
      { store: 'named', words: ['--data', './named'] },
      { store: 'named', words: ['--data', './named'], made: 'named' },
    ];
    for (const { store, words, made } of cases) {
      const folder = await temporaryFolder();
      if (made !== undefined) await mkdir(join(folder, made));
      const before = await readdir(folder, { recursive: true });
      const outcomes = await tryAll(folder, SETTINGS, words);
      expect(await readdir(folder, { recursive: true })).toEqual(before);
      // A check of other things, or of files that the example names and that are not here.
      const others = ['doctor', 'gateway check', 'plans check', 'plans diff', 'plans show'];
      const onStore = ALL_COMMANDS.filter(
        ({ name, environment }) => environment.includes('REDIS_URL') && ![...WRITERS, ...others].includes(name),
      );
      expect(onStore.length).toBeGreaterThan(15);
      for (const { name } of onStore) {
        for (const { line, code, stderr } of outcomes.filter((one) => one.name === name)) {
          if (code === 2) continue;
          expect([code, stderr], line).toEqual([
            1,
            expect.stringMatching(
              new RegExp(
                `^There is no store in \\S+/${store} yet, and nothing was made\\. \`tollgate keys create\` or .* set TOLLGATE_DATA or REDIS_URL `,
              ),
            ),
          ]);
        }
        expect(
          outcomes.some((one) => one.name === name && one.code === 1),
          name,
        ).toBe(true);
      }
    }
  });

  test('a dry run is made as on an empty store, and leaves nothing', async () => {
    const folder = await temporaryFolder();
    const env = { ...SETTINGS, TOLLGATE_DATA: join(folder, 'data') };
    const [keys, csv] = [join(folder, 'keys.yaml'), join(folder, 'keys.csv')];
    await writeFile(keys, 'set: shop\nkeys: { one: { plan: pro } }\n');
    await writeFile(csv, `sha256,plan\n${'a'.repeat(64)},pro\n`);
    const applied = await run(env, 'keys', 'apply', keys, '--dry-run', '--json');
    expect(JSON.parse(applied.stdout)).toMatchObject({ dryRun: true, created: 1 });
    const imported = await run(env, 'keys', 'import', csv, '--dry-run', '--json');
    expect(JSON.parse(imported.stdout)).toMatchObject({ dryRun: true, moved: 1 });
    expect((await readdir(folder)).toSorted()).toEqual(['keys.csv', 'keys.yaml']);
  });

  test('`plans check --against` and `plans diff --against` say so, rather than that no key uses a plan', async () => {
    const folder = await temporaryFolder();
    const env = { ...SETTINGS, TOLLGATE_DATA: join(folder, 'data') };
    const plans = SETTINGS.TOLLGATE_PLANS;
    const other = join(folder, 'other.yaml');
    await writeFile(other, 'plans: { pro: { limits: { minute: 1 } } }\n');
    for (const words of [
      ['check', plans],
      ['diff', plans, other],
    ]) {
      const { code, stderr } = await run(env, 'plans', ...words, '--against');
      expect([code, stderr]).toEqual([1, expect.stringContaining('There is no store in ')]);
    }
    expect(await readdir(folder)).toEqual(['other.yaml']);
  });

  test('a store that was made without a pepper is read without making one', async () => {
    const env = { ...SETTINGS, TOLLGATE_DATA: join(await temporaryFolder(), 'data') };
    openDatabase(env.TOLLGATE_DATA).close();
    const { stdout, ...rest } = await run(env, 'keys', 'list', '--json');
    expect({ ...rest, keys: entriesOf(stdout) }).toEqual({ code: 0, stderr: '', keys: [] });
    expect((await run(env, 'doctor')).stdout).toMatch(/^ok +store /m);
    expect(await readdir(env.TOLLGATE_DATA)).not.toContain('tollgate.pepper');
  });
});

test('of a data folder that cannot be looked into, a command says so, and not that it is empty (reliability 474)', async () => {
  const folder = join(await temporaryFolder(), 'loop');
  await symlink(folder, folder);
  const { code, stderr } = await run({ ...SETTINGS, TOLLGATE_DATA: folder }, 'keys', 'list');
  expect(stderr).toContain(`${folder}/run cannot be opened: ELOOP`);
  expect(code).not.toBe(0);
  expect(() => hasStore(folder)).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
});
