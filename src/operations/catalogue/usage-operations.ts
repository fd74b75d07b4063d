import { z } from 'zod';
import { isZone } from '../../config/plans-schema.ts';
import { Failure, Refused } from '../../failure.ts';
import { count, limitName, time, WINDOWS, wholeNumber } from '../../model/values.ts';
import { addTopUp, historyOf, operatorsUsageOf, resetCounts, takeTopUpBack, usedByKeys } from '../account-usage.ts';
import { customerByUse, customersByUse } from '../customers-by-use.ts';
import { keyUsage } from '../key-usage-report.ts';
import { amount, cursor, flag, PAGE, textRule } from '../operation-values.ts';
import { changeOfUsage } from '../recorded.ts';
import { reason } from '../suspensions.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import { endFrom, resetReport, topUpReport, type UsageChange, undoneReport } from '../usage-changes.ts';
import { MAX_EXPORTED, spanFrom, usagePage, usageRecord } from '../usage-history.ts';
import type { StoreContext } from './contexts.ts';
import { type Done, defineOperation, type Invocation } from './operation.ts';
import type { RecordPath } from './record-operations.ts';

export const showUsage = defineOperation({
  name: 'showUsage',
  line: 'GET /keys/{id}/usage',
  role: 'viewer',
  sentence: 'What a key has used in each window, its strikes and its ban. Costs nothing.',
  description: 'The id may also be that of a caller with JSON Web Tokens (`jwt_…`, as in the log and among the bans).',
  on: 'store',
  input: z.strictObject({
    plan: z
      .string(textRule)
      .optional()
      .describe('The plan of a caller with tokens, which only the tokens name. Left out for a key.'),
  }),
  output: keyUsage,
  fails: { conflict: true },
  run: async (store, { id, plan }) => ({ output: await operatorsUsageOf(store, id, plan ?? null) }),
});

const untilRule = 'must be window, today, a date such as 2026-12-01, or a time such as 2026-12-01T18:00:00Z';
const zoneRule = 'must be the name of a time zone, such as UTC or Europe/Berlin';

const newTopUp = z
  .strictObject(
    {
      window: limitName.describe(
        `The window, one of ${WINDOWS.join(', ')}; of a group of routes or a unit with its name in front, such as search-minute or tokens-minute.`,
      ),
      amount: amount.describe('How much to add, a whole number from 1.'),
      until: z
        .string(untilRule)
        .refine((text) => text === 'window' || text === 'today' || endFrom(text) !== null, untilRule)
        .optional()
        .describe(
          'When the top-up ends: with its window unless given; `today` at the end of the day; or at a date (midnight UTC) or an RFC 3339 time of ' +
            'the next 366 days. With an end of its own it counts for each window that begins until then.',
        ),
      zone: z
        .string(zoneRule)
        .refine(isZone, zoneRule)
        .optional()
        .describe(
          'The time zone of `today`, such as Europe/Berlin; that of a calendar window, or else UTC, unless given.',
        ),
      reason: reason
        .optional()
        .describe(
          'Why, such as a ticket: one line of up to 200 characters for operators, in the record of changes and in the usage while it is in force.',
        ),
    },
    'must be an object',
  )
  .meta({ id: 'NewTopUp', examples: [{ window: 'day', amount: 500, until: 'today', reason: 'TICKET-12' }] });

const toppingUp = {
  role: 'operator',
  on: 'store',
  once: true,
  input: newTopUp,
  output: topUpReport,
  fails: { conflict: true },
  run: async (store: StoreContext, { id, ...given }: z.output<typeof newTopUp> & RecordPath, { once }: Invocation) =>
    doneOnce(id, await addTopUp(store, id, given, once)),
} as const;

export const topUp = defineOperation({
  ...toppingUp,
  name: 'topUp',
  command: ['keys topup', 'Add to a limit for a while'],
  line: 'POST /keys/{id}/topups',
  sentence:
    'Adds to the limit of one window of a key, until that window ends or until you say, on every gateway within a second.',
  effect:
    'The amount is added to the limit of one window. It can be undone as long as it is in force. A ban stays until it is lifted or ends.',
  description:
    'Without `until`, a fixed or calendar window that is not open opens now, and a sliding window, which has no end, keeps the amount for one ' +
    'length. Another top-up of the same window adds to the first. All top-ups of a window end together: while one is in ' +
    'force, another that ends at another time is refused with 409 if either was given `until`.',
  action: 'key.topup',
});

