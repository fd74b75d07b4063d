import { z } from 'zod';
import type { Limits } from '../../admit/plan.ts';
import { Failure, Refused } from '../../failure.ts';
import { filterShape, filterValues, type RecordKind, shapeOf } from '../../model/attributes.ts';
import { isSuspended, type StoredKey } from '../../model/record.ts';
import { bodyDigestOf, type SecretEnd } from '../create-once.ts';
import { PLAN_OF_CUSTOMER } from '../customers.ts';
import type { RecordEdits } from '../key-changes.ts';
import { key, usedSecrets, type WholeKeyReport, wholeKeyReport } from '../key-report.ts';
import { keyFilterFrom } from '../key-search.ts';
import type { Operations } from '../operations.ts';
import { changeOfDeletion, changeOfRecord } from '../recorded.ts';
import { reason } from '../suspensions.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import {
  count,
  cursor,
  DURATION_RULE,
  day,
  durationFrom,
  editedLimits,
  flag,
  limits,
  MOMENT_RULE,
  momentFrom,
  PAGE,
  standingBan,
  textRule,
} from '../values.ts';
import type { StoreContext } from './contexts.ts';
import { type Done, defineOperation } from './operation.ts';

export const DURATION_PATTERN = '^[0-9]+(ms|s|m|h|d)$';
const DEFAULT_OVERLAP_MS = 86_400_000;

const planRule = 'must be the name of a plan';
const momentRule = `${MOMENT_RULE}, or null for never`;
export const moment = z
  .string(momentRule)
  .refine((text) => momentFrom(text, 0) !== null, momentRule)
  .nullable()
  .describe('An RFC 3339 time, a date (midnight UTC), or a duration from now such as 90d; null means never.')
  .meta({ id: 'Moment', examples: ['2030-12-31T12:00:00Z', '2030-12-31', '90d', null] });
export const plan = z.string(planRule).describe('One of the plans in force.');
const customerRule = 'must be the id of a customer';
/** The input of a change of a key or a customer. */
export function editsOfKind<K extends RecordKind>(kind: K) {
  const windows = "Windows that are absent stay as they are; null restores the plan's own number.";
  const members = {
    plan: plan.optional(),
    ...shapeOf(kind, 'edited'),
    expiresAt: moment.optional(),
    limits: editedLimits.optional().describe(windows),
  };
  return z
    .strictObject(members, 'must be an object')
    .refine((edits) => Object.keys(edits).length > 0, 'The body changes nothing.');
}

/** @param given what `editsOfKind` has read */
export function editsOf(
  { expiresAt, ...given }: z.output<ReturnType<typeof editsOfKind<'customer'>>>,
  nowMs: number,
): RecordEdits {
  return { ...given, ...(expiresAt === undefined ? {} : { expiresAtMs: msOf(expiresAt, nowMs) }) } as RecordEdits;
}

const lastUsedOn = day
  .nullable()
  .describe('The day (UTC) of the last request with the key, refused ones included; null if none is kept.')
  .meta({ id: 'LastUsedOn' });

const shownKey = key.extend({ lastUsedOn, secrets: usedSecrets }).meta({ id: 'ShownKey' });
const listedKey = key
  .extend({ lastUsedOn: lastUsedOn.optional().describe('Only with the parameter `unused`.') })
  .meta({ id: 'ListedKey' });
const keyWithSecret = key
  .extend({
    key: z.string().describe('The secret. It cannot be shown again.').meta({ pattern: '^tg_live_[0-9A-Za-z]{38}$' }),
  })
  .meta({ id: 'KeyWithSecret' });

const CONFLICT = 'The present state of the key does not allow it, for example because it is revoked.';

