import type { RedisProcess } from '../../../test/support/redis-process.ts';
import type { LoadRequest, OwnLoad } from '../request.ts';
import type { ContestantName } from '../scenarios.ts';
import type { World } from '../world.ts';

/** What it claims to do; each claim is tried before anything is measured. */
export interface Claims {
  readonly checksKeys: boolean;
  /** Three X-RateLimit fields, and 429 when a key's limit is reached. */
  readonly limits: boolean;
  /** It passes requests on; what does not gives the same answer to all. */
  readonly proxies: boolean;
}

export interface Contestant {
  readonly name: ContestantName;
  readonly title: string;
  readonly claims: Claims;
  /** Where it has a load of its own; the others have the scenario's. */
  readonly load?: OwnLoad;
  /** Shows that what is measured is on. */
  readonly proof?: Proof;
  /**
   * Starts it for one scenario.
   * @throws Error with the reason, where it is missing on this machine or does not come up
   */
  start(world: World, others: Others): Promise<Running>;
}

/** A request that only a gateway with the feature answers with this status. */
export interface Proof {
  readonly request: LoadRequest;
  readonly status: number;
}

/** What a contestant needs to know of those that were started before it. */
export interface Others {
  /** The answer that Tollgate gives to this scenario's load; null where it does not take part. */
  readonly answer: Answer | null;
}

export interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export interface Running {
  readonly port: number;
  readonly pid: number;
  /** `nginx 1.22.1`: for the report. */
  readonly version: string;
  readonly redis: RedisProcess | null;
  /** The names in its Redis of what it counts for the first key of the load, as a pattern. */
  readonly accounts?: string;
  /** Called between rounds: drops logs that have been written. */
  readonly tidy?: () => void;
  /** Counts of what must not happen during a measurement, by name. */
  readonly mishaps?: () => Promise<ReadonlyMap<string, number>>;
}
