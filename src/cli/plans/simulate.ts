import { Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import type { Plans } from '../../model/plan.ts';
import { visible } from '../../operations/operation-values.ts';
import { groupsOfRecorded } from '../../operations/plans/recorded-groups.ts';
import { Recording } from '../../simulate/recording.ts';
import { type CallerReplay, type KeyReplay, type Replay, replay } from '../../simulate/replay.ts';
import {
  callerReport,
  keyReport,
  mostChanged,
  type Report,
  reportOf,
  type Sources,
  touchedOf,
} from '../../simulate/report.ts';
import type { Counts } from '../../simulate/tally.ts';
import type { Command, Terminal, Words } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { type Column, table } from '../terminal/printed-table.ts';
import { readPlansFile } from './file.ts';
import { findLogs, readLog } from './simulate-files.ts';

const DEFAULT_KEYS = 20;
/** More rows than a person reads; `--json` lists every key. */
const MAX_KEYS = 10_000;

/** `tollgate plans simulate`: replays recorded requests under other plans (contract section 1). */
export const plansSimulate: Command = {
  name: 'plans simulate',
  about: 'Replays recorded requests under other plans: who would be refused or banned, compared with what happened.',
  positionals: [],
  environment: [],
  printsTable: true,
  examples: [
    'tollgate plans simulate --log gateway.log --plans new-plans.yaml',
    'tollgate plans simulate --log gateway-1.log.gz --log gateway-2.log.gz --plans new-plans.yaml --json',
  ],
  options: {
    log: {
      type: 'string',
      multiple: true,
      value: 'FILE',
      about:
        "The gateway's log, plain or gzip, from each gateway one; `-` is standard input. What requests cost in units, such as tokens, is read from it.",
    },
    plans: { type: 'string', value: 'FILE', about: 'The plans that are tried.' },
    'from-plans': {
      type: 'string',
      value: 'FILE',
      about:
        "The plans that were in force: a limit that differs from them is a key's own. By default derived from the log.",
    },
    keys: {
      type: 'string',
      value: 'N',
      about: `How many customers and keys a terminal lists, the most changed first; default ${DEFAULT_KEYS}. In a pipe, how many keys. --json lists all that were or would be refused.`,
    },
    json: {
      type: 'boolean',
      about:
        'Prints one JSON object: counts in all, by plan, by key and by caller: a customer, or a key without one. `headline` is what the change comes to. `differs` compares with the log; so does `baseline` for the plans of --from-plans themselves, or it is null.',
    },
  },
  async run({ options }, terminal) {
    const { logs, sources, most } = parsedOptions(options);
    const plans = readPlansFile(sources.plans, terminal)?.value ?? null;
    const before = sources.fromPlans === null ? null : (readPlansFile(sources.fromPlans, terminal)?.value ?? null);
    if (plans === null || (before === null && sources.fromPlans !== null)) return 1;
    const files = await findLogs(logs);
    const progress = new Progress(terminal, () => performance.now());
    try {
      const recording = await record(files, new Recording(groupsOfRecorded(plans, before)), progress);
      const replayed = replay(recording, { plans, before, onProgress: showReplay(progress, recording) });
      const baseline =
        before === null
          ? null
          : replay(recording, { plans: before, before, isBaseline: true, onProgress: showReplay(progress, recording) })
              .differs;
      progress.end();
      const json = options.json === true;
      printReport(replayed, plans, { sources, most, json, baseline }, terminal);
    } finally {
      progress.end();
    }
    return 0;
  },
};

function parsedOptions(options: Words['options']): { logs: readonly string[]; sources: Sources; most: number } {
  const logs = (options.log ?? []) as readonly string[];
  const help = 'See `tollgate plans simulate --help`.';
  if (logs.length === 0) throw new Failure('bad_usage', `--log is missing: name the gateway's log. ${help}`);
  if (typeof options.plans !== 'string') {
    throw new Failure('bad_usage', `--plans is missing: name the file of the plans that are tried. ${help}`);
  }
  const text = (options.keys ?? String(DEFAULT_KEYS)) as string;
  const most = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(most <= MAX_KEYS)) {
    throw new Failure('bad_usage', `--keys is '${text}'; it must be a whole number from 0 to ${MAX_KEYS}.`);
  }
  const fromPlans = (options['from-plans'] ?? null) as string | null;
  return { logs, most, sources: { plans: options.plans, fromPlans, logs } };
}

async function record(files: Awaited<ReturnType<typeof findLogs>>, recording: Recording, progress: Progress) {
  const total = files.some(({ bytes }) => bytes === null) ? null : files.reduce((sum, { bytes }) => sum + bytes!, 0);
  let read = 0;
  const onBytes = (bytes: number) => {
    read += bytes;
    progress.show('reading', read, total, megabytes);
  };
  for (const file of files) await readLog(file, { onText: (text) => recording.read(text), onBytes });
  if (recording.census.lines > 0) return recording;
  throw new Failure(
    'refused',
    `${files.map(({ name }) => name).join(', ')}: there is no line of a request that was decided by a plan. ` +
      'Give what `tollgate serve` writes to standard output, with LOG_LEVEL info or below, nothing before the lines.',
  );
}

