import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { accountIdOf, accountsOf, accountsUnder } from '../../admit/account-id.ts';
import { Failure } from '../../failure.ts';
import { SECRET_PEPPERS } from '../../identify/secret-marks.ts';
import { filterShape, filterValues, searchedWords, shapeOf, TEXT_WORDS } from '../../model/attributes.ts';
import { limits } from '../../model/plan.ts';
import type { StoredKey } from '../../model/record.ts';
import { count } from '../../model/values.ts';
import { presentName } from '../audit-report.ts';
import { banOf } from '../bans-in-force.ts';
import { createOwnedKey, customerOfNewKey, moveToCustomer, PLAN_OF_CUSTOMER } from '../customers.ts';
import { keyOfSecret } from '../find-key.ts';
import { deleted, newSecret, revoked, rotated, withSecretEnded } from '../key-changes.ts';
import { keyNetworks, networksReport } from '../key-networks.ts';
import { key, keyReport, limitNotes, usedSecrets } from '../key-report.ts';
import { keyFilterFrom, searchKeys } from '../key-search.ts';
import { shownKey } from '../key-uses.ts';
import { cursor, day, durationFrom, flag, PAGE, standingBan, textRule } from '../operation-values.ts';
import { atPresent, changeRecord, customersOf, KEYS, recordOf } from '../operator-store.ts';
import { changeOfDeletion } from '../recorded.ts';
import { countSecretsOf, secretCounts, secretCountsReport } from '../secret-counts.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import { defineOperation } from './operation.ts';
import {
  CREATING,
  changedDone,
  changing,
  createdDone,
  customerId,
  DURATION_PATTERN,
  duration,
  end,
  newAttributes,
  plan,
  planRule,
  repeatableOf,
  resuming,
  type ShownKind,
  suspending,
  updating,
} from './record-operations.ts';

const DEFAULT_OVERLAP_MS = 86_400_000;

const lastUsedOn = day
  .nullable()
  .describe('The day (UTC) of the last request with the key, refused ones included; null if none is kept.')
  .meta({ id: 'LastUsedOn' });

const wholeKey = key
  .extend({ ...limitNotes, lastUsedOn, secrets: usedSecrets })
  .meta({ id: 'ShownKey', description: 'A key, without any secret.' });
const listedKey = key
  .extend({ lastUsedOn: lastUsedOn.optional().describe('Only with the parameter `unused`.') })
  .meta({ id: 'ListedKey' });
const keyWithSecret = key
  .extend({
    key: z.string().describe('The secret. It cannot be shown again.').meta({ pattern: '^tg_live_[0-9A-Za-z]{38}$' }),
  })
  .meta({ id: 'KeyWithSecret', description: 'A key, with its new secret.' });

const SHOWN_KEYS: ShownKind<StoredKey, typeof key> = {
  ...KEYS,
  output: key,
  report: async (record, store) => keyReport(record, store.plans(), store.nowMs(), await customersOf([record], store)),
};

const formRule = 'must be own, unknown, or the prefix of a format of keys.formats and *, such as sk_*';