const undoing = {
  role: 'operator',
  on: 'store',
  action: 'topup.undo',
  output: undoneReport,
  fails: { not_found: 'There is no such key or customer, or no such top-up is in force.', conflict: true },
  run: async (store: StoreContext, { id, topUp: named }: RecordPath & { readonly topUp: string }) =>
    doneOnce(id, await takeTopUpBack(store, id, named)),
} as const;

export const undoTopUp = defineOperation({
  ...undoing,
  name: 'undoTopUp',
  command: ['keys undo-topup', 'Take a top-up back'],
  line: 'DELETE /keys/{id}/topups/{topUp}',
  sentence:
    'Takes a top-up of a key back, on every gateway within a second. What was used of it stays counted: nothing is left if that is more than the limit.',
  description:
    '`topUp` is the id of the top-up, as the usage of the key shows it; or the name of a window, such as `day`, for all top-ups of it.',
});

const windowsRule = `must be an array of different windows, each one of ${WINDOWS.join(', ')}, or that of a group of routes or a unit, such as search-minute`;

const newReset = z.strictObject(
  {
    windows: z
      .array(limitName, windowsRule)
      .min(1, windowsRule)
      .refine((all) => new Set(all).size === all.length, windowsRule)
      .optional()
      .describe('The windows to reset. Left out, all that the plan of the key counts.')
      .meta({ uniqueItems: true }),
  },
  'must be an object',
);

const resetting = {
  role: 'operator',
  on: 'store',
  action: 'usage.reset',
  effect: 'What these windows have counted is set to nothing, and the strikes are cleared. Top-ups and a ban stay.',
  once: true,
  input: newReset,
  output: resetReport,
  fails: { conflict: true },
  run: async (store: StoreContext, { id, windows }: z.output<typeof newReset> & RecordPath, { once }: Invocation) =>
    doneOnce(id, await resetCounts(store, id, windows ?? null, once)),
} as const;

export const resetUsage = defineOperation({
  ...resetting,
  name: 'resetUsage',
  command: ['usage reset', 'Set what a key has used to nothing'],
  line: 'POST /keys/{id}/usage/reset',
  sentence: 'Sets what a key has used to nothing, on every gateway within a second.',
});

function doneOnce<T extends object>(id: string, changed: UsageChange<T>): Done<T> {
  if (changed.kind === 'reused') {
    const message = 'This Idempotency-Key came with another change before. Use a new one for each change.';
    throw new Refused('idempotency_key_reused', message);
  }
  return {
    output: changed.report as Done<T>['output'],
    change: changeOfUsage(id, changed),
    isRepeated: changed.kind === 'repeated',
  };
}

const stepRule = 'must be hour or day';

const askedSpan = z.strictObject({
  from: z
    .string(textRule)
    .optional()
    .describe(
      'A duration before now such as 24h, a date (midnight UTC) or an RFC 3339 time. The beginning of the history unless given.',
    ),
  to: z.string(textRule).optional().describe('In the same form; the present unless given.'),
  step: z.enum(['hour', 'day'], stepRule).optional().meta({ default: 'hour' }),
  unit: z
    .string(textRule)
    .optional()
    .describe('What is counted: `requests`, or a unit that a plan limits, such as `tokens`.')
    .meta({ default: 'requests' }),
});

const historyReport = z
  .strictObject({
    step: z.enum(['hour', 'day']),
    unit: z.string().optional().describe('What `admitted` counts, such as `tokens`; absent for requests.'),
    buckets: z
      .array(
        z.strictObject({
          at: time.describe('When the hour or day begins, UTC.'),
          admitted: count.describe(
            'The cost of the requests that were admitted, or what they paid in the unit; exact.',
          ),
          refused: count.describe('About how many requests were refused for a limit; 0 in a unit.'),
          banned: count.describe('About how many requests were refused for a ban; 0 in a unit.'),
        }),
      )
      .describe('Oldest first. An hour or day in which nothing happened is left out.'),
    isKept: z.boolean().describe('False if `usage.history` is off, so that nothing is added at present.'),
  })
  .meta({
    id: 'History',
    description: 'What `GET /usage?history` shows the holder of a key, and whether more is kept.',
    examples: [
      { step: 'hour', buckets: [{ at: '2026-11-22T05:00:00Z', admitted: 1200, refused: 14, banned: 0 }], isKept: true },
    ],
  });

