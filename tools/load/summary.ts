import { table } from '../../src/cli/terminal/printed-table.ts';
import { percentile } from '../kit/statistics.ts';
import { bansOf } from './judge/bans.ts';
import { CHECKS, type Check, type Finding } from './judge/notes.ts';
import { outcomeOf } from './judge/verdict.ts';
import type { Part, ScenarioResult } from './run.ts';

/** One row for each part of the run. */
export interface PartRow {
  readonly name: string;
  readonly requests: number;
  readonly perSecond: number;
  readonly admitted: number;
  readonly refused: number;
  readonly banned: number;
  readonly unauthenticated: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface CheckRow {
  readonly check: Check;
  readonly promise: string;
  /** How often it could have been broken. 0: this run says nothing about it. */
  readonly looked: number;
  readonly faults: number;
}

export interface BanRow {
  readonly scenario: string;
  readonly subject: string;
  readonly number: number;
  /** Unix milliseconds, when the first answer told of it. */
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The run in numbers: what the tables, the JSON and the report are made of. */
export interface Summary {
  readonly about: string;
  readonly ok: boolean;
  readonly parts: readonly PartRow[];
  readonly checks: readonly CheckRow[];
  readonly findings: readonly (Finding & { readonly scenario: string })[];
  readonly bans: readonly BanRow[];
}

export function summarise(about: string, results: readonly ScenarioResult[]): Summary {
  const findings = results.flatMap(({ scenario, notes }) =>
    notes.findings.map((finding) => ({ scenario: scenario.name, ...finding })),
  );
  const checks = Object.entries(CHECKS).map(([name, promise]) => {
    const check = name as Check;
    return {
      check,
      promise,
      looked: results.reduce((sum, { notes }) => sum + notes.lookedAt(check), 0),
      faults: findings.reduce((sum, finding) => sum + (finding.check === check ? finding.times : 0), 0),
    };
  });
  const parts = results.flatMap((result) => result.parts);
  return {
    about,
    ok: findings.length === 0 && parts.some(({ tally }) => tally.requests > 0),
    parts: parts.map(partRow),
    checks,
    findings,
    bans: parts.flatMap(bansOfPart),
  };
}

/** @param isTerminal tables on a terminal, tab-separated lines elsewhere */
export function summaryText({ about, ok, parts, checks, findings }: Summary, isTerminal: boolean): string {
  const load = table(
    ['load', 'requests', 'per s', '2xx', '429 quota', '429 ban', '401', 'failed', 'p50 ms', 'p99 ms'],
    parts.map((it) => [
      it.name,
      ...[it.requests, it.perSecond, it.admitted, it.refused, it.banned, it.unauthenticated, it.failed].map(String),
      it.p50Ms.toFixed(1),
      it.p99Ms.toFixed(1),
    ]),
    { isTerminal },
  );
  const promises = table(
    ['promise', 'looked at', 'broken'],
    checks.map(({ promise, looked, faults }) => [promise, String(looked), looked === 0 ? 'not tried' : String(faults)]),
    { isTerminal },
  );
  const broken = findings.map(
    ({ scenario, subject, sentence, times }) =>
      `- ${scenario}, ${subject}: ${sentence}${times > 1 ? ` (${times} times)` : ''}\n`,
  );
  const verdict = ok ? 'Every promise held.' : `${findings.length} faults were found.`;
  return `${about}\n\n${load}\n${promises}\n${broken.join('')}${broken.length > 0 ? '\n' : ''}${verdict}\n`;
}

function partRow({ scenario, whole, startedAtMs, endedAtMs, observed, tally }: Part): PartRow {
  const latencies = observed.flatMap(({ exchanges }) =>
    exchanges.filter(({ status }) => status !== 0).map(({ latencyMs }) => latencyMs),
  );
  const { admitted, refused, banned, unauthenticated, uncounted, lost } = tally.counts;
  return {
    name: whole ? scenario : `${scenario} (no abusers)`,
    requests: tally.requests,
    perSecond: Math.round(tally.requests / ((endedAtMs - startedAtMs) / 1000)),
    admitted,
    refused,
    banned,
    unauthenticated,
    failed: uncounted + lost,
    p50Ms: percentile(latencies, 50),
    p99Ms: percentile(latencies, 99),
  };
}

function bansOfPart({ scenario, observed }: Part): BanRow[] {
  return observed.flatMap(({ subject, exchanges }) =>
    bansOf(exchanges.filter((it) => outcomeOf(it) === 'banned')).map(({ number, firstReceivedAtMs, untilS }) => ({
      scenario,
      subject: subject.name,
      number,
      fromMs: firstReceivedAtMs,
      untilMs: untilS * 1000,
    })),
  );
}
