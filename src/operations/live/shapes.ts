import { z } from 'zod';
import type {
  KeptRefusal,
  LastCalls,
  NearCandidate,
  RefusedCount,
  TailedRequest,
  TailFilter,
} from '../../model/refusal.ts';
import { count, type DeepReadonly, time } from '../../model/values.ts';
import type { RecentRequest, RecentUnits } from '../../simulate/recent-record.ts';

// What one gateway process observes of its requests, what it is asked for, and the forms in which the admin API shows it.

/** The length of one bucket of traffic, and how many there are: 10 minutes. */
export const STEP_MS = 5_000;
export const STEPS_KEPT = 120;

/** Whether all gateways are in an answer. */
export const complete = z.boolean().describe('False while the store is away.');

/** The counts in a bucket of traffic. */
export const bucketCounts = z.object({
  admitted: count,
  refused: count,
  banned: count,
  unauthenticated: count,
  shed: count,
  undecided: count,
  malformed: count,
  // Those that a policy refused as well.
  other: count.describe('Preflights, requests for usage and those of suspended keys.'),
  failed: count.describe('Responses with a status of 500 or above, which are counted under their verdict as well.'),
});

export type TrafficColumn = keyof typeof bucketCounts.shape;

/** In the order of the columns. */
export const TRAFFIC_COLUMNS = Object.keys(bucketCounts.shape) as readonly TrafficColumn[];

/** The requests of the last 10 minutes, counted in buckets of 5 s. */
export interface Traffic {
  /** The number of the latest bucket, which has begun at `lastStep * STEP_MS`, Unix milliseconds. */
  readonly lastStep: number;
  /** `STEPS_KEPT` rows of `TRAFFIC_COLUMNS.length` counts, the oldest bucket first. */
  readonly counts: Uint32Array;
}

/** The requests that a tail has seen since it was last asked for. */
export interface TailBatch {
  readonly id: string;
  readonly requests: readonly TailedRequest[];
  /** Matching requests beyond those. */
  readonly skipped: number;
}

/** The consumers that were refused in the last 10 minutes. */
export interface RefusedCallers {
  /** How many different ones, as far as known: at least the length of `most`. */
  readonly callers: number;
  /** Those with the most refusals, in that order; not all of them. */
  readonly most: readonly RefusedCount[];
}

/** Asks for the refusals with one request id, or for those of one caller: a key, a caller with tokens or a customer. */
export type RefusalQuery = { readonly requestId: string } | { readonly caller: string };

/** What a process, or a gateway, remembers of the refusals that a query asks for. */
export interface Finding<R extends KeptRefusal = KeptRefusal> {
  /** Newest first. */
  readonly refusals: readonly R[];
  /** Null unless the query names a caller. */
  readonly calls: LastCalls | null;
}

/** What a process is asked for, about once a second. */
export interface LiveQuestion {
  readonly queries: readonly RefusalQuery[];
  /** The tails that are open. A tail that is not named for 5 s ends. */
  readonly tails: readonly { readonly id: string; readonly filter: TailFilter }[];
}

/** What one process reports of its requests. */
export interface RequestsSeen {
  readonly traffic: Traffic;
  /** Those with the smallest share left first. */
  readonly near: readonly NearCandidate[];
  readonly refused: RefusedCallers;
  /** One for each query, in that order. */
  readonly found: readonly Finding[];
  readonly tails: readonly TailBatch[];
}

/** The state of one gateway process. */
export interface ProcessState {
  readonly certificateExpiresAtMs: number | null;
  readonly connections: number;
  readonly inFlight: number;
  readonly callsWithoutNetwork: number;
  readonly cache: NonNullable<GatewayFacts['cache']> | null;
  readonly upstreams: GatewayFacts['upstreams'];
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
  /** Indexes in DECIDED_JUDGEMENTS. */
  readonly judgements: Uint8Array;
  readonly imposedBans: Float64Array;
  /** Indexes in SOURCES. */
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
export type GatewayFacts = DeepReadonly<z.output<typeof gatewayFacts>>;
export const gatewayFacts = z.object({
  host: z.string().describe('The name of its host.'),
  address: z
    .string()
    .describe('The origin of its public listener.')
    .meta({ examples: ['http://10.0.0.1:8080'] }),
  version: z.string(),
  startedAt: time,
  workers: count.min(1).describe('Processes that serve requests.'),
  ready: z.boolean(),
  draining: z.boolean(),
  store: z.enum(['embedded', 'present', 'away', 'never_reached']),
  outage: z
    .object({ reason: z.string(), lastsMs: z.number() })
    .nullable()
    .describe('Why its store is away; null while it is not.'),
  settings: z
    .enum(['in_force', 'refused'])
    .describe('refused: its files have a fault, and the settings before stay in force.'),
  faults: z
    .array(z.string())
    .describe(
      'The first faults of those files, each as `file:line:column: path: what is wrong`; empty while the files are in force.',
    ),
  versions: z.object({ settings: z.string(), plans: z.string() }),
  certificate: z.object({ expiresAt: time }).nullable().describe('The certificate in force; null without TLS.'),
  memory: z.enum(['enough', 'short']),
  connections: count,
  inFlight: count,
  callsWithoutNetwork: count
    .optional()
    .describe(
      'Calls since its start that `GET /keys/{id}/networks` lacks, because more keys called at a time than it counts. Absent in a gateway of an earlier version.',
    ),
  cache: z
    .object({
      bytes: count.describe('Of the stored responses.'),
      hits: count.describe('Requests since its start that stored responses answered, with or without a validation.'),
      misses: count.describe(
        'Requests since its start that could have been answered so, and that the service answered.',
      ),
    })
    .nullable()
    .optional()
    .describe('The cache of responses; null if no route has `cache`. Absent in a gateway of an earlier version.'),
  upstreams: z
    .array(
      z.object({
        name: z.string(),
        inFlight: count,
        targets: z.array(
          z.object({
            name: z.string(),
            usable: z.boolean(),
            weight: count
              .optional()
              .describe(
                'Its part of the requests beside the weights of the others; 0 takes it out. Absent in a gateway of an earlier version.',
              ),
          }),
        ),
      }),
    )
    .describe('Of another gateway with very many targets, only those that are not usable, or none.'),
});

const { host, address, version, startedAt, ...state } = gatewayFacts.shape;
const gatewayReport = z
  .strictObject({
    id: z.string().describe('Another one after each start.'),
    self: z.boolean().describe('Whether it is the gateway that was asked.'),
    ...{ host, address, version, startedAt },
    seenAt: time.describe('When it last reported.'),
    ...state,
  })
  .meta({ id: 'Gateway' });

/** The gateways on a store, the one that was asked first. */
export type Gateways = DeepReadonly<z.output<typeof gateways>>;
export const gateways = z
  .strictObject({
    complete,
    lastKnown: z
      .strictObject({ gateways: count.min(1), at: time })
      .nullable()
      .describe(
        'While the store is away, how many gateways there were when this one read their reports last; null if it never has, and while the store answers.',
      ),
    gateways: z.array(gatewayReport).min(1),
  })
  .meta({ id: 'Gateways' });

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
