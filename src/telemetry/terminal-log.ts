import { escapedText, type Style } from '../io/terminal-text.ts';
import { spanText } from '../io/time-text.ts';
import { LogOutput } from './log-output.ts';
import { grouped, type LogRecord, rowsOf, rowsWithin } from './terminal-line.ts';

/** Maximum requests, and maximum other records, that are printed in a second: half of the screen. The others are counted. */
const SHARE_A_SECOND = 0.5;
const MIN_A_SECOND = 10;
const SECOND_MS = 1_000;
/** Rows are held this long, so that those of one moment are one write. It is too short to be noticed. */
const WRITE_AFTER_MS = 20;
/** How many bytes are held while the terminal accepts none, for example after Ctrl-S. */
const MAX_HELD_BYTES = 256 * 1024;
/** While requests keep coming, the reminder is printed at most this often. */
const REMIND_EVERY_MS = 5_000;

/** A sentence about what just happened. Each `id` is printed once. */
export interface Hint {
  readonly id: string;
  readonly text: string;
  /** A command to try, in a row of its own so that it can be copied whole; null if there is none. */
  readonly command: string | null;
}

export interface TerminalLogOptions {
  /** An open file: 1 is standard output. */
  readonly fd: number;
  /** Returns the size of the terminal, which may change. */
  readonly size: () => { readonly columns: number; readonly rows: number };
  readonly style: Style;
  /** Whether the log has a line for every request: with LOG_LEVEL=warn it has not. */
  readonly hasAllRequests: boolean;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
  /** What to try next, now that this request has ended; null if there is nothing to say. */
  readonly hintFor?: (record: LogRecord) => Hint | null;
}

/** How requests ended. */
interface Tally {
  ok: number;
  refused: number;
  'refused by the service': number;
  failed: number;
  'broken off': number;
}

const emptyTally = (): Tally => ({ ok: 0, refused: 0, 'refused by the service': 0, failed: 0, 'broken off': 0 });

/**
 * The log on a terminal: receives the lines of the log and prints each as a row for people. The terminal never holds up a request
 * and memory is bounded: only a few requests of a second are parsed and printed, the others are counted from their text, and
 * rows that a stalled terminal does not accept are dropped.
 */
