import type { RefusedCallers, RefusedCount } from './shapes.ts';

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
  return [callers, ...most.slice(0, length).map(({ id, plan, refused, banned }) => [id, plan, refused, banned])];
}

/** Reads what `packedCallers` wrote, and leaves out the rest: an earlier version wrote nothing. */
export function unpackedCallers(value: unknown): RefusedCallers {
  const [callers, ...rows] = Array.isArray(value) ? (value as unknown[]) : [];
  const most = rows.flatMap((row): RefusedCount[] => {
    if (!Array.isArray(row)) return [];
    const [id, plan, refused, banned] = row as unknown[];
    if (typeof id !== 'string' || typeof plan !== 'string' || !isCount(refused) || !isCount(banned)) return [];
    return [{ id, plan, refused, banned }];
  });
  return { callers: isCount(callers) ? callers : most.length, most };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
