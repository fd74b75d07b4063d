import { COUNT_HEADS } from '../count-heads.ts';
import type { KeyReplay } from '../replay.ts';
import type { Report } from '../report.ts';
import type { Counts } from '../tally.ts';
import { legend, plansChart, type Times, timesChart, timeText } from './charts.ts';
import { type Cell, escapeHtml, tableOf } from './html.ts';
import { STYLE } from './style.ts';

/** The report as one HTML file that needs nothing else: no script, no font, no picture from elsewhere. */
export function reportPage(report: Report, times: Times, keys: readonly KeyReplay[]): string {
  const { totals, byPlan } = report;
  const title = `${report.logs.join(', ')} under ${report.plans}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
<p>${totals.requests} requests, ${timeText(Date.parse(report.from))} to ${timeText(Date.parse(report.to))} UTC. ${headline(report)}</p>
<h2>Over time</h2>
${legend()}
<h3>As it was</h3>
${timesChart(times, 'recorded')}
<h3>Under the new plans</h3>
${timesChart(times, 'simulated')}
<h2>By plan</h2>
${plansChart(byPlan)}
${tableOf(
  ['plan', 'keys', 'keys newly refused', 'keys banned', 'would be', ...COUNT_HEADS],
  byPlan.map((it) => [
    it.plan,
    String(it.keys),
    String(it.keysNewlyRefused),
    ...pair(it.keysBannedThen, it.keysBannedNow),
    ...cellsOf(it.counts),
  ]),
)}
<h2>Keys for which most would change</h2>
${keysTable(keys)}
<h2>What to bear in mind</h2>
<ul>${[...report.notes, ...ALWAYS].map((note) => `<li>${escapeHtml(note)}</li>`).join('')}</ul>
</body>
</html>
`;
}

const ALWAYS = [
  'Windows, strikes and bans start from nothing at the first line: what had been used before it is not known.',
  'Callers are replayed as they called. One that is refused more would have come at other times.',
];

function headline({ totals, byPlan }: Report): string {
  const keys = byPlan.reduce((sum, { keysNewlyRefused }) => sum + keysNewlyRefused, 0);
  if (totals.newlyRefused === 0 && totals.newlyAdmitted === 0 && totals.unserved === 0)
    return 'No verdict of an admitted request would change.';
  const sentences = [
    `<strong>${totals.newlyRefused}</strong> that were admitted would be refused, of <strong>${keys}</strong> ${keys === 1 ? 'key' : 'keys'}`,
    `<strong>${totals.newlyAdmitted}</strong> that were refused would be admitted`,
    `<strong>${totals.simulated.bans}</strong> bans instead of <strong>${totals.recorded.bans}</strong>`,
  ];
  return `${sentences.join('; ')}.`;
}

function keysTable(keys: readonly KeyReplay[]): string {
  if (keys.length === 0) return '<p>Nothing was refused, and nothing would be.</p>';
  const rows = keys.map(({ id, plan, counts, bannedAtMs }) => [
    id,
    { text: plan },
    ...cellsOf(counts),
    bannedAtMs === null ? '' : timeText(bannedAtMs),
  ]);
  return tableOf(['key', 'plan', ...COUNT_HEADS, 'first banned'], rows);
}

function cellsOf({ requests, recorded, simulated, newlyRefused, newlyAdmitted }: Counts): Cell[] {
  return [
    String(requests),
    ...pair(recorded.refused, simulated.refused),
    ...pair(recorded.banned, simulated.banned),
    ...pair(recorded.bans, simulated.bans),
    String(newlyRefused),
    String(newlyAdmitted),
  ];
}

function pair(then: number, now: number): Cell[] {
  if (then === now) return [String(then), String(now)];
  return [String(then), { text: String(now), mark: now > then ? 'more' : 'less' }];
}