export const listKeys = defineOperation({
  name: 'listKeys',
  line: 'GET /keys',
  tag: 'keys',
  role: 'viewer',
  sentence: 'Lists the API keys that match, oldest first, without those that are revoked.',
  description:
    'A key matches if it matches each parameter that is given. A key that is made or revoked while a client reads the pages moves no other key ' +
    'from one page to the next. A page ends at `limit` or after about a second of work: it may have fewer keys, even none, while ' +
    '`cursor` leads to another page.',
  on: 'store',
  isList: true,
  input: z.strictObject({
    ...PAGE,
    q: z
      .string(textRule)
      .optional()
      .describe(
        "A part of the id, the name, the owner or the customer's id, in upper or lower case, or the last four characters of a secret that works, in their " +
          'case; or `meta.NAME=VALUE`, a pair of metadata, whole and in its case. The whole id of a key finds that key alone, without a search. What has the form of a secret is refused: send it to `POST /keys/find`.',
      )
      .meta({ minLength: 1 }),
    plan: z.string(textRule).optional().describe('The name of the plan.').meta({ minLength: 1 }),
    ...filterShape(),
    customer: z
      .string(textRule)
      .optional()
      .describe('The id of the customer that the keys belong to.')
      .meta({ minLength: 1 }),
    expiring: z
      .string(textRule)
      .optional()
      .describe('Keys that end within this time from now, such as 30d, and have not ended yet.')
      .meta({ pattern: DURATION_PATTERN }),
    unused: z
      .string(textRule)
      .optional()
      .describe(
        'Keys without a request for this many days (UTC, today included) that are older than that: 1d to 92d. A refused request counts as ' +
          'use. Needs `usage.history`; use before the history began is not known.',
      )
      .meta({ pattern: '^[1-9][0-9]?d$' }),
    all: flag.describe('True lists the revoked keys too.'),
  }),
  output: z.strictObject({
    keys: z.array(listedKey),
    cursor,
    searched: count.describe('How many keys were looked at for this page.'),
    unreadable,
  }),
  result: 'A page of keys.',
  async run(context, { q, all, limit, cursor, ...given }) {
    const { operations, nowMs } = context;
    const { plan = null, customer = null, expiring = null, unused = null } = given;
    const filter = keyFilterFrom({ text: q ?? null, plan, ...filterValues(given), customer, expiring, unused }, all, {
      nameOf: (parameter) => (parameter === 'text' ? 'q' : parameter),
      secretAdvice: context.secretAdvice,
      formats: context.keyFormats(),
      keepsHistory: context.keepsHistory(),
    });
    if ('fault' in filter) throw new Failure('refused', filter.fault);
    const found = await operations.search(filter, { limit, cursor: cursor ?? null });
    const customers = await operations.customers.of(found.keys.map(({ key }) => key));
    const keys = found.keys.map(({ key, ...lastUse }) => ({
      ...wholeKeyReport(key, operations.plans, nowMs(), customers),
      ...lastUse,
    }));
    const { cursor: next, searched, unreadable } = found;
    return { output: { keys, cursor: next, searched, unreadable: unreadableReport(unreadable) } };
  },
});

/** What a new key or customer is to have, apart from its plan. */
export function newAttributes<
  G extends { readonly expiresAt?: string | null | undefined; readonly limits?: object | undefined },
>({ expiresAt, limits, ...attributes }: G, nowMs: number) {
  return { ...attributes, limits: (limits ?? {}) as Limits, expiresAtMs: msOf(expiresAt ?? null, nowMs) };
}

