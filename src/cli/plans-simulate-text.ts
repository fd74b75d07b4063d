import { visible } from '../identify/visible.ts';
import { COUNT_HEADS } from '../simulate/count-heads.ts';
import type { KeyReplay } from '../simulate/replay.ts';
import type { Report } from '../simulate/report.ts';
import type { Counts } from '../simulate/tally.ts';
import type { Terminal } from './command.ts';
import { table } from './table.ts';

/**
 * Tables on a terminal. Elsewhere a line for each plan and each key, cells parted by tabs: the word `plan` or `key`, its
 * name, the plan of a key or the number of keys of a plan, and the counts in the order of the heads. The notes stand apart:
 * they are for whoever reads it, not for `cut`. What a log says is shown so that no terminal obeys it.
 */
export function simulationText(report: Report, keys: readonly KeyReplay[], terminal: Terminal): string {
  const plans = report.byPlan.map(({ plan, keys, counts }) => [visible(plan), String(keys), ...countCells(counts)]);
  const keyRows = keys.map(({ id, plan, counts }) => [visible(id), visible(plan), ...countCells(counts)]);
  if (!terminal.isTerminal) {
    const rows = [...plans.map((row) => ['plan', ...row]), ...keyRows.map((row) => ['key', ...row])];
    return table([], rows, terminal);
  }
  const { totals, byPlan } = report;
  const all = ['all', String(byPlan.reduce((sum, { keys }) => sum + keys, 0)), ...countCells(totals)];
  const { verdicts, bans } = report.differs;
  const parts = [
    `${report.logs.join(', ')} under ${report.plans}: ${report.from} to ${report.to}\n`,
    table(['plan', 'keys', ...COUNT_HEADS], byPlan.length > 1 ? [...plans, all] : plans, terminal),
    verdicts + bans === 0
      ? 'Every verdict and every ban is as it was.\n'
      : `${verdicts} of ${totals.requests} requests would get another verdict.\n`,
    ...(keyRows.length === 0 ? [] : [table(['key', 'plan', ...COUNT_HEADS], keyRows, terminal)]),
  ];
  return parts.join('\n');
}

function countCells({ requests, recorded, simulated, newlyRefused, newlyAdmitted }: Counts): string[] {
  return [
    requests,
    recorded.refused,
    simulated.refused,
    recorded.banned,
    simulated.banned,
    recorded.bans,
    simulated.bans,
    newlyRefused,
    newlyAdmitted,
  ].map(String);
}
