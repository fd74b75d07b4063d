import { createReadStream, statSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { reasonOf } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import type { InputOf } from '../../operations/catalogue/operation.ts';
import { importKeys } from '../../operations/catalogue/transfer-operations.ts';
import type { RowOutcome } from '../../operations/transfer/import-keys.ts';
import { inSlices, isRefusal } from '../../operations/transfer/keys-and-customers.ts';
import { COLUMNS, type ImportLine, readRows, UnreadableCsv } from '../../operations/transfer/rows.ts';
import { meantId } from '../meant-id.ts';
import { type OperationsAt, withOperations } from '../operations-at.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';
import { MAX_LISTED, transferred } from './transferred.ts';

/** `tollgate keys import`: imports keys that another system made. */
export const keysImport: Command = {
  name: 'keys import',
  about:
    'Takes in API keys that were made elsewhere, from a file or standard input (-): CSV with a header, or NDJSON. ' +
    'Each line is imported whole or refused with a reason; existing keys are left as they are.',
  positionals: ['FILE|-'],
  environment: OF_OPERATIONS,
  examples: ['tollgate keys import keys.csv --dry-run', 'tollgate keys import keys.ndjson --json'],
  options: {
    format: {
      type: 'string',
      value: 'csv|ndjson',
      about: `The format of the file; by default its name, or its first character, decides. Columns: ${COLUMNS.join(', ')}.`,
    },
    'dry-run': { type: 'boolean', about: 'Shows the outcome for each line, and writes nothing.' },
    json: {
      type: 'boolean',
      about: `Prints {"moved","unknown","already","refused","dryRun","lines"}; lines are those with something to report, at most ${MAX_LISTED}.`,
    },
  },
  async run(words, terminal) {
    const { options } = words;
    const [file] = words.positionals as [string];
    const name = file === '-' ? 'standard input' : file;
    const isDry = options['dry-run'] === true;
    const wanted = formatNamed(options.format);
    const source = await openSource(file);
    // As at the end of a pipe whose first command has failed.
    if (source.head === '') throw new Failure('refused', `${name} is empty: there is nothing to import.`);
    const format = wanted ?? formatOf(file, source.head);
    return withOperations<ExitCode>(
      terminal,
      async (at) => {
        const progress = new Progress(terminal, () => performance.now());
        const outcomes = imported(readRows(source.chunks(), format), {
          ...{ at, file: name, isDry },
          idNamed: customersByName(at, terminal),
        });
        return transferred(
          {
            ...OUTCOMES,
            ...{ printed: {}, member: 'lines', progress, outcomes },
            unreadText: (error) =>
              error instanceof UnreadableCsv
                ? `${name}:${error.line}: ${error.message} Nothing from there on was read.`
                : null,
            isCounted: () => true,
            lineOf: ({ line, kind, why }) => `${name}:${line}: ${kind === 'refused' ? `refused: ${why}` : why}`,
            show: () => progress.show('importing', source.bytesRead(), source.bytes, megabytes),
            textOf: (counts) => countsText(counts, isDry),
          },
          words,
          terminal,
        );
      },
      isDry ? { missingStore: 'empty' } : { makesSecrets: true, missingStore: 'make' },
    );
  },
};

/** The result of importing one line. */
interface LineOutcome extends RowOutcome {
  readonly line: number;
}

interface Importing {
  readonly at: OperationsAt;
  /** For the record of changes. */
  readonly file: string;
  readonly isDry: boolean;
  /** The id of the only customer with this name; the name itself if no customer has it. @throws Failure `not_found` if several have it */
  readonly idNamed: (name: string) => Promise<string>;
}

/** Has the lines imported, a slice at a time. The outcomes are in the order of the lines. */
async function* imported(
  lines: AsyncIterable<ImportLine>,
  { at, file, isDry, idNamed }: Importing,
): AsyncGenerator<LineOutcome> {
  // What an earlier slice would have made is found by the ids.
  const seen = new Set<string>();
  for await (const slice of inSlices(lines)) {
    const read: ImportLine[] = [];
    for (const line of slice) read.push(await withCustomerId(line, idNamed));
    const keys = read.flatMap((one) => ('row' in one ? [one.row] : []));
    const outcomes = keys.length === 0 ? [] : await outcomesOf(at, { file, keys, dryRun: isDry });
    let next = 0;
    for (const one of read) {
      const { line } = one;
      if ('fault' in one) {
        yield { line, kind: 'refused', id: null, why: one.fault };
        continue;
      }
      const outcome = outcomes[next++]!;
      const { id, kind } = outcome;
      const isAgain = isDry && kind === 'moved' && seen.has(id!);
      if (isDry && kind === 'moved') seen.add(id!);
      yield { line, ...outcome, kind: isAgain ? 'already' : kind };
    }
  }
}

/** A gateway of another version may give another number of outcomes. */
async function outcomesOf(at: OperationsAt, slice: InputOf<typeof importKeys>): Promise<readonly RowOutcome[]> {
  const { outcomes } = (await at.perform(importKeys, slice)).output;
  if (outcomes.length === slice.keys.length) return outcomes;
  throw new Failure('gateway_unavailable', 'The gateway did not say what became of each line. See `tollgate audit`.');
}

/** The line with the id of its customer in place of the name. */
async function withCustomerId(given: ImportLine, idNamed: Importing['idNamed']): Promise<ImportLine> {
  if ('fault' in given || typeof given.row.customer !== 'string') return given;
  const { line, row } = given;
  try {
    return { line, row: { ...row, customer: await idNamed(given.row.customer) } };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { line, fault: error.message };
  }
}

/** Finds each name once, however many lines have it. */
function customersByName(at: OperationsAt, { error }: Terminal): (name: string) => Promise<string> {
  const found = new Map<string, Promise<string>>();
  return (name) =>
    found.getOrInsertComputed(name, () => meantId(at, name, { of: 'CUSTOMER_ID', isRead: false, note: error }));
}

const OUTCOMES = {
  kinds: ['moved', 'unknown', 'already', 'refused'],
  failed: ['unknown', 'refused'],
} as const;

/** `3 imported, 1 there already, 0 refused.` */
function countsText(
  { moved, unknown, already, refused }: Readonly<Record<LineOutcome['kind'], number>>,
  isDry: boolean,
): string {
  const verb = isDry ? 'would be imported' : 'imported';
  const perhaps = unknown === 0 ? '' : `${unknown} imported and perhaps not durable, `;
  return `${moved} ${verb}, ${perhaps}${already} there already, ${refused} refused.`;
}

/** The file, or standard input, that is imported. */
interface Source {
  /** The first chunk, from which the format is detected. */
  readonly head: string;
  /** The size of the file; null for standard input. */
  readonly bytes: number | null;
  bytesRead(): number;
  chunks(): AsyncGenerator<string>;
}

async function openSource(file: string): Promise<Source> {
  const stream: Readable = file === '-' ? process.stdin : createReadStream(file);
  const iterator = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let bytesRead = 0;
  let hasEnded = false;
  let isGzip = false;
  const next = async (): Promise<string | null> => {
    const { value, done } = await iterator.next().catch((cause: Error) => {
      throw new Failure('refused', `${file} ${reasonOf(cause)}. Name another file.`, cause);
    });
    if (hasEnded) return null;
    hasEnded = done === true;
    if (bytesRead === 0 && !hasEnded) isGzip = value[0] === 0x1f && value[1] === 0x8b;
    bytesRead += hasEnded ? 0 : value.length;
    try {
      return hasEnded ? decoder.decode() : decoder.decode(value, { stream: true });
    } catch (cause) {
      const what = isGzip
        ? `is a gzip file. Unpack it first: \`gunzip -c ${file} | tollgate keys import -\`.`
        : 'is not UTF-8 text from some character on. What stands before that was read.';
      throw new Failure('refused', `${file} ${what}`, cause);
    }
  };
  const head = (await next()) ?? '';
  return {
    head,
    bytes: file === '-' ? null : statSync(file).size,
    bytesRead: () => bytesRead,
    chunks: async function* () {
      for (let chunk: string | null = head; chunk !== null; chunk = await next()) yield chunk;
    },
  };
}

function formatNamed(given: unknown): 'csv' | 'ndjson' | null {
  if (given === undefined) return null;
  if (given === 'csv' || given === 'ndjson') return given;
  throw new Failure('bad_usage', `--format is '${given}'; it must be csv or ndjson.`);
}

function formatOf(file: string, head: string): 'csv' | 'ndjson' {
  if (/\.(ndjson|jsonl)$/i.test(file)) return 'ndjson';
  return /^\s*\{/.test(head) && !/\.csv$/i.test(file) ? 'ndjson' : 'csv';
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
