import { leftOpen, restingResources } from '../../support/open-resources.ts';
import { type Attack, findSlowhttptest, runSlowhttptest, type ToolResult } from './slowhttptest.ts';
import { setStage } from './stage.ts';

export interface SlowReport {
  /** A line for each attack, or one that says why there is none. */
  readonly lines: readonly string[];
  readonly problems: readonly string[];
}

const NAMES: Readonly<Record<Attack, string>> = { H: 'slow headers', B: 'slow body', X: 'slow read', R: 'ranges' };
/** A deadline is kept within 250 ms; the tool takes about a second to open its connections. */
const LATE_MS = 2_000;

/** Runs slowhttptest in its four modes against a gateway of its own. */
export async function reportSlowhttptest(cacheFolder: string): Promise<SlowReport> {
  const found = await findSlowhttptest(cacheFolder);
  if ('reason' in found) {
    const line = `slowhttptest is not available (${found.reason}); npm test makes the attacks itself, without the tool.`;
    return { lines: [line], problems: [] };
  }
  const stage = await setStage();
  try {
    const { headers, request, write } = stage.deadlinesMs;
    const lines: string[] = [];
    const problems: string[] = [];
    const resting = await restingResources(stage.gateway);
    for (const [attack, deadlineMs] of [
      ['H', headers],
      ['B', request],
      ['X', write],
      ['R', 0],
    ] as const) {
      const result = await runSlowhttptest(found.path, attack, stage);
      lines.push(lineOf(result, deadlineMs));
      problems.push(...problemsOf(result, deadlineMs).map((it) => `slowhttptest -${attack}: ${it}`));
    }
    const left = await leftOpen(stage.gateway, resting, { withinMs: 10_000, beforeEach: stage.closeIdle });
    problems.push(...left.map((it) => `slowhttptest left behind: ${it}`), ...stage.gateway.defects);
    return { lines, problems };
  } finally {
    await stage.stop();
  }
}

function lineOf({ attack, exitStatus, goneAfterMs, health }: ToolResult, deadlineMs: number): string {
  const { requests, errors, p99Ms } = health;
  const gone = goneAfterMs === null ? 'never seen to end' : `over after ${goneAfterMs.toFixed(0)} ms`;
  const served = `${requests} good requests, ${errors.length} errors, p99 ${p99Ms.toFixed(1)} ms`;
  return `slowhttptest -${attack} (${NAMES[attack]}): ${gone}, deadline ${deadlineMs} ms; ${served}; "${exitStatus}".`;
}

function problemsOf({ attack, exitStatus, isServiceAvailable, goneAfterMs, health }: ToolResult, deadlineMs: number) {
  const problems = health.errors.map((it) => `a well-behaved client got ${it}`);
  if (health.p99Ms > 1_000) problems.push(`a well-behaved client waited ${health.p99Ms.toFixed(0)} ms (p99)`);
  if (!isServiceAvailable) problems.push('the tool found the service unavailable');
  if (goneAfterMs === null) problems.push('its connections were not cut');
  if (goneAfterMs !== null && goneAfterMs > deadlineMs + LATE_MS)
    problems.push(`cut after ${goneAfterMs.toFixed(0)} ms`);
  // A client that does not read does not see that it was cut: its window is shut.
  if (attack !== 'X' && exitStatus !== 'No open connections left') problems.push(exitStatus);
  return problems;
}
