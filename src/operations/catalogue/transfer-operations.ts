import { z } from 'zod';
import type { Durability } from '../../admit/ledger.ts';
import { checkEntries, keysSchema } from '../../config/keys-file.ts';
import * as values from '../../config/setting-values.ts';
import { Failure } from '../../failure.ts';
import { isWellFormed } from '../../identify/api-key.ts';
import {
  isCustomerId,
  isKey,
  isKeyId,
  kindOf,
  readStoredCustomer,
  readStoredKey,
  type StoredRecord,
} from '../../model/record.ts';
import { count } from '../../model/values.ts';
import { flag, textRule } from '../operation-values.ts';
import { type Change, changeOfRecord } from '../recorded.ts';
import {
  type ApplyDeps,
  type ApplyOutcome,
  applyChanges,
  hasSecret,
  type MadeChange,
} from '../transfer/apply-changes.ts';
import {
  differenceOf,
  type LeftEntry,
  type PlannedChange,
  type PlannedEntry,
  planApply,
} from '../transfer/apply-plan.ts';
import { importRows } from '../transfer/import-keys.ts';
import { MAX_SLICE } from '../transfer/keys-and-customers.ts';
import { lackedPeppers, restoreRecords } from '../transfer/restore.ts';
import { COLUMNS, type Column, type Row } from '../transfer/rows.ts';
import { type Done, defineOperation, type Invocation } from './operation.ts';

// Keys and customers of a file, a slice at a time: each record has an outcome of its own, and the others are written all the same.

/** What the operations on slices have in common. */
const WRITING = {
  role: 'admin',
  on: 'store',
  isSlice: true,
  readsMuch: true,
} as const;

const dryRun = flag.describe('Gives the outcomes, and writes nothing; nothing is recorded.');

/** Longer than a path may be. */
const MAX_NAME = 4_096;
/** What the record of changes says of where the records come from. */
const noted = (what: string) =>
  z
    .string(textRule)
    .max(MAX_NAME, `must have at most ${MAX_NAME} characters`)
    .optional()
    .describe(`${what}, for the record of changes.`);

const AGAIN = 'After an interruption send it again: what was done is found and left as it is.';

const CELLS: Readonly<Partial<Record<Column, string>>> = {
  key: 'The secret. Either this or `sha256`.',
  sha256: 'The SHA-256 of the secret, 64 hexadecimal digits or in base64.',
  last4: 'The last four characters of the secret, beside `sha256`.',
  plan: 'The plan. Required without `customer`.',
  limits: 'Limits of its own: a text such as `minute=500 day=unlimited`, or an object.',
  expires: 'When it ends: an RFC 3339 time, a date, or a duration from now such as 90d.',
  created: 'When it was made, likewise; now unless given.',
  customer: 'The id of the customer that it belongs to.',
};

// A wrong value refuses its row alone, so the schema takes any value.
const importedKey = z
  .strictObject(
    Object.fromEntries(
      COLUMNS.map((column) => [
        column,
        z
          .unknown()
          .optional()
          .describe(CELLS[column] ?? 'As for a new key; also as the text of a cell of CSV.'),
      ]),
    ),
    'must be an object',
  )
  .meta({ id: 'ImportedKey' });

const importKinds = ['moved', 'unknown', 'already', 'refused'] as const;

export const importKeys = defineOperation({
  ...WRITING,
  name: 'importKeys',
  line: 'POST /keys/import',
  sentence: 'Takes in keys that another system made, by their secrets or the hashes of these.',
  description:
    `\`tollgate keys import\` sends its file so, up to ${MAX_SLICE} keys at a time. Each key is imported whole or refused with a reason, and one that ` +
    `exists is left as it is: no import brings back a secret that was revoked, rotated away or deleted. ${AGAIN}`,
  action: 'key.import',
  input: z.strictObject(
    {
      file: noted('The name of the file that they come from'),
      keys: z
        .array(importedKey, 'must be a list')
        .min(1, 'must have an entry')
        .max(MAX_SLICE, `must have at most ${MAX_SLICE} entries`)
        .describe('The keys. Null in place of a member is as if it were absent.'),
      dryRun,
    },
    'must be an object',
  ),
  output: z.strictObject({
    outcomes: z
      .array(
        z
          .strictObject({
            kind: z
              .enum(importKinds)
              .describe(
                '`moved`: it was imported. `unknown`: it was, and a failover of the store may undo that. `already`: it exists and was left as it is.',
              ),
            id: z.string().nullable().describe('Null if it was refused.'),
            why: z
              .string()
              .nullable()
              .describe(
                'Why it was refused, how the existing key differs, or why it may not work; null if there is nothing to say.',
              ),
          })
          .meta({ id: 'ImportOutcome' }),
      )
      .describe('What became of each key, in the order of `keys`.'),
  }),
  async run(store, { file, keys, dryRun }) {
    const outcomes = await importRows(keys as readonly Row[], {
      ...store,
      plans: store.plans().plans,
      gone: await store.goneElsewhere(),
      formats: store.keyFormats(),
      history: await store.pepperHistory(),
      dryRun,
    });
    return transferDone({ outcomes }, { file }, { dryRun, kinds: importKinds, written: ['moved', 'unknown'] });
  },
});

