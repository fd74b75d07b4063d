import { z } from 'zod';
import { shapeOf } from '../model/attributes.ts';
import { limitOr, limitsOf, UNLIMITED } from '../model/plan.ts';
import { ID_FORMS } from '../model/record.ts';
import * as values from './setting-values.ts';
import { type FileKind, field, isMapping, type ParseResult, parseYaml } from './yaml.ts';

// keys.yaml, the file of `tollgate keys apply`: which keys and customers are to exist, and what is said of each.

const limit = limitOr(' or `unlimited`', UNLIMITED)
  .optional()
  .describe(
    "Its own number of requests in this window, in place of its plan's; of a key of a customer, what it may take of the customer's. `unlimited`: no bound.",
  );
const endRule =
  'must be a date such as 2030-12-31, a time such as 2030-12-31T12:00:00Z, or `never`; a duration would mean another day each time';
const limits = limitsOf(limit).optional();
const expires = z
  .string(endRule)
  .refine((given) => given === 'never' || values.momentOf(given) !== null, endRule)
  .optional();
const plan = z.string('must be the name of a plan').optional();

const digestRule = 'must be the SHA-256 of the secret, 64 hexadecimal digits or in base64';
const endOfSecretRule = 'must be the last four characters of the secret';

/** The id of a record that exists. */
function idLike(pattern: RegExp, rule: string) {
  return z.string(rule).regex(pattern, rule).optional();
}

