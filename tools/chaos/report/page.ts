import { STYLE } from '../../load/report/style.ts';
import type { Results } from '../run.ts';
import { BETWEEN, cellsOf, HEADS } from './cells.ts';
import { answersChart, holdingsChart, waitsChart } from './charts.ts';
import { escapeHtml, legend } from './marks.ts';

/** One page with all that a run showed. It needs nothing but itself: no script, no network. */
export function pageOf({ rows, timeline }: Results, seed: number): string {
  const broken = rows.filter((row) => row.broken.length > 0);
  const verdict =
    broken.length === 0 ? 'Every bound held' : `${broken.length} of ${rows.length} scenarios broke a bound`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tollgate chaos: ${verdict}</title>
<style>${STYLE}
th { text-align: left; } td { vertical-align: top; } td.text { white-space: nowrap; }
td.text:first-child { white-space: normal; min-width: 15rem; } body { max-width: 80rem; }
.fault { fill: var(--bad); opacity: .12; } .memory { stroke: var(--p50); } .files { stroke: var(--p95); }
.key.memory { --colour: var(--p50); } .key.files { --colour: var(--p95); } .key.waits { --colour: var(--p99); }
.waits { stroke: var(--p99); }</style>
</head>
<body>
<h1 class="${broken.length === 0 ? 'held' : 'broken'}">${verdict}</h1>
<p>${timeline.startedAt.toISOString().slice(0, 19).replace('T', ' ')} UTC, seed ${seed}. Real gateways, real Redis servers,
clients that call through all of it.</p>
${findings(broken)}
<h2>Scenarios</h2>
<p>A key is written with what it was admitted and its limit. Cut off from Redis, each process that decides enforces the
limit alone: at most as many times the limit as there are of them. What was counted more or less than admitted stands behind.</p>
${table(rows)}
<h2>Answers per second</h2>
<p>Shaded: while the fault was there.</p>
${legend()}
${answersChart(timeline)}
<h2>Longest wait in each second (milliseconds, each step is ten times as long)</h2>
${waitsChart(timeline)}
${holdingsChart(timeline)}
</body>
</html>
`;
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
