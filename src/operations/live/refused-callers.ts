import { type RefusedCount, refusedCountToSend, sentRefusedCount } from '../../model/refusal.ts';
import { count } from '../../model/values.ts';
import type { RefusedCallers } from './shapes.ts';

/** Callers that are passed on. One that is among these nowhere may be missing in a sum. */
const MOST = 100;

/** Adds up the refusals of callers over processes or gateways. A caller that several have refused counts once. */
export function refusedCallersOf(parts: readonly RefusedCallers[]): RefusedCallers {
  const sums = new Map<string, RefusedCount>();
  for (const one of parts.flatMap(({ most }) => most)) {
    if (one.refused + one.banned === 0) continue;
    const { refused, banned } = sums.get(one.id) ?? { refused: 0, banned: 0 };
    sums.set(one.id, { ...one, refused: one.refused + refused, banned: one.banned + banned });
  }
  const most = [...sums.values()].sort((a, b) => b.refused + b.banned - (a.refused + a.banned)).slice(0, MOST);
  return { callers: parts.reduce((least, { callers }) => Math.max(least, callers), sums.size), most };
}

/** The callers as text for the store. */
export function packedCallers({ callers, most }: RefusedCallers, length: number): unknown[] {
  return [callers, ...most.slice(0, length).map(refusedCountToSend)];
}

/** Reads what `packedCallers` wrote, and leaves out the rest: an earlier version wrote nothing. */
export function unpackedCallers(value: unknown): RefusedCallers {
  const [callers, ...rows] = Array.isArray(value) ? (value as unknown[]) : [];
  const most = rows.flatMap((row) => sentRefusedCount.safeParse(row).data ?? []);
  return { callers: count.safeParse(callers).data ?? most.length, most };
}
