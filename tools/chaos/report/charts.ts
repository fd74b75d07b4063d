import { type PlotOptions, plot, px, roundTicks, type Scale, TOP } from '../../load/report/chart.ts';
import { legend } from '../../load/report/charts.ts';
import { OUTCOMES } from '../answers.ts';
import type { Second, Timeline } from '../timeline.ts';
import { NAMES } from './marks.ts';

const HEIGHT = 300;
/** A run of half an hour is drawn in as many bars as fit. */
const BARS = 600;
const LOWEST_MS = 0.1;

/** Answers per second, stacked by what they were. */
export function answersChart(timeline: Timeline): string {
  const bars = barsOf(timeline);
  const total = ({ counts }: Bar) => OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0);
  const yTicks = roundTicks(Math.max(1, ...bars.map(total)));
  const top = yTicks.at(-1)!;
  return drawn(timeline, {
    label: 'Answers per second',
    yTicks,
    yText: String,
    share: (value) => value / top,
    content: (x, y) => bars.map((bar) => stack(bar, x, y)).join(''),
  });
}

/** The longest wait of each second, on a scale on which ten times as long is one step up. */
export function waitsChart(timeline: Timeline): string {
  const bars = barsOf(timeline).filter(({ longestMs }) => longestMs > 0);
  const worst = Math.max(1, ...bars.map(({ longestMs }) => longestMs));
  const decades = Math.max(1, Math.ceil(Math.log10(worst / LOWEST_MS)));
  const points = bars.map(({ atS, longestMs }) => [atS, longestMs] as const);
  return drawn(timeline, {
    label: 'Longest wait in milliseconds',
    yTicks: Array.from({ length: decades + 1 }, (_, i) => LOWEST_MS * 10 ** i),
    yText: (ms) => `${Number(ms.toPrecision(1))} ms`,
    share: (ms) => Math.log10(Math.max(ms, LOWEST_MS) / LOWEST_MS) / decades,
    content: (x, y) => line('waits', points, x, y),
  });
}

/** What the gateways held, where somebody looked; else nothing. */
export function holdingsChart(timeline: Timeline): string {
  const looks = timeline.seconds.flatMap(({ rssMib, files }, s) =>
    rssMib === null || files === null ? [] : [{ s, rssMib, files }],
  );
  if (looks.length === 0) return '';
  const yTicks = roundTicks(Math.max(...looks.flatMap(({ rssMib, files }) => [rssMib, files])));
  const top = yTicks.at(-1)!;
  const chart = drawn(timeline, {
    label: 'Memory and open files of all gateways',
    yTicks,
    yText: String,
    share: (value) => value / top,
    content: (x, y) =>
      line(
        'memory',
        looks.map(({ s, rssMib }) => [s, rssMib] as const),
        x,
        y,
      ) +
      line(
        'files',
        looks.map(({ s, files }) => [s, files] as const),
        x,
        y,
      ),
  });
  return `<h2>What the gateways hold</h2>
${legend([
  ['memory', 'MiB of memory, all gateways'],
  ['files', 'open files, all gateways'],
])}
${chart}`;
}

type Drawing = Pick<PlotOptions, 'label' | 'yTicks' | 'yText' | 'share' | 'content'>;

function drawn({ seconds, scenarios, faults }: Timeline, drawing: Drawing): string {
  const content = (x: Scale, y: Scale) => {
    const shades = faults.map(({ name, fromS, toS }) => {
      const width = Math.max(x(toS) - x(fromS), 1);
      const height = y(drawing.yTicks[0]!) - TOP;
      return `<rect class="fault" x="${px(x(fromS))}" y="${TOP}" width="${px(width)}" height="${px(height)}"><title>${name}</title></rect>`;
    });
    return shades.join('') + drawing.content(x, y);
  };
  return plot({ ...drawing, content, seconds: Math.max(seconds.length, 1), height: HEIGHT, stretches: scenarios });
}

interface Bar extends Pick<Second, 'counts' | 'longestMs'> {
  readonly atS: number;
  readonly lengthS: number;
}

/** Seconds, or the mean of so many of them that there are not too many bars. */
function barsOf({ seconds }: Timeline): Bar[] {
  const lengthS = Math.max(1, Math.ceil(seconds.length / BARS));
  const bars: Bar[] = [];
  for (let atS = 0; atS < seconds.length; atS += lengthS) {
    const part = seconds.slice(atS, atS + lengthS);
    const mean = OUTCOMES.map(
      (it) => [it, part.reduce((sum, { counts }) => sum + counts[it], 0) / part.length] as const,
    );
    const counts = Object.fromEntries(mean) as Second['counts'];
    bars.push({ atS, lengthS, counts, longestMs: Math.max(...part.map(({ longestMs }) => longestMs)) });
  }
  return bars;
}

function stack({ atS, lengthS, counts }: Bar, x: Scale, y: Scale): string {
  let below = 0;
  const present = OUTCOMES.filter((outcome) => counts[outcome] > 0);
  const title = present.map((it) => `${NAMES[it]} ${counts[it].toFixed(0)}`).join(', ');
  return present
    .map((outcome) => {
      const from = y(below);
      below += counts[outcome];
      const width = Math.max(x(atS + lengthS) - x(atS) - 0.5, 0.5);
      return `<rect class="${outcome}" x="${px(x(atS))}" y="${px(y(below))}" width="${px(width)}" height="${px(from - y(below))}"><title>second ${atS}: ${title}</title></rect>`;
    })
    .join('');
}

function line(name: string, points: readonly (readonly [s: number, value: number])[], x: Scale, y: Scale): string {
  const path = points.map(([s, value], i) => `${i === 0 ? 'M' : 'L'}${px(x(s + 0.5))} ${px(y(value))}`).join('');
  return `<path class="${name} line" d="${path}"/>`;
}
