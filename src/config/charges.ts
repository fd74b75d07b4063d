import { z } from 'zod';
import { boundedReserve, type Charge, type PlainReserve, type Reserve } from '../meter/charge.ts';
import { type CostSource, type PlainSource, pointerText, type Times } from '../meter/cost.ts';
import { IN_RESPONSE, plainSourceOf, pointer } from './cost-sources.ts';
import * as values from './setting-values.ts';
import { wholeNumber } from './setting-values.ts';
import { times, type WrittenTimes } from './tables.ts';

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
const inHeader = {
  header: values
    .token()
    .describe('The field of the request that says it, one that reaches the service as the client sends it.'),
  ...readParts,
};
const inJson = {
  json: pointer().describe(
    'Where it stands in the JSON body of the request, as a JSON pointer. Such a body is read before the request is counted, up to 1 MiB.',
  ),
  ...readParts,
};

const isInOrder = (raw: object) => {
  const { least = 0, most = MAX_RESERVE } = raw as { readonly least?: number; readonly most?: number };
  return least <= most;
};
const IN_ORDER = { path: ['least'], message: 'is above `most`; lower it, or raise `most`' };

const MAX_PARTS = 8;
const PARTS_RULE = `must be a list of 1 to ${MAX_PARTS} parts`;
const RESERVE_PART_RULE =
  'must be a mapping with `amount`, or with `header` or `json`, and `default`: { json: /max_tokens, default: 1000, times: 15 }';
const reservePart = z
  .union(
    [
      z.strictObject({ amount: reserved().describe('A number that is the same for all requests.'), times: times() }),
      z.strictObject({ ...inHeader, times: times() }),
      z.strictObject({ ...inJson, times: times() }),
    ],
    RESERVE_PART_RULE,
  )
  .refine(isInOrder, IN_ORDER)
  .transform((raw) => ({ reserve: 'amount' in raw ? fixed(raw.amount) : askedOf(raw), times: raw.times }));

const RESERVE_RULE =
  'must be a whole number from 0, or a mapping with `header` or `json`, and `default`, or with `sum`: { json: /max_tokens, default: 1000 }';
const reserve = z
  .union(
    [
      reserved(),
      z.strictObject(inHeader),
      z.strictObject(inJson),
      z.strictObject({
        sum: z
          .array(reservePart, PARTS_RULE)
          .min(1, PARTS_RULE)
          .max(MAX_PARTS, PARTS_RULE)
          .describe('Numbers that are each multiplied by `times` and added. The sum is rounded up.'),
        least: readParts.least,
        most: readParts.most,
      }),
    ],
    RESERVE_RULE,
  )
  .refine((raw) => typeof raw === 'number' || isInOrder(raw), IN_ORDER)
  .transform((raw): Reserve<WrittenTimes> => {
    if (typeof raw === 'number') return fixed(raw);
    if ('sum' in raw) return { kind: 'sum', parts: raw.sum, least: raw.least ?? 0, most: raw.most ?? MAX_RESERVE };
    return askedOf(raw);
  });

function fixed(amount: number): PlainReserve {
  return { kind: 'fixed', amount };
}

function askedOf(
  raw: { readonly default: number; readonly least?: number | undefined; readonly most?: number | undefined } & (
    | { readonly header: string }
    | { readonly json: readonly string[] }
  ),
): PlainReserve {
  const bounds = { otherwise: raw.default, least: raw.least ?? 0, most: raw.most ?? MAX_RESERVE };
  if ('header' in raw) return { kind: 'header', name: raw.header.toLowerCase(), ...bounds };
  return { kind: 'json', pointer: raw.json, ...bounds };
}

const { header, json, sse, ndjson } = IN_RESPONSE;
const remove = z.boolean().prefault(false).describe('`true`: the client does not get the field.');
const PART_RULE =
  'must be a mapping with one of `header`, `json`, `sse` and `ndjson`: { json: /usage/prompt_tokens, times: 3 }';
const part = z
  .union(
    [
      z.strictObject({ header, remove, times: times() }),
      z.strictObject({ json, times: times() }),
      z.strictObject({ sse, times: times() }),
      z.strictObject({ ndjson, times: times() }),
    ],
    PART_RULE,
  )
  .transform((raw) => ({ source: plainSourceOf(raw), times: raw.times, removed: removedBy(raw) }));

const SOURCE_RULE =
  'must be `bytes`, `milliseconds`, or a mapping with one of `header`, `json`, `sse`, `ndjson` and `sum`: { json: /usage/total_tokens }';
const source = z
  .union(
    [
      z.enum(['bytes', 'milliseconds']),
      z.strictObject({ header, remove }),
      z.strictObject({ json }),
      z.strictObject({ sse }),
      z.strictObject({ ndjson }),
      z.strictObject({
        sum: z
          .array(part, PARTS_RULE)
          .min(1, PARTS_RULE)
          .max(MAX_PARTS, PARTS_RULE)
          .describe(
            'Numbers of the answer that are each multiplied by `times` and added. One that is not there is 0 if another one is. The sum is rounded up.',
          ),
      }),
    ],
    SOURCE_RULE,
  )
  .transform((raw): { readonly source: CostSource<WrittenTimes>; readonly removed: readonly string[] } => {
    if (typeof raw === 'string') return { source: { kind: raw }, removed: [] };
    if (!('sum' in raw)) return { source: plainSourceOf(raw), removed: removedBy(raw) };
    const parts = raw.sum.map(({ source: one, times: by }) => ({ source: one, of: nameOf(one), times: by }));
    return { source: { kind: 'sum', parts }, removed: raw.sum.flatMap(({ removed }) => removed) };
  });

/** The fields that the client does not get. */
function removedBy(raw: object): readonly string[] {
  return 'header' in raw && 'remove' in raw && raw.remove === true ? [String(raw.header)] : [];
}

/** How reports name a part. */
function nameOf(of: PlainSource): string {
  return of.kind === 'header' ? of.name : pointerText(of.pointer);
}

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
  readonly charges: readonly Charge<WrittenTimes>[] | null;
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
    return { charge: { unit, reserve: fixed(entry), sources: [], refund: [] }, removed: [] };
  }
  const sources = entry.from === undefined ? [] : Array.isArray(entry.from) ? entry.from : [entry.from];
  return {
    charge: { unit, reserve: entry.reserve, sources: sources.map((one) => one.source), refund: entry.refund ?? [] },
    removed: sources.flatMap(({ removed }) => removed),
  };
}

/** A charge of a file with its tables. */
export function chargeWith(charge: Charge<WrittenTimes>, timesOf: (written: WrittenTimes) => Times): Charge {
  const { reserve, sources } = charge;
  const withTimes = <P extends { readonly times: WrittenTimes }>(parts: readonly P[]) =>
    parts.map((one) => ({ ...one, times: timesOf(one.times) }));
  return {
    ...charge,
    reserve: reserve.kind === 'sum' ? boundedReserve({ ...reserve, parts: withTimes(reserve.parts) }) : reserve,
    sources: sources.map((one) => (one.kind === 'sum' ? { ...one, parts: withTimes(one.parts) } : one)),
  };
}
