import { z } from 'zod';
import { lastCalls, sentNear, sentRefusal, type TailFilter, tailedRequest, tailFilter } from '../../model/refusal.ts';
import { unpackedCallers } from '../live/refused-callers.ts';
import { gatewayFacts, type RefusalQuery, STEP_MS } from '../live/shapes.ts';
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
const count = z.number().nonnegative();

/** Those of a list that have the form that they should have. */
function readable<T extends object>(schema: z.ZodType<T>) {
  return z.array(z.unknown()).transform((values): T[] => values.flatMap((value) => schema.safeParse(value).data ?? []));
}

const REPORT = z.object({
  clock: z.number(),
  // A gateway of an earlier version does not report faults.
  facts: gatewayFacts.extend({ faults: gatewayFacts.shape.faults.default([]) }),
  traffic: z.unknown(),
  near: readable(sentNear),
  refused: z.unknown().optional(),
});

const TAIL_ANSWER = z
  .object({ tail: text, gateway: text, requests: readable(tailedRequest), skipped: count })
  .transform(({ tail: question, ...rest }) => ({ kind: 'tail' as const, question, ...rest }));

const EXPLAIN_ANSWER = z
  .object({
    explain: text,
    gateway: text,
    host: text,
    refusals: readable(sentRefusal),
    calls: lastCalls.nullable().default(null),
  })
  .transform(({ explain: question, ...rest }) => ({ kind: 'explain' as const, question, ...rest }));

/** How many parts a gateway has left in the store, and whether they are all that it remembers. */
const RECORD_ANSWER = z
  .object({ record: text, gateway: text, parts: z.int().nonnegative(), isWhole: z.boolean() })
  .transform(({ record: question, ...rest }) => ({ kind: 'record' as const, question, ...rest }));

/** The requests of a tail, what is known of a request id or a caller, or the recent requests, that another gateway has found. */
export type GatewayAnswer = z.output<typeof ANSWER>;
const ANSWER = z.union([TAIL_ANSWER, EXPLAIN_ANSWER, RECORD_ANSWER]);

/** What another gateway says of itself. */
export type OtherGateway = NonNullable<ReturnType<typeof readReport>>;

/** Reads the report of another gateway. @returns null if it has another form */
export function readReport({ id, atMs, text: sent }: FleetNews['reports'][number]) {
  const read = REPORT.safeParse(objectFrom(sent));
  if (!read.success) return null;
  const { clock, facts, traffic, near, refused } = read.data;
  return {
    report: { ...facts, id, self: false, seenAt: new Date(atMs).toISOString() },
    // Null if it cannot be read.
    traffic: unpacked(traffic, Math.round((atMs - clock) / STEP_MS)),
    near,
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
  | { readonly kind: 'explain'; readonly query: RefusalQuery }
  /** `most`: the most bytes that it may leave. */
  | { readonly kind: 'record'; readonly most: number }
  | { readonly kind: 'watch' };

/** Reads a question of another gateway. Whatever is of no other kind is taken for the last. */
export function readQuestion(sent: string): GatewayQuestion {
  const { tail, explain, caller, record } = objectFrom(sent);
  const filter = tailFilter.safeParse(tail).data;
  if (filter !== undefined) return { kind: 'tail', filter };
  if (typeof record === 'number' && record >= 0) return { kind: 'record', most: record };
  if (typeof caller === 'string') return { kind: 'explain', query: { caller } };
  return typeof explain === 'string' ? { kind: 'explain', query: { requestId: explain } } : { kind: 'watch' };
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
