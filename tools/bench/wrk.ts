import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type LoadRequest, messageOf } from './request.ts';
import type { Tool } from './tools/debian.ts';

const run = promisify(execFile);

const SCRIPT = join(import.meta.dirname, 'load.lua');

export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly request: LoadRequest;
  /** What each answer is compared with; null: its status alone is counted. */
  readonly expects: ExpectedAnswer | null;
  readonly tokensFile: string;
  readonly draw: Draw;
  /** Null: each connection asks again as soon as it has its answer. */
  readonly ratePerSecond: number | null;
}

/** An answer as it comes over the connection. */
export interface ExpectedAnswer {
  readonly status: number;
  /** Null: any length. */
  readonly bodyBytes: number | null;
  /** Its name as the gateway writes it; null: any. */
  readonly field: readonly [name: string, value: string] | null;
}

/** How a request gets its key: all in turn, each as likely as another, or few of them most of the time. */
export type Draw = 'turns' | 'uniform' | 'zipf';

/** What load.lua reports. */
export interface WrkReport {
  readonly requests: number;
  readonly durationUs: number;
  readonly bytes: number;
  /** Answers with a status above 399. */
  readonly status: number;
  readonly connect: number;
  readonly read: number;
  readonly write: number;
  readonly timeout: number;
  /** Answers that are not the expected one; 0 where none are compared. */
  readonly wrong: number;
  readonly p50Us: number;
  readonly p99Us: number;
}

const ERRORS = ['connect', 'read', 'write', 'status', 'timeout', 'wrong'];
const NUMBERS = ['requests', 'durationUs', 'bytes', ...ERRORS, 'p50Us', 'p99Us'];

/** @throws Error where wrk did not report */
export async function runWrk(wrk: Tool, load: Load, signal: AbortSignal): Promise<WrkReport> {
  const { connections, seconds, port, request, expects, tokensFile, draw, ratePerSecond } = load;
  const own = [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '--timeout',
    '10s',
    '-s',
    SCRIPT,
    `http://127.0.0.1:${port}`,
  ];
  const told = [messageOf(request, port), tokensFile, draw, String(ratePerSecond ?? 0)];
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
  return parseReport(stdout);
}

/** Reads the line that load.lua writes below wrk's own words. */
export function parseReport(output: string): WrkReport {
  const line = /^\{"requests".*\}$/m.exec(output)?.[0];
  if (line === undefined) throw new Error(`wrk did not report. It printed: ${output.trim().slice(-300)}`);
  const report = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const broken = NUMBERS.find((name) => typeof report[name] !== 'number');
  if (broken !== undefined) throw new Error(`wrk reported no ${broken}`);
  return report as unknown as WrkReport;
}

/** What went wrong, in words: then the figures say nothing. */
export function faultsOf(report: WrkReport, expects: 'admitted' | 'refused'): string[] {
  const faults: string[] = [];
  for (const kind of ['connect', 'read', 'write', 'timeout'] as const) {
    if (report[kind] > 0) faults.push(`${report[kind]} ${kind} errors`);
  }
  if (report.wrong > 0) faults.push(`${report.wrong} answers other than the expected one`);
  if (report.requests === 0) faults.push('no answers');
  if (expects === 'admitted' && report.status > 0) faults.push(`${report.status} answers with an error status`);
  const passed = report.requests - report.status;
  if (expects === 'refused' && passed > 0) faults.push(`${passed} answers that were no refusal`);
  return faults;
}