function askedSpanOf(asked: z.output<typeof askedSpan>, nowMs: number) {
  const { from = null, to = null, step = null } = asked;
  const span = spanFrom({ from, to, step }, nowMs);
  if ('fault' in span) throw new Failure('refused', span.fault);
  return span;
}

async function shownHistory(store: StoreContext, { id, ...asked }: z.output<typeof askedSpan> & RecordPath) {
  const history = await historyOf(store, id, askedSpanOf(asked, store.nowMs()), asked.unit ?? null);
  return { ...history, isKept: store.keepsHistory() };
}

export const showHistory = defineOperation({
  role: 'viewer',
  on: 'store',
  input: askedSpan,
  output: historyReport,
  run: async (store, asked) => ({ output: await shownHistory(store, asked) }),
  name: 'showHistory',
  line: 'GET /keys/{id}/history',
  sentence: 'What a key has used, by hour (of the last 48 hours) or by day (of the last 92 days, UTC).',
  description:
    'The key may be revoked. The id may also be that of a caller with JSON Web Tokens (`jwt_…`). An hour or day is in the response ' +
    'if any part of it lies between `from` and just before `to`. The list is empty if nothing was used or if `usage.history` is off.',
});

/** A command has read `from` by its own clock, which may be slow. Later pages are of the same span. */
const GRACE_MS = { first: 60_000, later: 86_400_000 };

export const exportUsage = defineOperation({
  name: 'exportUsage',
  line: 'GET /usage',
  role: 'viewer',
  sentence: 'What every key and every caller with tokens used by hour or by day, for billing.',
  description:
    'One record for each consumer and hour or day in which it did anything, and one more for each unit of the plans in force that it used: ' +
    'keys first, oldest first, also revoked ones. A page has the records of `limit` keys, and so may be empty although another one follows: ' +
    'continue while `cursor` is not null, with the same `from` and `to`, as times. What belongs to the present hour or day is not final.',
  on: 'store',
  input: z.strictObject({
    limit: wholeNumber(1, MAX_EXPORTED).default(100).describe('Keys and callers with tokens on a page.'),
    cursor: PAGE.cursor,
    from: z
      .string(textRule)
      .optional()
      .describe(
        'A duration before now such as 24h, a date (midnight UTC) or an RFC 3339 time. The beginning of what is kept unless given.',
      ),
    to: z
      .string(textRule)
      .optional()
      .describe('In the same form; the present unless given. What begins then is left out.'),
    step: z.enum(['hour', 'day'], stepRule).optional().meta({ default: 'day' }),
    key: z
      .string(textRule)
      .optional()
      .describe('Only this key, which may be revoked, or this caller with tokens (`jwt_…`).'),
    customer: z.string(textRule).optional().describe('Only what was used while it belonged to this customer.'),
  }),
  output: z.strictObject({
    records: z.array(usageRecord),
    cursor,
    unreadable: unreadable.describe(
      'The keys, customers and histories that cannot be read. What they used is left out, or the plan where it is that of a customer.',
    ),
    isKept: z.boolean().describe('False if `usage.history` is off, so that nothing is added at present.'),
  }),
  fails: { not_found: 'There is no such key or customer.' },
  async run(store, { limit, cursor: after = null, from = null, to = null, step = 'day', key = null, customer = null }) {
    const graceMs = after === null ? GRACE_MS.first : GRACE_MS.later;
    const span = spanFrom({ from, to, step }, store.nowMs(), undefined, graceMs);
    if ('fault' in span) throw new Failure('refused', span.fault);
    const { unreadable, ...page } = await usagePage(store, span, { key, customer }, { limit, cursor: after });
    return { output: { ...page, unreadable: unreadableReport(unreadable), isKept: store.keepsHistory() } };
  },
});

const aboveRule = 'must be a whole number of percent from 1 to 100';
const MAX_CUSTOMERS = 10_000;

