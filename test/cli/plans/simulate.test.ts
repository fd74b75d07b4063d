import { appendFile, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { Progress } from '../../../src/cli/terminal/output.ts';
import { lineOf, linesOf } from '../../simulate/recorded.ts';
import { allowance } from '../../support/allowance.ts';
import { startProcess, TOLLGATE, temporaryFolder } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';

const T = Date.UTC(2026, 8, 21, 14);
const OLD = 'plans:\n  free: { limits: { minute: 10 } }\n';
const NEW = 'plans:\n  free: { limits: { minute: 4 }, bans: { after: 2, first: 1m } }\n';

let folder: string;
let lines: readonly string[];
const inFolder = (name: string) => join(folder, name);
const simulate = (...words: string[]) => runCommand({}, 'plans', 'simulate', '--plans', inFolder('new.yaml'), ...words);

beforeAll(async () => {
  folder = await temporaryFolder();
  const free = { ...allowance({ minute: 10 }), plan: 'free' };
  const calls = Array.from({ length: 12 }, (_, i) => ({ atMs: T + i * 1_000 }));
  lines = [
    '{"level":30,"time":"2026-09-21T14:00:00.000Z","msg":"serving"}\n',
    ...linesOf('key_busy', free, calls),
    ...linesOf('key_calm', free, calls.slice(0, 3)),
  ];
  await writeFile(inFolder('old.yaml'), OLD);
  await writeFile(inFolder('new.yaml'), NEW);
  await writeFile(inFolder('access.ndjson'), lines.join(''));
});

const EXPECTED = {
  requests: 15,
  recorded: { admitted: 13, refused: 2, banned: 0, bans: 0 },
  simulated: { admitted: 7, refused: 1, banned: 7, bans: 1 },
  newlyRefused: 6,
  newlyAdmitted: 0,
  unserved: 0,
};

describe('tollgate plans simulate', () => {
  test('--json is one object: counts in all, by plan, and by each key of which anything is refused', async () => {
    const { code, stdout } = await simulate('--log', inFolder('access.ndjson'), '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      from: '2026-09-21T14:00:00.000Z',
      to: '2026-09-21T14:00:11.000Z',
      isEstimate: false,
      lines: { lines: 15, foreign: 1 },
      inForce: { free: { limits: { minute: 10 }, isInferred: true } },
      headline: '6 more refused (2 → 8), 1 more ban; better for 0, worse for 1 key.',
      net: {
        worse: { customers: 0, keysOfCustomers: 0, ownKeys: 1 },
        moved: 0,
      },
      moved: null,
      totals: EXPECTED,
      byPlan: [{ plan: 'free', limits: 'minute 4', keys: 2, keysNewlyRefused: 1, keysBannedNow: 1, counts: EXPECTED }],
      keys: [{ id: 'key_busy', plan: 'free', requests: 12, newlyRefused: 6, bannedAt: '2026-09-21T14:00:05.000Z' }],
      callers: [{ id: 'key_busy', keys: null, plan: 'free', requests: 12, bannedAt: '2026-09-21T14:00:05.000Z' }],
    });
  });

  test('reads plain and gzip, several files, gzip files put together, and standard input, to the same counts', async () => {
    const half = Math.floor(lines.length / 2);
    const [first, second] = [lines.slice(0, half).join(''), lines.slice(half).join('')];
    await writeFile(inFolder('first.log'), gzipSync(first));
    // No line feed at the end of the one, and Windows line ends in the other.
    await writeFile(inFolder('second.log'), second.trimEnd().replaceAll('\n', '\r\n'));
    await writeFile(inFolder('both.gz'), gzipSync(first));
    await appendFile(inFolder('both.gz'), gzipSync(second));
    const ways = [
      ['--log', inFolder('second.log'), '--log', inFolder('first.log')],
      ['--log', inFolder('both.gz')],
    ];
    for (const words of ways) {
      expect(JSON.parse((await simulate(...words, '--json')).stdout).totals).toEqual(EXPECTED);
    }
    const words = [...TOLLGATE, 'plans', 'simulate', '--plans', inFolder('new.yaml'), '--log', '-', '--json'];
    const piped = startProcess('sh', ['-c', 'cat "$0" | "$@"', inFolder('both.gz'), ...words]);
    expect((await piped.exit).code).toBe(0);
    expect(JSON.parse(piped.stdout).totals).toEqual(EXPECTED);
  });

  test('says if the plans of --from-plans do not reproduce the log, in a note and in `baseline`', async () => {
    await writeFile(
      inFolder('unlike.yaml'),
      'plans:\n  free: { limits: { minute: 10 }, bans: { after: 1, first: 1m } }\n',
    );
    const log = ['--log', inFolder('access.ndjson')];
    const fits = await simulate(...log, '--from-plans', inFolder('old.yaml'), '--json');
    expect(JSON.parse(fits.stdout)).toMatchObject({ baseline: { verdicts: 0, bans: 0 }, notes: [] });
    const differs = await simulate(...log, '--from-plans', inFolder('unlike.yaml'));
    expect(differs.stderr).toMatch(
      /^note: Under \S+unlike\.yaml itself, .* [1-9] of 15 requests get another verdict than/m,
    );
    expect(JSON.parse((await simulate(...log, '--json')).stdout).baseline).toBeNull();
  });

  test('is a table on a terminal, and a line for each plan and key elsewhere, with notes apart', async () => {
    const words = ['plans', 'simulate', '--plans', inFolder('new.yaml'), '--log', inFolder('access.ndjson')];
    const shown = await runCommand({ TEST_TERMINAL: 'yes' }, ...words);
    expect(shown.stdout).toMatch(
      /^PLAN +KEYS +REQUESTS +REFUSED +WOULD BE REFUSED +BANNED +WOULD BE BANNED +BANS +WOULD BE BANS +NEWLY/m,
    );
    expect(shown.stdout).toMatch(/^free +2 +15 +2 +1 +0 +7 +0 +1 +6 +0$/m);
    expect(shown.stdout).toMatch(/^6 more refused \(2 → 8\), 1 more ban; better for 0, worse for 1 key\.\n/);
    expect(shown.stdout).toContain('\nfree: minute 4\n');
    const piped = await runCommand({}, ...words);
    expect(piped.stdout.split('\n').map((line) => line.split('\t').slice(0, 4))).toEqual([
      ['ROW', 'NAME', 'KEYS OR PLAN', 'REQUESTS'],
      ['plan', 'free', '2', '15'],
      ['key', 'key_busy', 'free', '12'],
      [''],
    ]);
    expect(piped.stderr).toMatch(/^note: The limits in force were read off the log/);
    expect((await runCommand({}, ...words, '--from-plans', inFolder('old.yaml'))).stderr).toBe('');
    expect((await runCommand({}, ...words, '--keys', '0')).stdout).not.toContain('key_busy');
  });

  test('what cannot be used is told in a sentence', async () => {
    const log = inFolder('access.ndjson');
    await writeFile(inFolder('cut.gz'), gzipSync(lines.join('')).subarray(0, -12));
    await writeFile(inFolder('other.log'), 'nothing of ours\n');
    await writeFile(inFolder('bad.yaml'), 'plans: 1\n');
    await symlink('access.ndjson', inFolder('link.log'));
    const refusals: [words: string[], code: number, sentence: RegExp][] = [
      [
        ['--log', inFolder('cut.gz')],
        1,
        /cut\.gz ends in the middle of its gzip data; unpack what is there with .+\.\n$/,
      ],
      [['--log', inFolder('other.log')], 1, /other\.log: there is no line of a request .+\n$/],
      [['--log', inFolder('absent')], 2, /^--log: .+absent does not exist\.\n$/],
      [['--log', folder], 2, /is a directory, not a file\.\n$/],
      [['--log', '-', '--log', '-'], 2, /^--log - is given twice\.\n$/],
      [['--log', log, '--keys', 'all'], 2, /^--keys is 'all'; it must be a whole number/],
      [['--log', log, '--from-plans', inFolder('bad.yaml')], 1, /bad\.yaml:1:8: plans: must be a mapping/],
      [['--log', log, '--log', join(folder, '.', 'access.ndjson')], 2, /^--log .+access\.ndjson is given twice\.\n$/],
      [['--log', log, '--log', inFolder('link.log')], 2, /^--log .+link\.log is given twice\.\n$/],
      [['--log', log, '--html', inFolder('report.html')], 2, /^Unknown option '--html'/],
      [[], 2, /^--log is missing/],
    ];
    for (const [words, code, sentence] of refusals) {
      const came = await simulate(...words);
      expect({ words, code: came.code, stdout: came.stdout }).toEqual({ words, code, stdout: '' });
      expect(came.stderr).toMatch(sentence);
    }
    expect(await runCommand({}, 'plans', 'simulate', '--log', log)).toMatchObject({ code: 2, stdout: '' });
    expect(await readFile(log, 'utf8')).toBe(lines.join(''));
  });

  test('what a log says is shown, and no terminal obeys it; a byte order mark hides no line', async () => {
    const log = inFolder('control.log');
    const free = { ...allowance({ minute: 1 }), plan: 'free\u001b[2J' };
    const calls = Array.from({ length: 9 }, (_, i) => ({ atMs: T + i }));
    await writeFile(log, `\uFEFF${linesOf('key_\u001b[31m\t\n1', free, calls).join('')}`);
    const { stdout, stderr } = await simulate('--log', log);
    expect(stdout).toContain('key\tkey_\\u{1b}[31m\\u{9}\\u{a}1\tfree\\u{1b}[2J\t9\t');
    expect(stderr).toContain('the plan free\\u{1b}[2J is not in');
    expect(stdout + stderr).not.toContain('\u001b');
  });

  test('a line that was cut off is left out, and told', async () => {
    const log = inFolder('cut.log');
    await writeFile(log, lines.join('') + lineOf({}).slice(0, 200));
    const { stdout, stderr } = await simulate('--log', log);
    expect(stdout).toContain('plan\tfree\t2\t15\t');
    expect(stderr).toContain('note: 1 line left out, which could not be read.');
  });
});

describe('a progress bar', () => {
  const drawn = (isTerminal: boolean, momentsMs: readonly number[]) => {
    let [shown, nowMs] = ['', 0];
    const error = (text: string) => {
      shown += text;
    };
    const bar = new Progress({ env: {}, out: error, error, isTerminal }, () => nowMs);
    for (nowMs of momentsMs) bar.show('reading', 25, 100, (amount) => `${amount} MB`);
    bar.end();
    return shown;
  };

  test('shows on a terminal, from a second on, how much is done, and leaves nothing behind', () => {
    expect(drawn(true, [0, 500, 1_500, 1_600])).toBe(
      `\r\x1b[2Kreading ${'█'.repeat(8)}${'░'.repeat(22)} 25 % 25 MB of 100 MB, 1 s\r\x1b[2K`,
    );
    expect(drawn(true, [0, 900])).toBe('');
  });

  test('is not there elsewhere', () => {
    expect(drawn(false, [0, 1_500, 3_000])).toBe('');
  });
});