export const createKey = defineOperation({
  name: 'createKey',
  line: 'POST /keys',
  tag: 'keys',
  role: 'admin',
  sentence: 'Makes an API key and shows its secret, this once.',
  description:
    'With `Idempotency-Key`, the same request within 24 h gets the same response, secret included, and makes no second key, whichever ' +
    'gateway answers. The secret is not kept for that: it is derived again from the Idempotency-Key, so choose one that cannot be guessed, ' +
    'such as a UUID, and do not log it. Once that secret no longer works, because the key was revoked or has expired or the secret was ' +
    'rotated away, the response is 409 without it.',
  on: 'store',
  action: 'key.create',
  creates: true,
  isVersioned: true,
  once: 'With the quotes of a structured field or without them.',
  input: z
    .strictObject(
      {
        plan: plan.optional().describe('One of the plans in force. Required without `customer`, which has the plan.'),
        customer: z
          .string(customerRule)
          .optional()
          .describe(
            'The id of the customer that the key belongs to. The key shares its plan and limits with the other keys of the customer.',
          ),
        ...shapeOf('key', 'given'),
        expiresAt: moment.optional(),
        limits: limits
          .optional()
          .describe(
            "Limits of its own that replace its plan's, one window at a time. A window that is `custom` in the plan needs one. Of a key of " +
              "a customer, what it may take of the customer's.",
          ),
      },
      'must be an object',
    )
    .refine(({ plan, customer }) => (plan === undefined) !== (customer === undefined), {
      error: ({ input }) =>
        (input as { readonly plan?: unknown }).plan === undefined
          ? `plan is missing: it ${planRule}.`
          : PLAN_OF_CUSTOMER,
    })
    .meta({
      id: 'NewKey',
      oneOf: [{ required: ['plan'] }, { required: ['customer'] }],
      examples: [{ plan: 'pro', name: "Jo's shop", limits: { minute: 500 }, expiresAt: '90d' }],
    }),
  output: keyWithSecret,
  result: 'The key, with its secret.',
  fails: {
    conflict:
      'The key that this Idempotency-Key made is revoked, expired or deleted, or its secret was rotated away. Or its customer was deleted, or its plan removed, while it was made: it was then taken back.',
  },
  async run({ operations }, input, { once, body }) {
    const of = await ownerOf(operations, input);
    const { plan: _, customer: __, ...given } = input;
    const attributesAt = (nowMs: number) => ({ ...of, ...newAttributes(given, nowMs) });
    const made =
      once === null
        ? { kind: 'made' as const, ...(await operations.create(attributesAt)) }
        : await operations.createOnce({ name: once, body: bodyDigestOf(body) }, attributesAt);
    if (made.kind === 'reused') {
      const message =
        'This Idempotency-Key came with another body before. Use a new one for each key that is to be made.';
      throw new Refused('idempotency_key_reused', message);
    }
    if (made.kind === 'ended') {
      const message = `Key ${made.id}, which this Idempotency-Key made, ${ENDED[made.how]}. Use a new Idempotency-Key to make another key.`;
      throw new Refused('conflict', message, { keyId: made.id });
    }
    const { key, secret, kind, durability } = made;
    const customers = await operations.customers.of([key]);
    const { id, ...rest } = wholeKeyReport(key, operations.plans, key.createdAtMs, customers);
    const isRepeated = kind === 'repeated';
    return {
      output: { id, key: secret, ...rest },
      change: { ...changeOfRecord({ record: key, durability }), outcome: isRepeated ? 'repeated' : 'done' },
      record: key,
      isRepeated,
    };
  },
});

/** The plan of a new key, or that of its customer. One of them is given. @throws Failure `refused` */
async function ownerOf(
  { customers }: Operations,
  { plan, customer }: { readonly plan?: string | undefined; readonly customer?: string | undefined },
): Promise<{ readonly plan: string; readonly customer?: string }> {
  if (customer === undefined) return { plan: plan! };
  return { plan: (await customers.ofNewKey(customer)).plan, customer };
}

const ENDED: Readonly<Record<SecretEnd, string>> = {
  revoked: 'is revoked',
  expired: 'has expired',
  rotated: 'has another secret since',
  deleted: 'was deleted',
};

const secretRule = 'must be the secret of a key, a text';