export const listCustomersByUse = defineOperation({
  name: 'listCustomersByUse',
  line: 'GET /usage/customers',
  role: 'viewer',
  sentence: 'Lists the customers by how much of a limit their keys have used together, the largest share first.',
  description:
    'Looks at the first 10,000 customers. With how much was admitted in the last seven days and in those before, when nothing is left at that pace, and ' +
    'how many keys there are. All of it is in one answer, without pages.',
  on: 'store',
  readsMuch: true,
  input: z.strictObject({
    window: limitName
      .optional()
      .describe('The window, such as month; the longest in which a customer has a limit unless given.'),
    above: z
      .string(aboveRule)
      .regex(/^(?:[1-9]\d?|100)$/, aboveRule)
      .optional()
      .describe('Only customers that have used this much of it, in percent.')
      .meta({ examples: ['80'] }),
    top: wholeNumber(1, MAX_CUSTOMERS).default(100).describe('At most this many customers.'),
  }),
  output: z.strictObject({
    customers: z.array(customerByUse),
    matching: count.describe('How many customers match, also those beyond `top`.'),
    searched: count.describe('How many customers were looked at.'),
    isWhole: z.boolean().describe('False if there may be more customers than were looked at.'),
    unreadable,
  }),
  async run(store, { window = null, above = '0', top }) {
    const asked = { window, above: Number(above) / 100, most: top, keepsHistory: store.keepsHistory() };
    const { unreadable, ...found } = await customersByUse(store, asked);
    return { output: { ...found, unreadable: unreadableReport(unreadable) } };
  },
});

// The same of customers. The limits that the keys of a customer share are its own here: `minute` is what a key sees as
// `customer-minute`.

export const showCustomerUsage = defineOperation({
  name: 'showCustomerUsage',
  line: 'GET /customers/{id}/usage',
  role: 'viewer',
  sentence:
    'What the keys of a customer have used together in each window, and the ban of the customer. Costs nothing.',
  description:
    'Strikes and a ban are those of the customer: they are empty unless its plan has `bans: { of: customer }`.',
  on: 'store',
  output: keyUsage,
  fails: { conflict: true },
  run: async (store, { id }) => ({ output: await operatorsUsageOf(store, id) }),
});

export const topUpCustomer = defineOperation({
  ...toppingUp,
  name: 'topUpCustomer',
  command: ['customers topup', 'Add to a shared limit for a while'],
  line: 'POST /customers/{id}/topups',
  sentence:
    'Adds to a limit that the keys of a customer share, until its window ends or until you say, on every gateway within a second.',
  effect:
    'The amount is added to the limit of one window, for all its keys together. It can be undone as long as it is in force. A ban stays until ' +
    'it is lifted or ends.',
  action: 'customer.topup',
});

export const undoCustomerTopUp = defineOperation({
  ...undoing,
  name: 'undoCustomerTopUp',
  command: ['customers undo-topup', 'Take a top-up back'],
  line: 'DELETE /customers/{id}/topups/{topUp}',
  sentence: 'Takes a top-up of a customer back, on every gateway within a second. What was used of it stays counted.',
  description: '`topUp` is the id of the top-up; or the name of a window, such as `day`, for all top-ups of it.',
});

export const resetCustomerUsage = defineOperation({
  ...resetting,
  name: 'resetCustomerUsage',
  line: 'POST /customers/{id}/usage/reset',
  sentence:
    'Sets what the keys of a customer have used together to nothing, on every gateway within a second. What each key may take of it stays.',
});

const usedByKey = z.strictObject({
  keys: z
    .array(z.strictObject({ id: z.string(), name: z.string().nullable(), admitted: count }))
    .max(100)
    .describe('By what they used, the most first.'),
  isWhole: z.boolean().describe('False if it has more than 100 keys, of which only the first ones are listed.'),
});

export const showCustomerHistory = defineOperation({
  role: 'viewer',
  on: 'store',
  input: askedSpan.extend({
    keys: flag.describe('Also how much each of its keys used of it: `byKey`.'),
  }),
  output: historyReport
    .extend({
      byKey: usedByKey
        .optional()
        .describe('Only with the parameter `keys`. Keys that were moved or deleted since are not in it.'),
    })
    .meta({ id: 'CustomerHistory' }),
  async run(store, { keys, ...asked }) {
    const history = await shownHistory(store, asked);
    if (!keys) return { output: history };
    const byKey = await usedByKeys(store, asked.id, askedSpanOf(asked, store.nowMs()), asked.unit ?? null);
    return { output: { ...history, byKey } };
  },
  name: 'showCustomerHistory',
  line: 'GET /customers/{id}/history',
  sentence:
    'What the keys of a customer have used together, by hour (of the last 48 hours) or by day (of the last 92 days, UTC).',
  description:
    'It is the sum of what its keys have used while they belonged to it, those that were deleted since among them.',
});
