import { z } from 'zod';
import { Failure } from '../../failure.ts';
import { filterShape, filterValues, searchedWords, shapeOf, TEXT_WORDS } from '../../model/attributes.ts';
import { limits } from '../../model/plan.ts';
import { isCustomerId, type StoredCustomer } from '../../model/record.ts';
import { count } from '../../model/values.ts';
import { customer, customerReport } from '../customer-report.ts';
import { customerStanding, MAX_KEYS_LOOKED_AT, standingsOf } from '../customer-standing.ts';
import { makeCustomer, removeCustomer, searchCustomers } from '../customers.ts';
import { key, keyReport } from '../key-report.ts';
import { keysOfCustomer, searchKeys } from '../key-search.ts';
import { cursor, DURATION_RULE, durationFrom, PAGE, textRule } from '../operation-values.ts';
import { atPresent, CUSTOMERS, recordOf } from '../operator-store.ts';
import { changeOfDeletion } from '../recorded.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import { defineOperation } from './operation.ts';
import {
  CREATING,
  createdDone,
  DURATION_PATTERN,
  end,
  newAttributes,
  plan,
  repeatableOf,
  resuming,
  type ShownKind,
  suspending,
  updating,
} from './record-operations.ts';

/** Keys that the report of one customer has. */
const MAX_KEYS = 100;

const shownCustomer = customer
  .extend({
    keys: z.array(key).describe(`Its keys that are not revoked, oldest first, at most ${MAX_KEYS}.`),
    keysCursor: cursor.describe(
      'Leads to the further keys, as `cursor` of `GET /keys?customer=…`; null if these are all.',
    ),
    unreadable,
  })
  .meta({ id: 'ShownCustomer', description: 'A customer, with its keys.' });

const SHOWN_CUSTOMERS: ShownKind<StoredCustomer, typeof customer> = {
  ...CUSTOMERS,
  output: customer,
  report: async (record, { plans, nowMs }) => customerReport(record, plans(), nowMs()),
};

export const listCustomers = defineOperation({
  name: 'listCustomers',
  line: 'GET /customers',
  role: 'viewer',
  sentence: 'Lists the customers that match, oldest first.',
  description:
    'A customer matches if it matches each parameter that is given. A page ends at `limit` or after bounded work: it may have fewer ' +
    'customers, even none, while `cursor` leads to another page.',
  on: 'store',
  input: z.strictObject({
    ...PAGE,
    q: z
      .string(textRule)
      .optional()
      .describe(
        `A part of the ${searchedWords()}, in upper or lower case; or \`meta.NAME=VALUE\`, a pair of metadata, whole and in its case.`,
      )
      .meta({ minLength: 1 }),
    plan: z.string(textRule).optional().describe('The name of the plan.').meta({ minLength: 1 }),
    ...filterShape(),
    expiring: z
      .string(textRule)
      .optional()
      .describe('Customers that end within this time from now, such as 30d, and have not ended yet.')
      .meta({ pattern: DURATION_PATTERN }),
  }),
  output: z.strictObject({
    customers: z.array(customer),
    cursor,
    searched: count.describe('How many customers were looked at for this page.'),
    unreadable,
  }),
  async run(store, { q = null, plan = null, expiring = null, limit, cursor, ...given }) {
    const expiringMs = expiring === null ? null : durationFrom(expiring);
    if (expiring !== null && expiringMs === null) throw new Failure('refused', `expiring ${DURATION_RULE}.`);
    const filter = { text: q, plan, ...filterValues(given), expiringMs };
    const found = await searchCustomers(store, filter, { limit, cursor: cursor ?? null });
    const { plans, nowMs } = atPresent(store);
    const customers = found.customers.map((one) => customerReport(one, plans, nowMs));
    const { searched, unreadable } = found;
    return { output: { customers, cursor: found.cursor, searched, unreadable: unreadableReport(unreadable) } };
  },
});

export const createCustomer = defineOperation({
  ...CREATING,
  name: 'createCustomer',
  command: ['customers create', 'Make a customer, whose keys share a plan'],
  line: 'POST /customers',
  sentence: 'Makes a customer, whose keys share one plan and its limits.',
  description: 'With `Idempotency-Key`, the same request within 24 h gets the same customer and makes no second one.',
  action: 'customer.create',
  input: z
    .strictObject(
      {
        plan,
        ...shapeOf('customer', 'given'),
        expiresAt: end('customer'),
        limits: limits
          .optional()
          .describe(
            'Limits of its own that replace those of its plan for all its keys together. A window that is `custom` in the plan needs one.',
          ),
      },
      'must be an object',
    )
    .meta({ id: 'NewCustomer', examples: [{ plan: 'pro', name: 'Acme Ltd', owner: 'sales@example.com' }] }),
  output: customer,
  fails: { conflict: 'The customer that this Idempotency-Key made is deleted.' },
  async run(store, { plan, ...given }, invocation) {
    const attributesAt = (nowMs: number) => ({ plan, ...newAttributes(given, nowMs) });
    const created = await makeCustomer(store, repeatableOf(invocation), attributesAt);
    return createdDone(CUSTOMERS, created, async ({ record }) =>
      customerReport(record, store.plans(), record.createdAtMs),
    );
  },
});

