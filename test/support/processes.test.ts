import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { eventually } from './conditions.ts';
import { cleanEnvironment, startProcess, temporaryFolder } from './processes.ts';

const node = (script: string, env = {}) => startProcess(process.execPath, ['-e', script], { env });
const runs = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('a process of ours', () => {
  test('gets nothing of the environment of the person who runs the tests', async () => {
    process.env.REDIS_URL = 'redis://somebody-elses';
    process.env.PORT = '8080';
    try {
      expect(cleanEnvironment({ LOG_LEVEL: 'info' })).not.toHaveProperty('REDIS_URL');
      const running = node('console.log(JSON.stringify(process.env))', { KEY_PEPPER: 'given' });
      await running.exit;
      const seen = JSON.parse(running.stdout);
      expect(seen).toMatchObject({ KEY_PEPPER: 'given', PATH: process.env.PATH });
      expect(seen).not.toHaveProperty('REDIS_URL');
      expect(seen).not.toHaveProperty('PORT');
      const passedOn = ['NODE_EXTRA_CA_CERTS', 'NODE_COMPILE_CACHE'].filter((name) => process.env[name] !== undefined);
      expect(Object.keys(seen).filter((name) => /VITEST|TOLLGATE|NODE_/.test(name))).toEqual(passedOn);
    } finally {
      delete process.env.REDIS_URL;
      delete process.env.PORT;
    }
  });
});

describe('what a test started', () => {
  const left: { pid: number; folder: string }[] = [];
  afterAll(() => {
    for (const { pid, folder } of left) expect([runs(pid), existsSync(folder)]).toEqual([false, false]);
    expect(left).toHaveLength(1);
  });

  test('is not left to the next one', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    left.push({ pid: node('setInterval(() => {}, 1000)').pid, folder });
  });

  test('really is gone', () => {
    expect(left.map(({ pid, folder }) => [runs(pid), existsSync(folder)])).toEqual([[false, false]]);
  });

  test('is gone too when the process that runs the tests is killed', async () => {
    const folder = await temporaryFolder();
    const worker = join(folder, 'worker.mjs');
    await writeFile(
      worker,
      `import { endWithParent, endWithUs } from ${JSON.stringify(join(import.meta.dirname, 'end-with-us.ts'))};
      import { spawn } from 'node:child_process';
      endWithParent();
      const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
      endWithUs(child.pid, ${JSON.stringify(folder)});
      console.log('child ' + child.pid);
      setInterval(() => {}, 1000);`,
    );
    const runner = node(`require('node:child_process').fork(${JSON.stringify(worker)})`);
    const child = Number((await runner.until(/child (\d+)\n/))[1]);
    expect(runs(child)).toBe(true);
    runner.signal('SIGKILL');
    await eventually(() => expect([runs(child), existsSync(folder)]).toEqual([false, false]));
  });

  test('ends although it ignores SIGTERM', async () => {
    const stubborn = node(
      'process.on("SIGTERM", () => console.log("no")); setInterval(() => {}, 1000); console.log("up")',
    );
    await stubborn.until(/up/);
    expect(await stubborn.stop(100)).toEqual({ code: null, signal: 'SIGKILL' });
    expect(stubborn.stdout).toContain('no');
  });
});
