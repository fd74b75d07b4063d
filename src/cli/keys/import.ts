import { createReadStream, statSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { reasonOf } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { type Change, outcomeOfError } from '../../operations/recorded.ts';
import { importKeys, type LineOutcome } from '../../operations/transfer/import-keys.ts';
import { COLUMNS, readRows, UnreadableCsv } from '../../operations/transfer/rows.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { meantId } from '../meant-id.ts';
import { plansToUse } from '../operations.ts';
import { recordedByCommand } from '../recorded-change.ts';
import type { Command, Terminal, Words } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_STORE } from '../terminal/variables.ts';

/** At most this many lines are listed in the JSON report. Its counts include all lines. */
const MAX_LINES_REPORTED = 1_000;

/** At most this many keys are named in the record of changes. Its counts include all keys. */
const MAX_KEYS_RECORDED = 1_000;

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
      about: `Prints {"moved","unknown","already","refused","dryRun","lines"}; lines are those with something to report, at most ${MAX_LINES_REPORTED}.`,
    },
  },
  async run({ options, positionals }, terminal) {
    const [file] = positionals as [string];
    const wanted = formatNamed(options.format);
    const source = await openSource(file);
    const format = wanted ?? formatOf(file, source.head);
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const report = new ImportReport(file, terminal, options);
        const progress = new Progress(terminal, () => performance.now());
        const isDry = options['dry-run'] === true;
        const plans = await plansToUse(store, terminal.error);
        const move = async () => {
          const outcomes = importKeys(readRows(source.chunks(), format), {
            keys: store.keys,
            customers: store.customers,
            customerNamed: customersByName(store, terminal),
            plans,
            formats: store.settings.keyFormats,
            history: store.pepperHistory,
            nowMs: () => Date.now(),
            dryRun: isDry,
          });
          try {
            for await (const outcome of outcomes) {
              report.add(outcome, () => progress.end());
              progress.show('importing', source.bytesRead(), source.bytes, megabytes);
            }
          } catch (error) {
            progress.end();
            report.stop(error);
          }
          progress.end();
        };
        if (isDry) await move();
        else {
          await recordedByCommand(store, terminal.error, {
            action: 'key.import',
            target: null,
            work: move,
            changeOf: () => report.change(),
          });
        }
        return report.print();
      },
      options['dry-run'] === true ? { missingStore: 'empty' } : { makesSecrets: true, missingStore: 'make' },
    );
  },
};

/** Finds each name once, however many lines have it. */
function customersByName(store: OpenStore, { error }: Terminal): (name: string) => Promise<string> {
  const found = new Map<string, Promise<string>>();
  return (name) =>
    found.getOrInsertComputed(name, () => meantId(store, name, { of: 'CUSTOMER_ID', isRead: false, note: error }));
}

/** Counts the outcomes of the lines and prints each refusal and warning. It never prints a secret. */
class ImportReport {
  readonly #file: string;
  readonly #terminal: Terminal;
  readonly #isJson: boolean;
  readonly #isDry: boolean;
  readonly #counts = { moved: 0, unknown: 0, already: 0, refused: 0 };
  readonly #lines: { line: number; kind: string; id: string | null; why: string }[] = [];
  /** The ids of the first imported keys. */
  readonly #keys: string[] = [];
  #failure: unknown = null;
  #stopped: string | null = null;

  constructor(file: string, terminal: Terminal, options: Words['options']) {
    this.#file = file === '-' ? 'standard input' : file;
    this.#terminal = terminal;
    this.#isJson = options.json === true;
    this.#isDry = options['dry-run'] === true;
  }

  add({ line, kind, id, why }: LineOutcome, clear: () => void): void {
    this.#counts[kind]++;
    if ((kind === 'moved' || kind === 'unknown') && this.#keys.length < MAX_KEYS_RECORDED) this.#keys.push(id!);
    if (why === null) return;
    if (this.#isJson) {
      if (this.#lines.length < MAX_LINES_REPORTED) this.#lines.push({ line, kind, id, why });
      return;
    }
    clear();
    this.#terminal.error(`${this.#file}:${line}: ${kind === 'refused' ? `refused: ${why}` : why}\n`);
  }

  /** The import cannot continue: the rest of the CSV is unreadable, or the store failed. */
  stop(error: unknown): void {
    if (!(error instanceof UnreadableCsv)) {
      this.#failure = error;
      return;
    }
    const { line, message } = error;
    this.#stopped = `${this.#file}:${line}: ${message} Nothing from there on was read.`;
    this.#terminal.error(`${this.#stopped}\n`);
  }

  /** The change for the record, which has one entry for the whole import. */
  change(): Change {
    const { moved, unknown } = this.#counts;
    const after = { file: this.#file, ...this.#counts, keys: this.#keys };
    const change = { target: null, before: null, after };
    if (this.#failure !== null) {
      const { outcome, code } = outcomeOfError(this.#failure);
      return { outcome: moved + unknown > 0 ? 'unknown' : outcome, code, ...change };
    }
    return { outcome: unknown > 0 ? 'unknown' : moved > 0 ? 'done' : 'unchanged', code: null, ...change };
  }

  /**
   * Prints the counts.
   * @throws the error that ended the import early
   */
  print(): ExitCode {
    const { moved, unknown, already, refused } = this.#counts;
    if (this.#isJson) {
      const report = { ...this.#counts, dryRun: this.#isDry, lines: this.#lines };
      this.#terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      const verb = this.#isDry ? 'would be imported' : 'imported';
      const perhaps = unknown === 0 ? '' : `${unknown} imported and perhaps not durable, `;
      this.#terminal.out(`${moved} ${verb}, ${perhaps}${already} there already, ${refused} refused.\n`);
    }
    if (this.#failure !== null) throw this.#failure;
    return refused > 0 || unknown > 0 || this.#stopped !== null ? 1 : 0;
  }
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
