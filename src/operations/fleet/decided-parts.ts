import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { MAX_UNITS } from '../../model/plan.ts';
import { DECIDED_JUDGEMENTS, SOURCES } from '../../model/refusal.ts';
import { isLimitName } from '../../model/values.ts';
import type { RecentUnits } from '../../simulate/recent-record.ts';
import type { DecidedColumns } from '../live/shapes.ts';

// Decided requests as one gateway leaves them in the store for another: parts of at most `PART_ROWS` requests, each the columns
// as JSON, compressed. Requests are served between two parts.

const PART_ROWS = 2_000;
/** A part with the longest consumer ids that callers have takes a fraction of this. */
const MAX_PART = 4 * 1024 * 1024;

/** Packs requests, the newest first. @param processes each with the oldest request first */
export async function* packedRecord(processes: readonly DecidedColumns[]): AsyncGenerator<Uint8Array> {
  for (let behind = 0; processes.some(({ atMs }) => behind < atMs.length); behind += PART_ROWS) {
    for (const columns of processes) {
      const to = columns.atMs.length - behind;
      if (to > 0) yield await promisify(gzip)(JSON.stringify(partOf(columns, Math.max(to - PART_ROWS, 0), to)));
    }
  }
}

function partOf({ limits: sets, limitSets, units, ...columns }: DecidedColumns, from: number, to: number): object {
  const known = new Map<number, number>();
  const limits = Array.from(sets.subarray(from, to), (set) => {
    const index = known.get(set) ?? known.size;
    known.set(set, index);
    return index;
  });
  const parts = Object.entries(columns).map(([name, column]) => [name, [...column.slice(from, to)]]);
  return {
    ...Object.fromEntries(parts),
    ...(units === null ? {} : { units: units.slice(from, to) }),
    limits,
    limitSets: [...known.keys()].map((set) => limitSets[set]),
  };
}

/**
 * Reads a part that another gateway has left. Attack: a program that can write to the store leaves a part that expands to gigabytes,
 * or holds other than decided requests; each member is checked.
 * @returns null if it is no such part
 */
export async function unpackedPart(bytes: Uint8Array): Promise<DecidedColumns | null> {
  try {
    const text = await promisify(gunzip)(bytes, { maxOutputLength: MAX_PART });
    return columnsFrom(JSON.parse(text.toString()));
  } catch {
    return null;
  }
}

function columnsFrom(value: unknown): DecidedColumns | null {
  if (typeof value !== 'object' || value === null) return null;
  const given = value as Readonly<Record<string, unknown>>;
  const { atMs, limitSets } = given;
  const length = Array.isArray(atMs) ? Math.min(atMs.length, PART_ROWS) : 0;
  const list = <T>(name: keyof DecidedColumns, isSound: (one: unknown) => one is T): readonly T[] => {
    const values = given[name];
    if (!Array.isArray(values) || values.length !== length || !values.every(isSound)) throw new TypeError(name);
    return values;
  };
  // Gateways of earlier versions leave parts without these.
  const later = <T>(name: keyof DecidedColumns, isSound: (one: unknown) => one is T, missing: T) =>
    given[name] === undefined ? Array<T>(length).fill(missing) : list(name, isSound);
  if (!Array.isArray(limitSets) || !limitSets.every(isLimitSet)) return null;
  return {
    atMs: Float64Array.from(list('atMs', isCount)),
    costs: Float64Array.from(list('costs', isCount)),
    imposedBans: Float64Array.from(list('imposedBans', isCount)),
    remaining: Float64Array.from(list('remaining', isCount)),
    judgements: Uint8Array.from(list('judgements', isIndexIn(DECIDED_JUDGEMENTS))),
    sources: Uint8Array.from(list('sources', isIndexIn(SOURCES))),
    consumerIds: list('consumerIds', isText),
    customerIds: later('customerIds', isTextOrNull, null),
    methods: later('methods', isText, ''),
    paths: later('paths', isTextOrNull, null),
    plans: list('plans', isText),
    units: given.units === undefined ? null : list('units', isUnitsOrNull),
    limits: Uint32Array.from(list('limits', isIndexIn(limitSets))),
    limitSets,
  };
}

function isLimitSet(value: unknown): value is DecidedColumns['limitSets'][number] {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).every(([name, limit]) => isLimitName(name) && isCount(limit));
}

function isUnitsOrNull(value: unknown): value is RecentUnits | null {
  if (value === null) return true;
  if (typeof value !== 'object') return false;
  const units = Object.values(value);
  return units.length <= MAX_UNITS && units.every((one) => isCount(one?.reserved) && isCount(one?.settled));
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || isText(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isIndexIn(values: readonly unknown[]): (value: unknown) => value is number {
  return (value): value is number => isCount(value) && value < values.length;
}
