import type { PlanReplay } from '../replay.ts';
import type { Bucket, Counts, Verdicts } from '../tally.ts';

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

export interface Times {
  readonly stepMs: number;
  readonly buckets: readonly Bucket[];
}

/** Requests over time, stacked by verdict. The charts of both sides have the same scale. */
export function timesChart({ stepMs, buckets }: Times, side: Side): string {
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
export function plansChart(plans: readonly PlanReplay[]): string {
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

export function legend(): string {
  const keys = PARTS.map(
    (part) =>
      `<span><svg viewBox="0 0 10 10"><rect class="${part}" width="10" height="10"/></svg>${NAMES[part]}</span>`,
  );
  return `<p class="legend">${keys.join('')}</p>`;
}

/** `2026-11-21 10:00`, UTC. */
export function timeText(ms: number): string {
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
export type Cell = string | { readonly text: string; readonly mark?: string };

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