export const findKey = defineOperation({
  name: 'findKey',
  line: 'POST /keys/find',
  tag: 'keys',
  role: 'viewer',
  sentence: 'Finds the key that a secret belongs to. It changes nothing.',
  description:
    "Also by a secret that was rotated away, as long as the key's record still has its HMAC. The secret is in the body, so that no URL " +
    'has it, and the gateway writes it nowhere.',
  on: 'store',
  isFind: true,
  input: z.strictObject(
    { secret: z.string(secretRule).min(1, secretRule).describe('Spaces around it are ignored.') },
    'must be an object',
  ),
  output: z.strictObject({
    key,
    isCurrent: z
      .boolean()
      .describe(
        'False if this secret was rotated away or has expired. The key may be revoked or expired all the same.',
      ),
  }),
  result: 'The key.',
  fails: { not_found: true },
  async run(context, { secret }) {
    // Secrets have no spaces, but people copy some along.
    const { key, isCurrent } = await context.operations.find(secret.trim());
    return { output: { key: await reportOn(key, context), isCurrent } };
  },
});

export const showKey = defineOperation({
  name: 'showKey',
  line: 'GET /keys/{id}',
  tag: 'keys',
  role: 'viewer',
  sentence: 'Shows one key, revoked or not, and when it was used last.',
  on: 'store',
  isVersioned: true,
  output: shownKey,
  result: 'The key, without any secret.',
  fails: { not_found: true },
  async run({ operations }, { id }) {
    const key = await operations.show(id);
    const [report, lastUsedOn] = await Promise.all([operations.wholeReport(key), operations.lastUsedOn(key)]);
    return { output: { ...report, lastUsedOn }, record: key };
  },
});

export const updateKey = defineOperation({
  name: 'updateKey',
  line: 'PATCH /keys/{id}',
  tag: 'keys',
  role: 'operator',
  sentence:
    'Changes the plan, limits, name, owner, notes or end of a key, or who may call what with it. What it has used, its bans and its secrets stay.',
  description: 'A member that is absent stays as it is; null removes what can be absent (RFC 7396).',
  on: 'store',
  action: 'key.update',
  isVersioned: true,
  isGuarded: true,
  alsoAs: 'application/merge-patch+json',
  input: editsOfKind('key').meta({
    id: 'KeyEdits',
    minProperties: 1,
    examples: [{ plan: 'business', limits: { minute: null } }],
  }),
  output: key,
  result: 'The key, without any secret.',
  fails: { not_found: true, conflict: true },
  async run(context, { id, ...given }, { guard }) {
    const changed = await context.operations.update(id, editsOf(given, context.nowMs()), guard);
    return { ...(await shown(changed.record, context)), change: changeOfRecord(changed) };
  },
});

export const revokeKey = defineOperation({
  name: 'revokeKey',
  line: 'DELETE /keys/{id}',
  tag: 'keys',
  role: 'operator',
  sentence: 'Revokes a key and all its secrets for good. Every gateway refuses it within a second.',
  description:
    'The key can still be read, until it is deleted. To revoke it twice is no mistake; the first time stands.',
  on: 'store',
  action: 'key.revoke',
  isVersioned: true,
  isGuarded: true,
  output: key,
  result: 'The key, without any secret.',
  fails: { not_found: true },
  async run(context, { id }, { guard }) {
    const changed = await context.operations.revoke(id, guard);
    return {
      ...(await shown(changed.record, context)),
      change: changeOfRecord(changed, changed.before.revokedAtMs !== null),
    };
  },
});

const movedKey = key
  .extend({
    ban: standingBan.describe('The ban in force, which has moved with the key; null if it is not banned.'),
  })
  .meta({ id: 'MovedKey' });