export class TerminalLog {
  readonly #options: TerminalLogOptions;
  readonly #style: Style;
  readonly #output: LogOutput;
  readonly #startedAtMs: number;
  readonly #total = emptyTally();
  #isSampled = false;
  /** What the present second has printed, and what it has left out. */
  #printed = { requests: 0, others: 0 };
  #hidden = emptyTally();
  #hiddenOthers = 0;
  #lostRows = 0;
  /** Runs while there is something to count or to remind of. */
  #second: NodeJS.Timeout | null = null;
  /** The statuses that have been printed once, and `ban`. */
  readonly #seen = new Set<string>();
  readonly #given = new Set<string>();
  #reminder: {
    readonly rowsFor: (columns: number) => readonly string[];
    printedAtMs: number;
    rowsSince: number;
  } | null = null;

  constructor(options: TerminalLogOptions) {
    this.#options = options;
    this.#style = options.style;
    this.#startedAtMs = options.monotonicMs();
    this.#output = new LogOutput({
      fd: options.fd,
      maxBytes: MAX_HELD_BYTES,
      writeAfterMs: WRITE_AFTER_MS,
      onDrop: () => this.#lostRows++,
    });
  }

  /** Receives one line of the log: JSON with its line feed. Never throws and never waits. */
  write(line: string): void {
    this.#second ??= setInterval(() => this.#endSecond(), SECOND_MS).unref();
    const status = statusOf(line);
    if (status === null) {
      if (this.#printed.others < this.#maxPerSecond) this.#printOther(line);
      else this.#hiddenOthers++;
      return;
    }
    const kind = kindOf(line, status);
    const count = countOf(line);
    if (line.includes(',"sample":')) this.#isSampled = true;
    this.#total[kind] += count;
    if (this.#printed.requests < this.#maxPerSecond || this.#isNew(line, status)) this.#printRequest(line);
    else this.#hidden[kind] += count;
  }

  /** Prints a text of this program, which ends with a line feed. It may have rows that are wider than the terminal. */
  print(text: string): void {
    const { columns } = this.#options.size();
    const rows = text.split('\n').slice(0, -1);
    if (this.#reminder !== null) this.#reminder.rowsSince += heightOf(rows, columns);
    this.#output.write(text);
  }

  /**
   * Prints rows again whenever they have left the screen, so that they stay in sight. They are on the screen now.
   * @param rowsFor returns them for a terminal of this width in columns, the heading first
   */
  keepInSight(rowsFor: (columns: number) => readonly string[]): void {
    this.#reminder = { rowsFor, printedAtMs: this.#options.monotonicMs(), rowsSince: 0 };
  }

  /** Prints what is held, and one row about all requests. */
  async end(): Promise<void> {
    this.#reminder = null;
    this.#endSecond();
    const ran = spanText(this.#options.monotonicMs() - this.#startedAtMs, Math.ceil);
    const parts = partsOf(this.#total);
    const requests = sumOf(this.#total);
    const about = this.#isSampled ? 'about ' : '';
    const counts =
      requests === 0
        ? 'no requests'
        : `${about}${grouped(requests)} ${requests === 1 ? 'request' : 'requests'}: ${parts}`;
    const summary = `Stopped after ${ran}${this.#options.hasAllRequests ? `, ${counts}` : ''}.`;
    for (const row of rowsWithin(summary, Math.max(this.#options.size().columns - 1, 20), MAX_ROWS))
      this.#row(this.#style('bold', row));
    await this.close();
  }

  /** Prints what is held, as far as the terminal accepts it. */
  close(): Promise<void> {
    if (this.#second !== null) clearInterval(this.#second);
    this.#second = null;
    return this.#output.close();
  }

  get #maxPerSecond(): number {
    return Math.max(MIN_A_SECOND, Math.floor(this.#options.size().rows * SHARE_A_SECOND));
  }

  /** Whether nothing like this has been printed yet. The first of its kind is always printed. */
  #isNew(line: string, status: number): boolean {
    if (!this.#seen.has(String(status))) return true;
    return status === 429 && !this.#seen.has('ban') && !line.includes(',"imposedBan":null');
  }

  #printRequest(line: string): void {
    this.#printed.requests++;
    const record = parsed(line);
    if (record === null) return;
    this.#seen.add(String(record.status));
    if (record.imposedBan !== null) this.#seen.add('ban');
    this.#rows(record);
    const hint = this.#options.hintFor?.(record) ?? null;
    if (hint === null || this.#given.has(hint.id)) return;
    this.#given.add(hint.id);
    const rows = rowsWithin(
      escapedText(hint.text),
      Math.max(this.#options.size().columns - HINT.length - 1, 20),
      MAX_ROWS,
    );
    for (const row of rows) this.#row(`${HINT}${row}`);
    if (hint.command === null) return;
    // The terminal may wrap it: a command that this program broke into rows could not be copied whole.
    this.print(`${HINT}  ${this.#style('bold', escapedText(hint.command))}\n`);
  }

  #printOther(line: string): void {
    this.#printed.others++;
    const record = parsed(line);
    if (record === null || isOnlyForPrograms(record)) return;
    // The terminal has printed ^C where the row begins.
    if (record.msg === DRAINING) this.#output.write('\r');
    this.#rows(record.msg === DRAINING ? { ...record, msg: DRAINING_ADVICE } : record);
  }

  #rows(record: LogRecord): void {
    for (const row of rowsOf(record, this.#options.size().columns, this.#style)) this.#row(row);
  }

  #row(row: string): void {
    if (this.#reminder !== null) this.#reminder.rowsSince++;
    this.#output.write(`${row}\n`);
  }

  /** Prints what the second has left out, and the reminder if it has left the screen. */
  #endSecond(): void {
    const { columns } = this.#options.size();
    const requests = sumOf(this.#hidden);
    const counts = [
      ...(requests === 0
        ? []
        : [
            `${grouped(requests)} more ${requests === 1 ? 'request' : 'requests'} in this second: ${partsOf(this.#hidden)}`,
          ]),
      ...(this.#hiddenOthers === 0 ? [] : [`${grouped(this.#hiddenOthers)} more lines of the log`]),
      ...(this.#lostRows === 0
        ? []
        : [`${grouped(this.#lostRows)} rows lost, because the terminal did not accept them`]),
    ];
    const isQuiet = this.#printed.requests + this.#printed.others + counts.length === 0;
    this.#hidden = emptyTally();
    this.#hiddenOthers = 0;
    this.#lostRows = 0;
    this.#printed = { requests: 0, others: 0 };
    const rows = rowsWithin(counts.join('; '), Math.max(columns - HIDDEN.length - 1, 20), MAX_ROWS);
    if (counts.length > 0)
      rows.forEach((row, i) => {
        this.#row(this.#style('dim', `${i === 0 ? HIDDEN : ' '.repeat(HIDDEN.length)}${row}`));
      });
    this.#remind(isQuiet);
    if (!isQuiet || this.#second === null) return;
    clearInterval(this.#second);
    this.#second = null;
  }

  #remind(isQuiet: boolean): void {
    const reminder = this.#reminder;
    if (reminder === null) return;
    const { columns, rows } = this.#options.size();
    const texts = reminder.rowsFor(columns);
    const nowMs = this.#options.monotonicMs();
    const isInSight = reminder.rowsSince + heightOf(texts, columns) < rows;
    if (isInSight || (!isQuiet && nowMs - reminder.printedAtMs < REMIND_EVERY_MS)) return;
    const [heading, ...keys] = texts;
    this.#output.write(`${[this.#style('bold', heading!), ...keys].join('\n')}\n`);
    reminder.printedAtMs = nowMs;
    reminder.rowsSince = 0;
  }
}

/** Before the sum of what a second has left out. */
const HIDDEN = '         … ';
/** Below the time of the row that the hint is about. */
const HINT = '         ';
const MAX_ROWS = 6;

const DRAINING = 'draining';
const DRAINING_ADVICE = 'draining; Ctrl-C again ends at once';

/** Messages that repeat the rows around them: that the gateway has drained, and that each worker ends. */
function isOnlyForPrograms({ msg, worker }: LogRecord): boolean {
  return msg === 'drained' || (msg === DRAINING && worker !== undefined);
}

const STATUS = ',"status":';
const COUNT = ',"count":';

/**
 * The status of a line about requests, read without parsing the JSON; null for another line. A quote within a text of JSON has a
 * backslash before it, so these names are found nowhere else.
 */
function statusOf(line: string): number | null {
  if (!line.endsWith('"msg":"request"}\n') && !line.endsWith('"msg":"refusals"}\n')) return null;
  const at = line.indexOf(STATUS);
  return at === -1 ? null : Number.parseInt(line.slice(at + STATUS.length, at + STATUS.length + 3), 10);
}

/** How many requests the line stands for. */
function countOf(line: string): number {
  const sample = line.lastIndexOf(',"sample":');
  if (sample !== -1) return Math.round(1 / Number.parseFloat(line.slice(sample + ',"sample":'.length))) || 1;
  const at = line.lastIndexOf(COUNT);
  return at === -1 ? 1 : Number.parseInt(line.slice(at + COUNT.length), 10) || 1;
}

function kindOf(line: string, status: number): keyof Tally {
  if (status < 400) return 'ok';
  if (status === 499) return 'broken off';
  if (status >= 500) return 'failed';
  return line.includes(',"code":null') ? 'refused by the service' : 'refused';
}

/** The rows of the screen that texts take, each of which may be wider than it. */
function heightOf(texts: readonly string[], columns: number): number {
  return texts.reduce((sum, text) => sum + Math.max(1, Math.ceil(text.length / columns)), 0);
}

function parsed(line: string): LogRecord | null {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

function sumOf(tally: Tally): number {
  return Object.values(tally).reduce((sum, amount) => sum + amount, 0);
}

function partsOf(tally: Tally): string {
  return Object.entries(tally)
    .filter(([, amount]) => amount > 0)
    .map(([kind, amount]) => `${grouped(amount)} ${kind}`)
    .join(', ');
}
