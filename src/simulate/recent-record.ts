import type { DECIDED_JUDGEMENTS, Source } from '../model/refusal.ts';
import type { LimitName } from '../model/values.ts';
import type { RecordedUnit } from './log-line.ts';
import { isSharedName } from './ordering-limit.ts';

/** By unit, what a request took in advance, or would have taken, and what it paid. */
export type RecentUnits = Readonly<Record<string, Pick<RecordedUnit, 'reserved' | 'settled'>>>;

/** One request that was decided by the limits of a plan, as a gateway remembers it. */
export interface RecentRequest {
  /** When it was decided, by the clock of the store or gateway that decided: Unix milliseconds. */
  readonly atMs: number;
  readonly consumerId: string;
  /** Left out for a consumer without a customer. */
  readonly customerId?: string;
  readonly method?: string;
  /** The raw path; left out if it is not known. */
  readonly path?: string;
  readonly plan: string;
  /** What it charges in units of their own; left out if nothing. */
  readonly units?: RecentUnits;
  /** From 1. */
  readonly cost: number;
  readonly judgement: (typeof DECIDED_JUDGEMENTS)[number];
  /** The number of the ban that this request caused; 0 if none. */
  readonly imposedBan: number;
  readonly source: Source;
  /** The limits that it was decided by, the key's own among them; none for a plan that is not enforced. */
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  /** What the ordering one of these windows (ordering-limit.ts) had left after it. 0 without limits. */
  readonly remaining: number;
}

/** The requests that gateways decided recently. A simulation tries plans on them. */
export interface RecentRecord {
  /**
   * Passes all requests to `take`, in any order, in batches of about 1,000 at most. Between batches the gateway serves callers.
   * @param take returns whether to continue
   * @returns what the record covers, as a sentence for operators: since when, how many requests, of which gateways; and
   *   whether all gateways returned everything that they remember. Null if `take` stopped it
   */
  read(
    take: (requests: readonly RecentRequest[]) => boolean,
  ): Promise<{ readonly about: string; readonly isComplete: boolean } | null>;
}

/** The request as `Recording` reads it from a log: latin1, each byte of the UTF-8 text one character. */
export function logLineOf(request: RecentRequest): string {
  const { atMs: decidedAtMs, limits, remaining, ...rest } = request;
  const names = Object.keys(limits);
  const first = (request.customerId === undefined ? undefined : names.find(isSharedName)) ?? names[0];
  const left = first === undefined ? {} : { [first]: remaining };
  const line = JSON.stringify({ ...rest, limits, decidedAtMs, remaining: left, msg: 'request' });
  return Buffer.from(line).toString('latin1');
}
