import { z } from 'zod';
import { type DeepReadonly, time } from '../../model/values.ts';
import {
  bucketCounts,
  complete,
  STEP_MS,
  STEPS_KEPT,
  TRAFFIC_COLUMNS,
  type Traffic,
  type TrafficColumn,
} from './shapes.ts';

const COLUMNS = TRAFFIC_COLUMNS.length;

/** The buckets of traffic of the last 10 minutes as the admin API shows them. */
export type TrafficReport = DeepReadonly<z.output<typeof trafficOutput>>;
export const trafficOutput = z
  .strictObject({
    stepSeconds: z.number().meta({ type: 'integer', const: STEP_MS / 1_000 }),
    complete,
    buckets: z
      .array(z.strictObject({ at: time.describe('When the bucket begins.'), ...bucketCounts.shape }))
      .length(STEPS_KEPT),
  })
  .meta({ id: 'Traffic' });

/** Adds up traffic, bucket by bucket. @param lastStep the latest bucket of the sum; what is later is left out */
export function sumOf(parts: readonly Traffic[], lastStep: number): Traffic {
  const counts = new Uint32Array(STEPS_KEPT * COLUMNS);
  for (const part of parts) {
    const behind = (lastStep - part.lastStep) * COLUMNS;
    const [from, to] = [Math.max(behind, 0), Math.min(counts.length + behind, counts.length)];
    for (let i = from; i < to; i++) counts[i - behind]! += part.counts[i]!;
  }
  return { lastStep, counts };
}

export function latestStepOf(parts: readonly Traffic[]): number {
  return parts.reduce((latest, { lastStep }) => Math.max(latest, lastStep), 0);
}

export function trafficReport({ lastStep, counts }: Traffic, complete: boolean): TrafficReport {
  const buckets = Array.from({ length: STEPS_KEPT }, (_, row) => ({
    at: new Date((lastStep - STEPS_KEPT + 1 + row) * STEP_MS).toISOString(),
    ...(Object.fromEntries(TRAFFIC_COLUMNS.map((name, i) => [name, counts[row * COLUMNS + i]!])) as Record<
      TrafficColumn,
      number
    >),
  }));
  return { stepSeconds: STEP_MS / 1_000, complete, buckets };
}

/** Traffic as text for the store: rows without counts are 0, and counts of 0 at the end of a row are left out. */
export function packed({ lastStep, counts }: Traffic): [number, (0 | number[])[]] {
  const rows = Array.from({ length: STEPS_KEPT }, (_, row) => {
    const values = [...counts.subarray(row * COLUMNS, (row + 1) * COLUMNS)];
    while (values.at(-1) === 0) values.pop();
    return values.length === 0 ? 0 : values;
  });
  const first = rows.findIndex((row) => row !== 0);
  return [lastStep, first === -1 ? [] : rows.slice(first)];
}

/**
 * Reads what `packed` wrote. @param shift buckets to move it by, because its gateway's clock is not the store's
 * @returns null if it is something else
 */
export function unpacked(value: unknown, shift: number): Traffic | null {
  if (!Array.isArray(value)) return null;
  const [lastStep, rows] = value as unknown[];
  if (!Number.isSafeInteger(lastStep) || !Array.isArray(rows) || rows.length > STEPS_KEPT) return null;
  const counts = new Uint32Array(STEPS_KEPT * COLUMNS);
  for (const [i, row] of rows.entries()) {
    if (row === 0) continue;
    if (!Array.isArray(row) || row.length > COLUMNS) return null;
    for (const [j, count] of row.entries()) {
      if (typeof count !== 'number') return null;
      counts[(STEPS_KEPT - rows.length + i) * COLUMNS + j] = count;
    }
  }
  return { lastStep: (lastStep as number) + shift, counts };
}
