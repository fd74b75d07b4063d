import { accountIdOf } from '../admit/account-id.ts';
import { neededFor } from '../engine/charging.ts';
import { Failure } from '../failure.ts';
import { isLimitName } from '../model/values.ts';
import { LogLine, type RecordedUnit } from './log-line.ts';
import { isSharedName } from './ordering-limit.ts';

// A recording: what the log says of each decision as compact rows in memory, read in the order in which the store decided.

/**
 * The size of a row in bytes. A recording has one row for each log line with a decision. A row is a moment (a double) and six
 * words. A request that charges units has a row more for each of them, right behind its own.
 */
const ROW_BYTES = 32;
const DOUBLES = ROW_BYTES / 8;
const WORDS = ROW_BYTES / 4;
/** The most rows that a recording takes: 320 MB. */
const MAX_ROWS = 10_000_000;

/** The index of each word in a row. The moment takes the first two words. */
export const [CONSUMER, KIND, COST, COUNT, USED, FLAGS] = [2, 3, 4, 5, 6, 7] as const;

/**
 * In place of the consumer, in the rows of units: the moment of the request, then UNIT_ROW, and what was reserved and settled, as
 * doubles. The kind of the request says of which units.
 */
const UNIT_ROW = 2 ** 32 - 1;
const [RESERVED, SETTLED] = [2, 3] as const;

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
  readonly kind: number;
  readonly cost: number;
  readonly count: number;
  readonly used: number;
  readonly judgement: number;
  readonly isLocal: boolean;
  readonly costExceedsLimit: boolean;
  readonly isFromMemory: boolean;
  readonly imposedBan: number;
  readonly units: readonly RecordedUnit[];
}

/** Rows in one ArrayBuffer, with views as words and as doubles. */
export class Rows {
  readonly #words: Uint32Array;
  readonly #doubles: Float64Array;
  readonly capacity: number;
  length = 0;

  constructor(capacity: number) {
    const memory = new ArrayBuffer(capacity * ROW_BYTES);
    this.#words = new Uint32Array(memory);
    this.#doubles = new Float64Array(memory);
    this.capacity = capacity;
  }

  /** A copy with more room. */
  widened(capacity: number): Rows {
    const wider = new Rows(capacity);
    wider.#words.set(this.#words);
    wider.length = this.length;
    return wider;
  }

  add(row: Row): void {
    const at = this.length++ * WORDS;
    this.#doubles[at / 2] = row.decidedAtMs;
    this.#words[at + CONSUMER] = row.consumer;
    this.#words[at + KIND] = row.kind;
    this.#words[at + COST] = row.cost;
    this.#words[at + COUNT] = row.count;
    this.#words[at + USED] = row.used;
    const ban = Math.min(row.imposedBan, MAX_BANS) << BAN_SHIFT;
    const source = (row.isLocal ? LOCAL_BIT : 0) | (row.costExceedsLimit ? EXCEEDS_BIT : 0);
    this.#words[at + FLAGS] = row.judgement | source | (row.isFromMemory ? MEMORY_BIT : 0) | ban;
    for (const { reserved, settled } of row.units) {
      const unit = this.length++ * DOUBLES;
      this.#doubles[unit] = row.decidedAtMs;
      this.#words[2 * unit + CONSUMER] = UNIT_ROW;
      this.#doubles[unit + RESERVED] = reserved;
      this.#doubles[unit + SETTLED] = settled;
    }
  }

  /** Whether this is one of the rows of a request's units, which follow its own. */
  isOfUnit(row: number): boolean {
    return this.word(row, CONSUMER) === UNIT_ROW;
  }

  /** What the request of a row took in advance of a unit. @param index of the unit, in those of its kind */
  reserved(row: number, index: number): number {
    return this.#doubles[(row + 1 + index) * DOUBLES + RESERVED]!;
  }

  /** What it paid of it in the end. */
  settled(row: number, index: number): number {
    return this.#doubles[(row + 1 + index) * DOUBLES + SETTLED]!;
  }

  momentMs(row: number): number {
    return this.#doubles[row * DOUBLES]!;
  }

  /** @param index CONSUMER, KIND, COST, COUNT, USED or FLAGS */
  word(row: number, index: number): number {
    return this.#words[row * WORDS + index]!;
  }
}

