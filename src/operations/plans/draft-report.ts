import { z } from 'zod';
import { limit } from '../../model/plan.ts';
import { count, type DeepReadonly, time, windowName } from '../../model/values.ts';
import type { Replay } from '../../simulate/replay.ts';
import type { callerReport, keyReport, Report } from '../../simulate/report.ts';

// What is found of a draft of plans.yaml: by checking it, comparing it with the plans in force, and trying it on recorded requests.

const fault = z
  .strictObject({
    line: count.min(1),
    column: count.min(1),
    path: z.string().describe('Where in the document: `plans.free.limits.minute`; empty for the whole.'),
    message: z.string().describe('What is wrong and what is allowed.'),
  })
  .meta({ id: 'Fault' });

export const checked = z
  .strictObject({
    faults: z.array(fault),
    moreFaults: count.describe('Further faults, which are left out.'),
    warnings: z.array(fault),
    moreWarnings: count.describe('Further warnings, which are left out.'),
  })
  .meta({ id: 'Checked', description: 'The faults and warnings, the first 1,000 of each.' });

/** One difference between two files of plans. */
const plansChange = z.strictObject({
  plan: z.string().nullable().describe('Null for a setting outside the plans.'),
  what: z
    .string()
    .describe(
      'The path below the plan, such as `limits.minute` or `groups.search.limits.day`; `plan` for the whole plan, `groups.search` for a whole group.',
    ),
  change: z.enum(['added', 'removed', 'raised', 'lowered', 'changed']),
  from: z.union([z.number(), z.string()]).nullable(),
  to: z.union([z.number(), z.string()]).nullable(),
  keys: z.int().nullable().describe('Live keys that the change affects; null if they could not be counted.'),
  keysOfCustomers: z
    .int()
    .nullable()
    .describe('How many of `keys` belong to customers; null if they could not be counted.'),
  customers: z.int().nullable().describe('Live customers that the change affects; null if they could not be counted.'),
  breaks: z.boolean().describe('The gateway could no longer serve these keys.'),
});
export type PlansChange = DeepReadonly<z.output<typeof plansChange>>;

/** A plan whose change affects live keys or customers. */
const affectedPlan = z.strictObject({
  plan: z.string(),
  keys: count.describe('Live keys without a customer for which something changes.'),
  customers: count.describe('Live customers for which something changes, or for whose keys.'),
  keysOfCustomers: count.describe('Live keys of customers that the widest change of the plan affects.'),
  callers: z
    .array(
      z.strictObject({
        id: z.string().describe('Of a key or of a customer.'),
        name: z.string().nullable(),
        owner: z.string().nullable(),
        breaks: z
          .boolean()
          .describe(
            'The gateway could no longer serve it: its plan is gone, or needs a limit of its own that it lacks.',
          ),
        limits: z
          .array(z.strictObject({ window: windowName, from: limit.nullable(), to: limit.nullable() }))
          .describe(
            'The limits of the whole plan that change for it, with its own in place of the plan’s; null for none. Empty if only something else changes.',
          ),
      }),
    )
    .describe('The first 50 of the plan, customers first, and the first 1,000 in all.'),
});
export type AffectedPlan = DeepReadonly<z.output<typeof affectedPlan>>;

export const compared = checked
  .extend({
    changes: z.array(plansChange).describe('Empty if there are faults.'),
    affected: z
      .array(affectedPlan)
      .nullable()
      .describe(
        'Whom the draft affects, by plan. A limit of its own spares a key or a customer. Null if there are faults, or if keys could not be counted.',
      ),
    lost: z
      .array(fault)
      .describe(
        'Those of `warnings` about plans that live keys or customers use, and that the text neither has nor names in `removed`.',
      ),
    refused: z.array(z.string()).describe('Why gateways would refuse the file although it has no fault.'),
    live: z
      .strictObject({
        keysRead: count,
        isComplete: z.boolean().describe('False: there are too many keys, or the store is away.'),
        unreadable: z
          .array(z.string())
          .describe(
            'The ids of the keys and customers whose records cannot be read. They are not counted, and may be affected.',
          ),
      })
      .nullable()
      .describe('The count of live keys; null if there are faults.'),
    patch: z
      .string()
      .describe('Unified diff from the file to the text; empty if there are faults or the texts are the same.'),
  })
  .meta({ id: 'PlansDiff' });

