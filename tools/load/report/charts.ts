import { escapeHtml } from '../../kit/report/html.ts';
import { type Counts, OUTCOME_NAMES, OUTCOMES, totalOf } from '../../kit/report/outcomes.ts';
import {
  band,
  durationAxis,
  plot,
  px,
  RIGHT,
  type Run,
  type Scale,
  svg,
  TOP,
  timeAxis,
  WIDTH,
} from '../../kit/report/plot.ts';
import type { BanRow } from '../summary.ts';
import type { Second, Timeline } from './series.ts';

/** Three percentiles. */
export function latencyChart(seconds: readonly Second[], run: Run): string {
  return plot(run, {
    label: 'Latency percentiles in milliseconds',
    axis: durationAxis(Math.max(1, ...seconds.map(({ p99 }) => p99 ?? 0))),
    content: (x, y) => (['p50', 'p95', 'p99'] as const).map((name) => percentiles(name, seconds, x, y)).join(''),
  });
}

/** Broken where a second had no answers. */
function percentiles(name: 'p50' | 'p95' | 'p99', seconds: readonly Second[], x: Scale, y: Scale): string {
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
    const total = totalOf(counts);
    const y = 8 + i * ROW;
    let x = left;
    const bars = OUTCOMES.filter((outcome) => counts[outcome] > 0).map((outcome) => {
      const width = (counts[outcome] / total) * (WIDTH - left - right);
      const bar = `<rect class="${outcome}" x="${px(x)}" y="${y}" width="${px(Math.max(width - 1, 0.5))}" height="20"><title>${OUTCOME_NAMES[outcome]} ${counts[outcome]}</title></rect>`;
      x += width;
      return bar;
    });
    const numbers = OUTCOMES.filter((outcome) => counts[outcome] > 0).map((it) => `${counts[it]} ${OUTCOME_NAMES[it]}`);
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
