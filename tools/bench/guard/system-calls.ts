import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findTool } from '../tools/debian.ts';
import { CACHE } from '../world.ts';

/**
 * The calls that move bytes, open and close. How often a thread waits for them (epoll_wait, futex) depends on how fast it is and
 * on how the threads happen to meet.
 */
const COUNTED =
  'read,write,readv,writev,pread64,pwrite64,sendto,sendmsg,recvfrom,recvmsg,shutdown,close,accept4,socket,connect,openat';

/** Counts the system calls of a process and its threads while `work` runs; null if strace is missing or may not attach. */
export async function countSystemCalls(pid: number, work: () => Promise<void>): Promise<number | null> {
  const strace = await findTool({ program: 'strace', inPackage: 'usr/bin/strace', packages: ['strace'] }, CACHE).catch(
    () => null,
  );
  if (strace === null) return null;
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-strace-'));
  const file = join(folder, 'counts');
  try {
    const args = ['-f', '-c', '-U', 'calls,name', '-e', `trace=${COUNTED}`, '-o', file, '-p', String(pid)];
    const tracer = spawn(strace.path, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ...strace.env },
    });
    let words = '';
    const attached = new Promise<boolean>((resolve) => {
      tracer.stderr.setEncoding('utf8').on('data', (text: string) => {
        words += text;
        if (/attached/.test(words)) resolve(true);
      });
      tracer.once('error', () => resolve(false));
      tracer.once('close', () => resolve(false));
    });
    if (!(await attached)) return null;
    const closed = once(tracer, 'close');
    try {
      await work();
    } finally {
      tracer.kill('SIGINT');
      await closed;
    }
    return totalOf(await readFile(file, 'utf8'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Reads the summary of `strace -c -U calls,name`; without any call it is empty. */
export function totalOf(summary: string): number {
  if (summary === '') return 0;
  const total = /^\s*(\d+)\s+total\s*$/m.exec(summary)?.[1];
  if (total === undefined) throw new Error(`strace printed no total: ${summary.slice(-300)}`);
  return Number(total);
}