/** One set of limits that keys of a plan had, according to the log. */
export interface Shape {
  readonly plan: string;
  /** The counted windows of the line without those of groups, as text. */
  readonly limits: string;
  readonly isOfCustomer: boolean;
  /** A request of a group that is counted in place of the plan's limits, which its line does not have. */
  readonly isPartial: boolean;
  /** Keys with these limits. A key whose limits changed between two shapes counts in both. */
  consumers: number;
}

/** What a row has in common with many others. */
interface Kind {
  /** The index of its shape. */
  readonly shape: number;
  /** As GroupsOf returns them. */
  readonly groups: number;
  /** What it charges in units of their own. */
  readonly units: readonly string[];
}

/**
 * The groups of routes to which a request belongs, a bit for each: in the low 16 bits those of its plan in the file that is tried, in
 * the high ones those of its plan that was in force. Null if that takes a path, which the record does not have.
 */
export type GroupsOf = (line: Readonly<Pick<LogLine, 'plan' | 'path' | 'method' | 'limits'>>) => number | null;

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
  /** Requests without a path, of plans with groups of routes. */
  pathless: number;
}

/**
 * Reads log lines in any order and keeps what a replay needs. The log is in another order than the decisions: a gateway writes a
 * line when the request ends, and each gateway has its own log.
 */
