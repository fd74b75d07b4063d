import { z } from 'zod';
import { isTokenHolder } from '../../identify/api-key.ts';
import { recordedShape } from '../../model/attributes.ts';
import { limits } from '../../model/plan.ts';
import { count, limitName, time } from '../../model/values.ts';
import { listChanges as changesOf, namedChanges } from '../audit-report.ts';
import { type Action, FURTHER_ACTIONS, shownActor } from '../audit-trail.ts';
import { KEPT_DAYS } from '../deprecated-calls.ts';
import { deprecatedRouteCalls, deprecationReport } from '../deprecations.ts';
import { cursor, PAGE, PAST_RULE, pastFrom, textRule } from '../operation-values.ts';
import { KEYS, recordOf } from '../operator-store.ts';
import { suspension } from '../suspensions.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import * as bans from './ban-operations.ts';
import * as cache from './cache-operations.ts';
import * as customers from './customer-operations.ts';
import * as keys from './key-operations.ts';
import { defineOperation } from './operation.ts';
import * as plans from './plan-operations.ts';
import * as transfer from './transfer-operations.ts';
import * as usage from './usage-operations.ts';

// What is recorded of deprecated routes and of changes.

const daysRule = `must be a whole number from 1 to ${KEPT_DAYS}`;
const days = z
  .int(daysRule)
  .min(1, daysRule)
  .max(KEPT_DAYS, daysRule)
  .default(30)
  .describe('How many days back, today included.');

export const showKeyDeprecations = defineOperation({
  name: 'showKeyDeprecations',
  line: 'GET /keys/{id}/deprecations',
  role: 'viewer',
  sentence: 'Which deprecated routes a key has called, the most calls first.',
  description:
    'The key may be revoked. The id may also be that of a caller with JSON Web Tokens (`jwt_…`). A route with more than 10,000 callers in ' +
    'a day counts the further ones together: a key that is one of them is not in this list.',
  on: 'store',
  input: z.strictObject({ days }),
  output: z.strictObject({
    routes: z.array(deprecatedRouteCalls),
  }),
  async run(store, { id, days }) {
    if (!isTokenHolder(id)) await recordOf(KEYS, store, id);
    return { output: { routes: await store.deprecatedCallsOf(id, days) } };
  },
});

export const listDeprecations = defineOperation({
  name: 'listDeprecations',
  line: 'GET /deprecations',
  role: 'viewer',
  sentence: 'Lists the deprecated routes and who still calls them.',
  on: 'store',
  input: z.strictObject({ ...PAGE, days }),
  output: z.strictObject({
    deprecations: z.array(deprecationReport),
    cursor,
  }),
  run: async ({ deprecations }, { days, ...page }) => ({ output: await deprecations(days, page) }),
});

const keyState = z
  .strictObject({
    plan: z.string(),
    limits,
    ...recordedShape('key'),
    expiresAt: time.nullable(),
    revokedAt: time.nullable(),
    suspended: suspension.optional().describe('Absent without one. Its end may have passed.'),
    secrets: z.array(z.string()),
    customer: z.string().optional().describe('The id of the customer; absent without one.'),
    entry: z
      .string(textRule)
      .optional()
      .describe('The set and the entry of keys.yaml that manage the key, `SET/ENTRY`; absent without one.'),
  })
  .nullable()
  .describe(
    'What decides what a key may do. Notes and secrets are left out, except the last four characters of each secret.',
  )
  .meta({ id: 'KeyState' });

const customerState = z
  .strictObject({
    plan: z.string(),
    limits,
    ...recordedShape('customer'),
    expiresAt: time.nullable(),
    suspended: suspension.optional().describe('As that of a key.'),
    entry: z.string().optional().describe('As that of a key.'),
  })
  .describe('What decides what the keys of a customer may do together. Notes are left out.')
  .meta({ id: 'CustomerState' });

const states = [
  keyState,
  customerState,
  z
    .strictObject({ window: limitName, limit: count, until: time.optional(), reason: z.string().optional() })
    .meta({ id: 'WindowState' }),
  z.strictObject({ reason: z.string() }).meta({ id: 'LiftState' }),
  z.strictObject({ used: z.record(z.string(), count), strikes: count }).meta({ id: 'UsedState' }),
  z
    .strictObject({ route: z.string().nullable(), path: z.string().nullable(), reason: z.string().optional() })
    .describe('Which stored responses were removed. Null: all.')
    .meta({ id: 'PurgeState' }),
  z
    .strictObject({
      version: z.string(textRule).optional().describe('Absent if the file could not be read.'),
      changes: z
        .array(z.string())
        .optional()
        .describe(
          'What the version changed, in words: `starter minute 10 → 6`. Absent if nothing, or if no gateway ran when the file changed.',
        ),
      faults: z.array(z.string()).optional().describe('Why gateways refused the version.'),
      reason: z.string().optional().describe('Why it was written, if the operator said so.'),
    })
    .describe('A version of plans.yaml or gateway.yaml.')
    .meta({ id: 'FileState' }),
] as const;

const imported = z.strictObject({
  file: z.string().optional(),
  moved: count,
  unknown: count,
  already: count,
  refused: count,
  keys: z.array(z.string()),
});

const restored = z.strictObject({
  madeAt: z.string().optional(),
  ...{ restored: count, same: count, left: count, replaced: count, unknown: count, refused: count, unreadable: count },
  keys: z.array(z.string()),
});

