import type { KeyReplay, PlanReplay } from './replay.ts';
import { COUNT_HEADS, type Report } from './report.ts';
import type { Bucket, Counts, Verdicts } from './tally.ts';

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
  ['plan', 'new limits', 'keys', 'keys newly refused', 'keys banned', 'would be keys banned', ...COUNT_HEADS],
  byPlan.map(({ plan, limits, keys, keysNewlyRefused, keysBannedThen, keysBannedNow, counts }) => [
    plan,
    { text: limits ?? 'none: the plan is gone' },
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

const WIDTH = 960;
const LEFT = 64;
const RIGHT = 8;
const TOP = 10;
const HEIGHT = 180;
const BOTTOM = 24;
/** Space that a time label needs. A label that begins closer to the right edge is left out. */
const LAST_LABEL = 80;

/** In the order in which they are stacked. */
const PARTS = ['admitted', 'refused', 'banned', 'unserved'] as const;
const NAMES = {
  admitted: 'admitted',
  refused: 'refused for the quota',
  banned: 'refused under a ban',
  unserved: 'not served',
};

type Side = 'recorded' | 'simulated';

interface Times {
  readonly stepMs: number;
  readonly buckets: readonly Bucket[];
}

/** Requests over time, stacked by verdict. The charts of both sides have the same scale. */
function timesChart({ stepMs, buckets }: Times, side: Side): string {
  const top = roundUp(Math.max(1, ...buckets.map(({ counts }) => counts.requests)));
  const y = (value: number) => TOP + HEIGHT * (1 - value / top);
  const width = (WIDTH - LEFT - RIGHT) / buckets.length;
  const bars = buckets.map(({ fromMs, counts }, i) => {
    const title = `${timeText(fromMs)}: ${countsText(counts, side)}`;
    return stack(counts, side, (part, below, above) => {
      const at = `x="${px(LEFT + i * width)}" y="${px(y(above))}" width="${px(Math.max(width - 1, 0.5))}"`;
      return `<rect class="${part}" ${at} height="${px(y(below) - y(above))}"><title>${title}</title></rect>`;
    });
  });
  const ticks = [0, top / 2, top].map((value) => {
    const line = `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(y(value))}" y2="${px(y(value))}"/>`;
    return `${line}<text class="tick" x="${LEFT - 8}" y="${px(y(value) + 4)}" text-anchor="end">${short(value)}</text>`;
  });
  const every = Math.ceil(buckets.length / 8);
  const times = buckets
    .filter((_, i) => i % every === 0)
    .map(({ fromMs }, i) => {
      const x = LEFT + i * every * width;
      if (x > WIDTH - LAST_LABEL) return '';
      return `<text class="tick" x="${px(x)}" y="${TOP + HEIGHT + 16}">${axisText(fromMs, stepMs)}</text>`;
    });
  const label = side === 'recorded' ? 'Requests over time as they were' : 'Requests over time under the new plans';
  return svg(label, TOP + HEIGHT + BOTTOM, [...ticks, ...bars.flat(), ...times].join(''));
}

const ROW = 22;
const PLAN_LEFT = 150;
const PLAN_RIGHT = 300;

/** Two bars for each plan, recorded and simulated: the share of each verdict, with the numbers beside them. */
function plansChart(plans: readonly PlanReplay[]): string {
  const rows = plans.flatMap(({ plan, counts }, i) => {
    const y = 4 + i * (2 * ROW + 14);
    const name = `<text x="${PLAN_LEFT - 68}" y="${y + ROW + 2}" text-anchor="end">${escapeHtml(clip(plan))}</text>`;
    return [name, planBar(counts, 'recorded', y), planBar(counts, 'simulated', y + ROW)];
  });
  return svg('What became of the requests of each plan', plans.length * (2 * ROW + 14) + 4, rows.join(''));
}

function planBar(counts: Counts, side: Side, y: number): string {
  const scale = (WIDTH - PLAN_LEFT - PLAN_RIGHT) / Math.max(counts.requests, 1);
  const bars = stack(counts, side, (part, below, above) => {
    const at = `x="${px(PLAN_LEFT + below * scale)}" y="${y}" width="${px(Math.max((above - below) * scale, 0.5))}"`;
    return `<rect class="${part}" ${at} height="${ROW - 4}"><title>${countsText(counts, side)}</title></rect>`;
  });
  const label = side === 'recorded' ? 'was' : 'would be';
  const texts =
    `<text class="tick" x="${PLAN_LEFT - 6}" y="${y + 14}" text-anchor="end">${label}</text>` +
    `<text class="tick" x="${WIDTH - PLAN_RIGHT + 10}" y="${y + 14}">${countsText(counts, side)}</text>`;
  return bars.join('') + texts;
}

function legend(): string {
  const keys = PARTS.map(
    (part) =>
      `<span><svg viewBox="0 0 10 10"><rect class="${part}" width="10" height="10"/></svg>${NAMES[part]}</span>`,
  );
  return `<p class="legend">${keys.join('')}</p>`;
}

/** `2026-11-21 10:00`, UTC. */
function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ').replace(/:00$/, '');
}

function stack(counts: Counts, side: Side, draw: (part: string, below: number, above: number) => string): string[] {
  let below = 0;
  const drawn: string[] = [];
  for (const [part, value] of partsOf(counts, side)) {
    if (value === 0) continue;
    drawn.push(draw(part, below, below + value));
    below += value;
  }
  return drawn;
}

function partsOf(counts: Counts, side: Side): [part: (typeof PARTS)[number], value: number][] {
  const verdicts: Verdicts = counts[side];
  const { admitted, refused, banned } = verdicts;
  const values = { admitted, refused, banned, unserved: side === 'simulated' ? counts.unserved : 0 };
  return PARTS.map((part) => [part, values[part]]);
}

function countsText(counts: Counts, side: Side): string {
  const parts = partsOf(counts, side).filter(([, value]) => value > 0);
  return parts.length === 0 ? 'none' : parts.map(([part, value]) => `${value} ${part}`).join(', ');
}

function svg(label: string, height: number, content: string): string {
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${label}">${content}</svg>`;
}

/** The next number of the form 1, 2 or 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((digit) => digit * power).find((round) => round >= value)!;
}

function short(value: number): string {
  if (value >= 1e6) return `${value / 1e6} M`;
  return value >= 1e4 ? `${value / 1e3} k` : String(value);
}

function axisText(ms: number, stepMs: number): string {
  const text = new Date(ms).toISOString();
  if (stepMs >= 43_200_000) return text.slice(0, 10);
  return stepMs >= 60_000 ? text.slice(5, 16).replace('T', ' ') : text.slice(11, 19);
}

function clip(text: string): string {
  return text.length > 12 ? `${text.slice(0, 11)}…` : text;
}

function px(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** A cell of a table. `mark` is the CSS class of a highlighted cell. */
type Cell = string | { readonly text: string; readonly mark?: string };

/** Escapes untrusted text for use between tags or in an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A table that scrolls horizontally if the page is too narrow for it. */
export function tableOf(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cellHtml = (cell: Cell) =>
    typeof cell === 'string'
      ? `<td>${escapeHtml(cell)}</td>`
      : `<td class="${cell.mark ?? 'text'}">${escapeHtml(cell.text)}</td>`;
  const head = heads.map((text) => `<th>${escapeHtml(text)}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map(cellHtml).join('')}</tr>`).join('\n');
  return `<div class="wide"><table>\n<tr>${head}</tr>\n${body}\n</table></div>`;
}
