import { escapeHtml } from '../../kit/report/html.ts';
import { answersChart, outcomeLegend } from '../../kit/report/outcomes.ts';
import { momentText, pageOf } from '../../kit/report/page.ts';
import type { Results } from '../run.ts';
import { BETWEEN, cellsOf, HEADS } from './cells.ts';
import { holdingsChart, waitsChart } from './charts.ts';

const STYLE = `
th { text-align: left; } td { vertical-align: top; } td.text { white-space: nowrap; }
td.text:first-child { white-space: normal; min-width: 15rem; } body { max-width: 80rem; }
.fault { fill: var(--bad); opacity: .12; } .memory { stroke: var(--p50); } .files { stroke: var(--p95); }
.key.memory { --colour: var(--p50); } .key.files { --colour: var(--p95); } .key.waits { --colour: var(--p99); }
.waits { stroke: var(--p99); }`;

export function reportHtml({ rows, timeline }: Results, seed: number): string {
  const broken = rows.filter((row) => row.broken.length > 0);
  const { seconds } = timeline;
  const run = { seconds: seconds.length, stretches: timeline.scenarios, shaded: timeline.faults };
  return pageOf({
    title: 'Tollgate chaos',
    verdict: broken.length === 0 ? 'Every bound held' : `${broken.length} of ${rows.length} scenarios broke a bound`,
    isHeld: broken.length === 0,
    style: STYLE,
    body: `<p>${momentText(timeline.startedAt)}, seed ${seed}. Real gateways, real Redis servers,
clients that call through all of it.</p>
${findings(broken)}
<h2>Scenarios</h2>
<p>A key is written with what it was admitted and its limit. Cut off from Redis, each process that decides enforces the
limit alone: at most as many times the limit as there are of them. What was counted more or less than admitted stands behind.</p>
${table(rows)}
<h2>Answers per second</h2>
<p>Shaded: while the fault was there.</p>
${outcomeLegend()}
${answersChart(
  seconds.map(({ counts }) => counts),
  run,
)}
<h2>Longest wait in each second (milliseconds, each step is ten times as long)</h2>
${waitsChart(seconds, run)}
${holdingsChart(seconds, run)}`,
  });
}

function findings(broken: Results['rows']): string {
  if (broken.length === 0) return '';
  const items = broken.flatMap(({ scenario, broken: sentences }) =>
    sentences.map((it) => `<li class="broken">${escapeHtml(scenario)}: ${escapeHtml(it)}</li>`),
  );
  return `<ul>\n${items.join('\n')}\n</ul>`;
}

function table(rows: Results['rows']): string {
  const head = HEADS.map((it) => `<th>${it}</th>`).join('');
  const body = rows.map((row) => {
    const cells = cellsOf(row);
    const mark = row.broken.length === 0 ? 'held' : 'broken';
    const written = cells.map((cell, i) => {
      const more = i === 0 ? `<br><small>${escapeHtml([row.about, ...row.notes].join(' '))}</small>` : '';
      return `<td class="${i === cells.length - 1 ? mark : 'text'}">${escapeHtml(cell).replaceAll(BETWEEN, '<br>')}${more}</td>`;
    });
    return `<tr>${written.join('')}</tr>`;
  });
  return `<div class="wide"><table>\n<tr>${head}</tr>\n${body.join('\n')}\n</table></div>`;
}
