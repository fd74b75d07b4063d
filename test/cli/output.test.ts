import { existsSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { type Running, runTollgate, startProcess, TOLLGATE, temporaryFolder } from '../support/processes.ts';
import { entriesOf, runCommand } from '../support/run-command.ts';

// Attack: a reader that pauses. A pipe holds 64 KiB; what a command has written beyond that is still in its memory when its
// work is done, and is lost if the process ends then.

const KEYS = 1_500;
/** Longer than a command stays for what its libraries wait for. */
const PAUSE_MS = 1_500;

/** A store whose export is several times what a pipe holds. */
let TOLLGATE_DATA: string;
let whole: string;

beforeAll(async () => {
  TOLLGATE_DATA = await temporaryFolder();
  const file = join(TOLLGATE_DATA, 'keys.ndjson');
  const line = (_: unknown, i: number) =>
    JSON.stringify({ sha256: i.toString(16).padStart(64, '0'), plan: 'free', notes: 'n'.repeat(100) });
  writeFileSync(file, `${Array.from({ length: KEYS }, line).join('\n')}\n`);
  expect(await runCommand({ TOLLGATE_DATA }, 'keys', 'import', file)).toMatchObject({ code: 0 });
  whole = (await runCommand({ TOLLGATE_DATA }, 'keys', 'export')).stdout;
  expect(whole.length).toBeGreaterThan(200_000);
});

/**
 * Runs `tollgate keys export` into a pipe whose reader takes 20,000 bytes and then, after a word from the test, does what
 * it is told. Standard error has the id of the command's process, and its exit code when it has ended.
 */
async function exportInto(reader: string) {
  const writer = `sh -c 'echo "pid $$" >&2; exec "$@"' sh "$@" keys export </dev/null; echo "exit $?" >&2`;
  const script = `exec 3<&0; { ${writer}; } | { head -c 20000; read -r go <&3; ${reader}; }`;
  const running = startProcess('sh', ['-c', script, 'sh', ...TOLLGATE], { env: { TOLLGATE_DATA } });
  // On standard error alone: what stands before it on standard output may end within a line.
  const pid = await running.until(() => /^pid (\d+)$/m.exec(running.stderr)?.[1]);
  await running.until(() => running.stdout.length >= 20_000);
  return { running, pid: Number(pid) };
}

const ended = (running: Running) => running.until(() => /^exit (\d+)$/m.exec(running.stderr)?.[1]);

test('a reader that pauses gets all of a backup, and the command ends when it has', async () => {
  const { running } = await exportInto('cat');
  // The pause is the attack itself: a command that does not wait for its reader ends within it.
  await delay(PAUSE_MS);
  expect(running.stderr).not.toContain('exit');
  running.write('go\n');
  expect(await ended(running)).toBe('0');
  await running.exit;
  expect(running.stdout.length).toBe(whole.length);
  expect(running.stdout).toBe(whole);
});

test('a reader that goes away in its pause ends the command', async () => {
  const { running } = await exportInto('exec <&-; cat <&3');
  running.write('go\n');
  expect(await ended(running)).toBe('0');
});

test('a signal ends a command whose reader pauses', async () => {
  const { running, pid } = await exportInto('cat');
  process.kill(pid, 'SIGTERM');
  expect(await ended(running)).toBe(String(128 + constants.signals.SIGTERM));
});

test('NO_COLOR takes no tables away', async () => {
  const env = { TOLLGATE_DATA, NO_COLOR: '1', NODE_OPTIONS: '--import=data:text/javascript,process.stdout.isTTY=true' };
  const { stdout } = await runTollgate(['keys', 'list'], { env });
  expect(stdout).toMatch(/^ID +SECRET +PLAN /);
});

// Attack: the disk is full, and an operator takes a stack trace for a change that was not made.
test.skipIf(!existsSync('/dev/full'))(
  'a change whose output cannot be written says that it was made, and where it is recorded',
  async () => {
    const env = { TOLLGATE_DATA: await temporaryFolder() };
    const words = [...TOLLGATE, 'keys', 'create', '--plan', 'free'];
    const command = startProcess('sh', ['-c', 'exec "$@" >/dev/full', 'sh', ...words], { env });
    expect((await command.exit).code).toBe(1);
    expect(command.stderr).toMatch(/^Standard output cannot be written, .*ENOSPC.*`tollgate audit`.*\n$/);
    const changes = entriesOf((await runCommand(env, 'audit', '--json')).stdout);
    expect(changes).toEqual([expect.objectContaining({ action: 'key.create', outcome: 'done' })]);
  },
);
