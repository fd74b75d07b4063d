import { z } from 'zod';
import { isLimitName, WINDOWS } from '../../admit/windows.ts';
import { unpackedCallers } from '../live/refused-callers.ts';
import {
  type GatewayFacts,
  type GatewayReport,
  type KeptRefusal,
  type LastCalls,
  type NearCandidate,
  type RefusedCallers,
  type Sought,
  STEP_MS,
  type TailedRequest,
  type TailFilter,
  type Traffic,
} from '../live/shapes.ts';
import { unpacked } from '../live/traffic.ts';
import type { FleetNews } from './fleet-store.ts';

/*
 * What gateways leave for each other in the store, as it is read.
 *
 * Attack: a program that may write to Redis leaves a message of another form, or the message is that of another version. What
 * is read goes into timers and streams, where one unexpected value would end the process. So everything is checked here:
 * what has another form is left out, and members that are not known here are dropped.
 */

/** Longer messages are not looked at. Those of a gateway have at most about 250 KiB: 50 refusals with paths of 512 characters and ten limits each. */
const MAX_MESSAGE = 1024 * 1024;

const text = z.string();
const time = z.iso.datetime();
const count = z.number().nonnegative();
const window = z.string().refine(isLimitName);

const FACTS = z.object({
  ...{ host: text, address: text, version: text, startedAt: time, workers: count },
  ...{ ready: z.boolean(), draining: z.boolean() },
  store: z.enum(['embedded', 'present', 'away', 'never_reached']),
  outage: z.object({ reason: text, lastsMs: count }).nullable(),
  settings: z.enum(['in_force', 'refused']),
  // A gateway of an earlier version does not say them.
  faults: z.array(text).default([]),
  versions: z.object({ settings: text, plans: text }),
  certificate: z.object({ expiresAt: time }).nullable(),
  memory: z.enum(['enough', 'short']),
  ...{ connections: count, inFlight: count },
  upstreams: z.array(
    z.object({ name: text, inFlight: count, targets: z.array(z.object({ name: text, usable: z.boolean() })) }),
  ),
}) satisfies z.ZodType<GatewayFacts>;

const REPORT = z.object({
  clock: z.number(),
  facts: FACTS,
  traffic: z.unknown(),
  near: z.array(z.unknown()),
  refused: z.unknown().optional(),
});

const NEAR = z
  .tuple([text, text, window, count, count, z.number()])
  .transform(([id, plan, of, cost, share, atMs]): NearCandidate => ({ id, plan, window: of, cost, share, atMs }));

/** A gateway of an earlier version does not say it. */
const PAID = z.record(text, z.object({ reserved: count, settled: count, unknown: text.optional() })).optional();

const TAILED = z.object({
  ...{ at: time, requestId: text, method: text, path: text.nullable(), route: text.nullable() },
  ...{ consumerId: text.nullable(), plan: text.nullable(), verdict: text, status: count, code: text.nullable() },
  ...{ window: window.nullable(), totalMs: count, clientAddress: text, units: PAID },
}) satisfies z.ZodType<TailedRequest>;

const REFUSAL = z.object({
  ...{ requestId: text, at: time, method: text, path: text.nullable(), route: text.nullable() },
  ...{ consumerId: text.nullable(), plan: text.nullable(), clientAddress: text, status: count, code: text },
  ...{ judgement: text, cost: count, window: window.nullable() },
  // A gateway of an earlier version does not say it.
  policy: text.nullable().default(null),
  limits: z.array(
    z.object({
      ...{ window, form: text, unit: text.optional(), needed: count.optional() },
      ...{ limit: z.number(), used: z.number(), remaining: z.number() },
    }),
  ),
  units: PAID,
  ...{ decidedAt: time.nullable(), source: text.nullable() },
  planLimits: z.partialRecord(z.enum(WINDOWS), z.number()),
  strike: z.object({ number: count, of: count }).nullable(),
  ban: z.object({ number: count, until: time }).nullable(),
  ...{ imposedBan: z.boolean(), retryAt: time.nullable(), sentence: text, advice: text },
}) satisfies z.ZodType<KeptRefusal>;

/** The requests of a tail, what is known of a request id or a caller, or the recent requests, that another gateway has found. */
export type GatewayAnswer =
  | {
      readonly kind: 'tail';
      readonly question: string;
      readonly gateway: string;
      readonly requests: readonly TailedRequest[];
      readonly skipped: number;
    }
  | {
      readonly kind: 'explain';
      readonly question: string;
      readonly gateway: string;
      readonly host: string;
      readonly refusals: readonly KeptRefusal[];
      readonly calls: LastCalls | null;
    }
  | {
      readonly kind: 'record';
      readonly question: string;
      readonly gateway: string;
      /** How many parts it has left in the store. */
      readonly parts: number;
      /** Whether they are all that it remembers. */
      readonly isWhole: boolean;
    };

