import { z } from 'zod';
import { shapeOf, shownAttributes } from '../model/attributes.ts';
import { inOrder, limitOrCustom, limits, type Plans } from '../model/plan.ts';
import type { StoredCustomer } from '../model/record.ts';
import { type DeepReadonly, time } from '../model/values.ts';
import { entryText, heldTo, heldToLimits, suspendedNow, timeOf } from './key-report.ts';
import { suspension } from './suspensions.ts';

/** A customer as operators see it. */
export const customer = z
  .strictObject({
    id: z.string(),
    plan: z.string(),
    ...shapeOf('customer', 'shown'),
    limits: z
      .record(z.string(), limitOrCustom)
      .describe("What all its keys together may use: the customer's own limits in place of its plan's."),
    heldTo: heldToLimits.describe(
      'All limits that its keys together are held to, those of groups and units too, by the names that usage has for them. Null if no request is admitted, because the plan or a limit that it asks for is missing.',
    ),
    createdAt: time,
    expiresAt: time.nullable().describe('From then on its keys are refused; null means never.'),
    ownLimits: limits,
    suspended: suspension.optional().describe('Absent unless the customer is suspended now.'),
    entry: z
      .string()
      .optional()
      .describe('The set and the entry of keys.yaml that manage the customer, `SET/ENTRY`; absent without one.'),
  })
  .meta({ id: 'Customer', description: 'A customer.' });
type CustomerReport = DeepReadonly<z.output<typeof customer>>;

/** @param nowMs Unix milliseconds */
export function customerReport(customer: StoredCustomer, plans: Plans, nowMs: number): CustomerReport {
  const { id, plan, createdAtMs, expiresAtMs, applied } = customer;
  return {
    id,
    plan,
    ...shownAttributes('customer', customer),
    limits: inOrder({ ...plans.plans.get(plan)?.limits, ...customer.limits }),
    heldTo: heldTo({ limits: customer.limits, limitsOfCustomer: null }, plan, plans),
    createdAt: timeOf(createdAtMs),
    expiresAt: timeOf(expiresAtMs),
    ownLimits: inOrder(customer.limits),
    ...suspendedNow(customer, nowMs),
    ...(applied === undefined ? {} : { entry: entryText(applied) }),
  };
}
