import type { WindowLimit, WindowName } from '../admit/plan.ts';
import type { Verdict } from '../admit/verdict.ts';

/** How a request was judged; one word for log and metrics. */
export type Judgement =
  /** Passed admission: counted. */
  | 'admitted'
  | 'refused'
  | 'banned'
  /** The caller is not known. */
  | 'unauthenticated'
  /** A browser asked whether a page may send a request: answered without a key and not counted. */
  | 'preflight'
  /** Its form is refused. */
  | 'malformed'
  /** The store did not answer and the settings say to refuse then. */
  | 'undecided';

/** The closing record of one request: all that log and metrics ever learn of it. It has no place for a secret. */
export interface Exchange {
  readonly requestId: string;
  /** Of the W3C trace that the request belongs to; null where it came with none and none was begun. */
  readonly traceId: string | null;
  readonly method: string;
  /** Without the query, where keys are sometimes put by mistake. Null where it could not be read. */
  readonly path: string | null;
  /** The route's pattern; null where none matches. */
  readonly route: string | null;
  readonly clientAddress: string;
  readonly consumerId: string | null;
  readonly plan: string | null;
  readonly cost: number;
  /** The limits that applied. */
  readonly limits: readonly WindowLimit[];
  /** Requests left in each of them, in the same order. */
  readonly remaining: readonly number[];
  readonly judgement: Judgement;
  /** The window that binds: of an admitted request the one with the fewest left, of a refused one the one that refused. */
  readonly window: WindowName | null;
  /** The number of the ban that this very request brought about; null for all others. */
  readonly imposedBan: number | null;
  /** Who decided: `memory` without asking the store, `local` because it was away. Null where nothing was decided. */
  readonly source: 'store' | 'memory' | 'local' | null;
  /** The moment of the decision on the store's clock, Unix milliseconds; null where nothing was decided. */
  readonly decidedAtMs: number | null;
  /** As sent, or 499 where the client left before. */
  readonly status: number;
  /** The error's code; null where the upstream answered. */
  readonly code: string | null;
  /** What broke, for operators; null where nothing did. */
  readonly cause: string | null;
  /** Milliseconds from the head of the request to the end of the answer. */
  readonly totalMs: number;
  /** Waiting for the store: identification and admission together. */
  readonly storeMs: number;
  /** From handing the request to the upstream to the end of its answer; 0 where it was not forwarded. */
  readonly upstreamMs: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** The status that is logged for a client that left before it had its answer (nginx's convention). */
export const CLIENT_CLOSED_REQUEST = 499;

/** What the record tells of a decision. */
export function decisionOf(
  verdict: Verdict | null,
): Pick<Exchange, 'cost' | 'limits' | 'remaining' | 'window' | 'imposedBan' | 'decidedAtMs'> {
  if (verdict === null) {
    return { cost: 0, limits: [], remaining: [], window: null, imposedBan: null, decidedAtMs: null };
  }
  return {
    cost: verdict.cost,
    limits: verdict.allowance.limits,
    remaining: verdict.standings.map(({ remaining }) => remaining),
    window: verdict.binding?.window ?? null,
    imposedBan: verdict.kind === 'banned' && verdict.imposed ? verdict.number : null,
    decidedAtMs: verdict.nowMs,
  };
}
