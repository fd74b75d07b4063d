import { WINDOWS } from '../admit/windows.ts';
import { LogLine } from './log-line.ts';

// A recording: what the log says of each decision as compact rows, kept in sorted runs and read in the order in
// which the store decided.

/**
 * The size of a row in bytes. A recording has one row for each log line with a decision; ten million lines of a day take
 * 320 MB, much less than their text. A row is a moment (a double) and six words.
 */
const ROW_BYTES = 32;
const DOUBLES = ROW_BYTES / 8;
const WORDS = ROW_BYTES / 4;

/** The index of each word in a row. The moment takes the first two words. */
export const [CONSUMER, SHAPE, COST, COUNT, USED, FLAGS] = [2, 3, 4, 5, 6, 7] as const;

/**
 * FLAGS: the judgement in the lowest two bits; then whether the gateway decided locally, whether the cost exceeds a limit,
 * and whether the gateway refused from memory; then the number of the imposed ban.
 */
export const JUDGEMENT_BITS = 3;
export const LOCAL_BIT = 4;
const EXCEEDS_BIT = 8;
export const MEMORY_BIT = 16;
export const BAN_SHIFT = 5;
const MAX_BANS = 2 ** 27 - 1;

export interface Row {
  readonly decidedAtMs: number;
  readonly consumer: number;
  readonly shape: number;
  readonly cost: number;
  readonly count: number;
  readonly used: number;
  readonly judgement: number;
  readonly isLocal: boolean;
  readonly costExceedsLimit: boolean;
  readonly isFromMemory: boolean;
  readonly imposedBan: number;
}

/** Rows in one ArrayBuffer, with views as bytes, as words and as moments. */
export class Rows {
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly #moments: Float64Array;
  length = 0;

  constructor(capacity: number) {
    const memory = new ArrayBuffer(capacity * ROW_BYTES);
    this.bytes = new Uint8Array(memory);
    this.words = new Uint32Array(memory);
    this.#moments = new Float64Array(memory);
  }

  get isFull(): boolean {
    return this.length * ROW_BYTES === this.bytes.length;
  }

  add(row: Row): void {
    const at = this.length++ * WORDS;
    this.#moments[at / 2] = row.decidedAtMs;
    this.words[at + CONSUMER] = row.consumer;
    this.words[at + SHAPE] = row.shape;
    this.words[at + COST] = row.cost;
    this.words[at + COUNT] = row.count;
    this.words[at + USED] = row.used;
    const ban = Math.min(row.imposedBan, MAX_BANS) << BAN_SHIFT;
    const source = (row.isLocal ? LOCAL_BIT : 0) | (row.costExceedsLimit ? EXCEEDS_BIT : 0);
    this.words[at + FLAGS] = row.judgement | source | (row.isFromMemory ? MEMORY_BIT : 0) | ban;
  }

  /** Appends a copy of a row of another object. */
  copy(from: Rows, row: number): void {
    const to = this.length++ * WORDS;
    for (let i = 0; i < WORDS; i++) this.words[to + i] = from.words[row * WORDS + i]!;
  }

  momentMs(row: number): number {
    return this.#moments[row * DOUBLES]!;
  }

  /** @param index CONSUMER, SHAPE, COST, COUNT, USED or FLAGS */
  word(row: number, index: number): number {
    return this.words[row * WORDS + index]!;
  }

  /** A copy sorted by moment. The sort is stable. */
  sorted(): Rows {
    const order = Uint32Array.from({ length: this.length }, (_, i) => i);
    order.sort((a, b) => this.momentMs(a) - this.momentMs(b));
    const sorted = new Rows(this.length);
    for (const row of order) sorted.copy(this, row);
    return sorted;
  }
}

/** A sorted run of rows in the storage: in memory, or in a file if there are many. */
export interface Run {
  readonly bytes: number;
  /** Fills `into` with the run's bytes from offset `from`. */
  read(into: Uint8Array, from: number): void;
}

/** Keeps the sorted runs of a recording. `put` may keep the array itself, which is not written to again. */
export interface RunStorage {
  put(run: Uint8Array): Run;
}

/** One set of limits that keys of a plan had, according to the log. */
export interface Shape {
  readonly plan: string;
  /** The counted windows of the line, as text. */
  readonly limits: string;
  /** The smallest of them; Infinity if there is none. */
  readonly least: number;
  /** Keys with these limits. A key whose limits changed between two shapes counts in both. */
  consumers: number;
}

/** The numbers of lines in the log, by LineKind and property. */
export interface Census {
  /** Lines with a decision by the limits of a plan, and the requests that they stand for. */
  lines: number;
  requests: number;
  public: number;
  undecided: number;
  other: number;
  foreign: number;
  broken: number;
  /** Requests that gateways decided locally. */
  local: number;
  /** Lines that stand for several requests. */
  summaries: number;
  /** Lines of sampled 2xx answers (`log.sample2xx`). */
  sampled: number;
}

/** Rows in one run: 16 MiB. */
const RUN_ROWS = (16 * 1024 * 1024) / ROW_BYTES;

/**
 * Reads log lines in any order and keeps what a replay needs, sorted by the moment of the decision. The log is in another
 * order: a gateway writes a line when the request ends, and each gateway has its own log. Memory grows with the number of
 * keys only; the rows go to the storage.
 */
