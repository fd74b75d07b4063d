import { deflateRawSync, inflateRawSync } from 'node:zlib';

// The one form of what gateways count over time, and its codec. A record is a minute or an hour of UTC, of all gateways together. It has
// a series for each value of each dimension: each request is in one series of every dimension. A series has a count for each status class
// and for each bucket of latency. The names of the series of a day stand once, in its table of names.

export const DIMENSIONS = ['route', 'plan', 'customer', 'upstream'] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/**
 * Series of a dimension that a day counts by name. With those of further values, one for each dimension, there are 300.
 *
 * Attack: callers of many customers, or many routes, fill the store with series. They are counted together from there on, and each dimension has
 * a part of its own, so that many customers leave the routes as they are.
 */
export const MAX_NAMED: Readonly<Record<Dimension, number>> = { route: 120, plan: 40, customer: 100, upstream: 36 };
/**
 * The records of 2,880 minutes and 2,208 hours and the tables of 93 days take at most 10 MB in Redis, what Redis adds to each included. For
 * names it is their size before they are packed.
 */
export const MAX_BYTES = { minute: 1_250, hour: 2_000, names: 12_000 } as const;
/** The longest record after it is inflated, in bytes. No gateway writes a longer one. */
const MAX_INFLATED = 1024 * 1024;

export const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;
/** Upper ends of the buckets of latency in milliseconds, rising; a last bucket has everything above. */
export const BOUNDS_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000] as const;
/** Counts of a series: by status class, then by bucket. */
export type Cells = Float64Array;
const CELLS = STATUS_CLASSES.length + BOUNDS_MS.length + 1;

export function newCells(): Cells {
  return new Float64Array(CELLS);
}

export function addCells(to: Cells, from: Cells): void {
  for (let i = 0; i < CELLS; i++) to[i]! += from[i]!;
}

export function requestsIn(cells: Cells): number {
  let sum = 0;
  for (let i = 0; i < STATUS_CLASSES.length; i++) sum += cells[i]!;
  return sum;
}

/**
 * The latency that this part of the requests did not exceed, in milliseconds, estimated within its bucket; null without requests. The last
 * bucket has no end: its answer is its beginning, so the true value may be more.
 */
export function quantileMs(cells: Cells, part: number): number | null {
  const rank = part * requestsIn(cells);
  if (rank === 0) return null;
  let below = 0;
  for (let i = 0; i < BOUNDS_MS.length; i++) {
    const count = cells[STATUS_CLASSES.length + i]!;
    const from = BOUNDS_MS[i - 1] ?? 0;
    if (below + count >= rank) return Math.round((from + ((rank - below) / count) * (BOUNDS_MS[i]! - from)) * 10) / 10;
    below += count;
  }
  return BOUNDS_MS.at(-1)!;
}

/** The number of the series of all further values of a dimension. Those of named ones follow. */
export function othersOf(dimension: Dimension): number {
  return DIMENSIONS.indexOf(dimension);
}

/** A name in a table: the dimension, and the value; without one for requests that have none, such as those of no customer. */
export function nameOf(dimension: Dimension, value: string | null): string {
  return value === null ? dimension : `${dimension} ${value}`;
}

export function dimensionOf(name: string): Dimension {
  return name.split(' ', 1)[0] as Dimension;
}

export interface TrafficRecord {
  /** How many gateways (processes) have added their minute, once for each. */
  reports: number;
  /** Requests that gateways had counted and could not keep until the store was back. */
  lost: number;
  /**
   * Of a minute: numbers of what was added, so that what is sent twice is added once. Of an hour: its minutes, 0 to 59, of which any gateway
   * has reported.
   */
  readonly marks: Set<number>;
  /** By the number of the series. */
  readonly series: Map<number, Cells>;
}

export function newRecord(): TrafficRecord {
  return { reports: 0, lost: 0, marks: new Set(), series: new Map() };
}

/** The first byte of a record and of a table. */
const VERSION = 1;

