import { LogLine } from './log-line.ts';
import { ROW_BYTES, Rows } from './rows.ts';

/** A sorted run of rows that has been put aside: in memory, or in a file where there are many. */
export interface Run {
  readonly bytes: number;
  /** Fills `into` with what stands from byte `from` on. */
  read(into: Uint8Array, from: number): void;
}

/** Where runs are put aside. It may keep what it is given, which is not written to any more. */
export interface Shelf {
  put(run: Uint8Array): Run;
}

/** What the keys of one plan had for limits, as the lines tell it. */
export interface Shape {
  readonly plan: string;
  /** The counted windows of the line, as text. */
  readonly limits: string;
  /** The smallest of them; Infinity where there is none. */
  readonly least: number;
  /** Keys that came with it (of a key that changed between two, both count it). */
  consumers: number;
}

/** What the log held besides decisions, in lines; `requests` counts what summaries stand for. */
export interface Census {
  /** Lines that were decided by a plan, and the requests that they stand for. */
  lines: number;
  requests: number;
  public: number;
  undecided: number;
  other: number;
  foreign: number;
  broken: number;
  /** Requests that were decided without the store. */
  local: number;
  /** Lines that stand for several requests. */
  summaries: number;
  /** Lines of 2xx answers of which only a share was written. */
  sampled: number;
}

/** Rows that are sorted in one go: 16 MiB. */
const RUN_ROWS = (16 * 1024 * 1024) / ROW_BYTES;

/**
 * Takes the lines of the log in any order and keeps what a replay needs of them, sorted by the moment of the decision:
 * lines are written when a request ends, and several gateways write several logs. Memory grows with the number of keys;
 * the rows go to the shelf.
 */
export class Recording {
  readonly shapes: Shape[] = [];
  readonly runs: Run[] = [];
  readonly census: Census = noCensus();
  firstAtMs = Number.POSITIVE_INFINITY;
  lastAtMs = Number.NEGATIVE_INFINITY;
  readonly #shelf: Shelf;
  readonly #runRows: number;
  readonly #line = new LogLine();
  readonly #consumers = new Map<string, number>();
  readonly #shapesOf = new Map<string, Map<string, number>>();
  #lastShape = new Uint32Array(1024);
  #rows: Rows;
  /** What sampled lines stand for beyond whole requests. */
  #owed = 0;

  constructor(shelf: Shelf, runRows = RUN_ROWS) {
    this.#shelf = shelf;
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

  /** Puts the rest aside: all has been read. */
  close(): void {
    if (this.#rows.length > 0) this.#putAside();
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
    const isHopeless = cost > this.shapes[shape]!.least;
    const how = { isLocal, isHopeless, isFromMemory };
    this.#rows.add({ decidedAtMs, consumer, shape, cost, count, used, judgement, imposedBan, ...how });
    if (this.#rows.isFull) this.#putAside();
  }

  /** A sampled line stands for as many as its share says; what is left of a whole one goes to the next. */
  #requestsOf({ count, sample }: LogLine): number {
    if (sample === 1) return count;
    this.#owed += count / sample;
    const whole = Math.max(Math.round(this.#owed), 1);
    this.#owed -= whole;
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

  /** Null where the limits of the line are none. */
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
    // Numbers from 1, because 0 is a key without a shape yet.
    if (this.#lastShape[consumer] === shape + 1) return;
    this.#lastShape[consumer] = shape + 1;
    this.shapes[shape]!.consumers++;
  }

  #putAside(): void {
    this.runs.push(this.#shelf.put(this.#rows.sorted().bytes));
    this.#rows = new Rows(this.#runRows);
  }
}

const CARRIAGE_RETURN = 0x0d;
const LIMITS = /^(?:(?:^|,)"(?:second|minute|hour|day)":[0-9]{1,15})*$/;

/** The slice itself would keep the whole piece of the log that it was cut from. */
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
