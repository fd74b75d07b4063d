import { escapeHtml } from '../../../src/simulate/page.ts';
import type { Outcome } from '../judge/verdict.ts';
import type { BanRow } from '../summary.ts';
import type { Counts } from '../tally.ts';
import { band, plot, px, RIGHT, roundTicks, type Scale, svg, TOP, timeAxis, WIDTH } from './chart.ts';
import { OUTCOMES, type Second, type Timeline } from './series.ts';

const HEIGHT = 320;
const NAMES: Readonly<Record<Outcome, string>> = {
  admitted: 'admitted',
  refused: '429 quota',
  banned: '429 ban',
  unauthenticated: '401',
  uncounted: 'other refusals',
  lost: 'no answer',
};

/** Answers per second, stacked by what they were. */
export function throughputChart({ seconds, stretches }: Timeline): string {
  const totals = seconds.map(({ counts }) => sum(counts));
  const yTicks = roundTicks(Math.max(...totals));
  const top = yTicks.at(-1)!;
  const bars = (x: Scale, y: Scale) =>
    seconds
      .flatMap(({ counts }, s) => {
        let below = 0;
        const title = OUTCOMES.filter((it) => counts[it] > 0).map((it) => `${NAMES[it]} ${counts[it]}`);
        return OUTCOMES.filter((outcome) => counts[outcome] > 0).map((outcome) => {
          const from = y(below);
          below += counts[outcome];
          const width = Math.max(x(s + 1) - x(s) - 1, 0.5);
          return `<rect class="${outcome}" x="${px(x(s))}" y="${px(y(below))}" width="${px(width)}" height="${px(from - y(below))}"><title>second ${s}: ${title.join(', ')}</title></rect>`;
        });
      })
      .join('');
  return plot({
    label: 'Answers per second',
    seconds: seconds.length,
    height: HEIGHT,
    stretches,
    yTicks,
    yText: String,
    share: (value) => value / top,
    content: bars,
  });
}

const LOWEST_MS = 0.1;

/** Three percentiles, on a scale on which ten times as slow is one step up. */
export function latencyChart({ seconds, stretches }: Timeline): string {
  const worst = Math.max(1, ...seconds.map(({ p99 }) => p99 ?? 0));
  const decades = Math.ceil(Math.log10(worst / LOWEST_MS));
  const yTicks = Array.from({ length: decades + 1 }, (_, i) => LOWEST_MS * 10 ** i);
  const share = (ms: number) => Math.log10(Math.max(ms, LOWEST_MS) / LOWEST_MS) / decades;
  const lines = (x: Scale, y: Scale) =>
    (['p50', 'p95', 'p99'] as const).map((name) => line(name, seconds, x, y)).join('');
  return plot({
    label: 'Latency percentiles in milliseconds',
    seconds: seconds.length,
    height: HEIGHT,
    stretches,
    yTicks,
    yText: (ms) => `${Number(ms.toPrecision(1))} ms`,
    share,
    content: lines,
  });
}

/** Broken where a second had no answers. */
function line(name: 'p50' | 'p95' | 'p99', seconds: readonly Second[], x: Scale, y: Scale): string {
  let path = '';
  const dots: string[] = [];
  for (const [s, second] of seconds.entries()) {
    const ms = second[name];
    if (ms === null) continue;
    const isGap = s === 0 || seconds[s - 1]![name] === null;
    path += `${isGap ? 'M' : 'L'}${px(x(s + 0.5))} ${px(y(ms))}`;
    const title = `<title>second ${s}: ${name} ${ms.toFixed(2)} ms</title>`;
    dots.push(`<circle class="${name} dot" cx="${px(x(s + 0.5))}" cy="${px(y(ms))}" r="3">${title}</circle>`);
  }
  return `<path class="${name} line" d="${path}"/>${dots.join('')}`;
}

const ROW = 30;

/** What became of the requests of each plan: shares, with the numbers beside. */
export function plansChart(plans: ReadonlyMap<string, Counts>): string {
  const left = 110;
  const right = 320;
  const rows = [...plans].map(([plan, counts], i) => {
    const total = sum(counts);
    const y = 8 + i * ROW;
    let x = left;
    const bars = OUTCOMES.filter((outcome) => counts[outcome] > 0).map((outcome) => {
      const width = (counts[outcome] / total) * (WIDTH - left - right);
      const bar = `<rect class="${outcome}" x="${px(x)}" y="${y}" width="${px(Math.max(width - 1, 0.5))}" height="20"><title>${NAMES[outcome]} ${counts[outcome]}</title></rect>`;
      x += width;
      return bar;
    });
    const numbers = OUTCOMES.filter((outcome) => counts[outcome] > 0).map((it) => `${counts[it]} ${NAMES[it]}`);
    return (
      `<text class="row" x="${left - 10}" y="${y + 15}" text-anchor="end">${escapeHtml(plan)}</text>${bars.join('')}` +
      `<text class="tick" x="${WIDTH - right + 12}" y="${y + 15}">${numbers.join(', ')}</text>`
    );
  });
  return svg('Outcomes by plan', 16 + plans.size * ROW, rows.join('\n'));
}

/** Each ban as a bar from its beginning to its end, a row for each key. */
export function bansChart(bans: readonly BanRow[], { startedAtMs, seconds, stretches }: Timeline): string {
  const rows = [...Map.groupBy(bans, ({ scenario, subject }) => `${scenario}: ${subject}`)];
  const left = 190;
  const bottom = TOP + rows.length * ROW;
  const x: Scale = (s) => left + (s / seconds.length) * (WIDTH - left - RIGHT);
  const end = WIDTH - RIGHT;
  const drawn = rows.map(([name, ofSubject], i) => {
    const y = TOP + i * ROW;
    const bars = ofSubject.map(({ number, fromMs, untilMs }) => {
      const from = x((fromMs - startedAtMs) / 1000);
      const to = Math.min(x((untilMs - startedAtMs) / 1000), end);
      const title = `<title>ban ${number}, about ${((untilMs - fromMs) / 1000).toFixed(1)} s</title>`;
      return (
        `<rect class="banned" x="${px(from)}" y="${y + 5}" width="${px(Math.max(to - from - 1, 2))}" height="20">${title}</rect>` +
        `<text class="number" x="${px((from + to) / 2)}" y="${y + 20}" text-anchor="middle">${to - from > 9 ? number : ''}</text>`
      );
    });
    return `<text class="row" x="${left - 10}" y="${y + 20}" text-anchor="end">${escapeHtml(name)}</text>${bars.join('')}`;
  });
  const bands = stretches.map((stretch, i) => band(stretch, i, x, bottom)).join('');
  return svg('Bans', bottom + 44, `${bands}${drawn.join('\n')}${timeAxis(seconds.length, x, bottom)}`);
}

export function outcomeLegend(): string {
  return legend(OUTCOMES.map((outcome) => [outcome, NAMES[outcome]]));
}

export function legend(entries: readonly (readonly [colour: string, name: string])[]): string {
  const items = entries.map(([colour, name]) => `<span class="key ${colour}">${escapeHtml(name)}</span>`);
  return `<p class="legend">${items.join('')}</p>`;
}

function sum(counts: Counts): number {
  return OUTCOMES.reduce((total, outcome) => total + counts[outcome], 0);
}
