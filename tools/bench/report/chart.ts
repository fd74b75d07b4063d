import { escapeHtml } from '../../kit/report/html.ts';

/** One bar of a chart, with the range of the rounds as a thin line over it. */
export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  /** Ours stands out. */
  readonly isOurs: boolean;
}

const WIDTH = 760;
const NAMES = 300;
const NUMBERS = 70;
const ROW = 26;
const TOP = 44;
const FONT = 'font-family="system-ui, sans-serif" font-size="13"';

/**
 * A chart of horizontal bars as SVG, readable on light and dark pages.
 * @param unit put after each number
 */
export function barChart(title: string, unit: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ max }) => max), Number.MIN_VALUE);
  const scale = (value: number) => (value / most) * (WIDTH - NAMES - NUMBERS);
  const height = TOP + bars.length * ROW + 10;
  const rows = bars.map((bar, i) => rowOf(bar, TOP + i * ROW, unit, scale));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeHtml(title)}" ${FONT}>
<rect width="${WIDTH}" height="${height}" rx="6" fill="#ffffff"/>
<text x="12" y="26" font-weight="600" fill="#1f2328">${escapeHtml(title)}</text>
${rows.join('\n')}
</svg>
`;
}

function rowOf(
  { name, value, min, max, isOurs }: Bar,
  y: number,
  unit: string,
  scale: (value: number) => number,
): string {
  const middle = y + ROW / 2;
  const end = NAMES + scale(Math.max(value, max)) + 6;
  const line = `M${fixed(NAMES + scale(min))} ${middle}H${fixed(NAMES + scale(max))}`;
  return [
    `<text x="${NAMES - 8}" y="${middle + 4}" text-anchor="end" fill="#1f2328">${escapeHtml(name)}</text>`,
    `<rect x="${NAMES}" y="${y + 5}" width="${fixed(scale(value))}" height="${ROW - 10}" rx="2" fill="${isOurs ? '#0969da' : '#8c959f'}"/>`,
    `<path d="${line}" stroke="#1f2328" stroke-width="1.5"/>`,
    `<text x="${fixed(end)}" y="${middle + 4}" fill="#1f2328">${text(value)} ${escapeHtml(unit)}</text>`,
  ].join('\n');
}

function text(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function fixed(value: number): string {
  return value.toFixed(1);
}
