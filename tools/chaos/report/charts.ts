import { legend } from '../../kit/report/outcomes.ts';
import { durationAxis, line, linearAxis, plot, type Run } from '../../kit/report/plot.ts';
import type { Second } from '../timeline.ts';

/** The longest wait of each second. */
export function waitsChart(seconds: readonly Second[], run: Run): string {
  const waits = seconds.flatMap(({ longestMs }, s) => (longestMs > 0 ? [[s, longestMs] as const] : []));
  return plot(run, {
    label: 'Longest wait in milliseconds',
    axis: durationAxis(Math.max(1, ...waits.map(([, ms]) => ms))),
    content: (x, y) => line('waits', waits, x, y),
  });
}

/** What the gateways held, where somebody looked; else nothing. */
export function holdingsChart(seconds: readonly Second[], run: Run): string {
  const of = (what: 'rssMib' | 'files') =>
    seconds.flatMap((second, s) => (second[what] === null ? [] : [[s, second[what]] as const]));
  const [memory, files] = [of('rssMib'), of('files')];
  if (memory.length === 0) return '';
  const chart = plot(run, {
    label: 'Memory and open files of all gateways',
    axis: linearAxis(Math.max(...[...memory, ...files].map(([, value]) => value))),
    content: (x, y) => line('memory', memory, x, y) + line('files', files, x, y),
  });
  return `<h2>What the gateways hold</h2>
${legend([
  ['memory', 'MiB of memory, all gateways'],
  ['files', 'open files, all gateways'],
])}
${chart}`;
}
