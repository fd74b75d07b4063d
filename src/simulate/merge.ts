import type { Run } from './recording.ts';
import { BAN_SHIFT, CONSUMER, COST, FLAGS, HOPELESS_BIT, JUDGEMENT_BITS, ROW_BYTES, Rows, USED } from './rows.ts';

/** Rows of a run that are in memory at a time: 64 KiB. */
const BLOCK_ROWS = (64 * 1024) / ROW_BYTES;

/**
 * Walks through all runs in the order in which the store decided. What it decided of one consumer in the same
 * millisecond is told apart by how much was used afterwards, and then by the verdict: each refusal comes after what was
 * admitted, and a ban after the refusals that made it.
 * @param visit called for each row
 */
export function inOrderOfDecision(runs: readonly Run[], visit: (rows: Rows, row: number) => void): void {
  const heads = runs.map((run) => new Reader(run)).filter((reader) => !reader.isAtEnd);
  let moment = new Rows(64);
  let atMs = Number.NaN;
  while (heads.length > 0) {
    const [first, untilMs] = earliest(heads);
    // Runs hardly overlap: most of one is walked through before another is looked at.
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

/** The run whose next row is the earliest, and the moment up to which no other run has one. */
function earliest(heads: readonly Reader[]): [first: Reader, untilMs: number] {
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
  // What was used is kept in 32 bits: the difference is right across their end.
  const byUse = (rows.word(a, USED) - rows.word(b, USED)) | 0;
  if (byUse !== 0) return byUse;
  const [flagsA, flagsB] = [rows.word(a, FLAGS), rows.word(b, FLAGS)];
  const byJudgement = (flagsA & JUDGEMENT_BITS) - (flagsB & JUDGEMENT_BITS);
  if (byJudgement !== 0) return byJudgement;
  // The request that brought the ban about is the first that is told of it.
  const byBan = (flagsA >>> BAN_SHIFT === 0 ? 1 : 0) - (flagsB >>> BAN_SHIFT === 0 ? 1 : 0);
  if (byBan !== 0) return byBan;
  // Later ones of the same millisecond may claim it too. One that costs more than a limit cannot have made it, and of the
  // others the one that costs most was refused for certain.
  return (flagsA & HOPELESS_BIT) - (flagsB & HOPELESS_BIT) || rows.word(b, COST) - rows.word(a, COST);
}

function widened(rows: Rows): Rows {
  const wider = new Rows(2 * rows.length);
  wider.bytes.set(rows.bytes);
  wider.length = rows.length;
  return wider;
}

/** One run, a block at a time. */
class Reader {
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
