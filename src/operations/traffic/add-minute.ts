import { setImmediate as turn } from 'node:timers/promises';
import {
  addCells,
  cellsOf,
  DIMENSIONS,
  decodeNames,
  decodeRecord,
  dimensionOf,
  encodeNames,
  encodeRecord,
  MAX_BYTES,
  MAX_NAMED,
  newRecord,
  othersOf,
  type TrafficRecord,
} from './traffic-record.ts';
import type { TrafficStore, TrafficSwap } from './traffic-store.ts';

/** What one gateway has counted in a minute. */
export interface CountedMinute {
  /** The number of the minute since 1970. */
  readonly minute: number;
  /** A random number of 32 bits, by which the store knows that it has this one. */
  readonly mark: number;
  /** The names of the series from `DIMENSIONS.length` on. */
  readonly names: readonly string[];
  /** The record, as `encodeRecord` has it: a minute that waits for the store is small. */
  readonly bytes: Uint8Array;
}

/** Marks of one minute: as many gateways (processes) may report it. What further ones report is added, and added twice if a reply is lost. */
const MAX_MARKS = 64;
/** Gateways write at the same moment. Each attempt that fails means that another one has written. */
const MAX_ATTEMPTS = 20;

/**
 * Adds a minute of one gateway to what the store has of that minute and its hour, once.
 * @param lost requests that this gateway could not keep
 * @returns false if other gateways wrote at each attempt
 * @throws Failure `store_unavailable`
 */
export async function addMinute(store: TrafficStore, counted: CountedMinute, lost: number): Promise<boolean> {
  const { minute, mark } = counted;
  const hour = Math.floor(minute / 60);
  const places = [
    { part: 'names', at: Math.floor(hour / 24) },
    { part: 'minute', at: minute },
    { part: 'hour', at: hour },
  ] as const;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const before = await store.read(places);
    const [names, ofMinute, ofHour] = before;
    const minuteRecord = recordOf(ofMinute);
    if (minuteRecord.marks.has(mark)) return true;
    const table = [...((names && decodeNames(names)) ?? [])];
    const known = table.length;
    const hourRecord = recordOf(ofHour);
    addTo([minuteRecord, hourRecord], table, counted, lost);
    if (minuteRecord.marks.size < MAX_MARKS) minuteRecord.marks.add(mark);
    hourRecord.marks.add(minute % 60);
    // Callers are served between these steps, which are most of the work.
    await turn();
    const minuteBytes = encodeRecord(minuteRecord, table, MAX_BYTES.minute);
    await turn();
    const hourBytes = encodeRecord(hourRecord, table, MAX_BYTES.hour);
    const swapOf = (i: number, after: Uint8Array): TrafficSwap => ({ ...places[i]!, before: before[i]!, after });
    const swaps = [
      ...(table.length === known ? [] : [swapOf(0, encodeNames(table))]),
      swapOf(1, minuteBytes),
      swapOf(2, hourBytes),
    ];
    if (await store.swap(swaps)) return true;
  }
  return false;
}

/** A record that cannot be read is begun anew. */
function recordOf(bytes: Uint8Array | null | undefined): TrafficRecord {
  return (bytes && decodeRecord(bytes)) ?? newRecord();
}

/** @param table gets the names that it lacks, as long as it has room */
function addTo(records: readonly TrafficRecord[], table: string[], counted: CountedMinute, lost: number): void {
  const numbers = new Map(table.map((name, i) => [name, DIMENSIONS.length + i]));
  const of = new Map(DIMENSIONS.map((dimension) => [dimension, 0]));
  let bytes = 0;
  for (const name of table) {
    of.set(dimensionOf(name), of.get(dimensionOf(name))! + 1);
    bytes += Buffer.byteLength(name);
  }
  const numberOf = (name: string) => {
    const dimension = dimensionOf(name);
    const known = numbers.get(name);
    if (known !== undefined) return known;
    if (of.get(dimension)! >= MAX_NAMED[dimension] || bytes + Buffer.byteLength(name) > MAX_BYTES.names) {
      return othersOf(dimension);
    }
    of.set(dimension, of.get(dimension)! + 1);
    bytes += Buffer.byteLength(name);
    numbers.set(name, DIMENSIONS.length + table.length);
    return DIMENSIONS.length + table.push(name) - 1;
  };
  const { reports, series } = decodeRecord(counted.bytes)!;
  for (const [id, cells] of series) {
    const number = id < DIMENSIONS.length ? id : numberOf(counted.names[id - DIMENSIONS.length]!);
    for (const record of records) addCells(cellsOf(record, number), cells);
  }
  for (const record of records) {
    record.reports += reports;
    record.lost += lost;
  }
}
