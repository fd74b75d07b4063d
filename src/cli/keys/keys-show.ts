import { Failure } from '../../failure.ts';
import { isOwnForm, isWellFormed } from '../../identify/api-key.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { searchedWords } from '../../model/attributes.ts';
import { limitsCell } from '../../model/plan.ts';
import { countSecrets, findKey, listKeys, showKey } from '../../operations/catalogue/key-operations.ts';
import type { OutputOf } from '../../operations/catalogue/operation.ts';
import type { KeyReport } from '../../operations/key-report.ts';
import type { Print } from '../operation-command.ts';
import { type EntryOf, linesOf, listCommand, showCommand } from '../reading-command.ts';
import { wrapped } from '../terminal/command.ts';
import { tonedStatus } from '../terminal/style.ts';
import { attributeRows, spelledFilters } from './attribute-options.ts';
import { CUSTOMER, firstColumns, furtherColumns, heldText, secretLabelOf, stateOf } from './text-form.ts';

// The commands that print keys and change nothing.

/** `tollgate keys list` (contract section 5). */
export const keysList = listCommand({
  name: 'keys list',
  operation: listKeys,
  about:
    'Lists the API keys, oldest first, without those that are revoked; with conditions, those that match all of them. Their limits are those ' +
    'on the requests of each key; `keys show` has all, also those of its customer, of groups of routes, in units and in flight.',
  spelled: {
    q: {
      option: 'search',
      value: 'TEXT',
      about:
        `Keys with this text in ${searchedWords()}, in any case, or a secret that ends with it; or with a pair of metadata, such as meta.team=blue. ` +
        'As TEXT without --search.',
    },
    plan: { about: 'Keys of this plan.' },
    ...spelledFilters('Keys'),
    customer: { value: 'CUSTOMER_ID', about: 'Keys of this customer, by id or name.', idOf: 'CUSTOMER_ID' },
    set: { about: 'Keys that `tollgate keys apply` has made or adopted for this set.' },
    expiring: { value: 'DURATION', about: 'Keys that end within this time, such as 30d.' },
    unused: { value: 'DAYS', about: 'Keys that are older than this and have not been used since, 1d to 92d.' },
    pepper: {
      value: 'WHICH',
      about:
        'Keys with a secret under such a pepper of KEY_PEPPER: `current`, the newest; `old`, a further one; `removed`, one that it does not have; ' +
        '`unknown`.',
    },
    form: {
      value: 'FORM',
      about:
        'Keys with a secret of this form: `own`, that of Tollgate; the prefix of a format of `keys.formats` and `*`, such as sk_*; `unknown`.',
    },
    all: { about: 'Lists the revoked ones too.' },
  },
  examples: [
    'tollgate keys list acme',
    'tollgate keys list --plan free --expiring 30d',
    'tollgate keys list --owner "Acme Ltd" --unused 90d --json',
    'tollgate keys list --pepper old',
  ],
  entries: 'keys',
  none: (isFiltered) =>
    isFiltered ? 'No key matches.' : 'There are no keys. `tollgate keys create --plan PLAN` makes one.',
  columns: [
    { head: 'id', rank: 0, isWhole: true, cell: ({ id }) => id },
    { head: 'secret', rank: 6, cell: ({ secrets: [newest] }) => (newest === undefined ? '' : secretLabelOf(newest)) },
    { head: 'plan', rank: 3, cell: ({ plan }) => plan ?? 'unknown' },
    ...firstColumns('key'),
    { head: 'limits', rank: 8, cell: heldText },
    { head: 'created', rank: 7, cell: ({ createdAt }, { moment }) => moment(createdAt) },
    { head: 'expires', rank: 4, cell: endText },
    { head: 'state', rank: 1, isStatus: true, cell: (key, { nowMs }) => stateOf(key, nowMs) },
    CUSTOMER,
    {
      head: 'last used',
      rank: 1.5,
      cell: ({ lastUsedOn }) => lastUsedOn ?? '-',
      isThere: ({ lastUsedOn }: EntryOf<typeof listKeys>) => lastUsedOn !== undefined,
    },
    ...furtherColumns('key'),
  ],
});

export function endText({ expiresAt }: Pick<KeyReport, 'expiresAt'>, { moment }: Print): string {
  return expiresAt === null ? 'never' : moment(expiresAt);
}

/** `tollgate keys show`: prints everything that the store holds about one key, except digests. */
export const keysShow = showCommand({
  name: 'keys show',
  operation: showKey,
  about:
    'Shows one API key: its plan, all limits that it is held to by the names that `tollgate usage` has, its times, and by their last four ' +
    'characters the secrets that work.',
  positional: 'KEY_ID',
  examples: ['tollgate keys show KEY_ID'],
  text: keyText,
});

/** What stands before the secret where a header field was pasted: `Authorization: Bearer tg_live_…`, or only its value. */
const HEADER_FIELD = /^(?:authorization:\s*)?bearer\s+/i;

