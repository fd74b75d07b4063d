import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';
import { beforeAll, describe, expect, test } from 'vitest';
import { runTollgate, startProcess, TOLLGATE_IN_SHELL, temporaryFolder } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';

// Commands as processes of their own, on a real terminal (`script` of util-linux opens a pseudo-terminal) and in a pipe.

const NAMES = [
  '日本語の花屋さん株式会社 東京本店',
  '🥐 Boulangerie 🇫🇷 👍🏽',
  'A shop with a very long name, longer than it should be',
  'shop',
];
const ESCAPE = '\x1b[';
let TOLLGATE_DATA: string;

beforeAll(async () => {
  TOLLGATE_DATA = await temporaryFolder();
  const file = join(TOLLGATE_DATA, 'keys.ndjson');
  const line = (name: string, i: number) =>
    JSON.stringify({
      sha256: (i + 1).toString(16).padStart(64, '0'),
      plan: 'free',
      name,
      owner: name,
      expires: '2099-01-01T00:00:00Z',
    });
  await writeFile(file, NAMES.map((name, i) => `${line(name, i)}\n`).join(''));
  const { code, stderr } = await runCommand({ TOLLGATE_DATA }, 'keys', 'import', file);
  expect(code, stderr).toBe(0);
});

/** What a command shows on a terminal of `columns` cells. */
async function shownOn(columns: number, words: string, env: NodeJS.ProcessEnv = {}, code = 0): Promise<string> {
  const command = `stty cols ${columns}; exec ${TOLLGATE_IN_SHELL} ${words}`;
  const settings = { TOLLGATE_DATA, TERM: 'xterm-256color', ...env };
  const running = startProcess('script', ['-qec', command, '/dev/null'], { env: settings });
  expect((await running.exit).code).toBe(code);
  return running.stdout.replaceAll('\r\n', '\n');
}

const linesOf = (text: string) => text.split('\n').slice(0, -1);

describe.each([60, 80, 160])('on a terminal of %i cells', (columns) => {
  test('no line of a table is wider, and no name breaks a line', async () => {
    const lines = linesOf(stripVTControlCharacters(await shownOn(columns, 'keys list')));
    expect(lines).toHaveLength(NAMES.length + 1);
    expect(lines[0]).toMatch(/^ID +.*STATE/);
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    for (const line of lines.slice(1)) expect(line).toMatch(/^key_\w{16} .* active$/);
    // What is under STATE begins under it, whatever the name is made of.
    const starts = lines.map((line) => stringWidth(line.slice(0, line.search(/STATE|active/))));
    expect(new Set(starts).size).toBe(1);
    if (columns === 160) expect(lines[1]).toMatch(/ \d+ s ago +in \d+ d /);
    expect(lines[0]!.endsWith(' …')).toBe(columns < 160);
  });

  test('sentences of `doctor` are broken between words', async () => {
    const env = { TOLLGATE_CONFIG: join(TOLLGATE_DATA, 'a-folder-that-is-not-there', 'gateway.yaml') };
    const text = stripVTControlCharacters(await shownOn(columns, 'doctor', env, 1));
    expect(text).toMatch(/^fail {2}settings {5}\S/);
    for (const line of linesOf(text)) {
      // A path has no place to break.
      if (!line.includes(TOLLGATE_DATA)) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    }
  });
});

test('a gateway whose terminal takes nothing any more answers, and ends on SIGTERM (reliability 201)', async () => {
  const env = { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0', NO_COLOR: '1', TOLLGATE_DATA: await temporaryFolder() };
  const command = `echo "pid $$."; exec ${TOLLGATE_IN_SHELL} start`;
  const running = startProcess('script', ['-qec', command, '/dev/null'], { env });
  const [, pid] = await running.until(/pid (\d+)\./);
  const [, origin] = await running.until(/(http:\/\/127\.0\.0\.1:\d+)\/v1\/pets/);
  const ask = async () => expect((await fetch(`${origin}/v1/pets`)).status).toBeGreaterThan(400);
  await ask();
  await running.until(/ 401 GET/);
  // Ctrl-S. What the gateway prints from now on stays in the gateway.
  running.write('\x13');
  for (let unseen = 0; unseen < 50; ) {
    const before = running.stdout;
    await ask();
    unseen = running.stdout === before ? unseen + 1 : 0;
  }
  process.kill(Number(pid), 'SIGTERM');
  expect(await running.exit).toEqual({ code: 0, signal: null });
  expect(running.stdout).not.toContain('Stopped after');
});

describe('colours', () => {
  const list = (env: NodeJS.ProcessEnv) => shownOn(100, 'keys list', env);
  const stable = (text: string) => stripVTControlCharacters(text).replaceAll(/\d+ s ago */g, '');
  let plain: string;
  beforeAll(async () => {
    plain = stable(await list({ NO_COLOR: '1' }));
  });

  test.each([{}, { NO_COLOR: '' }, { FORCE_COLOR: '1' }, { TERM: 'dumb', FORCE_COLOR: '1' }])(
    'are on with %j',
    async (env) => {
      const text = await list(env);
      expect(text).toMatch(/^\x1b\[1mID\x1b\[22m/);
      expect(text).toContain('\x1b[32mactive\x1b[39m');
      expect(stable(text)).toBe(plain);
    },
  );

  test.each([{ NO_COLOR: '1' }, { TERM: 'dumb' }, { FORCE_COLOR: '0' }, { NO_COLOR: '1', FORCE_COLOR: '1' }])(
    'are off with %j',
    async (env) => {
      const text = await list(env);
      expect(text).toMatch(/^ID /);
      expect(text).not.toContain(ESCAPE);
    },
  );
});

describe('in a pipe', () => {
  const HEADER = 'ID\tSECRET\tPLAN\tNAME\tOWNER\tLIMITS\tCREATED\tEXPIRES\tSTATE';

  test('each key is a line with tabs under a header, whole, with times in ISO 8601', async () => {
    const { code, stdout, stderr } = await runTollgate(['keys', 'list'], { env: { TOLLGATE_DATA } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [header, ...rows] = linesOf(stdout);
    expect(header).toBe(HEADER);
    const cells = rows.map((row) => row.split('\t'));
    expect(cells.map((row) => row[3]).sort()).toEqual(NAMES.toSorted());
    for (const row of cells) expect(row.slice(7)).toEqual(['2099-01-01T00:00:00.000Z', 'active']);
    const bare = await runTollgate(['keys', 'list', '--no-header'], { env: { TOLLGATE_DATA } });
    expect(bare.stdout).toBe(`${rows.join('\n')}\n`);
  });

  test('FORCE_COLOR colours it, and NO_COLOR wins', async () => {
    const env = { TOLLGATE_DATA, FORCE_COLOR: '1' };
    const { stdout } = await runTollgate(['keys', 'list'], { env });
    expect(stdout).toContain('\x1b[32mactive\x1b[39m');
    expect(stripVTControlCharacters(stdout).split('\n')[0]).toBe(HEADER);
    const off = await runTollgate(['keys', 'list'], { env: { ...env, NO_COLOR: '1' } });
    expect(off.stdout + off.stderr).not.toContain(ESCAPE);
    expect(off.stdout).toBe(stripVTControlCharacters(stdout));
  });
});
