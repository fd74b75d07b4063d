import { escapeHtml } from './html.ts';
import { linearAxis, plot, px, type Run, type Scale } from './plot.ts';

/** What a request is counted as. */
export type Outcome = 'admitted' | 'refused' | 'banned' | 'unauthenticated' | 'uncounted' | 'lost';

export type Counts = Record<Outcome, number>;

/** In the order in which charts stack them. */
export const OUTCOMES: readonly Outcome[] = ['admitted', 'refused', 'banned', 'unauthenticated', 'uncounted', 'lost'];

export const OUTCOME_NAMES: Readonly<Record<Outcome, string>> = {
  admitted: 'admitted',
  refused: '429 quota',
  banned: '429 ban',
  unauthenticated: '401',
  uncounted: 'other refusals',
  lost: 'no answer',
};

export function noCounts(): Counts {
  return { admitted: 0, refused: 0, banned: 0, unauthenticated: 0, uncounted: 0, lost: 0 };
}

export function totalOf(counts: Readonly<Counts>): number {
  return OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0);
}

export function outcomeLegend(): string {
  return legend(OUTCOMES.map((outcome) => [outcome, OUTCOME_NAMES[outcome]]));
}

export function legend(entries: readonly (readonly [colour: string, name: string])[]): string {
  const items = entries.map(([colour, name]) => `<span class="key ${colour}">${escapeHtml(name)}</span>`);
  return `<p class="legend">${items.join('')}</p>`;
}

/** A run of half an hour is drawn in as many bars as fit. */
const MAX_BARS = 600;

interface Bar {
  readonly atS: number;
  readonly lengthS: number;
  readonly counts: Readonly<Counts>;
}

/** Answers per second, stacked by what they were. @param seconds the counts of each */
export function answersChart(seconds: readonly Readonly<Counts>[], run: Run): string {
  const bars = barsOf(seconds);
  return plot(run, {
    label: 'Answers per second',
    axis: linearAxis(Math.max(1, ...bars.map(({ counts }) => totalOf(counts)))),
    content: (x, y) => bars.map((bar) => stack(bar, x, y)).join(''),
  });
}

/** A bar for each second, or for the mean of several where there are too many. */
function barsOf(seconds: readonly Readonly<Counts>[]): Bar[] {
  const lengthS = Math.max(1, Math.ceil(seconds.length / MAX_BARS));
  const bars: Bar[] = [];
  for (let atS = 0; atS < seconds.length; atS += lengthS) {
    const part = seconds.slice(atS, atS + lengthS);
    const counts = noCounts();
    for (const it of OUTCOMES) counts[it] = part.reduce((sum, second) => sum + second[it], 0) / part.length;
    bars.push({ atS, lengthS, counts });
  }
  return bars;
}

function stack({ atS, lengthS, counts }: Bar, x: Scale, y: Scale): string {
  let below = 0;
  const present = OUTCOMES.filter((outcome) => counts[outcome] > 0);
  const title = present.map((it) => `${OUTCOME_NAMES[it]} ${counts[it].toFixed(0)}`).join(', ');
  return present
    .map((outcome) => {
      const from = y(below);
      below += counts[outcome];
      const width = Math.max(x(atS + lengthS) - x(atS) - 0.5, 0.5);
      return `<rect class="${outcome}" x="${px(x(atS))}" y="${px(y(below))}" width="${px(width)}" height="${px(from - y(below))}"><title>second ${atS}: ${title}</title></rect>`;
    })
    .join('');
}