/** As many as a store keeps. */
const MAX_PEPPERS = 32;

const restoreKinds = ['restored', 'same', 'left', 'replaced', 'unknown', 'refused', 'unreadable'] as const;

export const restoreKeys = defineOperation({
  ...WRITING,
  name: 'restoreKeys',
  line: 'POST /keys/restore',
  sentence: 'Puts customers and keys of a backup back.',
  description:
    `\`tollgate keys restore\` decrypts its file and sends it so, customers before their keys, up to ${MAX_SLICE} records at a time; without ` +
    'records this tells whether their keys would work. A record that exists is newer than the backup and is left as it is, or with `force` gets ' +
    'the attributes of the backup. Even then no key that was revoked or deleted comes back, nor a secret that was rotated away, and no ' +
    `suspension ends. ${AGAIN}`,
  action: 'key.restore',
  input: z.strictObject(
    {
      madeAt: noted('When the backup was made'),
      peppers: z
        .array(z.string(textRule), 'must be a list')
        .min(1, 'must have an entry')
        .max(MAX_PEPPERS, `must have at most ${MAX_PEPPERS} entries`)
        .describe(
          'The check values of the peppers of the backup. If the store uses none of these peppers, nothing is written: 409.',
        ),
      records: z
        .array(z.looseObject({}), 'must be a list')
        .max(MAX_SLICE, `must have at most ${MAX_SLICE} entries`)
        .describe('The lines of the backup between its first and its last, as they stand there.'),
      force: flag.describe('Whether the attributes of records that exist are replaced by those of the backup.'),
      dryRun,
    },
    'must be an object',
  ),
  output: z.strictObject({
    outcomes: z
      .array(
        z
          .strictObject({
            id: z.string(),
            kind: z
              .enum(restoreKinds)
              .describe(
                '`restored`: it was missing. `same`: it exists and is the same. `left`: it exists, differs, and was left as it is. `replaced`: ' +
                  'it has the attributes of the backup now. `unknown`: it was written, and a failover of the store may undo that. `refused`: it ' +
                  'was deleted for good, or another key has one of its secrets. `unreadable`: the record that exists cannot be read, and was left as it is.',
              ),
            why: z.string().nullable().describe('A sentence about it; null if there is nothing to say.'),
          })
          .meta({ id: 'RestoreOutcome' }),
      )
      .describe('What became of each record, in the order of `records`.'),
    lackedPeppers: count.describe(
      'How many of `peppers` the store does not use. Secrets that are known only under these do not work.',
    ),
    lackedPlans: z
      .array(z.string())
      .describe(
        'The plans of keys among `records` that are not revoked, which plans.yaml lacks: requests with them are refused.',
      ),
  }),
  fails: { conflict: 'The store uses none of the peppers of the backup. Nothing was written.' },
  async run(store, { madeAt, peppers, records, force, dryRun }) {
    const lacked = lackedPeppers(peppers, store.peppers);
    const backup = records.map(recordAt);
    const { plans } = store.plans();
    const live = backup.filter((one) => isKey(one) && one.revokedAtMs === null);
    const output = {
      outcomes: await restoreRecords(backup, { ...store, force, dryRun }),
      lackedPeppers: lacked,
      lackedPlans: [...new Set(live.map(({ plan }) => plan))].filter((plan) => !plans.has(plan)),
    };
    const written = ['restored', 'replaced', 'unknown'];
    return transferDone(output, { madeAt }, { dryRun, kinds: restoreKinds, written, counts: isKeyId });
  },
});