/** `tollgate keys find` (contract section 5): the key that a secret belongs to. */
export const keysFind = showCommand({
  name: 'keys find',
  operation: findKey,
  about:
    'Finds the API key that a secret belongs to, also one that was rotated away. Reads the secret from standard input; on a ' +
    'terminal it asks, and does not show what is pasted.',
  positional: null,
  examples: ['tollgate keys find', 'tollgate keys find < secret.txt'],
  hidden: ['secret'],
  async given(_, { hiddenInput }) {
    const secret = ((await hiddenInput?.('Paste the secret: ')) ?? '').trim().replace(HEADER_FIELD, '');
    if (secret === '')
      throw new Failure('bad_usage', 'There is no secret on standard input. See `tollgate keys find --help`.');
    if (!isOwnForm(secret) || isWellFormed(secret)) return { secret };
    throw new Failure(
      'not_found',
      'No key has this secret: it is incomplete or mistyped, because its checksum is wrong.',
    );
  },
  text({ key, isCurrent }, print) {
    const text = keyText(key, print);
    return isCurrent ? text : `${text}This secret was rotated away or has expired: the key has another one.\n`;
  },
});

/** `tollgate keys secrets` */
export const keysSecrets = showCommand({
  name: 'keys secrets',
  operation: countSecrets,
  about:
    'Counts the secrets that work, by their pepper and by their form, and says whether an older pepper can go. `keys list --pepper` and ' +
    '`keys list --form` list their keys.',
  positional: null,
  examples: ['tollgate keys secrets', 'tollgate keys secrets --json'],
  text: ({ peppers, forms, oldPepper, unreadable }) =>
    linesOf([
      ...Object.entries(peppers).map(([pepper, secrets]) => [`pepper ${pepper}`, String(secrets)] as const),
      ...forms.map(({ form, secrets }) => [`form ${escapedText(form)}`, String(secrets)] as const),
      ...(unreadable.length === 0 ? [] : [['not readable', String(unreadable.length)] as const]),
      ['older pepper', OLD_PEPPER[oldPepper]],
    ]),
});

const OLD_PEPPER: Readonly<Record<OutputOf<typeof countSecrets>['oldPepper'], string>> = {
  none: 'KEY_PEPPER has one pepper',
  needed: 'still needed',
  may_be_needed: 'may be needed: see the unknown ones',
  not_needed: 'not needed: leave it out of KEY_PEPPER, unless it is the new one of a change that has begun',
};

type ShownKey = OutputOf<typeof showKey>;

/** A key in lines, one for each thing that is known of it. */
function keyText(key: ShownKey, print: Print): string {
  const { terminal, moment, nowMs } = print;
  return linesOf([
    ['id', key.id],
    ['state', tonedStatus(stateOf(key, nowMs), terminal.style)],
    ...customerRow(key),
    ['plan', key.plan ?? `unknown. ${key.unreadable}`],
    ...limitRows(key, print),
    ...attributeRows(key),
    ...timeRows(key, print),
    ...(key.revokedAt === null ? [] : [['revoked', moment(key.revokedAt)] as const]),
    ...suspendedRows(key, print),
    ...key.secrets.map((secret) => ['secret', secretText(secret, print)] as const),
  ]);
}

/** The entry that manages a key or a customer, and its times. */
export function timeRows(record: Pick<KeyReport, 'entry' | 'createdAt' | 'expiresAt'>, print: Print) {
  const { entry, createdAt } = record;
  return [
    ...(entry === undefined ? [] : [['entry', `${entry}, of \`keys apply\``] as const]),
    ['created', print.moment(createdAt)],
    ['expires', endText(record, print)],
  ] as const;
}

function secretText(
  { last4, createdAt, expiresAt, lastUsedOn }: ShownKey['secrets'][number],
  { moment }: Print,
): string {
  const end = expiresAt === null ? '' : `, ends ${moment(expiresAt)}`;
  const use = lastUsedOn === null ? 'no use on record' : `last used ${lastUsedOn}`;
  return `${secretLabelOf({ last4 })}, made ${moment(createdAt)}${end}, ${use}`;
}

export function suspendedRows({ suspended }: Pick<KeyReport, 'suspended'>, { moment }: Print) {
  if (suspended === undefined) return [];
  const { since, until, reason } = suspended;
  const end = until === null ? 'until it is resumed' : `ends ${moment(until)}`;
  return [['suspended', `${moment(since)}, ${end}${reason === null ? '' : `: ${escapedText(reason)}`}`]] as const;
}

/** Empty for a key without one. */
function customerRow({ customer }: ShownKey) {
  if (customer === undefined) return [];
  const { id, name } = customer;
  return [['customer', name === null ? id : `${escapedText(name)} (${id})`]] as const;
}

/** What the key is held to, a line for each budget: the limits of its own, of its plan and of its customer. */
function limitRows({ limits, heldTo, watched, forms = {} }: ShownKey, { terminal: { columns } }: Print) {
  const room = columns == null ? {} : { columns: columns - LEFT };
  const fitted = (text: string) => wrapped(text, '', room).trimEnd();
  const budgets = Map.groupBy(Object.entries(watched ?? heldTo ?? limits), ([name]) => name.replace(OF_BUDGET, ''));
  const lines = [...budgets.values()].map((some) => fitted(limitsCell(Object.fromEntries(some))));
  const kinds = Object.entries(forms).map(([name, form]) => `${name}: ${form}`);
  return [
    [watched === undefined ? 'limits' : 'watched only', lines.join('\n')],
    ...(kinds.length === 0 ? [] : [['windows', fitted(kinds.join('; '))] as const]),
  ] as const;
}

/** What a limit counts, behind the budget in its name. */
const OF_BUDGET = /(?:second|minute|hour|day|week|month|in-flight)$/;

/** Columns of the longest word on the left with its gap. */
const LEFT = 14;
