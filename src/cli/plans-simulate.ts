import { writeFile } from 'node:fs/promises';
import type { Plans } from '../admit/plan.ts';
import { reasonOf } from '../config/read-file.ts';
import { Failure } from '../failure.ts';
import { reportPage } from '../simulate/page/page.ts';
import { Recording } from '../simulate/recording.ts';
import { type Replay, replay } from '../simulate/replay.ts';
import { keyReport, mostChanged, type Report, reportOf, type Sources, touchedKeys } from '../simulate/report.ts';
import type { Command, Terminal, Words } from './command.ts';
import { readPlansFile } from './plans-file.ts';
import { findLogs, readLog, refuseToWrite } from './plans-log-files.ts';
import { Progress } from './plans-progress.ts';
import { RunShelf } from './plans-shelf.ts';
import { simulationText } from './plans-simulate-text.ts';

const KEYS = 20;
/** More would make a page that no browser likes. */
const MOST_KEYS = 10_000;

/** `tollgate plans simulate`: what recorded requests would meet under other plans (contract section 1). */
export const plansSimulate: Command = {
  name: 'plans simulate',
  about: 'Replays recorded requests under other plans: who would be refused or banned, compared with what happened.',
  positionals: [],
  options: {
    log: {
      type: 'string',
      multiple: true,
      value: 'FILE',
      about: "The gateway's log, plain or gzip, from each gateway one; `-` is standard input.",
    },
    plans: { type: 'string', value: 'FILE', about: 'The plans that are tried.' },
    'from-plans': {
      type: 'string',
      value: 'FILE',
      about: "The plans that were in force: what differs from them is a key's own limit. Else read off the log.",
    },
    keys: {
      type: 'string',
      value: 'N',
      about: `How many keys are listed, the most changed first: ${KEYS} unless told; --json lists all that were or would be refused.`,
    },
    html: { type: 'string', value: 'FILE', about: 'Writes a report with charts as one HTML file.' },
    json: { type: 'boolean', about: 'Prints one JSON object: counts in all, by plan and by key.' },
  },
  async run({ options }, terminal) {
    const { logs, sources, most } = wordsOf(options);
    const plans = readPlansFile(sources.plans, terminal);
    const before = sources.fromPlans === null ? null : readPlansFile(sources.fromPlans, terminal);
    if (plans === null || (before === null && sources.fromPlans !== null)) return 1;
    const files = await findLogs(logs);
    const html = options.html as string | undefined;
    if (html !== undefined) await refuseToWrite(html, [...logs, sources.plans, sources.fromPlans ?? sources.plans]);
    const shelf = new RunShelf();
    const progress = new Progress(terminal, () => performance.now());
    try {
      const recording = await record(files, shelf, progress);
      const came = replay(recording, { plans, before, onProgress: showReplay(progress, recording) });
      progress.end();
      await tell(came, plans, { sources, most, html, json: options.json === true }, terminal);
    } finally {
      progress.end();
      shelf.close();
    }
    return 0;
  },
};

function wordsOf(options: Words['options']): { logs: readonly string[]; sources: Sources; most: number } {
  const logs = (options.log ?? []) as readonly string[];
  const help = 'See `tollgate plans simulate --help`.';
  if (logs.length === 0) throw new Failure('bad_usage', `--log is missing: name the gateway's log. ${help}`);
  if (typeof options.plans !== 'string') {
    throw new Failure('bad_usage', `--plans is missing: name the file of the plans that are tried. ${help}`);
  }
  const text = (options.keys ?? String(KEYS)) as string;
  const most = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(most <= MOST_KEYS)) {
    throw new Failure('bad_usage', `--keys is '${text}'; it must be a whole number from 0 to ${MOST_KEYS}.`);
  }
  const fromPlans = (options['from-plans'] ?? null) as string | null;
  return { logs, most, sources: { plans: options.plans, fromPlans, logs } };
}

async function record(files: Awaited<ReturnType<typeof findLogs>>, shelf: RunShelf, progress: Progress) {
  const recording = new Recording(shelf);
  const total = files.some(({ bytes }) => bytes === null) ? null : files.reduce((sum, { bytes }) => sum + bytes!, 0);
  let read = 0;
  const onBytes = (bytes: number) => {
    read += bytes;
    progress.show('reading', read, total, megabytes);
  };
  for (const file of files) await readLog(file, { onText: (text) => recording.read(text), onBytes });
  recording.close();
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

interface Wanted {
  readonly sources: Sources;
  readonly most: number;
  readonly html: string | undefined;
  readonly json: boolean;
}

async function tell(
  came: Replay,
  plans: Plans,
  { sources, most, html, json }: Wanted,
  terminal: Terminal,
): Promise<void> {
  const report = reportOf(came, plans, sources);
  const keys = mostChanged(came, most);
  if (html !== undefined) {
    await writeFile(html, reportPage(report, came.timeline, keys)).catch((error: unknown) => {
      throw new Failure('refused', `${html} cannot be written: it ${reasonOf(error)}.`, error);
    });
  }
  if (json) printJson(report, came, terminal);
  else {
    terminal.out(simulationText(report, keys, terminal));
    // A note may name a plan as a log does.
    for (const note of report.notes) terminal.error(`note: ${note.replace(/\p{Cc}/gu, '?')}\n`);
  }
}

/** The keys one line each and a thousand at a time: a million of them are no single text. */
function printJson(report: Report, came: Replay, terminal: Terminal): void {
  terminal.out(`${JSON.stringify(report, null, 2).slice(0, -2)},\n  "keys": [`);
  let comma = '\n';
  for (const some of chunks(touchedKeys(came), 1_000)) {
    terminal.out(comma + some.map((key) => `    ${JSON.stringify(keyReport(key))}`).join(',\n'));
    comma = ',\n';
  }
  terminal.out('\n  ]\n}\n');
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