export class Recording {
  readonly shapes: Shape[] = [];
  readonly kinds: Kind[] = [];
  readonly census: Census = noCensus();
  firstAtMs = Number.POSITIVE_INFINITY;
  lastAtMs = Number.NEGATIVE_INFINITY;
  readonly #maxRows: number;
  readonly #line: LogLine;
  readonly #groupsOf: GroupsOf | null;
  readonly #kindNumbers = new Map<number, number>();
  /** The same for requests that charge units, by the names of these. */
  readonly #kindNumbersInUnits = new Map<string, Map<number, number>>();
  /** By the id of the account: a key that was moved to a customer is another consumer from then on. */
  readonly #consumers = new Map<string, number>();
  /** The first consumer of each customer in the log. */
  readonly #customers = new Map<string, number>();
  /** By plan and limits as in the line. */
  readonly #shapesOf = {
    keys: new Map<string, Map<string, LineShape>>(),
    customers: new Map<string, Map<string, LineShape>>(),
  };
  readonly #shapeNumbers = new Map<string, number>();
  #lastShape = new Uint32Array(1024);
  #owners = new Uint32Array(1024);
  #rows = new Rows(65_536);
  /** The fraction of a request that sampled lines so far stand for beyond the counted ones. */
  #fraction = 0;

  /** @param groupsOf null if no plan has groups of routes */
  constructor(groupsOf: GroupsOf | null = null, maxRows = MAX_ROWS) {
    this.#groupsOf = groupsOf;
    this.#line = new LogLine(groupsOf !== null);
    this.#maxRows = maxRows;
  }

  /** The ids of the consumers' accounts, in the order of their numbers in the rows. */
  get consumers(): IterableIterator<string> {
    return this.#consumers.keys();
  }

  get consumerCount(): number {
    return this.#consumers.size;
  }

  /** The number that the consumers of one customer share. */
  ownerOf(consumer: number): number {
    return this.#owners[consumer]!;
  }

  /** The last shape of a consumer that is not partial; null if there is none. */
  lastShapeOf(consumer: number): number | null {
    return this.#lastShape[consumer]! === 0 ? null : this.#lastShape[consumer]! - 1;
  }

  /**
   * @param text whole lines, each byte of the log one character (latin1)
   * @throws Failure `refused` if the log is too long
   */
  read(text: string): void {
    for (let start = 0; start < text.length; ) {
      const feed = text.indexOf('\n', start);
      const next = feed === -1 ? text.length : feed;
      const end = text.charCodeAt(next - 1) === CARRIAGE_RETURN ? next - 1 : next;
      if (end > start) this.#readLine(text, start, end);
      start = next + 1;
    }
  }

  /**
   * Visits the rows of all requests in the order in which the store decided. Decisions about one consumer, or about the consumers
   * of one customer, in the same millisecond are ordered by the use after them, then by the verdict: refusals come after
   * admissions, and a ban after the refusals that led to it.
   * @param visit called for the row of each request, behind which those of its units are
   */
  inOrderOfDecision(visit: (rows: Rows, row: number) => void): void {
    const rows = this.#rows;
    const order = Uint32Array.from({ length: rows.length }, (_, row) => row).filter((row) => !rows.isOfUnit(row));
    const ownerOf = (row: number) => this.ownerOf(rows.word(row, CONSUMER));
    order.sort((a, b) => rows.momentMs(a) - rows.momentMs(b) || ownerOf(a) - ownerOf(b) || compare(rows, a, b));
    for (const row of order) visit(rows, row);
  }

  #readLine(text: string, start: number, end: number): void {
    const kind = this.#line.read(text, start, end);
    if (kind === 'decided') this.#keep(this.#line);
    else this.census[kind]++;
  }

  #keep(line: LogLine): void {
    const { census } = this;
    const found = this.#shapeOf(line);
    if (found === null) {
      census.broken++;
      return;
    }
    const count = this.#requestsOf(line);
    const consumer = this.#consumerOf(line);
    if (!this.shapes[found.shape]!.isPartial) this.#countShape(found.shape, consumer);
    census.lines++;
    census.requests += count;
    if (line.isLocal) census.local += count;
    if (line.count > 1) census.summaries++;
    if (line.sample < 1) census.sampled++;
    this.firstAtMs = Math.min(this.firstAtMs, line.decidedAtMs);
    this.lastAtMs = Math.max(this.lastAtMs, line.decidedAtMs);
    const { decidedAtMs, cost, used, judgement, isLocal, isFromMemory, imposedBan, units } = line;
    const costExceedsLimit =
      cost > found.least || units.some(({ reserved }, i) => neededFor(reserved) > found.leastOfUnits[i]!);
    const flags = { isLocal, costExceedsLimit, isFromMemory };
    const kind = this.#kindOf(line, found.shape, count);
    this.#makeRoom(1 + units.length);
    this.#rows.add({ decidedAtMs, consumer, kind, cost, count, used, judgement, imposedBan, units, ...flags });
  }

  #kindOf(line: LogLine, shape: number, count: number): number {
    const groups = this.#groupsOf === null ? 0 : this.#groupsOf(line);
    if (groups === null) this.census.pathless += count;
    const key = shape * 2 ** 32 + (groups ?? 0);
    const numbers = line.units.length === 0 ? this.#kindNumbers : this.#numbersInUnits(line.units);
    const known = numbers.get(key);
    if (known !== undefined) return known;
    const units = line.units.map(({ unit }) => copyOf(unit));
    const kind = this.kinds.push({ shape, groups: groups ?? 0, units }) - 1;
    numbers.set(key, kind);
    return kind;
  }

  #numbersInUnits(units: readonly RecordedUnit[]): Map<number, number> {
    const names = namesOf(units);
    const known = this.#kindNumbersInUnits.get(names);
    if (known !== undefined) return known;
    const numbers = new Map<number, number>();
    this.#kindNumbersInUnits.set(names, numbers);
    return numbers;
  }

  /** A sampled line stands for `count / sample` requests, rounded; the rest is carried over to the next line. */
  #requestsOf({ count, sample }: LogLine): number {
    if (sample === 1) return count;
    this.#fraction += count / sample;
    const whole = Math.max(Math.round(this.#fraction), 1);
    this.#fraction -= whole;
    return whole;
  }

  #consumerOf({ consumerId, customerId }: LogLine): number {
    const id = customerId === '' ? consumerId : accountIdOf(consumerId, customerId);
    const known = this.#consumers.get(id);
    if (known !== undefined) return known;
    const consumer = this.#consumers.size;
    this.#consumers.set(copyOf(id), consumer);
    if (consumer === this.#lastShape.length) {
      this.#lastShape = widenedWords(this.#lastShape);
      this.#owners = widenedWords(this.#owners);
    }
    const owner = customerId === '' ? consumer : (this.#customers.get(customerId) ?? consumer);
    this.#owners[consumer] = owner;
    if (owner === consumer && customerId !== '') this.#customers.set(copyOf(customerId), consumer);
    return consumer;
  }

  /** The shape of the line; null if its limits are malformed. */
  #shapeOf({ plan, limits, customerId, units }: LogLine): LineShape | null {
    const isOfCustomer = customerId !== '';
    const shapes = isOfCustomer ? this.#shapesOf.customers : this.#shapesOf.keys;
    const ofPlan = shapes.get(plan) ?? new Map<string, LineShape>();
    const key = units.length === 0 ? limits : `${limits} ${namesOf(units)}`;
    const known = ofPlan.get(key);
    if (known !== undefined) return known;
    const entries = entriesOf(limits);
    if (entries === null) return null;
    const base = entries.filter(({ name }) => !name.includes('-') || (isOfCustomer && isSharedName(name)));
    const isBound = isOfCustomer ? base.some(({ name }) => isSharedName(name)) : base.length > 0;
    // Limits in units are no reason to think that others are missing.
    const isOfPlan = (name: string) => base.some((one) => one.name === name) || isInUnits(name, units);
    const isPartial = !isBound && !entries.every(({ name }) => isOfPlan(name));
    const text = isPartial ? '' : base.map(({ text }) => text).join(',');
    const shape = {
      shape: this.#numberOf({ plan: copyOf(plan), limits: text, isOfCustomer, isPartial }),
      least: leastOf(entries.filter(({ name }) => !units.some(({ unit }) => limitsUnit(name, unit)))),
      leastOfUnits: units.map(({ unit }) => leastOf(entries.filter(({ name }) => limitsUnit(name, unit)))),
    };
    shapes.set(copyOf(plan), ofPlan.set(copyOf(key), shape));
    return shape;
  }

  #numberOf(shape: Omit<Shape, 'consumers'>): number {
    const text = JSON.stringify(shape);
    const known = this.#shapeNumbers.get(text);
    if (known !== undefined) return known;
    const number = this.shapes.push({ ...shape, consumers: 0 }) - 1;
    this.#shapeNumbers.set(text, number);
    return number;
  }

  #countShape(shape: number, consumer: number): void {
    // Stored plus one, because 0 stands for a consumer without a shape yet.
    if (this.#lastShape[consumer] === shape + 1) return;
    this.#lastShape[consumer] = shape + 1;
    this.shapes[shape]!.consumers++;
  }

  #makeRoom(rows: number): void {
    const { length, capacity } = this.#rows;
    if (length + rows > this.#maxRows) {
      const most = this.#maxRows.toLocaleString('en');
      throw new Failure(
        'refused',
        `The log has more than ${most} decisions, which is the most that one simulation takes; each unit that a request charges counts as one more. ` +
          'Give the lines of a shorter time, such as the busiest hours: `grep 2026-11-27T14 FILE`.',
      );
    }
    if (length + rows > capacity) this.#rows = this.#rows.widened(2 * capacity);
  }
}