const entry = z.strictObject({
  id: idLike(ID_FORMS.key, 'must be the id of a key, such as key_7Hq2mZ0aB3xY9KpL').describe(
    'The id of a key that exists, for example one that was imported or made by hand: the file manages it from then on. Left out, apply makes a key.',
  ),
  plan: plan.describe('The plan of the key, one of plans.yaml. Required unless `id` or `customer` is given.'),
  customer: values
    .name()
    .optional()
    .describe(
      'The name of an entry of `customers` to which a new key belongs: it has the plan and the limits of the customer, so leave `plan` out. A key that exists is never moved: its entry is refused until `tollgate keys move` has moved it.',
    ),
  sha256: z
    .string(digestRule)
    .regex(/^(?:[0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$/, digestRule)
    .optional()
    .describe(
      'SHA-256 of a secret that the holder of a new key has already, for example of another gateway, in hexadecimal or base64: the key is made with it, and no secret is written. A key that exists keeps its secrets. If the secret is not of the form of Tollgate, `keys.formats` in gateway.yaml must have its format.',
    ),
  last4: z
    .string(endOfSecretRule)
    .regex(/^[\x21-\x7e]{4}$/, endOfSecretRule)
    .optional()
    .describe('The last four characters of the secret of `sha256`, by which people recognise it.'),
  // A value replaces what the record has; an empty one removes it.
  ...shapeOf('key', 'inFile'),
  limits: limits.describe(
    "All limits of the key's own: a window that is left out has its plan's number. `{}` removes all of them.",
  ),
  expires: expires.describe(
    'When the key ends: a date such as 2030-12-31 (midnight UTC), an RFC 3339 time, or `never`. A duration such as 90d would mean another day each time and is refused.',
  ),
});

const customerEntry = z.strictObject({
  id: idLike(ID_FORMS.customer, 'must be the id of a customer, such as cus_nk0lz6lSUZC1ryYk').describe(
    'The id of a customer that exists and that no other set manages: the file manages it from then on. Left out, apply makes a customer.',
  ),
  plan: plan.describe('The plan that its keys share, one of plans.yaml. Required unless `id` is given.'),
  ...shapeOf('customer', 'inFile'),
  limits: limits.describe(
    "All limits of the customer's own, which its keys share: a window that is left out has its plan's number. `{}` removes all of them.",
  ),
  expires: expires.describe(
    'When its keys end: a date such as 2030-12-31 (midnight UTC), an RFC 3339 time, or `never`. A duration is refused.',
  ),
});

/** keys.yaml: the keys and customers that `tollgate keys apply` makes and keeps as they stand here. */
export const keysSchema = z
  .strictObject({
    set: values
      .name()
      .describe(
        'The name of this set of keys, such as `partners`. Every file has its own: `--prune` revokes only keys of the same set. A key is known by its set and the name of its entry, so a set that is renamed makes new keys.',
      ),
    customers: z
      .record(values.name(), customerEntry)
      .optional()
      .describe(
        'The customers, each by a name that you choose and keep. They are made and changed before the keys. One that leaves the file stays: `tollgate customers delete` ends a customer.',
      ),
    keys: z
      .record(values.name(), entry)
      .describe(
        'The keys, each by a name that you choose and keep. What an entry leaves out is left as it is: apply changes only what the entry contains.',
      ),
  })
  .meta({
    title: 'Tollgate keys.yaml',
    description: 'The keys and customers that `tollgate keys apply` makes and keeps.',
  });

/** An entry of keys.yaml. That of a customer lacks what only keys have. */
export type Entry = z.output<typeof entry>;
export type KeysFile = z.output<typeof keysSchema>;

/** More than settings may have: 5,000 keys with everything that an entry can have. It takes some 200 MB while it is read. */
const MAX_PARTS = 400_000;
/** The size limit of keys.yaml, in bytes. */
export const MAX_KEYS_FILE_BYTES = 4 * 1024 * 1024;

/**
 * Parses the text of keys.yaml.
 * @param file its name in faults
 * @param plans the names of the plans of plans.yaml, of which each entry must have one
 */
export function parseKeysFile(text: string, file: string, plans: readonly string[]): ParseResult<KeysFile> {
  const kind: FileKind<typeof keysSchema> = {
    schema: keysSchema,
    maxParts: MAX_PARTS,
    check: (raw, fault) => checkEntries(raw, plans, fault),
  };
  return parseYaml(text, file, kind);
}

type Check = Parameters<NonNullable<FileKind<typeof keysSchema>['check']>>;

/** Checks what each entry of a keys.yaml says of its plan, its customer and its id. */
export function checkEntries(raw: unknown, plans: readonly string[], fault: Check[1]): void {
  for (const section of ['customers', 'keys'] as const) checkSection(raw, section, plans, fault);
}

function checkSection(raw: unknown, section: 'customers' | 'keys', plans: readonly string[], fault: Check[1]): void {
  const what = section === 'keys' ? 'key' : 'customer';
  const entryOf = new Map<string, string>();
  const [entries, customers] = [field(raw, section), field(raw, 'customers')];
  for (const [name, given] of isMapping(entries) ? Object.entries(entries) : []) {
    if (!isMapping(given)) continue;
    const [plan, id, customer] = [field(given, 'plan'), field(given, 'id'), field(given, 'customer')];
    if (typeof plan === 'string' && !plans.includes(plan)) {
      fault([section, name, 'plan'], `is not a plan of plans.yaml. The plans are: ${plans.join(', ')}.`);
    } else if (section === 'keys' && customer !== undefined) {
      if (typeof customer === 'string' && !(isMapping(customers) && Object.hasOwn(customers, customer))) {
        fault([section, name, 'customer'], 'is not an entry of `customers`.');
      }
      if (plan !== undefined) fault([section, name, 'plan'], 'is that of the customer; leave it out.');
    } else if (plan === undefined && id === undefined) {
      fault([section, name], `has no \`plan\`. Give the plan of the ${what}, or the \`id\` of a ${what} that exists.`);
    }
    for (const part of ['sha256', 'last4'] as const) {
      if (field(given, part) === undefined) continue;
      if (id !== undefined)
        fault([section, name, part], 'is for a new key, and `id` names one that exists; leave one out.');
      else if (field(given, 'sha256') === undefined) fault([section, name, part], 'needs `sha256` beside it.');
    }
    if (typeof id !== 'string') continue;
    const other = entryOf.get(id);
    if (other === undefined) entryOf.set(id, name);
    else fault([section, name, 'id'], `is the id of \`${other}\` as well; leave out one of the two.`);
  }
}
