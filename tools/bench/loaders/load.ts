import type { LoadRequest } from '../request.ts';

/** What a loader asks of one contestant in one turn. */
export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly request: LoadRequest;
  /** What each answer is compared with; null: its status alone is counted. */
  readonly expects: ExpectedAnswer | null;
  /** One token a line, all of one length; the requests take them in turn. */
  readonly tokensFile: string;
  /** How many lines the loads before have taken: this one continues there, or it would ask for the same keys again. */
  readonly taken: number;
  /**
   * Null: each connection asks again as soon as it has its answer. Else each request has its instant, whatever became of those before,
   * and what it takes counts from there: where a contestant stops for a while, all requests are late that were due in the meantime.
   */
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

export interface LoadReport {
  readonly requests: number;
  readonly durationUs: number;
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
  /** How late the loader itself was with its requests, which is part of the above; 0 unless it has a rate. */
  readonly lateP99Us: number;
  /** CPU of the loader for one request; null where it is not known. */
  readonly loaderCpuUs: number | null;
}

const ERRORS = ['connect', 'read', 'write', 'status', 'timeout', 'wrong'] as const;
const NUMBERS = ['requests', 'durationUs', ...ERRORS, 'p50Us', 'p99Us', 'lateP99Us', 'loaderCpuUs'] as const;

/**
 * Reads the line of JSON that a loader writes, whatever else it prints.
 * @param loader its name, for the message
 * @throws Error where there is none, or it lacks a number
 */
export function parseReport(loader: string, output: string): LoadReport {
  const line = /^\{"requests".*\}$/m.exec(output)?.[0];
  if (line === undefined) throw new Error(`${loader} did not report. It printed: ${output.trim().slice(-300)}`);
  const report = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const broken = NUMBERS.find((name) => typeof report[name] !== 'number');
  if (broken !== undefined) throw new Error(`${loader} reported no ${broken}`);
  return report as unknown as LoadReport;
}

/** What went wrong, in words: then the figures say nothing. */
export function faultsOf(report: LoadReport, expects: 'admitted' | 'refused'): string[] {
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