function showReplay(progress: Progress, { census }: Recording): (lines: number) => void {
  return (lines) => progress.show('replaying', lines, census.lines, (amount) => `${amount}`);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

interface ReportOptions {
  readonly sources: Sources;
  readonly most: number;
  readonly json: boolean;
  /** How far a replay under the plans of --from-plans differs from the log; null without that option. */
  readonly baseline: Replay['differs'] | null;
}

function printReport(
  replayed: Replay,
  plans: Plans,
  { sources, most, json, baseline }: ReportOptions,
  terminal: Terminal,
): void {
  const counted = reportOf(replayed, plans, sources);
  const report = { ...counted, baseline, notes: [...counted.notes, ...notesOnBaseline(counted, baseline)] };
  if (json) printJson(report, replayed, terminal);
  else {
    terminal.out(simulationText(report, replayed, most, terminal));
    // A note may repeat a plan's name from the log.
    for (const note of report.notes) terminal.error(`note: ${escapedText(note)}\n`);
  }
}

/** What says that the log does not fit the plans of --from-plans, so that the counts cannot be trusted to the last request. */
function notesOnBaseline({ fromPlans, totals }: Report, baseline: Replay['differs'] | null): readonly string[] {
  if (baseline === null || baseline.verdicts + baseline.bans === 0) return [];
  return [
    `Under ${fromPlans} itself, the plans that were in force, ${baseline.verdicts} of ${totals.requests} requests get another verdict than they got, and ${baseline.bans} bans differ: requests are missing from the log, other plans were in force, or requests ran at the same time that took units in advance, which the simulation settles at once.`,
  ];
}

function printJson(report: Report, { keys, callers }: Replay, terminal: Terminal): void {
  terminal.out(JSON.stringify(report, null, 2).slice(0, -2));
  printList('keys', touchedOf(keys), keyReport, terminal);
  printList('callers', touchedOf(callers), callerReport, terminal);
  terminal.out('\n}\n');
}

/** Prints a list in chunks of a thousand: the text of a million keys would exceed the longest string. */
function printList<T>(name: string, all: Iterable<T>, reportOf: (one: T) => object, terminal: Terminal): void {
  terminal.out(`,\n  "${name}": [`);
  let comma = '\n';
  for (const some of chunks(all, 1_000)) {
    terminal.out(comma + some.map((one) => `    ${JSON.stringify(reportOf(one))}`).join(',\n'));
    comma = ',\n';
  }
  terminal.out('\n  ]');
}

function* chunks<T>(items: Iterable<T>, size: number): Generator<T[]> {
  let chunk: T[] = [];
  for (const item of items) {
    chunk.push(item);
    if (chunk.length === size) {
      yield chunk;
      chunk = [];
    }
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * The report as tables for a terminal. If standard output is not a terminal, each plan and each key is one line with tabs
 * between its cells: the word `plan` or `key`, the name, the number of keys of a plan or the plan of a key, and the counts
 * in the order of the heads.
 * @param most how many keys, or callers, are listed
 */
function simulationText(report: Report, replayed: Replay, most: number, terminal: Terminal): string {
  const plans = report.byPlan.map(({ plan, keys, counts }) => [plan, String(keys), ...countCells(counts)]);
  const rowOf = ({ id, plan, counts }: Pick<KeyReplay, 'id' | 'plan' | 'counts'>) => [id, plan, ...countCells(counts)];
  if (!terminal.isTerminal) {
    const keys = mostChanged(replayed.keys, most).map((key) => ['key', ...rowOf(key)]);
    const rows = [...plans.map((row) => ['plan', ...row]), ...keys];
    return table(['row', 'name', 'keys or plan', ...COUNT_HEADS], rows, terminal);
  }
  const { totals, byPlan } = report;
  const all = ['all', String(byPlan.reduce((sum, { keys }) => sum + keys, 0)), ...countCells(totals)];
  const callers = mostChanged(replayed.callers, most).map((one) => [callerText(one), ...rowOf(one).slice(1)]);
  const parts = [
    `${report.headline}\n${report.moved === null ? '' : `${report.moved}\n`}`,
    `${report.logs.join(', ')} under ${report.plans}: ${report.from} to ${report.to}\n${byPlan.map(limitsLine).join('')}`,
    table(['plan', 'keys', ...COUNT_COLUMNS], byPlan.length > 1 ? [...plans, all] : plans, terminal),
    ...(callers.length === 0
      ? []
      : [table([{ head: 'caller', isWhole: true }, { head: 'plan', rank: 20 }, ...COUNT_COLUMNS], callers, terminal)]),
  ];
  return parts.join('\n');
}

/** A customer with the number of its keys, which share its limits, or a key without one. */
function callerText({ id, keys }: CallerReplay): string {
  return keys === null ? id : `${id} (${keys} ${keys === 1 ? 'key' : 'keys'})`;
}

/** The heads of the count columns: recorded and simulated in turn. */
const COUNT_HEADS = [
  'requests',
  'refused',
  'would be refused',
  'banned',
  'would be banned',
  'bans',
  'would be bans',
  'newly refused',
  'newly admitted',
];

/** In a narrow terminal what changes stays longest, then what would be, then what was recorded. */
const RANKS = [9, 6, 3, 7, 4, 8, 5, 1, 2];
const COUNT_COLUMNS: readonly Column[] = COUNT_HEADS.map((head, i) => ({ head, rank: 1 + RANKS[i]! }));

function limitsLine({ plan, limits }: Report['byPlan'][number]): string {
  return limits === null ? '' : `${visible(plan)}: ${limits}\n`;
}

function countCells({ requests, recorded, simulated, newlyRefused, newlyAdmitted }: Counts): string[] {
  return [
    requests,
    recorded.refused,
    simulated.refused,
    recorded.banned,
    simulated.banned,
    recorded.bans,
    simulated.bans,
    newlyRefused,
    newlyAdmitted,
  ].map(String);
}
