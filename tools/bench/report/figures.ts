import type { Spread } from '../../kit/statistics.ts';
import { featureOf, PLAIN_GET } from '../features.ts';
import { type Entry, entryOf, figureOf, ratioBetween, type ScenarioResult, type StartResult } from '../results.ts';
import { FEATURES_NAME } from '../scenarios.ts';

/** One contestant in one scenario as a row of text, the same for the terminal and the report. */
export interface Row {
  readonly name: string;
  readonly cells: readonly string[];
}

const COLUMNS = [
  'CPU µs',
  'min–max',
  '× Tollgate',
  'requests/s',
  'p50 ms',
  'p99 ms',
  'p99 ms fixed',
  'Redis µs',
  'scripts',
  'commands',
  'MB idle',
  'MB loaded',
] as const;

const FEATURE_COLUMNS = [
  'CPU µs',
  'min–max',
  '× without',
  '× plain GET',
  'requests/s',
  'p50 ms',
  'p99 ms',
  'p99 ms fixed',
  'Redis µs',
  'Redis bytes',
] as const;

const NONE = '–';

export interface Table {
  readonly columns: readonly string[];
  /** One for each contestant, those without a valid figure too. */
  readonly rows: readonly Row[];
}

export function tableOf(result: ScenarioResult): Table {
  if (result.scenario.name !== FEATURES_NAME) return { columns: COLUMNS, rows: rowsOf(result) };
  return { columns: FEATURE_COLUMNS, rows: result.entries.map((entry) => featureRow(entry, result)) };
}

function featureRow(entry: Entry, result: ScenarioResult): Row {
  const feature = featureOf(entry.name);
  const without = feature?.plain ? entryOf(result, feature.plain) : undefined;
  const [cpu, range, , perSecond, p50, p99, p99Fixed, redisCpu] = cellsOf(entry, undefined, 'open');
  const against = (other: Entry | undefined) =>
    median(ratioBetween(entry, other, 'cpuUs'), (ratio) => ratio.toFixed(2));
  const ratios = [against(without), against(entryOf(result, PLAIN_GET))];
  return {
    // Those without a feature begin a group of rows.
    name: feature?.plain ? `… ${entry.title}` : entry.title,
    cells: [cpu!, range!, ...ratios, perSecond!, p50!, p99!, p99Fixed!, redisCpu!, String(entry.redisBytes ?? NONE)],
  };
}

function rowsOf(result: ScenarioResult): Row[] {
  const ours = entryOf(result, 'tollgate');
  return result.entries.flatMap((entry) => {
    const row = { name: entry.title, cells: cellsOf(entry, ours, 'open') };
    if (entry.beside.length === 0) return [row];
    return [row, { name: `… ${result.scenario.beside?.title}`, cells: cellsOf(entry, ours, 'beside') }];
  });
}

function cellsOf(entry: Entry, ours: Entry | undefined, phase: 'open' | 'beside'): string[] {
  const of = (figure: Parameters<typeof figureOf>[1]) => figureOf(entry[phase], figure);
  const cpu = of('cpuUs');
  return [
    median(cpu, (us) => us.toFixed(1)),
    cpu === null ? NONE : `${cpu.min.toFixed(1)}–${cpu.max.toFixed(1)}`,
    median(ratioBetween(entry, ours, 'cpuUs', phase), (ratio) => ratio.toFixed(2)),
    median(of('perSecond'), (rate) => Math.round(rate).toLocaleString('en')),
    median(of('p50Us'), inMs),
    median(of('p99Us'), inMs),
    median(phase === 'open' ? figureOf(entry.fixed, 'p99Us') : null, inMs),
    median(of('redisCpuUs'), (us) => us.toFixed(1)),
    median(of('scripts'), inThousandths),
    median(of('commands'), inThousandths),
    (entry.idleRssBytes / 1e6).toFixed(0),
    median(of('rssBytes'), (bytes) => (bytes / 1e6).toFixed(0)),
  ];
}

/** `ready after 412 ms (398–431), 117 MB idle`. */
export function startText({ readyMs, idleRssBytes }: StartResult): string {
  if (readyMs === null || idleRssBytes === null) return 'not measured';
  const range = `${readyMs.min.toFixed(0)}–${readyMs.max.toFixed(0)}`;
  return `ready after ${readyMs.median.toFixed(0)} ms (${range}), ${(idleRssBytes.median / 1e6).toFixed(0)} MB idle`;
}

function median(spread: Spread | null, text: (value: number) => string): string {
  return spread === null ? NONE : text(spread.median);
}

function inMs(us: number): string {
  return (us / 1_000).toFixed(2);
}

function inThousandths(value: number): string {
  return value.toFixed(3);
}
