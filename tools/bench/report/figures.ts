import { type Spread, spreadOf } from '../../kit/statistics.ts';
import { featureOf, PLAIN_GET } from '../features.ts';
import {
  type Entry,
  entryOf,
  type Figure,
  figureOf,
  ratioBetween,
  type ScenarioResult,
  type StartResult,
  valuesOf,
} from '../results.ts';
import { type ContestantName, FEATURES_NAME } from '../scenarios.ts';

/** One contestant in one scenario as a row of text, the same for the terminal and the report. */
export interface Row {
  readonly name: string;
  readonly cells: readonly string[];
}

interface Column {
  readonly head: string;
  readonly cell: (entry: Entry, result: ScenarioResult, phase: 'open' | 'beside') => string;
}

const NONE = '–';

const COSTS: readonly Column[] = [
  column('CPU µs', 'cpuUs', toTenths),
  column('Redis µs', 'redisCpuUs', toTenths),
  column('together µs', 'togetherUs', toTenths),
  { head: 'min–max', cell: (entry, _, phase) => rangeOf(figureOf(entry[phase], 'togetherUs')) },
];
const RATES: readonly Column[] = [
  column('requests/s', 'perSecond', (rate) => Math.round(rate).toLocaleString('en')),
  column('p50 ms', 'p50Us', inMs),
  column('p99 ms', 'p99Us', inMs),
  atFixedRate('p50 ms fixed', 'p50Us'),
  atFixedRate('p99 ms fixed', 'p99Us'),
];

const COLUMNS: readonly Column[] = [
  ...COSTS,
  {
    head: '× Tollgate',
    cell: (entry, result, phase) => ratio(ratioBetween(entry, entryOf(result, 'tollgate'), 'togetherUs', phase)),
  },
  ...RATES,
  column('scripts', 'scripts', inThousandths),
  column('commands', 'commands', inThousandths),
  { head: 'MB idle', cell: ({ idleRssBytes }) => inMb(idleRssBytes) },
  column('MB loaded', 'rssBytes', inMb),
];

/** Where the service itself is measured, too. */
const ADDED: readonly Column[] = [added('adds p50 ms', 'p50Us'), added('adds p99 ms', 'p99Us')];

const FEATURE_COLUMNS: readonly Column[] = [
  ...COSTS,
  { head: '× without', cell: (entry, result) => ratioTo(featureOf(entry.name)?.plain ?? null, entry, result) },
  { head: '× plain GET', cell: (entry, result) => ratioTo(PLAIN_GET, entry, result) },
  ...RATES,
  { head: 'Redis bytes', cell: ({ redisBytes }) => String(redisBytes ?? NONE) },
];

export interface Table {
  readonly columns: readonly string[];
  /** One for each contestant, those without a valid figure too. */
  readonly rows: readonly Row[];
}

export function tableOf(result: ScenarioResult): Table {
  const own = entryOf(result, 'service') === undefined ? COLUMNS : [...COLUMNS, ...ADDED];
  const columns = result.scenario.name === FEATURES_NAME ? FEATURE_COLUMNS : own;
  const cellsOf = (entry: Entry, phase: 'open' | 'beside') => columns.map(({ cell }) => cell(entry, result, phase));
  const rows = result.entries.flatMap((entry) => {
    // Those without a feature begin a group of rows.
    const row = {
      name: featureOf(entry.name)?.plain ? `… ${entry.title}` : entry.title,
      cells: cellsOf(entry, 'open'),
    };
    if (entry.beside.length === 0) return [row];
    return [row, { name: `… ${result.scenario.beside?.title}`, cells: cellsOf(entry, 'beside') }];
  });
  return { columns: columns.map(({ head }) => head), rows };
}

/** What the loader itself took at the fixed rate, which is part of what it measured; empty without such a rate. */
export function loaderText({ entries }: ScenarioResult): string {
  const rounds = entries.flatMap(({ fixed }) => fixed);
  const [cpu, late] = [figureOf(rounds, 'loaderCpuUs'), figureOf(rounds, 'lateP99Us')];
  if (cpu === null || late === null) return '';
  return `At the fixed rate the loader took ${toTenths(cpu.median)} µs of CPU a request, and was itself late by ${inMs(late.median)} ms (p99).`;
}

function column(head: string, figure: Figure, text: (value: number) => string): Column {
  return { head, cell: (entry, _, phase) => median(figureOf(entry[phase], figure), text) };
}

function atFixedRate(head: string, figure: Figure): Column {
  return { head, cell: ({ fixed }, _, phase) => median(phase === 'open' ? figureOf(fixed, figure) : null, inMs) };
}

/** The difference to the service itself, round by round. */
function added(head: string, figure: 'p50Us' | 'p99Us'): Column {
  return {
    head,
    cell: ({ open }, result) => {
      const bare = valuesOf(entryOf(result, 'service')!.open, figure);
      const both = valuesOf(open, figure).flatMap((us, round) =>
        us === null || bare[round] == null ? [] : [us - bare[round]],
      );
      return median(spreadOf(both), inMs);
    },
  };
}

function ratioTo(name: ContestantName | null, entry: Entry, result: ScenarioResult): string {
  return ratio(ratioBetween(entry, name === null ? undefined : entryOf(result, name), 'togetherUs'));
}

function rangeOf(spread: Spread | null): string {
  return spread === null ? NONE : `${toTenths(spread.min)}–${toTenths(spread.max)}`;
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

function ratio(spread: Spread | null): string {
  return median(spread, (value) => value.toFixed(2));
}

function toTenths(value: number): string {
  return value.toFixed(1);
}

function inMb(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}

function inThousandths(value: number): string {
  return value.toFixed(3);
}
