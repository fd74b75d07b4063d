import { JUDGEMENTS } from '../../simulate/log-line.ts';
import { RECORD_SOURCES, type RecentRecord, type RecentRequest } from '../../simulate/recent-record.ts';
import type { DecidedColumns } from './shapes.ts';

/** Requests that are handed on together. */
const BATCH = 1_000;

/** The last requests that this gateway has decided, of all its processes, as simulations read them. */
export function recentRecordOf(processes: readonly DecidedColumns[]): RecentRecord {
  const requests = processes.reduce((sum, { atMs }) => sum + atMs.length, 0);
  const since = processes.reduce((least, { atMs }) => atMs.reduce((a, b) => Math.min(a, b), least), Infinity);
  const from = Number.isFinite(since) ? ` since ${new Date(since).toISOString()}` : '';
  return {
    about: `The last ${requests} requests of identified callers that this gateway decided${from}. Requests to other gateways are not among them.`,
    async *batches() {
      for (const columns of processes) {
        for (let from = 0; from < columns.atMs.length; from += BATCH) {
          const length = Math.min(BATCH, columns.atMs.length - from);
          yield Array.from({ length }, (_, i) => requestAt(columns, from + i));
        }
      }
    },
  };
}

function requestAt(columns: DecidedColumns, at: number): RecentRequest {
  return {
    atMs: columns.atMs[at]!,
    consumerId: columns.consumerIds[at]!,
    plan: columns.plans[at]!,
    cost: columns.costs[at]!,
    judgement: JUDGEMENTS[columns.judgements[at]!]!,
    imposedBan: columns.imposedBans[at]!,
    source: RECORD_SOURCES[columns.sources[at]!]!,
    limits: columns.limitSets[columns.limits[at]!]!,
    remaining: columns.remaining[at]!,
  };
}