/** @throws Failure `refused` */
function recordAt(given: { readonly id?: unknown }, index: number): StoredRecord {
  const id = String(given.id);
  try {
    if (isCustomerId(id)) return readStoredCustomer(JSON.stringify(given));
    if (isKeyId(id)) return readStoredKey(JSON.stringify(given));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
  }
  throw new Failure('refused', `records.${index} is neither a customer nor a key of a backup.`);
}

const applyKinds = ['planned', 'done', 'same', 'unknown', 'refused'] as const;

/** The entries of keys.yaml by their names. */
function entriesOf<T extends z.ZodType>(schema: T) {
  return schema.refine((of) => Object.keys(of as object).length <= MAX_SLICE, `must have at most ${MAX_SLICE} entries`);
}

const { set, customers, keys } = keysSchema.shape;
const secretRule = "must be a secret of Tollgate's form";
const keyIdRule = 'must be the id of a key';
const newSecret = z.string(secretRule).refine(isWellFormed, secretRule).meta({ format: 'password' });

const appliedOutcome = z
  .strictObject({
    entry: z.string().describe('The name of the entry.'),
    id: z.string().describe('That of its key or customer.'),
    kind: z
      .enum(applyKinds)
      .describe(
        '`planned`: it would be done. `done`: it was done. `same`: the record already is so. `unknown`: it was done, and a failover of the ' +
          'store may undo it. `refused`: the record was left as it is.',
      ),
    action: z.enum(['create', 'update', 'revoke']).nullable().describe('Null if there was nothing to do.'),
    changes: z
      .record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }))
      .describe('What differs, in the words of keys.yaml.'),
    why: z
      .string()
      .nullable()
      .describe('Why it was refused, or what may become of it; null if there is nothing to say.'),
    at: z
      .array(z.string())
      .nullable()
      .describe(
        'Where the entry has a fault: the names of the members that lead there, none for the whole entry. Null if the entry has none, and its ' +
          'record was revoked or deleted, belongs elsewhere, or cannot be read.',
      ),
    hasSecret: z
      .boolean()
      .nullable()
      .describe(
        'Whether the key has the secret that was sent for its entry. Null if none was, or there is no such key.',
      ),
  })
  .meta({ id: 'ApplyOutcome' });

export const applyKeys = defineOperation({
  ...WRITING,
  name: 'applyKeys',
  line: 'POST /keys/apply',
  sentence: 'Makes and changes keys and customers so that they are as the entries of a keys.yaml say.',
  description:
    `\`tollgate keys apply\` sends its file so, up to ${MAX_SLICE} entries of each kind at a time, those of customers beside the keys that name ` +
    'them. Each entry is applied whole or refused with a reason. The sender makes the secrets of new keys, and keeps them before it sends ' +
    `them: a key that is there keeps its own. Each change has an entry of its own in the record of changes. ${AGAIN}`,
  action: 'key.apply',
  recordsEach: true,
  input: z.strictObject(
    {
      set,
      customers: entriesOf(customers.unwrap()).default({}).describe('Entries of customers, as in keys.yaml.'),
      keys: entriesOf(keys).default({}).describe('Entries of keys, as in keys.yaml.'),
      secrets: z
        .record(values.name(), newSecret)
        .default({})
        .describe('A secret for each entry that makes a key, by its name. One that is not needed is not used.'),
      prune: z
        .array(
          z.strictObject({
            id: z.string(keyIdRule).refine(isKeyId, keyIdRule),
            name: values.name().describe('The name of the entry that it had.'),
          }),
          'must be a list',
        )
        .max(MAX_SLICE, `must have at most ${MAX_SLICE} entries`)
        .default([])
        .describe('Keys to revoke, unless they are no longer of this set and entry.'),
      dryRun,
    },
    'must be an object',
  ),
  output: z.strictObject({
    plans: z.array(z.string()).describe('The plans that entries may name.'),
    gone: z.array(z.string()).describe('The plans in force here that a later plans.yaml of another gateway lacks.'),
    outcomes: z
      .array(appliedOutcome)
      .describe('What became of each customer, each key and each key to revoke, in their order.'),
  }),
  async run(store, { set, customers, keys, secrets, prune, dryRun }, invocation) {
    const gone = await store.goneElsewhere();
    const plans = new Map([...store.plans().plans].filter(([name]) => !gone.has(name)));
    const file = { set, customers, keys };
    checkEntries(file, [...plans.keys()], (path, message) => {
      throw new Failure('refused', `${path.join('.')} ${message}`);
    });
    const deps = { ...store, plans, secrets: new Map(Object.entries(secrets)), recorded: recordedIn(invocation) };
    const { entries, customersOfFile } = await planApply(file, { ...deps, nowMs: store.nowMs() });
    const planned = [...entries, ...prune.map((one) => ({ ...one, kind: 'revoke' as const }))];
    const made = dryRun ? [] : await applyChanges(planned.filter(isChange), { set, customersOfFile }, deps);
    const outcomeOf = new Map(made.map((outcome) => [outcome.change, outcome]));
    const outcomes = await Promise.all(
      planned.map(async (one) => ({
        ...(isChange(one) ? ofChange(one, outcomeOf.get(one)) : ofLeft(one)),
        hasSecret: await secretSent(one, deps),
      })),
    );
    const output = { plans: [...plans.keys()], gone: [...gone], outcomes };
    return transferDone(output, {}, { dryRun, kinds: applyKinds, written: ['done', 'unknown'] });
  },
});