export const listKeys = defineOperation({
  name: 'listKeys',
  line: 'GET /keys',
  role: 'viewer',
  sentence: 'Lists the API keys that match, oldest first, without those that are revoked.',
  description:
    'A key matches if it matches each parameter that is given. A key that is made or revoked while a client reads the pages moves no other key ' +
    'from one page to the next. A page ends at `limit` or after about a second of work: it may have fewer keys, even none, while ' +
    '`cursor` leads to another page.',
  on: 'store',
  input: z.strictObject({
    ...PAGE,
    q: z
      .string(textRule)
      .optional()
      .describe(
        `A part of the ${searchedWords("customer's id")}, in upper or lower case, or the last four characters of a secret that works, in their ` +
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
    set: z
      .string(textRule)
      .optional()
      .describe('The name of the set of keys.yaml that manages the keys.')
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
    pepper: z
      .enum(SECRET_PEPPERS, `must be one of ${SECRET_PEPPERS.join(', ')}`)
      .optional()
      .describe(
        'Keys with a secret that works whose digest is under such a pepper: `current`, the newest; `old`, another one in use; `removed`, one that is not in use, so that its requests get 401; `unknown`, where the record does not say it, as those of earlier versions until their next use.',
      ),
    form: z
      .string(formRule)
      .regex(/^(?:own|unknown|[A-Za-z0-9_+/-]{0,64}\*)$/, formRule)
      .optional()
      .describe(
        'Keys with a secret that works of this form: `own`, that of Tollgate; the prefix of a format of `keys.formats` and `*`, such as `sk_*`; or `unknown`, where only its hash was imported and no request has come with it since.',
      ),
    all: flag.describe('True lists the revoked keys too.'),
  }),
  output: z.strictObject({
    keys: z.array(listedKey),
    cursor,
    searched: count.describe('How many keys were looked at for this page.'),
    unreadable,
  }),
  async run(context, { q, all, limit, cursor, ...given }) {
    const { plan = null, customer = null, set = null, expiring = null, unused = null } = given;
    const { pepper = null, form = null } = given;
    const filter = keyFilterFrom(
      { text: q ?? null, plan, ...filterValues(given), customer, set, expiring, unused, pepper, form },
      all,
      {
        secretAdvice: context.secretAdvice,
        formats: context.keyFormats(),
        keepsHistory: context.keepsHistory(),
      },
    );
    if ('fault' in filter) throw new Failure('refused', filter.fault);
    const found = await searchKeys(filter, { limit, cursor: cursor ?? null }, atPresent(context));
    const { plans, nowMs } = atPresent(context);
    const customers = await customersOf(
      found.keys.map(({ key }) => key),
      context,
    );
    const keys = found.keys.map(({ key, ...lastUse }) => ({
      ...keyReport(key, plans, nowMs, customers),
      ...lastUse,
    }));
    const { cursor: next, searched, unreadable } = found;
    return { output: { keys, cursor: next, searched, unreadable: unreadableReport(unreadable) } };
  },
});

export const countSecrets = defineOperation({
  name: 'countSecrets',
  line: 'GET /secrets',
  role: 'viewer',
  sentence: 'Counts the secrets that work, by their pepper and by their form.',
  description: 'It reads every key. `GET /keys` with `pepper` or `form` lists the keys.',
  on: 'store',
  needsNoPlans: true,
  output: secretCounts,
  async run({ keys, peppers, keyFormats, nowMs }) {
    const counts = await countSecretsOf(keys, { peppers, nowMs: nowMs(), onPage: nextTurn });
    return { output: secretCountsReport(counts, { inUse: peppers.length, formats: keyFormats() }) };
  },
});

/** Ids in one request. */
const MAX_NAMED = 100;
const idsRule = `must be at most ${MAX_NAMED} ids, separated by commas`;

export const listNames = defineOperation({
  name: 'listNames',
  line: 'GET /names',
  role: 'viewer',
  sentence: 'Lists what keys and customers are called, by their ids.',
  description: 'The name is null for one that has none, that is deleted or that cannot be read.',
  on: 'store',
  needsNoPlans: true,
  input: z.strictObject({
    ids: z
      .string(textRule)
      .refine((text) => text.split(',').length <= MAX_NAMED, idsRule)
      .describe(`At most ${MAX_NAMED} ids of keys and customers, separated by commas.`)
      .meta({ examples: ['key_UxYtRgTgI9u8kkw8,cus_0QbLx2sVq7Yz4TnE'] }),
  }),
  output: z.strictObject({ names: z.record(z.string(), z.string().nullable()) }),
  async run(store, { ids }) {
    const named = [...new Set(ids.split(','))].map(async (id) => [id, await presentName(id, store)] as const);
    return { output: { names: Object.fromEntries(await Promise.all(named)) } };
  },
});

export const listScopes = defineOperation({
  name: 'listScopes',
  line: 'GET /scopes',
  role: 'viewer',
  sentence: 'Lists the scopes that the routes of gateway.yaml require, in the order of the alphabet.',
  on: 'settings',
  output: z.strictObject({ scopes: z.array(z.string()) }),
  run: async ({ routes }) => ({
    output: { scopes: [...new Set(routes().flatMap(({ scopes }) => scopes ?? []))].sort() },
  }),
});

export const createKey = defineOperation({
  ...CREATING,
  name: 'createKey',
  command: ['keys create', 'Make a key and show its secret once'],
  line: 'POST /keys',
  sentence: 'Makes an API key and shows its secret, this once.',
  description:
    'With `Idempotency-Key`, the same request within 24 h gets the same response, secret included, and makes no second key, whichever ' +
    'gateway answers. The secret is not kept for that: it is derived again from the Idempotency-Key, so choose one that cannot be guessed, ' +
    'such as a UUID, and do not log it. Once that secret no longer works, because the key was revoked or has expired or the secret was ' +
    'rotated away, the response is 409 without it.',
  action: 'key.create',
  makesSecret: true,
  input: z
    .strictObject(
      {
        plan: plan.optional().describe('One of the plans in force. Required without `customer`, which has the plan.'),
        customer: customerId
          .optional()
          .describe(
            'The customer that the key belongs to. The key shares its plan and limits with the other keys of the customer.',
          ),
        ...shapeOf('key', 'given'),
        expiresAt: end('key'),
        limits: limits
          .optional()
          .describe(
            "Limits of its own that replace its plan's, one window at a time. A window that is `custom` in the plan needs one. Of a key of " +
              "a customer, what it may take of the customer's.",
          ),
      },
      'must be an object',
    )
    .refine(({ plan, customer }) => plan !== undefined || customer !== undefined, { path: ['plan'], error: planRule })
    .refine(({ plan, customer }) => plan === undefined || customer === undefined, PLAN_OF_CUSTOMER)
    .meta({
      id: 'NewKey',
      oneOf: [{ required: ['plan'] }, { required: ['customer'] }],
      examples: [{ plan: 'pro', name: "Jo's shop", limits: { minute: 500 }, expiresAt: '90d' }],
    }),
  output: keyWithSecret,
  fails: {
    conflict:
      'The key that this Idempotency-Key made is revoked, expired or deleted, or its secret was rotated away. Or its customer was deleted, or its plan removed, while it was made: it was then taken back.',
  },
  async run(store, { plan, customer, ...given }, invocation) {
    const owner =
      customer === undefined ? { plan: plan! } : { plan: (await customerOfNewKey(customer, store)).plan, customer };
    const attributesAt = (nowMs: number) => ({ ...owner, ...newAttributes(given, nowMs) });
    const created = await createOwnedKey(store, repeatableOf(invocation), attributesAt);
    return createdDone(KEYS, created, async ({ record, secret }) => {
      const { id, ...rest } = keyReport(record, store.plans(), record.createdAtMs, await customersOf([record], store));
      return { id, key: secret, ...rest };
    });
  },
});

const secretRule = 'must be the secret of a key, a text';

export const findKey = defineOperation({
  name: 'findKey',
  line: 'POST /keys/find',
  role: 'viewer',
  sentence: 'Finds the key that a secret belongs to. It changes nothing.',
  description:
    "Also by a secret that was rotated away, as long as the key's record still has its HMAC. The secret is in the body, so that no URL " +
    'has it, and the gateway writes it nowhere.',
  on: 'store',
  input: z.strictObject(
    { secret: z.string(secretRule).min(1, secretRule).describe('Spaces around it are ignored.') },
    'must be an object',
  ),
  output: z.strictObject({
    key: wholeKey,
    isCurrent: z
      .boolean()
      .describe(
        'False if this secret was rotated away or has expired. The key may be revoked or expired all the same.',
      ),
  }),
  fails: { not_found: true },
  async run(store, { secret }) {
    // Secrets have no spaces, but people copy some along.
    const { key, isCurrent } = await keyOfSecret(secret.trim(), store);
    return { output: { key: await shownKey(key, store), isCurrent } };
  },
});

export const showKey = defineOperation({
  name: 'showKey',
  line: 'GET /keys/{id}',
  role: 'viewer',
  sentence: 'Shows one key, revoked or not, and when it was used last.',
  on: 'store',
  isVersioned: true,
  output: wholeKey,
  async run(store, { id }) {
    const key = await recordOf(KEYS, store, id);
    return { output: await shownKey(key, store), record: key };
  },
});

export const updateKey = defineOperation({
  ...updating(SHOWN_KEYS, 'KeyEdits'),
  name: 'updateKey',
  command: ['keys update', 'Change a key: plan, limits, name, end, who may call'],
  line: 'PATCH /keys/{id}',
  sentence: `Changes the plan, limits, ${TEXT_WORDS} or end of a key, or who may call what with it. What it has used, its bans and its secrets stay.`,
  action: 'key.update',
  fails: { conflict: true },
});

export const revokeKey = defineOperation({
  ...changing(SHOWN_KEYS),
  name: 'revokeKey',
  command: ['keys revoke', 'Revoke a key for good'],
  line: 'DELETE /keys/{id}',
  needsNoPlans: true,
  sentence: 'Revokes a key, on every gateway within a second.',
  effect:
    'All its secrets end at once and for good: each of its requests gets a 401. To change a secret without an interruption, rotate it ' +
    'instead.',
  asksFirst: true,
  isFinal: true,
  description:
    'The key can still be read, until it is deleted. To revoke it twice is no mistake; the first time stands.',
  action: 'key.revoke',
  async run(store, { id }, { guard }) {
    const nowMs = store.nowMs();
    const change = await changeRecord(KEYS, store, id, (key) => revoked(key, nowMs), guard);
    return changedDone(SHOWN_KEYS, store, change, change.before.revokedAtMs !== null);
  },
});

const movedKey = key
  .extend({
    ban: standingBan.describe('The ban in force, which has moved with the key; null if it is not banned.'),
  })
  .meta({ id: 'MovedKey', description: 'A key, without any secret, and its ban.' });

export const moveKey = defineOperation({
  ...changing(SHOWN_KEYS),
  name: 'moveKey',
  command: ['keys move', 'Move a key to a customer, or away from one'],
  line: 'POST /keys/{id}/move',
  sentence: 'Moves a key to a customer, or away from its own.',
  effect:
    'A key of a customer shares the plan and the limits of the customer with its other keys. Its counts start anew; its secrets stay, and a ' +
    'ban in force moves with it.',
  description:
    'Its own limits and what operators see of its past use stay. A key that leaves its customer keeps the plan of the customer unless ' +
    '`plan` names another one. To move a key to where it is changes nothing.',
  action: 'key.move',
  input: z
    .strictObject(
      {
        customer: customerId
          .nullable()
          .describe(
            'The customer that the key belongs to from now on, with the plan and the limits of it, or none (null).',
          ),
        plan: plan.optional().describe('The plan of a key that leaves its customer, one of the plans in force.'),
      },
      'must be an object',
    )
    .meta({ id: 'KeyMove', examples: [{ customer: 'cus_nk0lz6lSUZC1ryYk' }, { customer: null, plan: 'free' }] }),
  output: movedKey,
  fails: { conflict: true },
  async run(store, { id, customer: customerId, plan = null }, { guard }) {
    const change = await moveToCustomer(store, id, { customerId, plan }, guard);
    const { before, record } = change;
    const ban = await banOf(accountIdOf(id, record.customer ?? null), store);
    const standing = ban === null ? null : { number: ban.number, until: Math.ceil(ban.untilMs / 1000) };
    const { output, ...done } = await changedDone(SHOWN_KEYS, store, change, before.customer === record.customer);
    return { ...done, output: { ...output, ban: standing } };
  },
});

export const suspendKey = defineOperation({
  ...suspending(SHOWN_KEYS, 'NewSuspension'),
  name: 'suspendKey',
  command: ['keys suspend', 'Suspend a key'],
  line: 'POST /keys/{id}/suspend',
  needsNoPlans: true,
  sentence: 'Suspends a key until a moment, or until it is resumed.',
  effect:
    'Each of its requests gets a 403 within a second, and is not counted, until it is resumed. Its secrets, counts and ban stay.',
  description:
    'A key that is suspended gets the new end and reason. The record of changes says who suspended it; the caller does not learn that.',
  action: 'key.suspend',
  fails: { conflict: true },
});

export const resumeKey = defineOperation({
  ...resuming(SHOWN_KEYS),
  name: 'resumeKey',
  command: ['keys resume', 'End the suspension of a key'],
  line: 'POST /keys/{id}/resume',
  needsNoPlans: true,
  sentence: 'Ends the suspension of a key.',
  effect: 'Its requests are admitted again within a second, under the limits, counts and ban that it had.',
  description: 'To resume a key that is not suspended is no mistake.',
  action: 'key.resume',
  fails: { conflict: true },
});

export const rotateKey = defineOperation({
  ...changing(SHOWN_KEYS),
  name: 'rotateKey',
  command: ['keys rotate', 'Give a key a new secret'],
  line: 'POST /keys/{id}/rotate',
  sentence:
    'Makes a new secret for a key and shows it once. The secrets before it keep working for a while, under the same quota.',
  effect:
    'It gets a new secret, under the same limits and counts. Once an earlier secret has ended, each request with it gets a 401 within a ' +
    'second.',
  description:
    'A client that misses the response and sends the request again makes a third secret; If-Match prevents that.',
  action: 'key.rotate',
  makesSecret: true,
  asks: { leaked: 'Was the old secret leaked? Then it ends at once, and otherwise in 24 h.' },
  input: z
    .strictObject(
      {
        overlap: duration
          .optional()
          .describe('How long the secrets before it keep working; `0s` ends them at once.')
          .meta({ pattern: DURATION_PATTERN, default: '24h' }),
        leaked: flag.describe(
          'Another person may have one of the secrets before it: all of them end at once. It excludes `overlap`.',
        ),
      },
      'must be an object',
    )
    .refine(
      ({ overlap, leaked }) => !leaked || overlap === undefined,
      'A leaked secret has no overlap: leave out `overlap` or `leaked`.',
    ),
  output: keyWithSecret,
  fails: { conflict: true },
  async run(store, { id, overlap, leaked }, { guard }) {
    const keptMs = overlap === undefined ? DEFAULT_OVERLAP_MS : durationFrom(overlap)!;
    const overlapMs = leaked ? 0 : keptMs;
    const nowMs = store.nowMs();
    const { secret, stored } = newSecret({ pepper: store.peppers[0]!, random: store.random, nowMs });
    const change = await changeRecord(KEYS, store, id, (key) => rotated(key, stored, overlapMs, nowMs), guard);
    const { output, ...done } = await changedDone(SHOWN_KEYS, store, change, false);
    const { id: keyId, ...rest } = output;
    return { ...done, output: { id: keyId, key: secret, ...rest } };
  },
});

const last4Rule = 'must be the last four characters of the secret, and no more of it';

export const endSecret = defineOperation({
  ...changing(SHOWN_KEYS),
  name: 'endSecret',
  command: ['keys end-secret', 'End one of several secrets'],
  // The last four characters are no name: two secrets may have the same ones, and no URL should have a part of a secret.
  line: 'POST /keys/{id}/secrets/end',
  needsNoPlans: true,
  sentence: 'Ends one of several secrets of a key.',
  effect: 'Requests with this secret get a 401 within a second. Its other secrets keep working.',
  asksFirst: true,
  isFinal: true,
  description:
    'The only secret that works is not ended this way, and neither is one of several that end with the same characters: 409.',
  action: 'secret.end',
  input: z.strictObject(
    {
      last4: z
        .string(last4Rule)
        .max(4, last4Rule)
        .describe('The last four characters of the secret; an empty text for the one of which only the hash is known.')
        .meta({ maxLength: 4, format: 'password' }),
    },
    'must be an object',
  ),
  fails: {
    not_found: 'There is no such key, or it has no secret that works and ends so.',
    conflict: 'The key is revoked, it is its only secret that works, or several secrets end so.',
  },
  async run(store, { id, last4 }, { guard }) {
    const nowMs = store.nowMs();
    const change = await changeRecord(KEYS, store, id, (key) => withSecretEnded(key, last4, nowMs), guard);
    return changedDone(SHOWN_KEYS, store, change, false);
  },
});

export const showKeyNetworks = defineOperation({
  name: 'showKeyNetworks',
  line: 'GET /keys/{id}/networks',
  role: 'viewer',
  sentence: 'From which networks a key was called in the last 30 to 40 days, and attempts with its ended secrets.',
  description:
    'Gateways add what they have counted about every ten seconds, later where thousands of keys are in use. Each process counts up to 10,000 keys ' +
    'at a time and does not count the calls of further ones, which `callsWithoutNetwork` of `GET /gateways` counts. The key may be revoked.',
  on: 'store',
  needsNoPlans: true,
  output: keyNetworks,
  async run({ keys, keyNetworks: store, keepsNetworks, nowMs }, { id }) {
    if ((await keys.get(id)) === null) return KEYS.unknown(id);
    const [record = null] = await store.read([id]);
    return { output: { ...networksReport(record, nowMs()), isKept: keepsNetworks() } };
  },
});

export const deleteKey = defineOperation({
  name: 'deleteKey',
  command: ['keys delete', 'Remove a revoked or expired key'],
  // It has its own path because DELETE of a key revokes it.
  line: 'POST /keys/{id}/delete',
  role: 'admin',
  sentence: 'Removes a revoked or expired key. An import does not bring it back.',
  effect:
    'All its attributes, counts, networks and its ban are removed for good. The record of changes keeps its entries.',
  asksFirst: true,
  isFinal: true,
  description:
    'Its id and the HMACs of its secrets stay in the store, so that no import brings it back. To delete it twice is no mistake. DELETE of ' +
    'the key does not delete it: it revokes it.',
  on: 'store',
  needsNoPlans: true,
  action: 'key.delete',
  isVersioned: true,
  input: z.strictObject({}, 'must be an object'),
  output: z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  fails: { conflict: true },
  async run(store, { id }, { guard }) {
    const { keys, ledger, secretUses, keyNetworks, plans, nowMs } = store;
    const atMs = nowMs();
    const done = await keys.delete(id, (key) => {
      if (key.deletedAtMs === undefined) guard?.(key);
      return deleted(key, atMs);
    });
    if (done === null) return KEYS.unknown(id);
    await ledger.forget(...accountsOf(done.before).flatMap((one) => accountsUnder(one, plans())));
    await Promise.all([secretUses.forget(id), keyNetworks.forget(id)]);
    return { output: { id, deleted: true as const }, change: changeOfDeletion(done) };
  },
});
