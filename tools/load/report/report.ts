import { escapeHtml, tableOf } from '../../kit/report/html.ts';
import { answersChart, legend, outcomeLegend } from '../../kit/report/outcomes.ts';
import { momentText, pageOf } from '../../kit/report/page.ts';
import type { ScenarioResult } from '../run.ts';
import type { PartRow, Summary } from '../summary.ts';
import { bansChart, latencyChart, plansChart } from './charts.ts';
import { countsByPlan, type Timeline, timelineOf } from './series.ts';

export function reportHtml(summary: Summary, results: readonly ScenarioResult[]): string {
  const timeline = timelineOf(results);
  const verdict = summary.ok ? 'Every promise held' : `${summary.findings.length} faults were found`;
  return pageOf({
    title: 'Tollgate load test',
    verdict,
    isHeld: summary.ok,
    body: `<p>Load test of ${escapeHtml(summary.about)}, ${momentText(new Date(timeline.startedAtMs))}.</p>
${findings(summary)}
<h2>Promises</h2>
<p>Each is held against every answer that could break it.</p>
${checksTable(summary)}
${charts(summary, results, timeline)}
<h2>Load</h2>
<p>Latency in milliseconds, from the moment at which a request was due.</p>
${partsTable(summary.parts)}
${harmTable(results)}`,
  });
}

function charts(summary: Summary, results: readonly ScenarioResult[], timeline: Timeline): string {
  const { seconds, stretches } = timeline;
  const run = { seconds: seconds.length, stretches };
  const bans =
    summary.bans.length === 0
      ? '<p>Nobody was banned.</p>'
      : `<p>From the first answer that told of a ban to its end; the number says which ban of the key it is.</p>\n${bansChart(summary.bans, timeline)}`;
  return `<h2>Throughput (answers per second)</h2>
${outcomeLegend()}
${answersChart(
  seconds.map(({ counts }) => counts),
  run,
)}
<h2>Latency (milliseconds, each step is ten times as long)</h2>
${legend([
  ['p50', 'p50'],
  ['p95', 'p95'],
  ['p99', 'p99'],
])}
${latencyChart(seconds, run)}
<h2>Verdicts by plan (share of requests, and their number)</h2>
${outcomeLegend()}
${plansChart(countsByPlan(results))}
<h2>Bans (seconds)</h2>
${bans}`;
}

function findings({ findings }: Summary): string {
  if (findings.length === 0) return '';
  const rows = findings.map(({ scenario, subject, sentence, times }) => [
    scenario,
    subject,
    { text: sentence },
    String(times),
  ]);
  return `<h2>Faults</h2>\n${tableOf(['scenario', 'who', 'what', 'times'], rows)}`;
}

function checksTable({ checks }: Summary): string {
  const rows = checks.map(({ promise, looked, faults }) => {
    const verdict = looked === 0 ? 'not tried' : faults === 0 ? 'held' : `broken ${faults} times`;
    return [
      promise,
      String(looked),
      { text: verdict, mark: looked === 0 ? 'untried' : faults === 0 ? 'held' : 'broken' },
    ];
  });
  return tableOf(['promise', 'looked at', 'verdict'], rows);
}

function partsTable(parts: readonly PartRow[]): string {
  const heads = ['load', 'requests', 'per s', 'admitted', '429 quota', '429 ban', '401', 'failed', 'p50', 'p99'];
  const rows = parts.map((it) => [
    it.name,
    ...[it.requests, it.perSecond, it.admitted, it.refused, it.banned, it.unauthenticated, it.failed].map(String),
    it.p50Ms.toFixed(1),
    it.p99Ms.toFixed(1),
  ]);
  return tableOf(heads, rows);
}

function harmTable(results: readonly ScenarioResult[]): string {
  const rows = results.flatMap(({ scenario, harms }) =>
    harms.map(({ p99AloneMs, p99BesideMs, allowedMs, errors }) => [
      scenario.name,
      p99AloneMs.toFixed(1),
      p99BesideMs.toFixed(1),
      allowedMs.toFixed(1),
      String(errors),
    ]),
  );
  if (rows.length === 0) return '';
  return `<h2>Good clients without abusers and beside them</h2>
<p>Latency in milliseconds of what was admitted. A comparison that shows harm is made again, and the second one counts.</p>
${tableOf(['scenario', 'p99 without', 'p99 beside', 'p99 allowed', 'errors'], rows)}`;
}
