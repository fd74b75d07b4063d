import { z } from 'zod';
import { count, type DeepReadonly, limitName, time, windowName } from './values.ts';

/*
 * What is known of a refused request, and of others that operators look at: one form for what a gateway keeps, for the messages
 * between gateways, and for the admin API. The gateway that keeps it uses the types alone; the schemas check what another gateway has
 * sent, and describe the outputs of the admin API. A later version may add members: those are dropped, and none is refused for them.
 */

/** The judgements of requests that the limits of a plan decide. Records name them by their place here. */
export const DECIDED_JUDGEMENTS = ['admitted', 'refused', 'banned'] as const;

/** How a request was judged; one word for log and metrics. */
export type Judgement = (typeof JUDGEMENTS)[number];
const JUDGEMENTS = [
  // `admitted`: passed admission and was counted.
  ...DECIDED_JUDGEMENTS,
  /**
   * Not counted, because its caller had as many requests in flight as its fair share of the upstream, or its plan, allows, or
   * because others had every place.
   */
  'shed',
  /** Not counted, because its caller is known and may do nothing: an operator has suspended it. */
  'forbidden',
  /** Not counted, because a policy of its route refused it. */
  'denied',
  /** The caller is not known. */
  'unauthenticated',
  /** A browser's CORS preflight, answered without a key and not counted. */
  'preflight',
  /** The caller requested its usage, which was answered and not counted. */
  'usage',
  /** Its form was refused. */
  'malformed',
  /**
   * The store did not answer and the settings refuse requests then, or the request broke off before, or its key's plan
   * is gone, or a policy of its route failed.
   */
  'undecided',
] as const;

const judgementRule = `must be one of ${JUDGEMENTS.join(', ')}`;
export const judgement = z
  .string()
  .refine((text) => (JUDGEMENTS as readonly string[]).includes(text), judgementRule)
  .meta({ id: 'Verdict', enum: [...JUDGEMENTS] });

/**
 * The origin of a decision: `memory` without asking the store, `local` by the gateway alone because the store was away, `lease` from
 * borrowed units. Records name them by their place here.
 */
export const SOURCES = ['store', 'memory', 'local', 'lease'] as const;
export type Source = (typeof SOURCES)[number];

const text = z.string();

/** A part of a cost that is a sum. */
const paidPart = z.object({
  of: text.describe('The field or the JSON Pointer by which the response states it.'),
  amount: z.number().nonnegative(),
  times: z.number().nonnegative().describe('By what it is multiplied.'),
  row: text
    .optional()
    .describe('The row of the table that `times` is from; `default`, or `largest` of a table that has none.'),
});
/** What a request pays, by unit. */
const paid = z
  .record(
    text,
    z.object({
      reserved: count,
      settled: count,
      unknown: text.optional(),
      parts: z
        .array(paidPart)
        .optional()
        .describe('What `settled` is the sum of, rounded up; absent for any other cost.'),
    }),
  )
  .optional();
export type PaidAmounts = DeepReadonly<NonNullable<z.output<typeof paid>>>;

/** What is known of any request. It has no key, query or body. */
const request = z.object({
  requestId: text,
  at: time,
  method: text,
  path: text.nullable().describe('Without the query, at most 512 characters; null if it could not be read.'),
  /** The route's pattern. */
  route: text.nullable(),
  consumerId: text.nullable(),
  plan: text.nullable(),
  clientAddress: text,
  status: z.int(),
});

/** One request, as a tail shows it. */
export type TailedRequest = DeepReadonly<z.output<typeof tailedRequest>>;
export const tailedRequest = request.extend({
  /** A judgement; a gateway of a later version may know more of them. */
  verdict: text,
  code: text.nullable(),
  window: limitName.nullable(),
  totalMs: z.number().nonnegative(),
  units: paid,
});

/** The requests that a tail shows; null in a member admits every value. A request must never meet anything but text or null here. */
export type TailFilter = Readonly<z.output<typeof tailFilter>>;
const wanted = text.nullable().catch(null);
export const tailFilter = z.object({
  plan: wanted,
  /** A consumer id. */
  key: wanted,
  /** The route's pattern. */
  route: wanted,
  /** A judgement. */
  verdict: wanted,
  /** `429`, or `4xx` for a class. */
  status: wanted,
});

/** Who ended a request. */
export const ENDERS = ['gateway', 'service', 'client'] as const;