function recordedIn({ recorded }: Invocation) {
  return (change: PlannedChange, work: () => Promise<MadeChange>) =>
    recorded({
      action: `${kindOf(change.id)}.${change.kind}`,
      target: change.id,
      work,
      changeOf: (made) => changeOfRecord(made, made.isSame),
    });
}

function isChange(planned: PlannedEntry | PlannedChange): planned is PlannedChange {
  return planned.kind !== 'same' && planned.kind !== 'refused';
}

/** @param made what became of it; undefined for a dry run */
function ofChange(change: PlannedChange, made: ApplyOutcome | undefined) {
  const { name: entry, id, kind: action } = change;
  const { kind, why } = made ?? { kind: 'planned' as const, why: null };
  return { entry, id, kind, action, changes: differenceOf(change), why, at: null };
}

function ofLeft({ name: entry, id, kind, why, at }: LeftEntry) {
  return { entry, id, kind, action: null, changes: {}, why, at };
}

async function secretSent(
  { name, id }: PlannedEntry | PlannedChange,
  deps: Pick<ApplyDeps, 'secrets' | 'keys' | 'peppers'>,
): Promise<boolean | null> {
  const secret = isKeyId(id) ? deps.secrets.get(name) : undefined;
  return secret === undefined ? null : hasSecret(id, secret, deps);
}

interface Outcome {
  readonly kind: string;
  readonly id: string | null;
}

/** A failover of the store may undo some of what was written. */
const MAY_BE_UNDONE: Durability = { kind: 'unknown', final: Promise.resolve('given_up') };

/**
 * What was done with a slice. The record of changes has how many records had which outcome, and the ids of those that were written.
 * @param of what the record says besides
 * @param kinds every kind of outcome, in the order of the counts
 * @param written those of a record that was written
 * @param counts whether the record with this id is counted
 */
function transferDone<Out extends { readonly outcomes: readonly Outcome[] }>(
  output: Out,
  of: object,
  {
    dryRun,
    kinds,
    written,
    counts = () => true,
  }: { readonly dryRun: boolean; readonly counts?: (id: string) => boolean } & Readonly<
    Record<'kinds' | 'written', readonly string[]>
  >,
): Done<Out> {
  if (dryRun) return { output: output as Done<Out>['output'] };
  const { outcomes } = output;
  const ids = outcomes.filter(({ kind }) => written.includes(kind)).map(({ id }) => id);
  const counted = outcomes.filter(({ id }) => id === null || counts(id));
  const numbers = kinds.map((kind) => [kind, counted.filter((one) => one.kind === kind).length]);
  const change: Change = {
    target: null,
    before: null,
    after: { ...of, ...Object.fromEntries(numbers), keys: ids },
    outcome: ids.length === 0 ? 'unchanged' : 'done',
    ...(outcomes.some(({ kind }) => kind === 'unknown') ? { durability: MAY_BE_UNDONE } : {}),
  };
  return { output: output as Done<Out>['output'], change };
}