/** Every action of the record of changes. */
export const RECORDED_ACTIONS: readonly Action[] = [
  ...new Set(
    [bans, cache, customers, keys, plans, transfer, usage]
      .flatMap((file) => Object.values(file).flatMap(actionOf))
      .sort(),
  ),
  ...FURTHER_ACTIONS,
];

function actionOf(exported: object): Action | [] {
  return 'action' in exported ? (exported.action as Action) : [];
}

const change = z
  .strictObject({
    id: z.string().meta({ format: 'uuid' }),
    time: time.describe("When it was recorded, by the store's clock; of refused attempts the first of them."),
    action: z
      .enum(RECORDED_ACTIONS)
      .describe(
        '`plans.load` and `settings.load`: gateways have read a changed plans.yaml or gateway.yaml, and taken or refused it. ' +
          '`admin.access`: a refused request whose method changes something, and whose path or method names no other action.',
      ),
    outcome: z
      .enum(['done', 'unchanged', 'repeated', 'refused', 'unknown', 'lost'])
      .describe(
        '`unchanged`: it was so already. `repeated`: a creation whose response was given again, secret included. `refused`: nothing was ' +
          'changed. `unknown`: it is being made, or something broke on the way, or a failover of Redis may undo it. `lost`: a failover has undone it.',
      ),
    code: z.string().nullable().describe('Of the error; null without one.'),
    target: z
      .string()
      .nullable()
      .describe(
        'The key, or the caller that was banned. Null if none was made, or if it was named by a text that is no id.',
      ),
    name: z
      .string()
      .nullable()
      .describe(
        'What people call the target: its entry in keys.yaml or its name, as it was recorded; where neither was, the name as it is now. Null without one.',
      ),
    actor: shownActor,
    requestId: z.string().nullable().describe('Of the request to this API; null for commands and files.'),
    clientAddress: z.string().nullable(),
    before: z
      .union(states)
      .describe('The key before; of a top-up the limit of the window; of a reset what was used, and the strikes.'),
    after: z
      .union([...states, imported, restored])
      .describe(
        'The same afterwards; of a lift its reason; of an import or a restore what became of how many of its records, and the ids of those that were written.',
      ),
    count: count
      .min(1)
      .describe('How many refused attempts this is. The other members are those of the last one. 1 for anything else.'),
    lastTime: time.describe('The time of the last attempt.'),
  })
  .meta({
    id: 'Change',
    examples: [
      {
        id: '0b6d6c5e-9a35-4d0f-8a3e-3c5a1c0f2b11',
        time: '2026-11-22T10:00:00.000Z',
        action: 'key.revoke',
        outcome: 'refused',
        code: 'not_found',
        target: 'key_UxYtRgTgI9u8kkw8',
        name: null,
        actor: { kind: 'shell', user: 'jo', host: 'ops-1' },
        requestId: null,
        clientAddress: null,
        before: null,
        after: null,
        count: 3,
        lastTime: '2026-11-22T10:00:12.000Z',
      },
    ],
  });

const past = z.string(textRule).refine((text) => pastFrom(text, 0) !== null, PAST_RULE);
const ACTION_RULE = `must be one of ${RECORDED_ACTIONS.join(', ')}`;

export const listChanges = defineOperation({
  name: 'listChanges',
  line: 'GET /audit',
  role: 'viewer',
  sentence:
    'Lists the changes to keys, bans, plans and settings that were made or attempted, through this API, by commands and by files, newest first.',
  description:
    'A change that is made while a client reads the pages moves no other from one page to the next. A page ends at `limit` or after bounded ' +
    'work, so it may have fewer changes, even none, while `cursor` leads to another page. Attempts that were refused are counted: ' +
    'those of one actor at one action in one minute are one entry, in the place of the first of them.',
  on: 'store',
  needsNoPlans: true,
  input: z.strictObject({
    ...PAGE,
    key: z.string(textRule).optional().describe('Only changes to this key, or to this caller with tokens (`jwt_…`).'),
    actor: z
      .string(textRule)
      .optional()
      .describe(
        'Only changes by the token, the person, the user of a shell or the file with this name. `jo (token)`, `jo (person)`, `jo@ops-1` and ' +
          '`plans.yaml (file)` distinguish them.',
      ),
    since: past
      .optional()
      .describe(
        'Only changes since then, a duration before now such as 24h, a date (midnight UTC) or an RFC 3339 time.',
      ),
    until: past.optional().describe('Only changes before then, in the same form.'),
    action: z
      .enum(RECORDED_ACTIONS, ACTION_RULE)
      .optional()
      .describe('Only changes of this kind.')
      .meta({ examples: ['key.revoke'] }),
  }),
  output: z.strictObject({
    changes: z.array(change),
    unreadable: unreadable.describe(
      'The entries that the store has and cannot be read, each with its id, or its number if it has none. They may match. Each counts towards `limit`, but refused attempts, which are all on the first page.',
    ),
    cursor,
  }),
  async run(store, { limit, cursor, key = null, actor = null, action = null, since, until }) {
    const nowMs = store.nowMs();
    const momentIn = (text: string | undefined) => (text === undefined ? null : pastFrom(text, nowMs));
    const filter = { key, actor, action, sinceMs: momentIn(since), untilMs: momentIn(until) };
    const listed = await changesOf(store.audit, filter, { limit, cursor: cursor ?? null });
    // Entries of earlier versions are given as they were recorded.
    const changes = (await namedChanges(listed.changes, store)) as never;
    return { output: { changes, unreadable: unreadableReport(listed.unreadable), cursor: listed.cursor } };
  },
});
