import type { LimitName, WindowName } from '../../admit/windows.ts';
import type { RecentRequest, RecentUnits } from '../../simulate/recent-record.ts';

// What one gateway process observes of its requests, what it is asked for, and the forms in which the admin API shows it.

/** The length of one bucket of traffic, and how many there are: 10 minutes. */
export const STEP_MS = 5_000;
export const STEPS_KEPT = 120;

/** The counts in each bucket of traffic, in the order of the columns. */
export const TRAFFIC_COLUMNS = [
  'admitted',
  'refused',
  'banned',
  'unauthenticated',
  'shed',
  'undecided',
  'malformed',
  /** Preflights, requests for usage, and those of suspended callers or that a policy refused. */
  'other',
  /** Responses with a status of 500 or above. Each of them is counted under its verdict as well. */
  'failed',
] as const;

export type TrafficColumn = (typeof TRAFFIC_COLUMNS)[number];

/** The requests of the last 10 minutes, counted in buckets of 5 s. */
export interface Traffic {
  /** The number of the latest bucket, which has begun at `lastStep * STEP_MS`, Unix milliseconds. */
  readonly lastStep: number;
  /** `STEPS_KEPT` rows of `TRAFFIC_COLUMNS.length` counts, the oldest bucket first. */
  readonly counts: Uint32Array;
}

/** The requests that a tail shows; null in a member admits every value. */
export interface TailFilter {
  readonly plan: string | null;
  /** A consumer id. */
  readonly key: string | null;
  /** The route's pattern. */
  readonly route: string | null;
  /** One of the judgements of Exchange. */
  readonly verdict: string | null;
  /** `429`, or `4xx` for a class. */
  readonly status: string | null;
}

/** One request, as a tail shows it. It has no key, query or body. */
export interface TailedRequest {
  /** RFC 3339. */
  readonly at: string;
  readonly requestId: string;
  readonly method: string;
  /** Without the query; at most 512 characters. Null if it could not be read. */
  readonly path: string | null;
  readonly route: string | null;
  readonly consumerId: string | null;
  readonly plan: string | null;
  readonly verdict: string;
  readonly status: number;
  readonly code: string | null;
  readonly window: LimitName | null;
  readonly totalMs: number;
  readonly clientAddress: string;
  /** Absent if it paid nothing in a unit of its own. */
  readonly units?: PaidAmounts | undefined;
}

/** What a request paid, by unit; `unknown`: why it paid what it took in advance, if its real cost is not known. */
export type PaidAmounts = Readonly<
  Record<string, { readonly reserved: number; readonly settled: number; readonly unknown?: string | undefined }>
>;

/** The requests that a tail has seen since it was last asked for. */
export interface TailBatch {
  readonly id: string;
  readonly requests: readonly TailedRequest[];
  /** Matching requests beyond those. */
  readonly skipped: number;
}

/** A consumer that an admitted request left near a limit. */
export interface NearCandidate {
  /** That of its account: with the customer, if it has one. */
  readonly id: string;
  readonly plan: string;
  /** The longest of the windows that it is near to. */
  readonly window: LimitName;
  readonly cost: number;
  /** The smallest share of a limit that was left, from 0. */
  readonly share: number;
  /** Unix milliseconds. */
  readonly atMs: number;
}

/** How often a consumer was refused in the last 10 minutes. */
export interface RefusedCount {
  readonly id: string;
  readonly plan: string;
  /** Requests that a limit refused, and requests that a ban refused. */
  readonly refused: number;
  readonly banned: number;
}

/** The consumers that were refused in the last 10 minutes. */
export interface RefusedCallers {
  /** How many different ones, as far as known: at least the length of `most`. */
  readonly callers: number;
  /** Those with the most refusals, in that order; not all of them. */
  readonly most: readonly RefusedCount[];
}

/** A refused request, as one gateway process keeps it. */
export interface KeptRefusal {
  readonly requestId: string;
  /** RFC 3339. */
  readonly at: string;
  readonly method: string;
  /** Without the query; at most 512 characters. Null if it could not be read. */
  readonly path: string | null;
  readonly route: string | null;
  readonly consumerId: string | null;
  readonly plan: string | null;
  readonly clientAddress: string;
  readonly status: number;
  readonly code: string;
  readonly judgement: string;
  /** The policy that refused it or failed, by its name in gateway.yaml; null if none did. */
  readonly policy: string | null;
  readonly cost: number;
  /** The window that refused it; null without one. */
  readonly window: LimitName | null;
  /** The limits that applied, with the counts at the decision; empty without a decision. */
  readonly limits: readonly {
    readonly window: LimitName;
    /** The kind of the window in words (admit/form-text.ts). */
    readonly form: string;
    /** What it counts, such as `tokens`, and how much of it the request took in advance; absent for the cost of requests. */
    readonly unit?: string | undefined;
    readonly needed?: number | undefined;
    readonly limit: number;
    readonly used: number;
    readonly remaining: number;
  }[];
  /** What it paid if it was admitted and failed afterwards, or would have taken in advance; absent without units. */
  readonly units?: PaidAmounts | undefined;
  /** What the plan gives in the windows in which the caller has another limit of its own. */
  readonly planLimits: Readonly<Partial<Record<WindowName, number>>>;
  /** RFC 3339; null without a decision. */
  readonly decidedAt: string | null;
  readonly source: string | null;
  /** Which strike this refusal was, and how many lead to a ban; null if it was none. */
  readonly strike: { readonly number: number; readonly of: number } | null;
  readonly ban: { readonly number: number; readonly until: string } | null;
  /** Whether this request's strike made the ban. */
  readonly imposedBan: boolean;
  /** The earliest moment at which the same request succeeds, RFC 3339; null if it is not known. */
  readonly retryAt: string | null;
  /** Why it was refused, for support staff. */
  readonly sentence: string;
  /** What to do about it. */
  readonly advice: string;
}

