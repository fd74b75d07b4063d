import { setImmediate as nextTurn } from 'node:timers/promises';
import { DECIDED_JUDGEMENTS, SOURCES } from '../../model/refusal.ts';
import type { RecentRecord, RecentRequest } from '../../simulate/recent-record.ts';
import type { DecidedColumns, FleetRecord } from '../live/shapes.ts';
import { unpackedPart } from './decided-parts.ts';

/** Requests that are handed on together. */
const BATCH = 1_000;

/** The last requests that the gateways on a store have decided, as simulations read them. */
export function recentRecordOf({ own, others, untilMs, gateways, given, isWhole }: FleetRecord): RecentRecord {
  return {
    async read(take) {
      let [requests, sinceMs, isComplete] = [0, Number.POSITIVE_INFINITY, isWhole];
      for await (const columns of partsOf(own, others)) {
        isComplete &&= columns !== null;
        for (let from = 0; from < (columns?.atMs.length ?? 0); from += BATCH) {
          const batch = batchOf(columns!, from).filter(({ atMs }) => atMs <= untilMs);
          requests += batch.length;
          for (const { atMs } of batch) sinceMs = Math.min(sinceMs, atMs);
          if (!take(batch)) return null;
          await nextTurn();
        }
      }
      return { about: aboutOf({ requests, sinceMs, gateways, given, isComplete }), isComplete };
    },
  };
}

/** Null for a part that cannot be read. */
async function* partsOf(
  own: readonly DecidedColumns[],
  others: readonly Uint8Array[],
): AsyncGenerator<DecidedColumns | null> {
  yield* own;
  for (const part of others) yield await unpackedPart(part);
}

interface Covered extends Pick<FleetRecord, 'gateways' | 'given'> {
  readonly requests: number;
  readonly sinceMs: number;
  readonly isComplete: boolean;
}

function aboutOf({ requests, sinceMs, gateways, given, isComplete }: Covered): string {
  const since = requests === 0 ? '' : ` since ${new Date(sinceMs).toISOString()}`;
  const whom = gateways === 1 ? 'this gateway' : `${given} of ${gateways} gateways`;
  const missing = isComplete ? '' : ' Requests to other gateways, or some of theirs, are not among them.';
  return `The last ${requests} requests of identified callers that ${whom} decided${since}.${missing}`;
}

function batchOf(columns: DecidedColumns, from: number): RecentRequest[] {
  const length = Math.min(BATCH, columns.atMs.length - from);
  return Array.from({ length }, (_, i) => requestAt(columns, from + i));
}

function requestAt(columns: DecidedColumns, at: number): RecentRequest {
  const [customerId, path] = [columns.customerIds[at]!, columns.paths[at]!];
  const units = columns.units?.[at] ?? null;
  return {
    atMs: columns.atMs[at]!,
    consumerId: columns.consumerIds[at]!,
    ...(customerId === null ? {} : { customerId }),
    ...(path === null ? {} : { method: columns.methods[at]!, path }),
    plan: columns.plans[at]!,
    ...(units === null ? {} : { units }),
    cost: columns.costs[at]!,
    judgement: DECIDED_JUDGEMENTS[columns.judgements[at]!]!,
    imposedBan: columns.imposedBans[at]!,
    source: SOURCES[columns.sources[at]!]!,
    limits: columns.limitSets[columns.limits[at]!]!,
    remaining: columns.remaining[at]!,
  };
}
