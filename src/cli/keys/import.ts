import { createReadStream, statSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { reasonOf } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { importKeys, type LineOutcome } from '../../operations/transfer/import-keys.ts';
import { COLUMNS, readRows, UnreadableCsv } from '../../operations/transfer/rows.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { meantId } from '../meant-id.ts';
import { plansToUse } from '../operations.ts';
import { operationsHere } from '../operations-at.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { MAX_LISTED, transferred } from './transfer.ts';

/** `tollgate keys import`: imports keys that another system made. */
export const keysImport: Command = {
  name: 'keys import',
  about:
    'Takes in API keys that were made elsewhere, from a file or standard input (-): CSV with a header, or NDJSON. ' +
    'Each line is imported whole or refused with a reason; existing keys are left as they are.',
  positionals: ['FILE|-'],
  environment: OF_STORE,
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
    const format = wanted ?? formatOf(file, source.head);
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const progress = new Progress(terminal, () => performance.now());
        const outcomes = importKeys(readRows(source.chunks(), format), {
          keys: store.keys,
          customers: store.customers,
          customerNamed: customersByName(store, terminal),
          plans: await plansToUse(store, terminal.error),
          formats: store.settings.keyFormats,
          history: store.pepperHistory,
          nowMs: () => Date.now(),
          dryRun: isDry,
        });
        return transferred(
          {
            ...OUTCOMES,
            ...{ action: 'key.import', recorded: { file: name }, printed: {}, member: 'lines', progress },
            outcomes,
            unreadText: (error) =>
              error instanceof UnreadableCsv
                ? `${name}:${error.line}: ${error.message} Nothing from there on was read.`
                : null,
            isCounted: () => true,
            lineOf: ({ line, kind, why }) => `${name}:${line}: ${kind === 'refused' ? `refused: ${why}` : why}`,
            show: () => progress.show('importing', source.bytesRead(), source.bytes, megabytes),
            textOf: (counts) => countsText(counts, isDry),
          },
          store,
          words,
          terminal,
        );
      },
      isDry ? { missingStore: 'empty' } : { makesSecrets: true, missingStore: 'make' },
    );
  },
};

/** Finds each name once, however many lines have it. */
function customersByName(store: OpenStore, { error }: Terminal): (name: string) => Promise<string> {
  const found = new Map<string, Promise<string>>();
  const at = operationsHere(store, error);
  return (name) =>
    found.getOrInsertComputed(name, () => meantId(at, name, { of: 'CUSTOMER_ID', isRead: false, note: error }));
}

const OUTCOMES = {
  kinds: ['moved', 'unknown', 'already', 'refused'],
  written: ['moved', 'unknown'],
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