/** The refusals that are wanted: those with one request id, or those of one caller: a key, a caller with tokens or a customer. */
export type Sought = { readonly requestId: string } | { readonly caller: string };

/** What is remembered of the last requests of a caller. */
export interface LastCalls {
  /** The last request, whether it was admitted or not; null if none is remembered. */
  readonly last: { readonly at: string; readonly clientAddress: string } | null;
  /** When the last one was admitted, RFC 3339; null if it is not known. */
  readonly admittedAt: string | null;
  /** When the first of the refusals came that no admitted request has followed, RFC 3339; null without one. */
  readonly refusedSince: string | null;
}

/** What a process, or a gateway, remembers of what is sought. */
export interface Found {
  /** Newest first. */
  readonly refusals: readonly KeptRefusal[];
  /** Null unless a caller was sought. */
  readonly calls: LastCalls | null;
}

/** What a process is asked for, about once a second. */
export interface LiveQuestion {
  readonly sought: readonly Sought[];
  /** The tails that are open. A tail that is not named for 5 s ends. */
  readonly tails: readonly { readonly id: string; readonly filter: TailFilter }[];
}

/** What one process reports of its requests. */
export interface RequestsSeen {
  readonly traffic: Traffic;
  /** Those with the smallest share left first. */
  readonly near: readonly NearCandidate[];
  readonly refused: RefusedCallers;
  /** One for each that is sought, in that order. */
  readonly found: readonly Found[];
  readonly tails: readonly TailBatch[];
}

/** The state of one gateway process. */
export interface ProcessState {
  readonly certificateExpiresAtMs: number | null;
  readonly connections: number;
  readonly inFlight: number;
  readonly upstreams: readonly {
    readonly name: string;
    readonly inFlight: number;
    readonly targets: readonly { readonly name: string; readonly usable: boolean }[];
  }[];
}

/** The answer of one process to a LiveQuestion. */
export interface ProcessAnswer {
  readonly state: ProcessState;
  readonly seen: RequestsSeen;
}

/**
 * The last requests of one process that were decided, the oldest first, in columns of the same length. The strings are shared,
 * so that a request takes about 50 bytes, and its path if its plan has groups of routes. `RecentRequest` in src/simulate describes the values.
 */
export interface DecidedColumns {
  readonly atMs: Float64Array;
  readonly consumerIds: readonly string[];
  /** Null for a consumer without a customer. */
  readonly customerIds: readonly (string | null)[];
  readonly methods: readonly string[];
  /** Null where the path is not known. */
  readonly paths: readonly (string | null)[];
  readonly plans: readonly string[];
  readonly costs: Float64Array;
  /** Indexes in JUDGEMENTS of src/simulate/log-line.ts. */
  readonly judgements: Uint8Array;
  readonly imposedBans: Float64Array;
  /** Indexes in RECORD_SOURCES of src/simulate/recent-record.ts. */
  readonly sources: Uint8Array;
  /** Indexes in `limitSets`. */
  readonly limits: Uint32Array;
  readonly limitSets: readonly RecentRequest['limits'][];
  readonly remaining: Float64Array;
  /** Null for a request that charges no units; null in all if none does. */
  readonly units: readonly (RecentUnits | null)[] | null;
}

/** The last decided requests of the gateways on a store. */
export interface FleetRecord {
  /** Those of the gateway that was asked, one record for each of its processes. */
  readonly own: readonly DecidedColumns[];
  /** Those of the others, in parts (decided-parts.ts). */
  readonly others: readonly Uint8Array[];
  /**
   * When the others were asked, by the store's clock, Unix milliseconds. The gateways differ in which later requests they
   * have. Infinity if there are no others.
   */
  readonly untilMs: number;
  /** How many gateways are on the store, and how many of them gave their requests. */
  readonly gateways: number;
  readonly given: number;
  /** Whether all gateways gave all that they remember. False while the store is away. */
  readonly isWhole: boolean;
}

/** What one gateway reports of itself to the others. */
export interface GatewayFacts {
  readonly host: string;
  /** The origin of the public listener. */
  readonly address: string;
  readonly version: string;
  /** RFC 3339. */
  readonly startedAt: string;
  /** Processes that serve requests. */
  readonly workers: number;
  readonly ready: boolean;
  readonly draining: boolean;
  readonly store: 'embedded' | 'present' | 'away' | 'never_reached';
  readonly outage: { readonly reason: string; readonly lastsMs: number } | null;
  readonly settings: 'in_force' | 'refused';
  /** Why files are refused: the first faults, each with its file and line. */
  readonly faults: readonly string[];
  readonly versions: { readonly settings: string; readonly plans: string };
  readonly certificate: { readonly expiresAt: string } | null;
  readonly memory: 'enough' | 'short';
  readonly connections: number;
  readonly inFlight: number;
  readonly upstreams: ProcessState['upstreams'];
}

export interface GatewayReport extends GatewayFacts {
  readonly id: string;
  /** Whether it is the gateway that was asked. */
  readonly self: boolean;
  /** When it last reported, RFC 3339. */
  readonly seenAt: string;
}

/** What all processes of a gateway together answer. */
export interface LocalAnswer {
  readonly facts: GatewayFacts;
  readonly seen: RequestsSeen;
}

/** The processes of one gateway, as one. */
export interface LocalGateway {
  /** Never rejects. A process that does not answer in time is left out. */
  ask(question: LiveQuestion): Promise<LocalAnswer>;
  /** The last decided requests, one record for each process; null for a process that does not answer in time. */
  decidedColumns(): Promise<readonly (DecidedColumns | null)[]>;
}