const CARRIAGE_RETURN = 0x0d;
const LIMIT = /^"([a-z0-9-]{1,100})":([0-9]{1,15})$/;

/** The shape of lines with the same limits. */
interface LineShape {
  readonly shape: number;
  /** The smallest limit of the line for the cost; Infinity if there is none. */
  readonly least: number;
  /** The same for each unit of the line. */
  readonly leastOfUnits: readonly number[];
}

function namesOf(units: readonly RecordedUnit[]): string {
  return units.map(({ unit }) => unit).join(' ');
}

function leastOf(limits: readonly { readonly limit: number }[]): number {
  return Math.min(...limits.map(({ limit }) => limit));
}

/** Whether a limit is one of the plan, or of each key, in one of the units: `tokens-minute`, `customer-tokens-minute`. */
function isInUnits(name: string, units: readonly RecordedUnit[]): boolean {
  const budget = budgetIn(name);
  return units.some(({ unit }) => budget === unit || budget === `customer-${unit}`);
}

/** The same, or one of a group: `search-tokens-minute`. */
function limitsUnit(name: string, unit: string): boolean {
  return `-${budgetIn(name)}`.endsWith(`-${unit}`);
}

/** What precedes the window in the name of a limit. */
function budgetIn(name: string): string {
  return name.slice(0, Math.max(name.lastIndexOf('-'), 0));
}

/** The limits of a line: `"minute":60,"search-minute":10`; null if they are malformed. */
function entriesOf(limits: string) {
  const found: { readonly name: string; readonly limit: number; readonly text: string }[] = [];
  for (const text of limits === '' ? [] : limits.split(',')) {
    const [, name, limit] = LIMIT.exec(text) ?? [];
    if (name === undefined || !isLimitName(name)) return null;
    found.push({ name, limit: Number(limit), text: copyOf(text) });
  }
  return found;
}

function widenedWords(words: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(2 * words.length);
  wider.set(words);
  return wider;
}

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
    pathless: 0,
  };
}

/** The order of two decisions of the same millisecond about the same consumer or customer. */
function compare(rows: Rows, a: number, b: number): number {
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
