import type { Results } from '../results.ts';
import { FEATURES_NAME } from '../scenarios.ts';
import { sectionOf } from './markdown.ts';

/**
 * The table of features is a block of the report that is written by itself: a run of them alone leaves the rest as it
 * stands, and a run of the others leaves the block.
 */
const BEGIN = '<!-- features: begin -->';
const END = '<!-- features: end -->';

/** Whether a run measured the features and nothing else. */
export function isFeaturesAlone({ scenarios, start }: Results): boolean {
  return start === null && scenarios.length > 0 && scenarios.every(({ scenario }) => scenario.name === FEATURES_NAME);
}

/**
 * The block of a run.
 * @param before the report that is to be replaced, whose block stays where the run did not measure features; null: none
 */
export function featuresBlock(results: Results, before: string | null): string {
  const measured = results.scenarios.find(({ scenario }) => scenario.name === FEATURES_NAME);
  if (measured === undefined)
    return (
      blockOf(before ?? '') ??
      wrapped(['## What each feature costs', `Not measured: \`${commandOf({ rounds: 4, seconds: 2 })}\`.`])
    );
  const [heading, ...rest] = sectionOf(measured, []);
  return wrapped([heading!, about(results), ...rest]);
}

/** The report with another block; it comes last where the report has none. */
export function withBlock(report: string, block: string): string {
  const old = blockOf(report);
  return old === null ? `${report.trimEnd()}\n\n${block}\n` : report.replace(old, () => block);
}

function about({ date, machine, rounds, seconds }: Results): string {
  return `${date}, ${machine}: ${rounds} rounds of ${seconds} s. Measured again by
\`${commandOf({ rounds, seconds })}\`.

Each row is a gateway of its own, all of them in turn: with one feature on and everything else as in \`admitted\`, or
without any. "× without" is the ratio to the gateway without the feature under the same load, which differs only where the
feature needs it (a key elsewhere, an Origin); "× plain GET" is the ratio to the first row. Before it is measured, each
feature is shown to be on, where an answer can show it. Every answer of the load is compared with the one expected: a round
with another answer counts for nothing. p99 "fixed" is at half of the slowest row's throughput. "Redis bytes" is what Redis
holds of the counters of the key (MEMORY USAGE of \`tg:a:*\`), with those of its customer and groups.`;
}

function commandOf({ rounds, seconds }: Pick<Results, 'rounds' | 'seconds'>): string {
  return `npm run bench -- --scenario features --rounds ${rounds} --seconds ${seconds} --report`;
}

function wrapped(parts: readonly string[]): string {
  return [BEGIN, ...parts, END].join('\n\n');
}

function blockOf(report: string): string | null {
  const from = report.indexOf(BEGIN);
  const to = report.indexOf(END, from);
  return from === -1 || to === -1 ? null : report.slice(from, to + END.length);
}
