/**
 * The rows of a recording: one for each line of the log that was decided, 32 bytes, so that a day of ten million lines
 * fits where its text would not. A row is a moment (a double) and six words.
 */
export const ROW_BYTES = 32;
const DOUBLES = ROW_BYTES / 8;
const WORDS = ROW_BYTES / 4;

/** Where the words of a row stand, counted from its beginning; the moment takes the first two. */
export const [CONSUMER, SHAPE, COST, COUNT, USED, FLAGS] = [2, 3, 4, 5, 6, 7] as const;

/**
 * FLAGS: the judgement in the lowest two bits, then whether it was decided without the store, whether it costs more than
 * a limit, whether it was refused from memory, and the imposed ban.
 */
export const JUDGEMENT_BITS = 3;
export const LOCAL_BIT = 4;
export const HOPELESS_BIT = 8;
export const MEMORY_BIT = 16;
export const BAN_SHIFT = 5;
const MOST_BANS = 2 ** 27 - 1;

export interface Row {
  readonly decidedAtMs: number;
  readonly consumer: number;
  readonly shape: number;
  readonly cost: number;
  readonly count: number;
  readonly used: number;
  readonly judgement: number;
  readonly isLocal: boolean;
  readonly isHopeless: boolean;
  readonly isFromMemory: boolean;
  readonly imposedBan: number;
}

/** Rows one after the other in one piece of memory, seen as moments and as words. */
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
    const ban = Math.min(row.imposedBan, MOST_BANS) << BAN_SHIFT;
    const how = (row.isLocal ? LOCAL_BIT : 0) | (row.isHopeless ? HOPELESS_BIT : 0);
    this.words[at + FLAGS] = row.judgement | how | (row.isFromMemory ? MEMORY_BIT : 0) | ban;
  }

  /** Copies a row of another piece of memory to the end. */
  copy(from: Rows, row: number): void {
    const to = this.length++ * WORDS;
    for (let i = 0; i < WORDS; i++) this.words[to + i] = from.words[row * WORDS + i]!;
  }

  momentMs(row: number): number {
    return this.#moments[row * DOUBLES]!;
  }

  /** One of the words that are named above. */
  word(row: number, name: number): number {
    return this.words[row * WORDS + name]!;
  }

  /** A copy in the order of the moments; rows of one moment stay as they are. */
  sorted(): Rows {
    const order = Uint32Array.from({ length: this.length }, (_, i) => i);
    order.sort((a, b) => this.momentMs(a) - this.momentMs(b));
    const sorted = new Rows(this.length);
    for (const row of order) sorted.copy(this, row);
    return sorted;
  }
}
