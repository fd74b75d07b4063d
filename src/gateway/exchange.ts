import type { Allowance } from '../admit/allowance.ts';
import type { Banned, CountedWindow, Refused, Verdict } from '../admit/verdict.ts';
import type { WindowLimit } from '../admit/windows.ts';
import type { Amounts } from '../engine/types.ts';
import type { TunnelRecord } from '../forward/websocket/tunnel.ts';
import type { Head } from '../http1/request-head.ts';
import type { Consumer, EndedSecret } from '../identify/identify.ts';
import type { DECIDED_JUDGEMENTS, Judgement, Source } from '../model/refusal.ts';
import type { LimitName } from '../model/values.ts';
import type { Match } from '../routing/router.ts';
import { type PaidUnits, unpaid } from './metering.ts';

/**
 * A WebSocket, or another tunnel, that has ended: everything that log and metrics report about it beyond its Exchange.
 */
export interface ClosedWebSocket extends TunnelRecord {
  readonly requestId: string;
  /** The route's pattern. */
  readonly route: string;
  readonly consumerId: string | null;
}

/** The consumer for which the store counts a request. */
export interface Caller {
  /**
   * The account that quota and bans belong to (admit/account-id.ts): of the API key or of the token's subject; on a route
   * without keys, of an address.
   */
  readonly id: string;
  /**
   * The id for shares of an upstream, of the serving thread, of held bodies and of compression: that of the customer if the consumer
   * has one, or of the consumer, or of the address for all routes without keys.
   */
  readonly shareId: string;
  readonly allowance: Allowance;
  /** Null on a route without keys. */
  readonly consumer: Consumer | null;
  /** When the request's token expires, Unix milliseconds; null if the request has none. */
  readonly tokenExpiresAtMs: number | null;
  /** The name of the secret of its key, by which its WebSockets end with that secret; null if it has sent none. */
  readonly secret: string | null;
  /** An operator has suspended it, or its customer: it is known, and may do nothing. */
  readonly isSuspended: boolean;
}

/** The verdict of limits that refuse no request. */
export interface Shadow {
  readonly judgement: (typeof DECIDED_JUDGEMENTS)[number];
  /** The window that would have refused it; null for an admitted one. */
  readonly window: LimitName | null;
}

