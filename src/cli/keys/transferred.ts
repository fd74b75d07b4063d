import type { ExitCode } from '../../failure.ts';
import { outcomeOfError } from '../../operations/recorded.ts';
import type { Terminal, Words } from '../terminal/command.ts';
import type { Progress } from '../terminal/output.ts';
import { json } from './text-form.ts';

// What `keys import` and `keys restore` have in common: the records of a file are written to the store, each with an outcome of its own.

/** At most this many records are named in the JSON report. The counts include all of them. */
export const MAX_LISTED = 1_000;

/** What became of one record of the file. */
interface Outcome {
  readonly kind: string;
  /** Null if it was refused. */
  readonly id: string | null;
  /** A sentence about it; null if there is nothing to say. */
  readonly why: string | null;
}

interface Transfer<O extends Outcome> {
  readonly outcomes: AsyncIterable<O>;
  /** Every kind of outcome, in the order of the counts. */
  readonly kinds: readonly O['kind'][];
  /** Those that make the exit code 1. */
  readonly failed: readonly O['kind'][];
  /** What the JSON says before the counts. */
  readonly printed: object;
  /** The member of the JSON with the outcomes that have something to report. */
  readonly member: 'keys' | 'lines';
  readonly isCounted: (outcome: O) => boolean;
  /** What is said of an outcome on standard error. */
  readonly lineOf: (outcome: O) => string;
  readonly progress: Progress;
  /** Called after each outcome, to show the progress. */
  readonly show: (outcome: O) => void;
  /** What is said if the rest of the file is no rows; null for any other error, which is thrown after the report. */
  readonly unreadText?: (error: unknown) => string | null;
  /** Called before the counts are printed. */
  readonly warn?: () => void;
  readonly textOf: (counts: Readonly<Record<O['kind'], number>>) => string;
}

/** Fault: the disk is full when some records of a slice are written, and no answer says which. */
const PERHAPS_MORE =
  'warning: Some records that are not counted may have been written. Repeat the command: what is there already stays as it is.\n';

/** Says, if a change failed, that it may be made in part. */
export function warnOfMore(failure: unknown, terminal: Terminal): void {
  if (outcomeOfError(failure).outcome === 'unknown') terminal.error(PERHAPS_MORE);
}

/**
 * Has the records of a file written to the store, and prints what became of them.
 * @returns 1 if one of them was not taken as it is
 * @throws the error that ended the work early, after the report
 */
export async function transferred<O extends Outcome>(
  transfer: Transfer<O>,
  { options }: Words,
  terminal: Terminal,
): Promise<ExitCode> {
  const { outcomes, printed, member, isCounted, lineOf, progress } = transfer;
  const [dryRun, isJson] = [options['dry-run'] === true, options.json === true];
  const counts = Object.fromEntries(transfer.kinds.map((kind) => [kind, 0])) as Record<O['kind'], number>;
  const seen = new Set<O['kind']>();
  const listed: O[] = [];
  let failure: unknown = null;
  let unread = '';
  try {
    for await (const outcome of outcomes) {
      const { why } = outcome;
      const kind: O['kind'] = outcome.kind;
      seen.add(kind);
      if (isCounted(outcome)) counts[kind]++;
      if (why !== null && !isJson) {
        progress.end();
        terminal.error(`${lineOf(outcome)}\n`);
      } else if (why !== null && listed.length < MAX_LISTED) listed.push(outcome);
      transfer.show(outcome);
    }
  } catch (error) {
    const text = transfer.unreadText?.(error) ?? null;
    if (text === null) failure = error;
    else unread = text;
  }
  progress.end();
  if (unread !== '') terminal.error(`${unread}\n`);
  transfer.warn?.();
  terminal.out(isJson ? json({ ...printed, ...counts, dryRun, [member]: listed }) : `${transfer.textOf(counts)}\n`);
  if (failure !== null) {
    if (!dryRun) warnOfMore(failure, terminal);
    throw failure;
  }
  return unread !== '' || transfer.failed.some((kind) => seen.has(kind)) ? 1 : 0;
}
