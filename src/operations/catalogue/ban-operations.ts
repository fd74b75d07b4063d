import { z } from 'zod';
import { byReadability, isReadable } from '../../model/record.ts';
import { count, limitName } from '../../model/values.ts';
import { banReport, bansInForce, endBan, ownedBan } from '../bans-in-force.ts';
import { endBansOf, MAX_KEYS_LOOKED_AT } from '../customer-standing.ts';
import { customerOfKey, unreadableRow } from '../key-report.ts';
import { cursor, flag, PAGE, unixSeconds } from '../operation-values.ts';
import { atPresent } from '../operator-store.ts';
import { changeOfLift } from '../recorded.ts';
import { type RefusedReport, refusedConsumers, refusedReport } from '../refused-now.ts';
import { insistOnReason, reason } from '../suspensions.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import { spentReport } from '../usage-changes.ts';
import { defineOperation } from './operation.ts';

/** Consumers that one page looks at, of which few may still be refused. */
const MAX_LOOKED_AT = 1_000;

export const listRefused = defineOperation({
  name: 'listRefused',
  line: 'GET /now',
  role: 'viewer',
  sentence: 'Lists the keys whose requests are refused or banned right now, by id.',
  description:
    'Accurate within two seconds. A page may have fewer entries than `limit`, even none, although another one follows: continue while ' +
    '`cursor` is not null. At most 10,000 keys are known at a time, those refused the longest. Callers with tokens (`jwt_…`) are listed ' +
    'without a name and owner.',
  on: 'store',
  input: z.strictObject({
    ...PAGE,
    scan: flag.describe(
      'Also looks through all accounts in the store for bans, and notes those that the list lacked. It takes longer.',
    ),
  }),
  output: z.strictObject({
    consumers: z.array(refusedReport),
    cursor,
  }),
  async run(store, { limit, cursor: from, scan }) {
    const consumers: RefusedReport[] = [];
    let lookedAt = 0;
    let last: string | null = null;
    for await (const { id, report } of refusedConsumers(atPresent(store), { after: from ?? null, scan })) {
      if (consumers.length === limit || lookedAt === MAX_LOOKED_AT) return { output: { consumers, cursor: last } };
      if (report !== null) consumers.push(report);
      lookedAt++;
      last = id;
    }
    return { output: { consumers, cursor: null } };
  },
});

export const listBans = defineOperation({
  name: 'listBans',
  line: 'GET /bans',
  role: 'viewer',
  // By id, so that a ban that begins or ends between two pages shifts no other ban from one to the next.
  sentence: 'Lists the bans in force, by id.',
  on: 'store',
  needsNoPlans: true,
  input: z.strictObject(PAGE),
  output: z.strictObject({
    bans: z.array(
      z
        .strictObject({
          id: z.string().describe('The key, or the caller with tokens.'),
          number: count.min(1).describe('Which ban of the caller it is; each lasts longer.'),
          window: limitName.describe('The window whose refusal made it.'),
          until: unixSeconds,
          name: z.string().nullable().describe('Of the key or customer; null for a caller with tokens.'),
          owner: z.string().nullable(),
          plan: z.string().nullable().describe('Null for a caller with tokens that belongs to no customer.'),
          customer: customerOfKey.optional(),
          unreadable: unreadableRow,
        })
        .meta({ id: 'Ban' }),
    ),
    cursor,
    unreadable,
  }),
  async run(store, { limit, cursor: from }) {
    const found = (await bansInForce(store))
      .map((one) => (isReadable(one) ? { id: banReport(one).id, one } : { id: one.id, one }))
      .filter(({ id }) => from === undefined || id > from)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const next = found.length > limit ? found[limit - 1]!.id : null;
    const { readable, unreadable } = byReadability(found.slice(0, limit).map(({ one }) => one));
    const bans = await Promise.all(readable.map((one) => ownedBan(one, store)));
    return { output: { bans, cursor: next, unreadable: unreadableReport(unreadable) } };
  },
});

export const liftBan = defineOperation({
  name: 'liftBan',
  command: ['bans lift', 'Lift a ban'],
  line: 'DELETE /bans/{id}',
  role: 'operator',
  sentence: 'Lifts a ban, and takes back its place on the ladder, on every gateway within a second.',
  effect:
    'Its strikes are cleared, and the next ban is as long as this one was. What its windows have counted stays. If it keeps sending as ' +
    'before, it is refused again, and each refusal is a strike towards the next ban: raise its limit, or top it up.',
  on: 'store',
  needsNoPlans: true,
  action: 'ban.lift',
  endsBan: true,
  input: z.strictObject({
    reason: reason
      .optional()
      .describe('Why, such as a ticket: one line of up to 200 characters for operators, in the record of changes.'),
    keys: flag.describe(
      `Of a customer: the bans of its keys too, of which up to ${MAX_KEYS_LOOKED_AT} are looked at. Each is recorded on its own.`,
    ),
  }),
  output: z.strictObject({
    id: z.string(),
    lifted: z.literal(true),
    spent: spentReport,
    keys: z.array(z.string()).optional().describe('With `keys`: those whose bans were lifted.'),
  }),
  async run(store, { id, reason = null, keys }, { recorded }) {
    insistOnReason(reason);
    if (!keys) {
      const lifted = await endBan(store, id);
      return { output: { id, lifted: true as const, spent: lifted.spent }, change: changeOfLift(id, lifted, reason) };
    }
    const lift = (key: string) =>
      recorded({
        action: 'ban.lift',
        target: key,
        work: () => endBan(store, key),
        changeOf: (lifted) => changeOfLift(key, lifted, reason),
      });
    const { lifted, durability, spent } = await endBansOf(store, id, lift);
    const change = changeOfLift(id, { durability }, reason);
    return { output: { id, lifted: true as const, spent, keys: lifted }, change };
  },
});