/** The closing record of one request: everything that log and metrics report about it. It has no field for a secret. */
export interface Exchange {
  readonly requestId: string;
  /** Id of the W3C trace that the request belongs to; null if the request has none and the gateway began none. */
  readonly traceId: string | null;
  readonly method: string;
  /** Without the query, in which callers sometimes put keys by mistake. Null if it could not be read. */
  readonly path: string | null;
  /** `Match.name` of the route; null if none matches. */
  readonly route: string | null;
  /** The name under which calls of the route are counted, if it is deprecated. */
  readonly deprecatedAs?: string | null;
  readonly clientAddress: string;
  /** The secret that it was sent with, if that has ended; null or absent for any other. */
  readonly endedSecret?: EndedSecret | null;
  readonly consumerId: string | null;
  /** The id of the consumer's account (admit/account-id.ts); null as `consumerId` is. */
  readonly accountId?: string | null;
  /** The id of the consumer's customer; null or absent without one. */
  readonly customerId?: string | null;
  /** Whether its plan has groups of routes, to which its path may belong; absent if not. */
  readonly hasGroups?: boolean;
  readonly plan: string | null;
  readonly cost: number;
  /** What the request paid in units, or, if it was refused, would have taken in advance; null or absent if nothing. */
  readonly units?: PaidUnits | null;
  /** The limits that applied, without what operators have added: the same array for all requests under them. */
  readonly limits: readonly WindowLimit[];
  /**
   * The window of each of them after the decision, in the same order. Where a report shows a limit beside what is used or left, it
   * takes the limit of the window, which contains the top-ups.
   */
  readonly windows: readonly CountedWindow[];
  readonly judgement: Judgement;
  /**
   * The binding window. For an admitted request the one with the fewest left, for a refused one the one that refused
   * it.
   */
  readonly window: LimitName | null;
  /** The number of the ban that this request caused; null if it caused none. */
  readonly imposedBan: number | null;
  /** Null without a decision. */
  readonly source: Source | null;
  /** The time of the decision on the store's clock, Unix milliseconds; null without a decision. */
  readonly decidedAtMs: number | null;
  /** When a refused request may be repeated by its Retry-After (store's clock, Unix milliseconds); null if it was admitted, or if waiting cannot help. */
  readonly retryAtMs?: number | null;
  /** The verdict that refused the request; null or absent if none did. */
  readonly refusal?: Refused | Banned | null;
  /** The verdict of limits that are only watched; null without such limits. */
  readonly shadow: Shadow | null;
  /** The status sent, or 499 if the client disconnected before. */
  readonly status: number;
  /** The error's code; null if the upstream answered. */
  readonly code: string | null;
  /** The fault, for operators only; null if there was none. */
  readonly cause: string | null;
  /** The policy that refused the request or failed, by its name in gateway.yaml; null or absent if none did. */
  readonly policy?: string | null;
  /** The upstream, by its name in gateway.yaml; null if the request was not to be forwarded, or was refused for another reason than a full upstream. */
  readonly upstream: string | null;
  /** The last target that was chosen for the request, as in gateway.yaml; null if none was. */
  readonly target: string | null;
  /** What the cache did for the request; null or absent on a route without `cache`, and for a request that it cannot serve. */
  readonly cache?: CacheUse | null;
  /** How often the request was tried at the upstream, by `retries` of its route; 1 or absent if once or never. */
  readonly attempts?: number;
  /** Whether a failed attempt was not retried because the retry budget of the upstream was used up; absent if not. */
  readonly isOverRetryBudget?: boolean;
  /** Milliseconds from the head of the request to the end of the response. */
  readonly totalMs: number;
  /** Milliseconds of waiting for the store, for identification and admission together. */
  readonly storeMs: number;
  /** Milliseconds from forwarding the request to the end of the response; 0 if the request was not forwarded. */
  readonly upstreamMs: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/**
 * `hit`: answered from memory; `stale`: so too, while the service is asked in the background; `validated`: the service was asked whether
 * what is stored is still good; `miss`: it was asked for the whole.
 */
export const CACHE_USES = ['hit', 'stale', 'validated', 'miss'] as const;
type CacheUse = (typeof CACHE_USES)[number];

/** The status that is logged for a client that disconnected before its response was complete (nginx's convention). */
export const CLIENT_CLOSED_REQUEST = 499;

/** The record of a request, filled in step by step. */
export class ExchangeRecorder implements Exchange {
  readonly requestId: string;
  readonly traceId: string | null;
  readonly method: string;
  readonly clientAddress: string;
  path: string | null = null;
  route: string | null = null;
  deprecatedAs: string | null = null;
  endedSecret: EndedSecret | null = null;
  consumerId: string | null = null;
  accountId: string | null = null;
  customerId: string | null = null;
  hasGroups = false;
  plan: string | null = null;
  judgement: Judgement = 'malformed';
  source: Exchange['source'] = null;
  cost = 0;
  units: PaidUnits | null = null;
  limits: readonly WindowLimit[] = NONE;
  windows: readonly CountedWindow[] = NONE;
  window: LimitName | null = null;
  imposedBan: number | null = null;
  decidedAtMs: number | null = null;
  retryAtMs: number | null = null;
  refusal: Refused | Banned | null = null;
  shadow: Shadow | null = null;
  status = 0;
  code: string | null = null;
  cause: string | null = null;
  policy: string | null = null;
  upstream: string | null = null;
  target: string | null = null;
  cache: CacheUse | null = null;
  attempts = 1;
  isOverRetryBudget = false;
  totalMs = 0;
  storeMs = 0;
  /** What of `storeMs` counts for how long the request may wait for the store, by the `REPLY_CLOCK`. */
  waitedMs = 0;
  upstreamMs = 0;
  bytesIn = 0;
  bytesOut = 0;

