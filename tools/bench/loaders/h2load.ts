import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { percentile } from '../../kit/statistics.ts';
import { withKey } from '../request.ts';
import { findTool } from '../tools/debian.ts';
import { CACHE } from '../world.ts';
import type { Load, LoadReport } from './load.ts';

const run = promisify(execFile);

const WANTED = { program: 'h2load', inPackage: 'usr/bin/h2load', packages: ['nghttp2-client'] };

/**
 * Large bodies in both protocols, which wrk cannot send: each connection has one request at a time, with the first key of the file, and
 * asks again as soon as it has its answer. Statuses alone are compared.
 * @param isHttp2 over TLS; else HTTP/1.1 without
 * @throws Error where h2load cannot be had or fails
 */
export async function runH2load(load: Load, isHttp2: boolean, signal: AbortSignal): Promise<LoadReport> {
  const { connections, seconds, port, request, tokensFile } = load;
  const tool = await findTool(WANTED, CACHE);
  const [key] = (await readFile(tokensFile, 'latin1')).split('\n', 1);
  const { target, headers, body } = withKey(request, key!);
  const file = (name: string) => join(dirname(tokensFile), name);
  await rm(file('h2load.log'), { force: true });
  if (body !== '') await writeFile(file('body'), body);
  const args = [
    ...['-t1', `-c${connections}`, '-m1', `-D${seconds}s`, `--log-file=${file('h2load.log')}`],
    ...Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...(body === '' ? [] : ['-d', file('body')]),
    ...(isHttp2 ? [] : ['--h1']),
    `${isHttp2 ? 'https' : 'http'}://127.0.0.1:${port}${target}`,
  ];
  await run(tool.path, args, {
    env: { ...process.env, ...tool.env },
    timeout: (seconds + 30) * 1_000,
    killSignal: 'SIGKILL',
    signal,
  });
  return parseLog(await readFile(file('h2load.log'), 'latin1'), seconds);
}

/** Reads a line for each request: when it began, its status (-1: it failed), and how long it took, microseconds. */
export function parseLog(text: string, seconds: number): LoadReport {
  const rows = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\t').map(Number));
  const answered = rows.filter(([, status]) => status! > 0);
  const tookUs = answered.map(([, , us]) => us!);
  return {
    ...{ connect: 0, write: 0, timeout: 0, wrong: 0, lateP99Us: 0, loaderCpuUs: null },
    requests: answered.length,
    durationUs: seconds * 1e6,
    read: rows.length - answered.length,
    status: answered.filter(([, status]) => status! > 399).length,
    p50Us: percentile(tookUs, 50),
    p99Us: percentile(tookUs, 99),
  };
}