/** A request that was refused or failed, as one gateway process keeps it. */
export type KeptRefusal = DeepReadonly<z.output<typeof refusal>>;
export const refusal = request.extend({
  code: text.describe('Of the error; empty if the gateway sent none: the service answered, or the client left.'),
  upstream: text
    .nullable()
    .describe('The upstream, by its name in gateway.yaml; null if the request was not to be forwarded.'),
  target: text.nullable().describe('The last target that was chosen for it; null if none was.'),
  totalMs: z.number().nonnegative().nullable().describe('How long it took in all; null if that is not known.'),
  endedBy: text
    .nullable()
    .meta({ enum: [...ENDERS, null] })
    .describe('Who ended it: the gateway, which refused it or had waited long enough, the service or the client.'),
  judgement,
  policy: text
    .nullable()
    .describe('The policy that refused it or failed, by its name in gateway.yaml; null if none did.'),
  cost: count,
  /** The one that refused it. */
  window: limitName.nullable(),
  limits: z
    .array(
      z.object({
        window: limitName,
        form: text.describe('The kind of the window in words.'),
        unit: text.optional().describe('What it counts, such as `tokens`; absent for requests.'),
        needed: count.optional().describe('How much of the unit the request took in advance, or 1 if nothing.'),
        limit: count,
        used: count,
        remaining: count,
      }),
    )
    .describe('The limits that applied, with the counts at the decision; empty without one.'),
  units: paid.describe(
    'By unit, what it took in advance, or would have if it was refused, and what it paid in the end; `unknown`: why its real cost is not known.',
  ),
  planLimits: z
    .partialRecord(windowName, count)
    .describe('By window, what the plan gives if the key has another limit of its own.'),
  decidedAt: time.nullable(),
  source: text.nullable().meta({ enum: ['store', 'lease', 'memory', 'local', null] satisfies (Source | null)[] }),
  strike: z
    .object({ number: count.min(1), of: count.min(1) })
    .nullable()
    .describe('Which strike this refusal was, and how many lead to a ban; null if it was no strike.'),
  ban: z.object({ number: count.min(1), until: time }).nullable(),
  imposedBan: z.boolean().describe("Whether this request's strike made the ban."),
  retryAt: time.nullable().describe('The earliest moment at which the request succeeds; null if it is not known.'),
  sentence: text.describe('Why it was refused.'),
  advice: text.describe(
    'What to do about it now: a ban of a key that was lifted since, or a limit that was topped up, is over.',
  ),
});

/** A refusal in a message of another gateway. One of a later version may judge in other words, one of an earlier lacks some members. */
export const sentRefusal = refusal.extend({
  judgement: text,
  ...{ policy: refusal.shape.policy.default(null), upstream: refusal.shape.upstream.default(null) },
  ...{ target: refusal.shape.target.default(null), totalMs: refusal.shape.totalMs.default(null) },
  endedBy: refusal.shape.endedBy.default(null),
});

/** A refusal as the store keeps it. */
export const storedRefusal = sentRefusal.extend({ gateway: text, gatewayHost: text });

/** What is remembered of the last requests of a caller. */
export type LastCalls = DeepReadonly<z.output<typeof lastCalls>>;
export const lastCalls = z.object({
  last: z
    .object({ at: time, clientAddress: text })
    .nullable()
    .describe('Its last request, whether it was admitted or not; null if no gateway remembers one.'),
  admittedAt: time.nullable().describe('When its last request was admitted; null if that is not known.'),
  refusedSince: time
    .nullable()
    .describe(
      'When the first of the refusals by limits and bans came that no admitted request has followed; null without one.',
    ),
});

/** A consumer that an admitted request left near a limit. Between gateways it is a row of its members in this order. */
export type NearCandidate = Readonly<z.output<typeof sentNear>>;
export const sentNear = z
  // The id of its account, with the customer if it has one; the longest window that it is near to; the smallest share of a limit
  // that was left, from 0; Unix milliseconds.
  .tuple([text, text, limitName, count, z.number().nonnegative(), z.number()])
  .transform(([id, plan, window, cost, share, atMs]) => ({ id, plan, window, cost, share, atMs }));

export function nearToSend({ id, plan, window, cost, share, atMs }: NearCandidate): z.input<typeof sentNear> {
  return [id, plan, window, cost, share, atMs];
}

/** How often a consumer was refused in the last 10 minutes: by a limit, and by a ban. Between gateways it is such a row. */
export type RefusedCount = Readonly<z.output<typeof sentRefusedCount>>;
export const sentRefusedCount = z
  .tuple([text, text, count, count])
  .transform(([id, plan, refused, banned]) => ({ id, plan, refused, banned }));

export function refusedCountToSend({ id, plan, refused, banned }: RefusedCount): z.input<typeof sentRefusedCount> {
  return [id, plan, refused, banned];
}
