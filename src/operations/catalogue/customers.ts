import { z } from 'zod';
import { Failure, Refused } from '../../failure.ts';
import { filterShape, filterValues, shapeOf } from '../../model/attributes.ts';
import { isSuspended, type StoredCustomer } from '../../model/record.ts';
import { bodyDigestOf } from '../create-once.ts';
import { customer, customerReport } from '../customer-report.ts';
import { key, wholeKeyReport } from '../key-report.ts';
import { changeOfDeletion, changeOfRecord } from '../recorded.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import { count, cursor, DURATION_RULE, durationFrom, limits, PAGE, textRule } from '../values.ts';
import type { StoreContext } from './contexts.ts';
import { DURATION_PATTERN, editsOf, editsOfKind, moment, msOf, newAttributes, newSuspensionOf, plan } from './keys.ts';
import { type Done, defineOperation } from './operation.ts';

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
  .meta({ id: 'ShownCustomer' });

export const listCustomers = defineOperation({
  name: 'listCustomers',
  line: 'GET /customers',
  tag: 'customers',
  role: 'viewer',
  sentence: 'Lists the customers that match, oldest first.',
  description:
    'A customer matches if it matches each parameter that is given. A page ends at `limit` or after bounded work: it may have fewer ' +
    'customers, even none, while `cursor` leads to another page.',
  on: 'store',
  isList: true,
  input: z.strictObject({
    ...PAGE,
    q: z
      .string(textRule)
      .optional()
      .describe(
        'A part of the id, the name or the owner, in upper or lower case; or `meta.NAME=VALUE`, a pair of metadata, whole and in its case.',
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
  result: 'A page of customers.',
  async run({ operations, nowMs }, { q = null, plan = null, expiring = null, limit, cursor, ...given }) {
    const expiringMs = expiring === null ? null : durationFrom(expiring);
    if (expiring !== null && expiringMs === null) throw new Failure('refused', `expiring ${DURATION_RULE}.`);
    const filter = { text: q, plan, ...filterValues(given), expiringMs };
    const found = await operations.customers.search(filter, { limit, cursor: cursor ?? null });
    const customers = found.customers.map((one) => customerReport(one, operations.plans, nowMs()));
    const { searched, unreadable } = found;
    return { output: { customers, cursor: found.cursor, searched, unreadable: unreadableReport(unreadable) } };
  },
});

export const createCustomer = defineOperation({
  name: 'createCustomer',
  line: 'POST /customers',
  tag: 'customers',
  role: 'admin',
  sentence: 'Makes a customer, whose keys share one plan and its limits.',
  description: 'With `Idempotency-Key`, the same request within 24 h gets the same customer and makes no second one.',
  on: 'store',
  action: 'customer.create',
  creates: true,
  isVersioned: true,
  once: 'With the quotes of a structured field or without them.',
  input: z
    .strictObject(
      {
        plan,
        ...shapeOf('customer', 'given'),
        expiresAt: moment.optional(),
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
  result: 'The customer.',
  fails: { conflict: 'The customer that this Idempotency-Key made is deleted.' },
  async run({ operations }, input, { once, body }) {
    const { plan, ...given } = input;
    const attributesAt = (nowMs: number) => ({ plan, ...newAttributes(given, nowMs) });
    const { customers, plans } = operations;
    const made =
      once === null
        ? { kind: 'made' as const, ...(await customers.create(attributesAt)) }
        : await customers.createOnce({ name: once, body: bodyDigestOf(body) }, attributesAt);
    if (made.kind === 'reused') {
      const message =
        'This Idempotency-Key came with another body before. Use a new one for each customer that is to be made.';
      throw new Refused('idempotency_key_reused', message);
    }
    if (made.kind === 'ended') {
      const message = `Customer ${made.id}, which this Idempotency-Key made, was deleted. Use a new one.`;
      throw new Refused('conflict', message, { customerId: made.id });
    }
    const { record, durability, kind } = made;
    const isRepeated = kind === 'repeated';
    return {
      output: customerReport(record, plans, record.createdAtMs),
      change: { ...changeOfRecord({ record, durability }), outcome: isRepeated ? 'repeated' : 'done' },
      record,
      isRepeated,
    };
  },
});

export const showCustomer = defineOperation({
  name: 'showCustomer',
  line: 'GET /customers/{id}',
  tag: 'customers',
  role: 'viewer',
  sentence: 'Shows one customer and its keys.',
  on: 'store',
  isVersioned: true,
  output: shownCustomer,
  result: 'The customer, with its keys.',
  fails: { not_found: true },
  async run({ operations, nowMs }, { id }) {
    const { customers, plans } = operations;
    const customer = await customers.show(id);
    const { keys, cursor, unreadable } = await operations.search(
      {
        text: null,
        meta: null,
        plan: null,
        ...filterValues(),
        customer: id,
        expiringMs: null,
        unusedDays: null,
        all: false,
      },
      { limit: MAX_KEYS, cursor: null },
    );
    const owners = new Map([[id, customer]]);
    const reports = keys.map(({ key }) => wholeKeyReport(key, plans, nowMs(), owners));
    const report = { ...customerReport(customer, plans, nowMs()), keys: reports, keysCursor: cursor };
    return { output: { ...report, unreadable: unreadableReport(unreadable) }, record: customer };
  },
});

export const updateCustomer = defineOperation({
  name: 'updateCustomer',
  line: 'PATCH /customers/{id}',
  tag: 'customers',
  role: 'operator',
  sentence:
    'Changes the plan, limits, name, owner, notes or end of a customer, or who may call what with its keys, for all of them within a second. What was counted stays.',
  description: 'A member that is absent stays as it is; null removes what can be absent (RFC 7396).',
  on: 'store',
  action: 'customer.update',
  isVersioned: true,
  isGuarded: true,
  alsoAs: 'application/merge-patch+json',
  input: editsOfKind('customer').meta({
    id: 'CustomerEdits',
    minProperties: 1,
    examples: [{ plan: 'business', limits: { minute: null } }],
  }),
  output: customer,
  result: 'The customer.',
  fails: { not_found: true },
  async run(context, { id, ...given }, { guard }) {
    const edits = editsOf(given, context.nowMs());
    const changed = await context.operations.customers.update(id, edits, guard);
    return { ...shown(changed.record, context), change: changeOfRecord(changed) };
  },
});

export const suspendCustomer = defineOperation({
  name: 'suspendCustomer',
  line: 'POST /customers/{id}/suspend',
  tag: 'customers',
  role: 'operator',
  sentence:
    'Suspends a customer until a moment, or until it is resumed. Every gateway refuses its callers within a second.',
  description:
    'Requests with its keys, and with tokens that name it, get 403 `suspended` and are not counted, as those of a suspended key; its keys, ' +
    'counts and bans stay. A customer that is suspended gets the new end and reason. The record of changes says who suspended it; its ' +
    'callers do not learn that.',
  on: 'store',
  action: 'customer.suspend',
  isVersioned: true,
  isGuarded: true,
  input: newSuspensionOf('customer').meta({
    id: 'NewCustomerSuspension',
    examples: [{ until: '24h', reason: 'asked for by billing' }],
  }),
  output: customer,
  result: 'The customer.',
  fails: { not_found: true },
  async run(context, { id, until = null, reason = null }, { guard }) {
    const untilMs = msOf(until, context.nowMs());
    const changed = await context.operations.customers.suspend(id, { untilMs, reason }, guard);
    return { ...shown(changed.record, context), change: changeOfRecord(changed, changed.record === changed.before) };
  },
});

export const resumeCustomer = defineOperation({
  name: 'resumeCustomer',
  line: 'POST /customers/{id}/resume',
  tag: 'customers',
  role: 'operator',
  sentence: 'Ends the suspension of a customer. Every gateway serves its callers within a second.',
  description:
    'A key that is suspended itself stays suspended. To resume a customer that is not suspended is no mistake.',
  on: 'store',
  action: 'customer.resume',
  isVersioned: true,
  isGuarded: true,
  input: z.strictObject({}, 'must be an object'),
  output: customer,
  result: 'The customer.',
  fails: { not_found: true },
  async run(context, { id }, { guard }) {
    const changed = await context.operations.customers.resume(id, guard);
    const wasSuspended = isSuspended(changed.before.suspended, context.nowMs());
    return { ...shown(changed.record, context), change: changeOfRecord(changed, !wasSuspended) };
  },
});

const keysRule = 'must be revoke';

export const deleteCustomer = defineOperation({
  name: 'deleteCustomer',
  line: 'POST /customers/{id}/delete',
  tag: 'customers',
  role: 'admin',
  sentence: 'Removes a customer for good, with its name, owner, notes, counters and bans.',
  description:
    'While it has keys that are not revoked it is refused, unless `keys` asks for them to be revoked first. Its id stays in the store, so ' +
    'that no other customer gets it, and the record of changes keeps its entries. To delete it twice is no mistake.',
  on: 'store',
  action: 'customer.delete',
  isGuarded: true,
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
  result: 'It is deleted.',
  fails: {
    not_found: true,
    conflict: 'The customer has keys that are not revoked, or may have some that cannot be read.',
  },
  async run({ operations }, { id, keys }, { guard }) {
    const options = { revokesKeys: keys === 'revoke', ...(guard === undefined ? {} : { guard }) };
    const { keysRevoked, unreadable, ...deleted } = await operations.customers.delete(id, options);
    return {
      output: { id, deleted: true as const, keysRevoked, unreadable: unreadableReport(unreadable) },
      change: changeOfDeletion(deleted),
    };
  },
});

function shown(stored: StoredCustomer, { operations, nowMs }: StoreContext): Done<z.output<typeof customer>> {
  return { output: customerReport(stored, operations.plans, nowMs()), record: stored };
}
