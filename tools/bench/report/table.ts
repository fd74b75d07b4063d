import { alignedLines } from '../../kit/report/text-table.ts';
import type { Results, ScenarioResult } from '../results.ts';
import { loaderText, startText, tableOf } from './figures.ts';
import { targetsOf } from './targets.ts';

/** All that a run has shown, for a terminal. */
export function tables(results: Results): string {
  const parts = results.scenarios.map(textOf);
  const { start } = results;
  if (start !== null) parts.push(`start\n  ${startText(start)}\n`);
  const measured = targetsOf(results).filter(({ met }) => met !== 'not measured');
  const targets = measured.map(({ name, found, wanted, met }) => `  ${met.padEnd(12)} ${name}: ${found} (${wanted})\n`);
  return `\n${parts.join('\n')}\ntargets\n${targets.join('')}`;
}

function textOf(result: ScenarioResult): string {
  const table = tableOf(result);
  const { scenario, entries, missing, ratePerSecond } = result;
  const rows = [['', ...table.columns], ...table.rows.map(({ name, cells }) => [name, ...cells])];
  const lines = alignedLines(rows, (column) => column > 0);
  const rate = ratePerSecond === null ? '' : `, fixed rate ${ratePerSecond}/s`;
  const notes = [
    ...[loaderText(result)].filter((text) => text !== ''),
    ...entries.flatMap(({ title, faults }) => faults.map((fault) => `INVALID ROUNDS of ${title}: ${fault}`)),
    ...missing.map(({ title, reason }) => `missing: ${title}: ${reason}`),
  ];
  return `${scenario.name}: ${scenario.title}${rate}\n${[...lines, ...notes].map((line) => `  ${line}\n`).join('')}`;
}