export const moveKey = defineOperation({
  name: 'moveKey',
  line: 'POST /keys/{id}/move',
  tag: 'keys',
  role: 'operator',
  sentence: 'Moves a key to a customer, or away from its own. A ban in force moves with it, and its counts start anew.',
  description:
    'Its secrets, its own limits and what operators see of its past use stay. A key that leaves its customer keeps the plan of the ' +
    'customer unless `plan` names another one. To move a key to where it is changes nothing.',
  on: 'store',
  action: 'key.move',
  isVersioned: true,
  isGuarded: true,
  input: z
    .strictObject(
      {
        customer: z
          .string(customerRule)
          .nullable()
          .describe('The id of the customer; null means that the key belongs to none.'),
        plan: plan.optional().describe('The plan of a key that leaves its customer, one of the plans in force.'),
      },
      'must be an object',
    )
    .meta({ id: 'KeyMove', examples: [{ customer: 'cus_nk0lz6lSUZC1ryYk' }, { customer: null, plan: 'free' }] }),
  output: movedKey,
  result: 'The key, without any secret, and its ban.',
  fails: { not_found: true, conflict: CONFLICT },
  async run(context, { id, customer, plan }, { guard }) {
    const { before, record, durability, ban } = await context.operations.move(
      id,
      { customerId: customer, plan: plan ?? null },
      guard,
    );
    const report = await reportOn(record, context);
    const standing = ban === null ? null : { number: ban.number, until: Math.ceil(ban.untilMs / 1000) };
    return {
      output: { ...report, ban: standing },
      change: changeOfRecord({ before, record, durability }, before.customer === record.customer),
      record,
    };
  },
});

/** What is asked of the suspension of a key or a customer. */
export function newSuspensionOf(what: 'key' | 'customer') {
  const until = `When it ends by itself; null or absent: only when the ${what} is resumed.`;
  return z.strictObject({ until: moment.optional().describe(until), reason: reason.optional() }, 'must be an object');
}

export const suspendKey = defineOperation({
  name: 'suspendKey',
  line: 'POST /keys/{id}/suspend',
  tag: 'keys',
  role: 'operator',
  sentence: 'Suspends a key until a moment, or until it is resumed. Every gateway refuses it within a second.',
  description:
    'Its requests get 403 `suspended` and are not counted; its counts, bans and secrets stay. A key that is suspended gets the new end ' +
    'and reason. The record of changes says who suspended it; the caller does not learn that.',
  on: 'store',
  action: 'key.suspend',
  isVersioned: true,
  isGuarded: true,
  input: newSuspensionOf('key').meta({
    id: 'NewSuspension',
    examples: [{ until: '24h', reason: 'asked for by billing' }],
  }),
  output: key,
  result: 'The key, without any secret.',
  fails: { not_found: true, conflict: CONFLICT },
  async run(context, { id, until = null, reason = null }, { guard }) {
    const untilMs = msOf(until, context.nowMs());
    const changed = await context.operations.suspend(id, { untilMs, reason }, guard);
    return {
      ...(await shown(changed.record, context)),
      change: changeOfRecord(changed, changed.record === changed.before),
    };
  },
});

export const resumeKey = defineOperation({
  name: 'resumeKey',
  line: 'POST /keys/{id}/resume',
  tag: 'keys',
  role: 'operator',
  sentence: 'Ends the suspension of a key. Every gateway serves it within a second.',
  description: 'To resume a key that is not suspended is no mistake.',
  on: 'store',
  action: 'key.resume',
  isVersioned: true,
  isGuarded: true,
  input: z.strictObject({}, 'must be an object'),
  output: key,
  result: 'The key, without any secret.',
  fails: { not_found: true, conflict: CONFLICT },
  async run(context, { id }, { guard }) {
    const changed = await context.operations.resume(id, guard);
    const wasSuspended = isSuspended(changed.before.suspended, context.nowMs());
    return { ...(await shown(changed.record, context)), change: changeOfRecord(changed, !wasSuspended) };
  },
});

