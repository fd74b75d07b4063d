import { z } from 'zod';
import type { Charge, Reserve } from '../meter/charge.ts';
import { type CostSource, pointerOf } from '../meter/cost.ts';
import * as values from './setting-values.ts';
import { wholeNumber } from './setting-values.ts';

/*
 * `cost` of a route in gateway.yaml: for how many requests one counts, and what it charges in units of their own.
 */

/**
 * What one request may take in advance at most.
 *
 * Attack: a history is exact up to 2 to the power of 40. A caller that takes much more in advance than it uses, in a few requests,
 * would fill it up to there, and empty it when that is given back.
 */
const MAX_RESERVE = 1_000_000_000;
const reservedRule = `must be a whole number from 0 to ${MAX_RESERVE}`;
const reserved = () => z.int(reservedRule).min(0, reservedRule).max(MAX_RESERVE, reservedRule);

const POINTER_RULE = 'must be a JSON pointer (RFC 6901) such as /usage/total_tokens';
const pointer = () =>
  z
    .string(POINTER_RULE)
    .refine((text) => pointerOf(text) !== null, POINTER_RULE)
    .transform((text) => pointerOf(text)!);

const readParts = {
  default: reserved().describe(
    'What is taken in advance of a request that does not say it: the field or the member is missing, or null.',
  ),
  least: reserved().optional().describe('What is taken in advance at least, whatever the request says. 0 if left out.'),
  most: reserved()
    .optional()
    .describe(
      `What is taken in advance at most, and of a request that does not say it as one number from 0. ${MAX_RESERVE} if left out.`,
    ),
};
const RESERVE_RULE =
  'must be a whole number from 0, or a mapping with `header` or `json`, and `default`: { json: /max_tokens, default: 1000 }';
const reserve = z
  .union(
    [
      reserved(),
      z.strictObject({
        header: values
          .token()
          .describe('The field of the request that says it, one that reaches the service as the client sends it.'),
        ...readParts,
      }),
      z.strictObject({
        json: pointer().describe(
          'Where it stands in the JSON body of the request, as a JSON pointer. Such a body is read before the request is counted, up to 1 MiB.',
        ),
        ...readParts,
      }),
    ],
    RESERVE_RULE,
  )
  .refine((raw) => typeof raw === 'number' || (raw.least ?? 0) <= (raw.most ?? MAX_RESERVE), {
    path: ['least'],
    message: 'is above `most`; lower it, or raise `most`',
  })
  .transform((raw): Reserve => {
    if (typeof raw === 'number') return { kind: 'fixed', amount: raw };
    const bounds = { otherwise: raw.default, least: raw.least ?? 0, most: raw.most ?? MAX_RESERVE };
    if ('header' in raw) return { kind: 'header', name: raw.header.toLowerCase(), ...bounds };
    return { kind: 'json', pointer: raw.json, ...bounds };
  });

const SOURCE_RULE =
  'must be `bytes`, `milliseconds`, or a mapping with one of `header`, `json`, `sse` and `ndjson`: { json: /usage/total_tokens }';
const source = z
  .union(
    [
      z.enum(['bytes', 'milliseconds']),
      z.strictObject({
        header: values.token().describe('The field of the answer that has it.'),
        remove: z.boolean().prefault(false).describe('`true`: the client does not get the field.'),
      }),
      z.strictObject({ json: pointer().describe('Where it stands in an answer of JSON, as a JSON pointer.') }),
      z.strictObject({
        sse: pointer().describe(
          'Where it stands in the events of a stream (`text/event-stream`), as a JSON pointer. The last event that has it counts.',
        ),
      }),
      z.strictObject({
        ndjson: pointer().describe(
          'The same in the last of several JSON texts (`application/x-ndjson`, `application/json-seq`).',
        ),
      }),
    ],
    SOURCE_RULE,
  )
  .transform((raw): { readonly source: CostSource; readonly removed: string | null } => {
    if (typeof raw === 'string') return { source: { kind: raw }, removed: null };
    if ('header' in raw) {
      return { source: { kind: 'header', name: raw.header.toLowerCase() }, removed: raw.remove ? raw.header : null };
    }
    if ('json' in raw) return { source: { kind: 'json', pointer: raw.json }, removed: null };
    if ('sse' in raw) return { source: { kind: 'sse', pointer: raw.sse }, removed: null };
    return { source: { kind: 'ndjson', pointer: raw.ndjson }, removed: null };
  });

const REFUND_RULE = 'must be a status from 400 to 599, `4xx` or `5xx`';
const refund = z.array(
  z.union([z.enum(['4xx', '5xx']), z.int(REFUND_RULE).min(400, REFUND_RULE).max(599, REFUND_RULE)], REFUND_RULE),
  'must be a list of statuses, such as [5xx]',
);

const charge = z.strictObject({
  reserve: reserve.describe('What a request takes in advance, in the decision that admits it.'),
  from: z
    .union(
      [
        source,
        z.array(source).min(1, 'must be a list of at least one source').max(8, 'must not have more than 8 sources'),
      ],
      SOURCE_RULE,
    )
    .optional()
    .describe(
      'Where the answer says what the request really cost; of several sources, a field that is there, else the one that fits the media type of the answer. The difference to what was taken in advance is given back or added. Without it, the request costs what it took in advance.',
    ),
  refund: refund
    .optional()
    .describe(
      'Statuses after which the request costs nothing in this unit, such as `[5xx]`, which covers those from 600 to 999 too. None if left out.',
    ),
});

const COST_RULE = 'must be a whole number from 1 to 1000000000, or a mapping of units to what is charged in them';

const requests = wholeNumber(1, 1_000_000_000);

// As a type without a name: the declarations of the package name only what is exported.
type RouteCost = {
  /** For how many requests one counts. */
  readonly requests: number;
  /** Null if it charges no other unit. */
  readonly charges: readonly Charge[] | null;
  /** Fields of the answer that the client does not get. */
  readonly removedFields: readonly string[];
};

export const routeCost = z
  .union(
    [
      requests,
      z

        .record(values.limitName('unit'), z.union([reserved(), charge], RESERVE_RULE))
        .refine((units) => Object.keys(units).length > 0, 'is empty; name `requests` or a unit, or leave it out')
        .meta({ minProperties: 1 }),
    ],
    COST_RULE,
  )
  .prefault(1)
  .transform((raw, context): RouteCost => {
    if (typeof raw === 'number') return { requests: raw, charges: null, removedFields: [] };
    const { requests: counted = 1, ...units } = raw;
    if (!requests.safeParse(counted).success) {
      context.addIssue({ code: 'custom', path: ['requests'], message: 'must be a whole number from 1 to 1000000000' });
      return z.NEVER;
    }
    const charges = Object.entries(units).map(([unit, entry]) => chargeOf(unit, entry));
    return {
      requests: counted as number,
      charges: charges.length === 0 ? null : charges.map(({ charge: one }) => one),
      removedFields: charges.flatMap(({ removed }) => removed),
    };
  });

function chargeOf(unit: string, entry: number | z.output<typeof charge>) {
  if (typeof entry === 'number') {
    return {
      charge: { unit, reserve: { kind: 'fixed', amount: entry } as const, sources: [], refund: [] },
      removed: [],
    };
  }
  const sources = entry.from === undefined ? [] : Array.isArray(entry.from) ? entry.from : [entry.from];
  return {
    charge: { unit, reserve: entry.reserve, sources: sources.map((one) => one.source), refund: entry.refund ?? [] },
    removed: sources.flatMap(({ removed }) => removed ?? []),
  };
}
