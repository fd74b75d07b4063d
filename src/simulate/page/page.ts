import type { KeyReplay } from '../replay.ts';
import { COUNT_HEADS, type Report } from '../report.ts';
import type { Counts } from '../tally.ts';
import { type Cell, escapeHtml, legend, plansChart, type Times, tableOf, timesChart, timeText } from './charts.ts';

/** The report as one self-contained HTML file, without scripts, fonts or images from elsewhere. */
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
  byPlan.map(({ plan, keys, keysNewlyRefused, keysBannedThen, keysBannedNow, counts }) => [
    plan,
    String(keys),
    String(keysNewlyRefused),
    ...pair(keysBannedThen, keysBannedNow),
    ...cellsOf(counts),
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

/** Light or dark as the reader's system prefers. Each verdict has the same colour in all charts. */
const STYLE = `
:root { color-scheme: light dark; --paper: #fff; --ink: #1b2330; --soft: #5a6576; --rule: #dfe4eb; --admitted: #4f8fcc;
  --refused: #dca11d; --banned: #bd3f2b; --unserved: #6d7683; --more: #bd3f2b; --less: #16734a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e6eaf1; --soft: #9ca8b8; --rule: #2d3541;
  --admitted: #4a83bd; --refused: #e3b34a; --banned: #e5705a; --unserved: #8d97a6; --more: #ef8b7a; --less: #5cc796; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; } h3 { font-size: .9rem; margin: 1rem 0 0; }
p, li { color: var(--soft); max-width: 50rem; margin: .25rem 0; } strong { color: var(--ink); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .55rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; } th:first-child, td:first-child, td.text { text-align: left; }
.more { color: var(--more); } .less { color: var(--less); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.tick { fill: var(--soft); } .grid { stroke: var(--rule); }
.admitted { fill: var(--admitted); } .refused { fill: var(--refused); } .banned { fill: var(--banned); }
.unserved { fill: var(--unserved); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .85rem; }
.legend svg { display: inline; width: .8em; height: .8em; margin-right: .4em; }
`;