export const rotateKey = defineOperation({
  name: 'rotateKey',
  line: 'POST /keys/{id}/rotate',
  tag: 'keys',
  role: 'operator',
  sentence:
    'Makes a new secret for a key and shows it once. The secrets before it keep working for a while, under the same quota.',
  description:
    'A client that misses the response and sends the request again makes a third secret; If-Match prevents that.',
  on: 'store',
  action: 'key.rotate',
  isVersioned: true,
  isGuarded: true,
  input: z
    .strictObject(
      {
        overlap: z
          .string(DURATION_RULE)
          .refine((text) => durationFrom(text) !== null, DURATION_RULE)
          .optional()
          .describe('How long the secrets before it keep working; `0s` ends them at once.')
          .meta({ pattern: DURATION_PATTERN, default: '24h' }),
        leaked: flag.describe(
          'True if somebody else may have one of the secrets before it: all of them end at once. It excludes `overlap`.',
        ),
      },
      'must be an object',
    )
    .refine(
      ({ overlap, leaked }) => !leaked || overlap === undefined,
      'A leaked secret has no overlap: leave out overlap, or leaked.',
    ),
  output: keyWithSecret,
  result: 'The key, with its new secret.',
  fails: { not_found: true, conflict: true },
  async run(context, { id, overlap, leaked }, { guard }) {
    const keptMs = overlap === undefined ? DEFAULT_OVERLAP_MS : durationFrom(overlap)!;
    const overlapMs = leaked ? 0 : keptMs;
    const { secret, ...changed } = await context.operations.rotate(id, overlapMs, guard);
    const { id: keyId, ...rest } = await reportOn(changed.record, context);
    return { output: { id: keyId, key: secret, ...rest }, change: changeOfRecord(changed), record: changed.record };
  },
});

const last4Rule = 'must be the last four characters of the secret, and no more of it';

export const endSecret = defineOperation({
  name: 'endSecret',
  // The last four characters are no name: two secrets may have the same ones, and no URL should have a part of a secret.
  line: 'POST /keys/{id}/secrets/end',
  tag: 'keys',
  role: 'operator',
  sentence:
    'Ends one of several secrets of a key at once. Every gateway refuses it within a second; the others keep working.',
  description:
    'A secret that has ended does not work again. The only secret that works is not ended this way, and neither is one of several that end ' +
    'with the same characters: 409.',
  on: 'store',
  action: 'secret.end',
  isVersioned: true,
  isGuarded: true,
  input: z.strictObject(
    {
      last4: z
        .string(last4Rule)
        .max(4, last4Rule)
        .describe('The last four characters of the secret; an empty text for the one of which only the hash is known.')
        .meta({ maxLength: 4 }),
    },
    'must be an object',
  ),
  output: key,
  result: 'The key, without any secret.',
  fails: {
    not_found: 'There is no such key, or it has no secret that works and ends so.',
    conflict: 'The key is revoked, it is its only secret that works, or several secrets end so.',
  },
  async run(context, { id, last4 }, { guard }) {
    const changed = await context.operations.endSecret(id, last4, guard);
    return { ...(await shown(changed.record, context)), change: changeOfRecord(changed) };
  },
});

export const deleteKey = defineOperation({
  name: 'deleteKey',
  // It has its own path because DELETE of a key revokes it.
  line: 'POST /keys/{id}/delete',
  tag: 'keys',
  role: 'admin',
  sentence:
    'Removes a revoked or expired key for good, with its name, owner, notes, counters and ban. An import does not bring it back.',
  description:
    'Its id and the HMACs of its secrets stay in the store, so that no import brings it back, and the record of changes keeps its ' +
    'entries. To delete it twice is no mistake. DELETE of the key does not delete it: it revokes it.',
  on: 'store',
  action: 'key.delete',
  isGuarded: true,
  input: z.strictObject({}, 'must be an object'),
  output: z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  result: 'It is deleted.',
  fails: { not_found: true, conflict: CONFLICT },
  async run({ operations }, { id }, { guard }) {
    const deleted = await operations.delete(id, guard);
    return { output: { id, deleted: true as const }, change: changeOfDeletion(deleted) };
  },
});

async function shown(stored: StoredKey, context: StoreContext): Promise<Done<z.output<typeof key>>> {
  return { output: await reportOn(stored, context), record: stored };
}

async function reportOn(stored: StoredKey, { operations, nowMs }: StoreContext): Promise<WholeKeyReport> {
  return wholeKeyReport(stored, operations.plans, nowMs(), await operations.customers.of([stored]));
}

export function msOf(text: string | null, nowMs: number): number | null {
  return text === null ? null : momentFrom(text, nowMs);
}