const TAIL_ANSWER = z.object({ tail: text, gateway: text, requests: z.array(z.unknown()), skipped: count }).transform(
  ({ tail, gateway, requests, skipped }): GatewayAnswer => ({
    ...{ kind: 'tail', question: tail, gateway, requests: readable(TAILED, requests), skipped },
  }),
);

const CALLS = z.object({
  last: z.object({ at: time, clientAddress: text }).nullable(),
  admittedAt: time.nullable(),
  refusedSince: time.nullable(),
}) satisfies z.ZodType<LastCalls>;

const EXPLAIN_ANSWER = z
  .object({
    explain: text,
    gateway: text,
    host: text,
    refusals: z.array(z.unknown()),
    calls: CALLS.nullable().default(null),
  })
  .transform(
    ({ explain, refusals, ...rest }): GatewayAnswer => ({
      ...{ kind: 'explain', question: explain, ...rest, refusals: readable(REFUSAL, refusals) },
    }),
  );

const RECORD_ANSWER = z
  .object({ record: text, gateway: text, parts: z.int().nonnegative(), isWhole: z.boolean() })
  .transform(({ record, ...rest }): GatewayAnswer => ({ kind: 'record', question: record, ...rest }));

const ANSWER = z.union([TAIL_ANSWER, EXPLAIN_ANSWER, RECORD_ANSWER]);

/** What another gateway says of itself. */
export interface OtherGateway {
  readonly report: GatewayReport;
  /** Null if it cannot be read. */
  readonly traffic: Traffic | null;
  readonly near: readonly NearCandidate[];
  readonly refused: RefusedCallers;
}

/** Reads the report of another gateway. @returns null if it has another form */
export function readReport({ id, atMs, text: sent }: FleetNews['reports'][number]): OtherGateway | null {
  const read = REPORT.safeParse(objectFrom(sent));
  if (!read.success) return null;
  const { clock, facts, traffic, near, refused } = read.data;
  return {
    report: { ...facts, id, self: false, seenAt: new Date(atMs).toISOString() },
    traffic: unpacked(traffic, Math.round((atMs - clock) / STEP_MS)),
    near: readable(NEAR, near),
    refused: unpackedCallers(refused),
  };
}

/** Reads an answer of another gateway. @returns null if it has another form */
export function readAnswer(sent: string): GatewayAnswer | null {
  return ANSWER.safeParse(objectFrom(sent)).data ?? null;
}

/** A question of another gateway: for requests, for refusals, for its recent requests, or whether it is watched. */
export type GatewayQuestion =
  | { readonly kind: 'tail'; readonly filter: TailFilter }
  | { readonly kind: 'explain'; readonly sought: Sought }
  /** `most`: the most bytes that it may leave. */
  | { readonly kind: 'record'; readonly most: number }
  | { readonly kind: 'watch' };

/** Reads a question of another gateway. Whatever is of no other kind is taken for the last. */
export function readQuestion(sent: string): GatewayQuestion {
  const { tail, explain, caller, record } = objectFrom(sent);
  if (typeof tail === 'object' && tail !== null) return { kind: 'tail', filter: filterFrom(tail) };
  if (typeof record === 'number' && record >= 0) return { kind: 'record', most: record };
  if (typeof caller === 'string') return { kind: 'explain', sought: { caller } };
  return typeof explain === 'string' ? { kind: 'explain', sought: { requestId: explain } } : { kind: 'watch' };
}

/** A request must never meet anything but text or null in a filter. */
function filterFrom(value: object): TailFilter {
  const member = (name: keyof TailFilter) => {
    const given = (value as Readonly<Record<string, unknown>>)[name];
    return typeof given === 'string' ? given : null;
  };
  return {
    plan: member('plan'),
    key: member('key'),
    route: member('route'),
    verdict: member('verdict'),
    status: member('status'),
  };
}

function readable<S extends z.ZodType>(schema: S, values: readonly unknown[]): z.output<S>[] {
  return values.flatMap((value) => {
    const read = schema.safeParse(value);
    return read.success ? [read.data] : [];
  });
}

function objectFrom(sent: string): Record<string, unknown> {
  if (sent.length > MAX_MESSAGE) return {};
  try {
    const value: unknown = JSON.parse(sent);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