  /** Monotonic. */
  readonly startedAtMs: number;
  #isClosed = false;
  #askedAtMs = 0;
  #forwardedAtMs: number | null = null;

  /** @param nowMs monotonic, as in all methods below */
  constructor(requestId: string, traceId: string | null, method: string, clientAddress: string, nowMs: number) {
    this.startedAtMs = nowMs;
    this.requestId = requestId;
    this.traceId = traceId;
    this.method = method;
    this.clientAddress = clientAddress;
  }

  routed(head: Head, match: Match | null): void {
    this.path = head.path;
    this.route = match === null ? null : match.name;
    const deprecated = match?.route.deprecated ?? null;
    if (deprecated !== null && match!.route.methods.includes(head.method)) this.deprecatedAs = deprecated.countedAs;
    this.bytesIn = head.contentLength;
  }

  identified({ id, consumer, allowance, tokenExpiresAtMs }: Caller): void {
    // A token is verified without the store, so the time waited until now was spent on its issuer.
    if (tokenExpiresAtMs !== null) {
      this.storeMs = 0;
      this.waitedMs = 0;
    }
    this.judgement = 'undecided';
    this.consumerId = consumer === null ? null : consumer.id;
    this.accountId = consumer === null ? null : id;
    this.customerId = consumer?.customer?.id ?? null;
    this.plan = allowance.plan;
    this.hasGroups = allowance.groups !== undefined;
  }

  /** Notes that the gateway asks the store for its decision. */
  asked(nowMs: number): void {
    this.#askedAtMs = nowMs;
  }

  /** Notes that the decision has arrived, from the store or made locally. */
  answered(nowMs: number): void {
    if (!this.#isClosed) this.storeMs += nowMs - this.#askedAtMs;
  }

  /** @param amounts what it takes of units in advance, or would have taken; undefined if it charges none */
  decided(verdict: Verdict, source: Exchange['source'], amounts: Amounts | undefined): void {
    // The request was broken off while the store was asked. Its record has been reported and must not change.
    if (this.#isClosed) return;
    this.judgement = verdict.kind === 'crowded' ? 'shed' : verdict.kind;
    this.source = source;
    this.cost = verdict.cost;
    this.limits = verdict.allowance.limits;
    this.windows = verdict.windows;
    this.window = verdict.binding?.name ?? null;
    this.imposedBan = verdict.kind === 'banned' && verdict.imposed ? verdict.number : null;
    // A request that was not counted belongs to no simulation.
    if (verdict.kind === 'crowded') return;
    this.decidedAtMs = verdict.nowMs;
    if (verdict.kind !== 'admitted') {
      this.retryAtMs = verdict.retryAtMs;
      this.refusal = verdict;
      if (amounts !== undefined) this.units = unpaid(amounts);
    }
  }

  /** @param upstream its name in gateway.yaml */
  forwarded(upstream: string, nowMs: number): void {
    this.upstream = upstream;
    this.#forwardedAtMs = nowMs;
  }

  /** Notes that no upstream is asked after all. */
  answeredFromCache(cache: CacheUse): void {
    this.cache = cache;
    this.upstream = null;
    this.#forwardedAtMs = null;
  }

  /** Notes what the request paid in units, and the verdict of limits that are only watched. */
  paid({ units, shadow }: Pick<ExchangeRecorder, 'units' | 'shadow'>): void {
    // A request that was refused keeps what it would have taken.
    if (units !== null) this.units = units;
    this.shadow = shadow;
  }

  ended(status: number, code: string | null, cause: string | null, nowMs: number): void {
    this.#isClosed = true;
    this.status = status;
    this.code = code;
    this.cause = cause;
    this.totalMs = nowMs - this.startedAtMs;
    if (this.#forwardedAtMs !== null) this.upstreamMs = nowMs - this.#forwardedAtMs;
  }
}

const NONE: readonly never[] = [];