/** @param names of the series from `DIMENSIONS.length` on; series are counted with the others of their dimension until the record is small enough */
export function encodeRecord(record: TrafficRecord, names: readonly string[], maxBytes: number): Buffer {
  for (;;) {
    const bytes = encoded(record);
    const named = [...record.series].filter(([id]) => id >= DIMENSIONS.length);
    if (bytes.length <= maxBytes || named.length === 0) return bytes;
    const requests = new Map(named.map(([id, cells]) => [id, requestsIn(cells)]));
    named.sort(([a], [b]) => requests.get(a)! - requests.get(b)!);
    const excess = Math.ceil(named.length * (1 - maxBytes / bytes.length));
    for (const [id, cells] of named.slice(0, excess)) {
      record.series.delete(id);
      addCells(cellsOf(record, othersOf(dimensionOf(names[id - DIMENSIONS.length]!))), cells);
    }
  }
}

function encoded({ reports, lost, marks, series }: TrafficRecord): Buffer {
  const numbers = [reports, lost, marks.size, ...marks, series.size];
  const sorted = [...series].sort(([a], [b]) => a - b);
  let before = 0;
  for (const [id] of sorted) {
    numbers.push(id - before);
    before = id;
  }
  // A column for each cell: most columns are zeros, which take nearly nothing.
  for (let i = 0; i < CELLS; i++) for (const [, cells] of sorted) numbers.push(cells[i]!);
  return packed(bytesOf(numbers));
}

/** @returns null for what no version up to this one has written, and what is damaged */
export function decodeRecord(bytes: Uint8Array): TrafficRecord | null {
  const body = unpacked(bytes);
  if (body === null) return null;
  const read = numbersIn(body);
  const [reports, lost] = [read(), read()];
  const marks = new Set(Array.from({ length: Math.min(read(), body.length) }, read));
  let id = 0;
  const ids = Array.from({ length: Math.min(read(), body.length) }, () => {
    id += read();
    return id;
  });
  const series = new Map(ids.map((id) => [id, newCells()]));
  for (let i = 0; i < CELLS; i++) for (const cells of series.values()) cells[i] = read();
  // A body that was too short gave NaN.
  return Number.isNaN(reports + lost + id) || series.size !== ids.length ? null : { reports, lost, marks, series };
}

export function encodeNames(names: readonly string[]): Buffer {
  return packed(Buffer.from(JSON.stringify(names)));
}

/** @returns null as for a record */
export function decodeNames(bytes: Uint8Array): readonly string[] | null {
  const body = unpacked(bytes);
  if (body === null) return null;
  try {
    return JSON.parse(body.toString()) as readonly string[];
  } catch {
    return null;
  }
}

function packed(body: Buffer): Buffer {
  return Buffer.concat([Buffer.of(VERSION), deflateRawSync(body)]);
}

function unpacked(bytes: Uint8Array): Buffer | null {
  if (bytes[0] !== VERSION) return null;
  try {
    return inflateRawSync(bytes.subarray(1), { maxOutputLength: MAX_INFLATED });
  } catch {
    return null;
  }
}

/** Seven bits a byte, the lowest first; the highest bit says that another one follows. */
function bytesOf(numbers: readonly number[]): Buffer {
  // Eight bytes have any whole number up to 2^53.
  const bytes = Buffer.allocUnsafe(numbers.length * 8);
  let length = 0;
  for (let n of numbers) {
    for (; n >= 128; n = Math.floor(n / 128)) bytes[length++] = (n % 128) + 128;
    bytes[length++] = n;
  }
  return bytes.subarray(0, length);
}

/** @returns reads the next number; NaN at the end */
function numbersIn(bytes: Uint8Array): () => number {
  let at = 0;
  return () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) return Number.NaN;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
}

/** The counts of a series, which begins here if it has none yet. */
export function cellsOf({ series }: Pick<TrafficRecord, 'series'>, id: number): Cells {
  let cells = series.get(id);
  if (cells === undefined) {
    cells = newCells();
    series.set(id, cells);
  }
  return cells;
}
