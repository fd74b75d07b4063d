import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spreadOf } from '../../kit/statistics.ts';
import { findTool } from '../tools/debian.ts';
import { CACHE } from '../world.ts';

/**
 * The calls that move bytes, open and close. How often a thread waits for them (epoll_wait, futex) depends on how fast it is and
 * on how the threads happen to meet.
 */
const COUNTED =
  'read,write,readv,writev,pread64,pwrite64,sendto,sendmsg,recvfrom,recvmsg,shutdown,close,accept4,socket,connect,openat';

/**
 * Counts the system calls of a process and its threads for the median of the requests that `work` sends one after the other; null
 * if strace is missing or may not attach. In the median are no calls of timers, of which a slow machine sees more for each request.
 */
export async function callsOfMedianRequest(pid: number, work: () => Promise<void>): Promise<number | null> {
  const strace = await findTool({ program: 'strace', inPackage: 'usr/bin/strace', packages: ['strace'] }, CACHE).catch(
    () => null,
  );
  if (strace === null) return null;
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-strace-'));
  const file = join(folder, 'calls');
  try {
    const args = ['-f', '-s', '16', '-e', `trace=${COUNTED}`, '-e', 'signal=none', '-o', file, '-p', String(pid)];
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
    return medianIn(await readFile(file, 'utf8'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Each request begins where the gateway has read its first line. @throws Error if there is none */
export function medianIn(trace: string): number {
  const counts: number[] = [];
  for (const line of trace.split('\n')) {
    if (/\bread\b.*"GET \/v1\//.test(line)) counts.push(0);
    // The rest of a call that another thread interrupted is no further call.
    if (counts.length > 0 && /^\d+ +\w+\(/.test(line)) counts[counts.length - 1]!++;
  }
  const spread = spreadOf(counts);
  if (spread === null) throw new Error(`strace saw no request: ${trace.slice(-300)}`);
  return spread.median;
}
