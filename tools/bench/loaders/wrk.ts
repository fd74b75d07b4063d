import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { messageOf } from '../request.ts';
import type { Tool } from '../tools/debian.ts';
import { type Load, type LoadReport, parseReport } from './load.ts';

const run = promisify(execFile);

const SCRIPT = join(import.meta.dirname, 'wrk.lua');

/** @throws Error where wrk did not report */
export async function runWrk(wrk: Tool, load: Load, signal: AbortSignal): Promise<LoadReport> {
  const { connections, seconds, port, request, expects, tokensFile, taken, ratePerSecond } = load;
  const own = [
    // At an even rate each connection has its thread, see wrk.lua.
    `-t${ratePerSecond === null ? 1 : connections}`,
    `-c${connections}`,
    `-d${seconds}s`,
    '--timeout',
    '10s',
    '-s',
    SCRIPT,
    `http://127.0.0.1:${port}`,
  ];
  const told = [messageOf(request, port), tokensFile, ...[taken, ratePerSecond ?? 0, connections].map(String)];
  if (expects !== null) {
    told.push(String(expects.status), String(expects.bodyBytes ?? -1), ...(expects.field ?? ['', '']));
  }
  const { stdout } = await run(wrk.path, [...own, '--', ...told], {
    env: { ...process.env, ...wrk.env },
    // Should it hang, the round is lost and not the run.
    timeout: (seconds + 30) * 1_000,
    killSignal: 'SIGKILL',
    signal,
  });
  return parseReport('wrk', stdout);
}
