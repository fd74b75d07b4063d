import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { TOLLGATE } from '../support/processes.ts';
import { runCommand } from '../support/run-command.ts';
import { exchange, newFolder } from './service.ts';

const [PROGRAM, ...WORDS] = TOLLGATE;

interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly errors: string;
}

function run(env: Record<string, string>) {
  const child: ChildProcess = spawn(PROGRAM!, [...WORDS, 'pets'], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env },
    cwd: newFolder(),
  });
  let out = '';
  let errors = '';
  child.stdout?.on('data', (chunk) => (out += chunk));
  child.stderr?.on('data', (chunk) => (errors += chunk));
  const ended: Promise<Ended> = once(child, 'close').then(([exitCode, signal]) => ({ exitCode, signal, out, errors }));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, ended };
}

/** Starts the command and waits for the line that says where it listens. */
async function start(env: Record<string, string>) {
  const running = run({ PORT: '0', ...env });
  const line = await Promise.race([
    once(running.child.stdout!, 'data').then(String),
    running.ended.then(({ errors }) => Promise.reject(new Error(`ended at once: ${errors}`))),
  ]);
  const port = Number(/^Pet service on http:\/\/127\.0\.0\.1:(\d+), animals kept in .*pets\.db\n$/.exec(line)?.[1]);
  expect(port, line).toBeGreaterThan(0);
  return { ...running, port };
}

describe('tollgate pets', () => {
  test('an animal answered with 201 is there after the process is killed and started again', async () => {
    const env = { TOLLGATE_DATA: join(newFolder(), 'made', 'on', 'demand') };
    const first = await start(env);
    const created: string[] = [];
    for (const categoryId of ['9007199254740993', '-1', '9223372036854775807']) {
      const body = `{"name":"Näme 🐈","categoryId":${categoryId}}`;
      const answer = await exchange(first.port, 'POST', '/v1/pets', { body });
      expect(answer.status).toBe(201);
      created.push(answer.text);
    }
    first.child.kill('SIGKILL');
    expect((await first.ended).signal).toBe('SIGKILL');

    const second = await start(env);
    const { text } = await exchange(second.port, 'GET', '/v1/pets', {});
    expect(text).toMatch(/^\[\{"id":1,"name":"Biscuit",/);
    expect(text.endsWith(`${created.join(',')}]`)).toBe(true);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it with 0, an idle connection notwithstanding', async (signal) => {
    const { child, ended, port } = await start({ TOLLGATE_DATA: newFolder() });
    await fetch(`http://127.0.0.1:${port}/healthz`);
    child.kill(signal);
    expect(await ended).toMatchObject({ exitCode: 0, errors: '' });
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  test('a port that is taken is refused with what to do, exit 1', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const { exitCode, out, errors } = await run({ PORT: String(port), TOLLGATE_DATA: newFolder() }).ended;
    expect([exitCode, out]).toEqual([1, '']);
    expect(errors).toMatch(
      /^The pet service cannot listen on 127\.0\.0\.1:\d+: another program .*\. Stop .*PORT.*\.\n$/,
    );
  });

  test.each(['x', '-1', '65536', '80.5', '0x50', ' '])('PORT=%j is refused before anything is made', async (PORT) => {
    const folder = join(newFolder(), 'data');
    const { code, stderr } = await runCommand({ PORT, TOLLGATE_DATA: folder }, 'pets');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^PORT is '.*'; it must be a whole number from 0 to 65535\.\n$/);
    expect(existsSync(folder)).toBe(false);
  });

  test('a data folder that cannot be made is refused with what to do', async () => {
    const env = { PORT: '0', TOLLGATE_DATA: join(import.meta.filename, 'data') };
    const { code, stderr } = await runCommand(env, 'pets');
    expect([code, stderr]).toEqual([1, expect.stringContaining('Set TOLLGATE_DATA to another folder')]);
  });

  test('--help tells about PORT, HOST and TOLLGATE_DATA, an unknown option is wrong usage', async () => {
    const help = await runCommand({}, 'pets', '--help');
    expect(help.code).toBe(0);
    for (const name of ['PORT', 'HOST', 'TOLLGATE_DATA']) expect(help.stdout).toContain(name);
    expect((await runCommand({}, 'pets', '--port', '1')).code).toBe(2);
  });
});
