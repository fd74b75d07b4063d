import type { WindowLimit, WindowName } from '../admit/plan.ts';
import type { Verdict } from '../admit/verdict.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import type { Match } from './route.ts';

/** How a request was judged; one word for log and metrics. */
export type Judgement =
  /** Passed admission: counted. */
  | 'admitted'
  | 'refused'
  | 'banned'
  /** Its caller had as many requests in flight as its fair share of the upstream allows: not counted. */
  | 'shed'
  /** The caller is not known. */
  | 'unauthenticated'
  /** A browser asked whether a page may send a request: answered without a key and not counted. */
  | 'preflight'
  /** The caller asked where it stands: answered and not counted. */
  | 'usage'
  /** Its form is refused. */
  | 'malformed'
  /** The store did not answer and the settings say to refuse then; it was broken off before; the plan of its key is gone. */
  | 'undecided';

/** How a request stood against limits that refuse nobody. */
export interface Shadow {
  readonly judgement: 'admitted' | 'refused' | 'banned';
  /** The window that would have refused it; null for an admitted one. */
  readonly window: WindowName | null;
}

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
  /** What would have become of it under limits that are only watched; null where there are none. */
  readonly shadow: Shadow | null;
  /** As sent, or 499 where the client left before. */
  readonly status: number;
  /** The error's code; null where the upstream answered. */
  readonly code: string | null;
  /** What broke, for operators; null where nothing did. */
  readonly cause: string | null;
  /** The upstream, by its name in gateway.yaml; null where the request was not forwarded. */
  readonly upstream: string | null;
  /** The last target that was taken for the request, as in gateway.yaml; null where none was. */
  readonly target: string | null;
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

/** The record of a request, filled in as the request goes on. */
export class Recording implements Exchange {
  readonly requestId: string;
  readonly traceId: string | null;
  readonly method: string;
  readonly clientAddress: string;
  path: string | null = null;
  route: string | null = null;
  consumerId: string | null = null;
  plan: string | null = null;
  judgement: Judgement = 'malformed';
  source: Exchange['source'] = null;
  cost = 0;
  limits: readonly WindowLimit[] = NONE;
  remaining: readonly number[] = NONE;
  window: WindowName | null = null;
  imposedBan: number | null = null;
  decidedAtMs: number | null = null;
  shadow: Shadow | null = null;
  status = 0;
  code: string | null = null;
  cause: string | null = null;
  upstream: string | null = null;
  target: string | null = null;
  totalMs = 0;
  storeMs = 0;
  upstreamMs = 0;
  bytesIn = 0;
  bytesOut = 0;

  readonly #startedAtMs: number;
  #isClosed = false;
  #askedAtMs = 0;
  #forwardedAtMs: number | null = null;

  /** @param nowMs monotonic, as in all that follow */
  constructor(requestId: string, traceId: string | null, method: string, clientAddress: string, nowMs: number) {
    this.#startedAtMs = nowMs;
    this.requestId = requestId;
    this.traceId = traceId;
    this.method = method;
    this.clientAddress = clientAddress;
  }

  routed(head: Head, match: Match | null): void {
    this.path = head.path;
    this.route = match === null ? null : match.route.path;
    this.bytesIn = head.contentLength;
  }

  identified({ consumer, allowance, tokenExpiresAtMs }: Caller): void {
    // A token is checked without the store: what was waited for until now was its issuer.
    if (tokenExpiresAtMs !== null) this.storeMs = 0;
    this.judgement = 'undecided';
    this.consumerId = consumer === null ? null : consumer.id;
    this.plan = allowance.plan;
  }

  /** The store is asked for its decision. */
  asked(nowMs: number): void {
    this.#askedAtMs = nowMs;
  }

  /** It has been had, from whomever. */
  answered(nowMs: number): void {
    if (!this.#isClosed) this.storeMs += nowMs - this.#askedAtMs;
  }

  decided(verdict: Verdict, source: Exchange['source']): void {
    // Broken off while the store was asked: what was told of it stays as it was told.
    if (this.#isClosed) return;
    this.judgement = verdict.kind;
    this.source = source;
    this.cost = verdict.cost;
    this.limits = verdict.allowance.limits;
    this.remaining = verdict.standings.map(({ remaining }) => remaining);
    this.window = verdict.binding?.window ?? null;
    this.imposedBan = verdict.kind === 'banned' && verdict.imposed ? verdict.number : null;
    this.decidedAtMs = verdict.nowMs;
  }

  /** @param upstream its name in gateway.yaml */
  forwarded(upstream: string, nowMs: number): void {
    this.upstream = upstream;
    this.#forwardedAtMs = nowMs;
  }

  ended(status: number, code: string | null, cause: string | null, nowMs: number): void {
    this.#isClosed = true;
    this.status = status;
    this.code = code;
    this.cause = cause;
    this.totalMs = nowMs - this.#startedAtMs;
    if (this.#forwardedAtMs !== null) this.upstreamMs = nowMs - this.#forwardedAtMs;
  }
}

const NONE: readonly never[] = [];