export class Recording {
  readonly shapes: Shape[] = [];
  readonly runs: Run[] = [];
  readonly census: Census = noCensus();
  firstAtMs = Number.POSITIVE_INFINITY;
  lastAtMs = Number.NEGATIVE_INFINITY;
  readonly #storage: RunStorage;
  readonly #runRows: number;
  readonly #line = new LogLine();
  readonly #consumers = new Map<string, number>();
  readonly #shapesOf = new Map<string, Map<string, number>>();
  #lastShape = new Uint32Array(1024);
  #rows: Rows;
  /** The fraction of a request that sampled lines so far stand for beyond the counted ones. */
  #fraction = 0;

  constructor(storage: RunStorage, runRows = RUN_ROWS) {
    this.#storage = storage;
    this.#runRows = runRows;
    this.#rows = new Rows(runRows);
  }

  /** The ids of the consumers, in the order of their numbers in the rows. */
  get consumers(): IterableIterator<string> {
    return this.#consumers.keys();
  }

  get consumerCount(): number {
    return this.#consumers.size;
  }

  /** @param text whole lines, each byte of the log one character (latin1) */
  read(text: string): void {
    for (let start = 0; start < text.length; ) {
      const feed = text.indexOf('\n', start);
      const next = feed === -1 ? text.length : feed;
      const end = text.charCodeAt(next - 1) === CARRIAGE_RETURN ? next - 1 : next;
      if (end > start) this.#readLine(text, start, end);
      start = next + 1;
    }
  }

  /** Stores the last run, after all lines have been read. */
  close(): void {
    if (this.#rows.length > 0) this.#storeRun();
  }

  #readLine(text: string, start: number, end: number): void {
    const kind = this.#line.read(text, start, end);
    if (kind === 'decided') this.#keep(this.#line);
    else this.census[kind]++;
  }

  #keep(line: LogLine): void {
    const { census } = this;
    const shape = this.#shapeOf(line);
    if (shape === null) {
      census.broken++;
      return;
    }
    const count = this.#requestsOf(line);
    const consumer = this.#consumerOf(line.consumerId);
    this.#countShape(shape, consumer);
    census.lines++;
    census.requests += count;
    if (line.isLocal) census.local += count;
    if (line.count > 1) census.summaries++;
    if (line.sample < 1) census.sampled++;
    this.firstAtMs = Math.min(this.firstAtMs, line.decidedAtMs);
    this.lastAtMs = Math.max(this.lastAtMs, line.decidedAtMs);
    const { decidedAtMs, cost, used, judgement, isLocal, isFromMemory, imposedBan } = line;
    const costExceedsLimit = cost > this.shapes[shape]!.least;
    const flags = { isLocal, costExceedsLimit, isFromMemory };
    this.#rows.add({ decidedAtMs, consumer, shape, cost, count, used, judgement, imposedBan, ...flags });
    if (this.#rows.isFull) this.#storeRun();
  }

  /** A sampled line stands for `count / sample` requests, rounded; the rest is carried over to the next line. */
  #requestsOf({ count, sample }: LogLine): number {
    if (sample === 1) return count;
    this.#fraction += count / sample;
    const whole = Math.max(Math.round(this.#fraction), 1);
    this.#fraction -= whole;
    return whole;
  }

  #consumerOf(id: string): number {
    const known = this.#consumers.get(id);
    if (known !== undefined) return known;
    const consumer = this.#consumers.size;
    this.#consumers.set(copyOf(id), consumer);
    if (consumer === this.#lastShape.length) {
      const wider = new Uint32Array(2 * consumer);
      wider.set(this.#lastShape);
      this.#lastShape = wider;
    }
    return consumer;
  }

  /** The number of the line's shape; null if its limits are malformed. */
  #shapeOf({ plan, limits }: LogLine): number | null {
    const ofPlan = this.#shapesOf.get(plan);
    const known = ofPlan?.get(limits);
    if (known !== undefined) return known;
    if (!LIMITS.test(limits)) return null;
    const least = Math.min(...Array.from(limits.matchAll(/[0-9]+/g), Number));
    const copy = { plan: copyOf(plan), limits: copyOf(limits), least, consumers: 0 };
    const shape = this.shapes.push(copy) - 1;
    if (ofPlan === undefined) this.#shapesOf.set(copy.plan, new Map([[copy.limits, shape]]));
    else ofPlan.set(copy.limits, shape);
    return shape;
  }

  #countShape(shape: number, consumer: number): void {
    // Stored plus one, because 0 stands for a consumer without a shape yet.
    if (this.#lastShape[consumer] === shape + 1) return;
    this.#lastShape[consumer] = shape + 1;
    this.shapes[shape]!.consumers++;
  }

  #storeRun(): void {
    this.runs.push(this.#storage.put(this.#rows.sorted().bytes));
    this.#rows = new Rows(this.#runRows);
  }
}

const CARRIAGE_RETURN = 0x0d;
const LIMITS = new RegExp(`^(?:(?:^|,)"(?:${WINDOWS.join('|')})":[0-9]{1,15})*$`);

/** A copy, since V8 would keep the whole chunk of the log in memory for a slice of it. */
function copyOf(slice: string): string {
  return Buffer.from(slice).toString();
}

function noCensus(): Census {
  return {
    lines: 0,
    requests: 0,
    public: 0,
    undecided: 0,
    other: 0,
    foreign: 0,
    broken: 0,
    local: 0,
    summaries: 0,
    sampled: 0,
  };
}

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