export const showCustomer = defineOperation({
  name: 'showCustomer',
  line: 'GET /customers/{id}',
  role: 'viewer',
  sentence: 'Shows one customer and its keys.',
  on: 'store',
  isVersioned: true,
  output: shownCustomer,
  async run(store, { id }) {
    const customer = await recordOf(CUSTOMERS, store, id);
    const page = { limit: MAX_KEYS, cursor: null };
    const { keys, cursor, unreadable } = await searchKeys(keysOfCustomer(id), page, atPresent(store));
    const { plans, nowMs } = atPresent(store);
    const owners = new Map([[id, customer]]);
    const reports = keys.map(({ key }) => keyReport(key, plans, nowMs, owners));
    const report = { ...customerReport(customer, plans, nowMs), keys: reports, keysCursor: cursor };
    return { output: { ...report, unreadable: unreadableReport(unreadable) }, record: customer };
  },
});

const MAX_STANDINGS = 500;
const idsRule = `must be 1 to ${MAX_STANDINGS} ids of customers with commas between them`;

export const listStandings = defineOperation({
  name: 'listStandings',
  line: 'GET /standings',
  role: 'viewer',
  sentence: 'Shows how many keys of customers are banned, and until when.',
  description: `It looks at up to ${MAX_KEYS_LOOKED_AT} keys in all, in the order of the customers.`,
  on: 'store',
  needsNoPlans: true,
  readsMuch: true,
  input: z.strictObject({
    customers: z
      .string(idsRule)
      .transform((text) => text.split(','))
      .refine((ids) => ids.length <= MAX_STANDINGS && ids.every(isCustomerId), idsRule)
      .describe(`Ids of up to ${MAX_STANDINGS} customers, with commas between them.`),
  }),
  output: z.strictObject({ standings: z.array(customerStanding) }),
  run: async (store, { customers }) => ({ output: { standings: await standingsOf(store, customers) } }),
});

export const updateCustomer = defineOperation({
  ...updating(SHOWN_CUSTOMERS, 'CustomerEdits'),
  name: 'updateCustomer',
  command: ['customers edit', 'Change a customer'],
  line: 'PATCH /customers/{id}',
  sentence: `Changes the plan, limits, ${TEXT_WORDS} or end of a customer, or who may call what with its keys, for all of them within a second. What was counted stays.`,
  action: 'customer.update',
});

export const suspendCustomer = defineOperation({
  ...suspending(SHOWN_CUSTOMERS, 'NewCustomerSuspension'),
  name: 'suspendCustomer',
  command: ['customers suspend', 'Suspend a customer with all its keys'],
  line: 'POST /customers/{id}/suspend',
  needsNoPlans: true,
  sentence: 'Suspends a customer until a moment, or until it is resumed.',
  effect:
    'Each request with its keys, or with a token that names it, gets a 403 within a second, and is not counted, until it is resumed. Its ' +
    'keys, counts and bans stay.',
  description:
    'A customer that is suspended gets the new end and reason. The record of changes says who suspended it; its callers do not learn that.',
  action: 'customer.suspend',
});

export const resumeCustomer = defineOperation({
  ...resuming(SHOWN_CUSTOMERS),
  name: 'resumeCustomer',
  command: ['customers resume', 'End the suspension of a customer'],
  line: 'POST /customers/{id}/resume',
  needsNoPlans: true,
  sentence: 'Ends the suspension of a customer.',
  effect:
    'Its keys and tokens work again within a second, under the limits, counts and bans that they had. A key that is suspended itself stays ' +
    'suspended.',
  description: 'To resume a customer that is not suspended is no mistake.',
  action: 'customer.resume',
});

const keysRule = 'must be revoke';

export const deleteCustomer = defineOperation({
  name: 'deleteCustomer',
  command: ['customers delete', 'Remove a customer'],
  line: 'POST /customers/{id}/delete',
  role: 'admin',
  sentence: 'Removes a customer.',
  effect: 'All its attributes, counts and its ban are removed for good. The record of changes keeps its entries.',
  asksFirst: true,
  isFinal: true,
  description:
    'While it has keys that are not revoked it is refused, unless `keys` asks for them to be revoked first. Its id stays in the store, so ' +
    'that no other customer gets it. To delete it twice is no mistake.',
  on: 'store',
  needsNoPlans: true,
  action: 'customer.delete',
  isVersioned: true,
  input: z.strictObject(
    {
      keys: z
        .literal('revoke', keysRule)
        .optional()
        .describe('`revoke` first revokes its keys, for good. Left out, a customer with keys is not deleted.'),
    },
    'must be an object',
  ),
  output: z.strictObject({
    id: z.string(),
    deleted: z.literal(true),
    keysRevoked: count.describe('How many keys were revoked with it.'),
    unreadable: unreadable.describe(
      'The keys that may be its and were not revoked, because their records cannot be read. Without the customer none of its keys is served.',
    ),
  }),
  fails: {
    conflict: 'The customer has keys that are not revoked, or may have some that cannot be read.',
  },
  async run(store, { id, keys }, { guard }) {
    const deletion = await removeCustomer(store, id, { revokesKeys: keys === 'revoke', guard });
    const { keysRevoked, unreadable, ...deleted } = deletion;
    return {
      output: { id, deleted: true as const, keysRevoked, unreadable: unreadableReport(unreadable) },
      change: changeOfDeletion(deleted),
    };
  },
});
