import type { Results, ScenarioResult } from '../results.ts';
import { FEATURES_NAME } from '../scenarios.ts';
import { loaderText, startText, tableOf } from './figures.ts';
import { targetsOf } from './targets.ts';

/**
 * The report of a run as Markdown, without the features (features.ts).
 * @param charts of each scenario, by its name: files beside the report
 */
export function markdown(results: Results, charts: ReadonlyMap<string, readonly string[]>): string {
  const { start } = results;
  const others = results.scenarios.filter(({ scenario }) => scenario.name !== FEATURES_NAME);
  return [
    '# What a request costs',
    preamble(results),
    '## Targets',
    table(
      ['', 'wanted', 'found', ''],
      targetsOf(results).map(({ name, wanted, found, met }) => [name, wanted, found, met]),
    ),
    ...others.flatMap((result) => sectionOf(result, charts.get(result.scenario.name) ?? [])),
    ...(start === null ? [] : ['## Start', `Tollgate is ${startText(start)}.`]),
    '',
  ].join('\n\n');
}

function preamble({ date, machine, versions, rounds, seconds }: Results): string {
  const contestants = [...versions].map(([title, version]) => `${title} ${version}`).join('; ');
  return `${date}, ${machine}. Written by \`npm run bench -- --report\`: ${rounds} rounds of ${seconds} s, in which the
contestants take turns. Everything runs on 127.0.0.1 and shares the cores with the load generator (wrk, one thread), the
service behind (284 bytes of JSON by default) and a Redis for each contestant that uses one.

Tollgate runs as it ships: on Redis, with a log line for each request (into a file) and its metrics. The others have one
worker, write no log and count nothing; nginx + Lua keeps known keys in its own memory, haproxy and caddy keep all in
theirs. Each is tried before it is measured: that it admits, tells, counts and refuses as it says.

CPU is user and system time of all processes of a contestant for one request, then that of its Redis, then both together, of which
the range and the ratio are. A figure is the median of the rounds, beside it the smallest and the largest; a ratio is the median of the ratios round by
round. A round with a failed request counts for nothing. "Fixed" is at half of the slowest contestant's throughput: requests
are due at even intervals, and what each takes counts from when it is due.
Scripts and commands are Redis calls for one request; commands include those inside scripts.

What was tried to get here, and where the time goes now, stands in [TUNING.md](TUNING.md).

Contestants: ${contestants}.`;
}

/** The parts of a section: its heading, what it was measured with, charts, the table, and what is missing or invalid. */
export function sectionOf(result: ScenarioResult, charts: readonly string[]): string[] {
  const { scenario, entries, missing, ratePerSecond } = result;
  const faults = entries.flatMap(({ title, faults }) => faults.map((fault) => `- ${title}, invalid rounds: ${fault}`));
  const absent = missing.map(({ title, reason }) => `- ${title} is missing: ${reason}`);
  const notes = [...faults, ...absent];
  const { columns, rows } = tableOf(result);
  const rate = ratePerSecond === null ? '' : `, fixed rate ${ratePerSecond.toLocaleString('en')}/s`;
  return [
    `## ${scenario.title}`,
    `\`${scenario.name}\`: ${scenario.connections} connections${rate}. ${loaderText(result)}`.trim(),
    ...charts.map((file) => `![${scenario.title}](${file})`),
    table(
      ['', ...columns],
      rows.map(({ name, cells }) => [name, ...cells]),
    ),
    ...(notes.length === 0 ? [] : [notes.join('\n')]),
  ];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${head.map((_, i) => (i === 0 ? '---|' : '---:|')).join('')}`, ...rows.map(line)].join('\n');
}
