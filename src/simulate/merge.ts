import {
  BAN_SHIFT,
  CONSUMER,
  COST,
  EXCEEDS_BIT,
  FLAGS,
  JUDGEMENT_BITS,
  ROW_BYTES,
  Rows,
  type Run,
  USED,
} from './recording.ts';

/** Rows of a run in memory at a time: 64 KiB. */
const BLOCK_ROWS = (64 * 1024) / ROW_BYTES;

/**
 * Visits the rows of all runs in the order in which the store decided. Decisions about one consumer in the same
 * millisecond are ordered by the use after them, then by the verdict: refusals come after admissions, and a ban after the
 * refusals that led to it.
 * @param visit called for each row
 */
export function inOrderOfDecision(runs: readonly Run[], visit: (rows: Rows, row: number) => void): void {
  const heads = runs.map((run) => new RunReader(run)).filter((reader) => !reader.isAtEnd);
  let moment = new Rows(64);
  let atMs = Number.NaN;
  while (heads.length > 0) {
    const [first, untilMs] = earliest(heads);
    // Runs hardly overlap, so most rows of one run come before the first row of another.
    while (!first.isAtEnd && first.momentMs <= untilMs) {
      if (first.momentMs !== atMs) {
        visitMoment(moment, visit);
        atMs = first.momentMs;
      }
      if (moment.isFull) moment = widened(moment);
      moment.copy(first.rows, first.row);
      first.next();
    }
    if (first.isAtEnd) heads.splice(heads.indexOf(first), 1);
  }
  visitMoment(moment, visit);
}

/** The run with the earliest next row, and the moment of the earliest next row in the other runs. */
function earliest(heads: readonly RunReader[]): [first: RunReader, untilMs: number] {
  let first = heads[0]!;
  let untilMs = Number.POSITIVE_INFINITY;
  for (const head of heads.slice(1)) {
    if (head.momentMs < first.momentMs) {
      untilMs = first.momentMs;
      first = head;
    } else untilMs = Math.min(untilMs, head.momentMs);
  }
  return [first, untilMs];
}

function visitMoment(moment: Rows, visit: (rows: Rows, row: number) => void): void {
  if (moment.length === 1) visit(moment, 0);
  else if (moment.length > 1) {
    const order = Array.from({ length: moment.length }, (_, i) => i).sort((a, b) => compare(moment, a, b));
    for (const row of order) visit(moment, row);
  }
  moment.length = 0;
}

function compare(rows: Rows, a: number, b: number): number {
  const byConsumer = rows.word(a, CONSUMER) - rows.word(b, CONSUMER);
  if (byConsumer !== 0) return byConsumer;
  // The use is stored modulo 2^32; `| 0` makes the difference right across the overflow.
  const byUse = (rows.word(a, USED) - rows.word(b, USED)) | 0;
  if (byUse !== 0) return byUse;
  const [flagsA, flagsB] = [rows.word(a, FLAGS), rows.word(b, FLAGS)];
  const byJudgement = (flagsA & JUDGEMENT_BITS) - (flagsB & JUDGEMENT_BITS);
  if (byJudgement !== 0) return byJudgement;
  // The request that caused the ban comes before the others that got the ban answer.
  const byBan = (flagsA >>> BAN_SHIFT === 0 ? 1 : 0) - (flagsB >>> BAN_SHIFT === 0 ? 1 : 0);
  if (byBan !== 0) return byBan;
  // Several rows of the same millisecond may have the number of the ban. A row whose cost exceeds a limit cannot have
  // caused it, and of the others the one with the highest cost was certainly refused.
  return (flagsA & EXCEEDS_BIT) - (flagsB & EXCEEDS_BIT) || rows.word(b, COST) - rows.word(a, COST);
}

function widened(rows: Rows): Rows {
  const wider = new Rows(2 * rows.length);
  wider.bytes.set(rows.bytes);
  wider.length = rows.length;
  return wider;
}

/** Reads one run, a block at a time. */
class RunReader {
  readonly #run: Run;
  rows: Rows;
  row = 0;
  #readBytes = 0;

  constructor(run: Run) {
    this.#run = run;
    this.rows = new Rows(Math.min(BLOCK_ROWS, run.bytes / ROW_BYTES));
    this.#fill();
  }

  get isAtEnd(): boolean {
    return this.row === this.rows.length;
  }

  get momentMs(): number {
    return this.rows.momentMs(this.row);
  }

  next(): void {
    this.row++;
    if (this.isAtEnd) this.#fill();
  }

  #fill(): void {
    const bytes = Math.min(this.rows.bytes.length, this.#run.bytes - this.#readBytes);
    if (bytes > 0) this.#run.read(this.rows.bytes.subarray(0, bytes), this.#readBytes);
    this.#readBytes += bytes;
    this.rows.length = bytes / ROW_BYTES;
    this.row = 0;
  }
}