/** What a simulation found; the command has its form. */
const report = z
  .looseObject({
    plans: z.string(),
    fromPlans: z.string().nullable(),
    logs: z.array(z.string()),
    from: time,
    to: time,
    isEstimate: z.boolean(),
    headline: z.string().describe('What the draft comes to, in a sentence.'),
    net: z.looseObject({}),
    moved: z.string().nullable(),
    differs: z.looseObject({}),
    notes: z.array(z.string()),
    lines: z.looseObject({}),
    inForce: z.looseObject({}),
    totals: z.looseObject({}),
    byPlan: z.array(z.looseObject({})),
    withoutStore: z.looseObject({}),
    keys: z.array(z.looseObject({})),
    callers: z.array(z.looseObject({})),
  })
  .nullable()
  .describe(
    'As `tollgate plans simulate --json`, with at most 1,000 keys, the most changed first, each with `ownLimits`, its limits that are ' +
      "not its plan's (null if that is not known), and as many `callers`: customers, each with the number of its `keys`, and keys without one. " +
      '`moved` is a sentence about requests that only change places (`net.moved`), or null. Null if there are faults.',
  ) as z.ZodType as z.ZodType<SimulatedReport | null>;

type SimulatedReport = Report & {
  readonly keys: readonly ReturnType<typeof keyReport>[];
  readonly callers: readonly ReturnType<typeof callerReport>[];
};
const bucket = z.looseObject({
  from: time,
  requests: z.number().min(0),
  recorded: z.looseObject({}),
  simulated: z.looseObject({}),
}) as z.ZodType as z.ZodType<{ readonly from: string } & Replay['totals']>;

export const simulated = checked
  .extend({
    span: z
      .strictObject({ from: time, to: time, requests: count.min(1) })
      .nullable()
      .describe('Null if there are faults.'),
    report,
    baseline: z
      .strictObject({
        verdicts: count.describe(
          'Requests with another verdict than the recorded one. Above 0, requests are missing from the record, or other limits were in force.',
        ),
      })
      .optional()
      .describe('How the plans in force, unchanged, would have decided the same requests.'),
    moreKeys: count.optional().describe('Further keys that were or would be refused.'),
    moreCallers: count.optional().describe('Further callers of which requests were or would be refused.'),
    timeline: z
      .strictObject({
        stepSeconds: z.number(),
        buckets: z.array(bucket),
      })
      .optional(),
    kept: z.string().nullable().optional().describe('What the recent record covers, as a sentence; null for `log`.'),
    isComplete: z
      .boolean()
      .optional()
      .describe(
        'Whether all gateways gave all requests that they remember. False while the store is away; true for `log`.',
      ),
  })
  .meta({ id: 'Simulation' });

/** What may be changed in one step. */
const MAX_EDITS = 50;

const RULE = `must be a list of up to ${MAX_EDITS} changes, each with path and value`;

const edit = z.strictObject({
  path: z
    .array(z.string())
    .min(1)
    .describe('Names that lead to the value, such as `plans`, `pro`, `limits`, `minute`.'),
  value: z
    .union([z.string(), z.number(), z.boolean(), z.array(z.string()), z.null()])
    .describe('Null removes it, and with it the mapping that would be empty.'),
});

/** Changes in the text of a draft. */
export const draftEdits = z
  .strictObject({
    text: z.string().describe('The text of plans.yaml.'),
    edits: z.array(edit, RULE).max(MAX_EDITS, RULE),
    plan: z
      .string()
      .nullable()
      .optional()
      .describe('The plan to return as it is written then; the first one if it is left out.'),
  })
  .meta({ id: 'DraftEdits' });

export const edited = z
  .strictObject({
    text: z.string(),
    isReadable: z.boolean().describe('False: the text is not YAML, or has faults in it, and is as it was.'),
    plans: z.array(z.string()).describe('The names of the plans in it, in its order.'),
    plan: z
      .looseObject({})
      .nullable()
      .describe('The plan as it is written, which may have faults; null if the text lacks it.'),
  })
  .meta({ id: 'EditedDraft' });

/** What a task of a draft leads to. */
export interface Results {
  readonly check: Checked;
  readonly edit: DeepReadonly<z.output<typeof edited>>;
  readonly diff: DeepReadonly<z.output<typeof compared>>;
  readonly simulate: DeepReadonly<z.output<typeof simulated>>;
  readonly sound: Checked & {
    /** The draft, if it has no fault. */
    readonly sound: {
      readonly text: string;
      readonly plans: ReadonlySet<string>;
      readonly removed: readonly string[];
      /** The differences from the plans in force, in words; the first `MAX_SHOWN`. */
      readonly changes: readonly string[];
      readonly reason: string | null;
    } | null;
  };
}

/** The first faults and warnings of a draft, and how many more there are. */
export type Checked = DeepReadonly<z.output<typeof checked>>;
