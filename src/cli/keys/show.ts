import { accountIdOf } from '../../admit/account-id.ts';
import type { Allowance } from '../../admit/plan.ts';
import { formOf } from '../../admit/windows.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { momentText } from '../../io/time-text.ts';
import { filterValues, LISTED, searchedWords } from '../../model/attributes.ts';
import { formText, limitsCell, type Plans } from '../../model/plan.ts';
import { byReadability, isReadable, type StoredKey } from '../../model/record.ts';
import { ownerOf } from '../../operations/account-owners.ts';
import {
  allowanceOfOwner,
  budgetsOf,
  type CustomersOfKeys,
  type KeyReportWithUses,
  keyReport,
  suspendedNow,
  timeOf,
} from '../../operations/key-report.ts';
import { everyMatch, type FoundKey, type GivenFilter, keyFilterFrom } from '../../operations/key-search.ts';
import { reportWithUses } from '../../operations/key-uses.ts';
import { customersOf, KEYS, recordOf } from '../../operations/operator-store.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { meantId } from '../meant-id.ts';
import { contextOn } from '../operations.ts';
import { operationsHere } from '../operations-at.ts';
import { type Command, type Terminal, type Words, wrapped } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { tonedStatus } from '../terminal/style.ts';
import { type Column, printTable } from '../terminal/table.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { attributeRows, filterOptions, firstColumns, furtherColumns, givenFilters } from './attribute-options.ts';
import {
  CUSTOMER,
  customerCell,
  heldText,
  json,
  secretLabelOf,
  stateOf,
  unreadableCells,
  unreadableEntry,
} from './text-form.ts';

// The commands that print keys and change nothing: `keys list` and `keys show`.

const NO_SECRET_IN_ARGUMENTS =
  'Do not give secrets as arguments, which other users of this machine see: `tollgate keys find` reads one from standard input.';

/** `tollgate keys list` (contract section 5). */
export const keysList: Command = {
  name: 'keys list',
  about:
    'Lists the API keys, oldest first, without those that are revoked; with conditions, those that match all of them. Their limits are those ' +
    'on the requests of each key; `keys show` has all, also those of its customer, of groups of routes, in units and in flight.',
  positionals: ['[TEXT]'],
  environment: OF_STORE,
  printsTable: true,
  options: {
    search: {
      type: 'string',
      value: 'TEXT',
      about:
        `Keys with this text in ${searchedWords()}, in any case, or a secret that ends with it; or with a pair of metadata, such as meta.team=blue. ` +
        'As TEXT without --search.',
    },
    plan: { type: 'string', value: 'PLAN', about: 'Keys of this plan.' },
    ...filterOptions('Keys'),
    customer: { type: 'string', value: 'CUSTOMER_ID', about: 'Keys of this customer, by id or name.' },
    expiring: { type: 'string', value: 'DURATION', about: 'Keys that end within this time, such as 30d.' },
    unused: {
      type: 'string',
      value: 'DAYS',
      about:
        'Keys that are older than this and have not been used since, 1d to 92d; with --json each has its lastUsedOn.',
    },
    all: { type: 'boolean', about: 'Lists the revoked ones too; with --json each key has its revokedAt.' },
    json: {
      type: 'boolean',
      about: `Prints a JSON array of id, plan, ${LISTED.join(', ')}, limits, heldTo, createdAt, expiresAt; {"id","unreadable"} for a key whose record cannot be read.`,
    },
  },
  examples: [
    'tollgate keys list acme',
    'tollgate keys list --plan free --expiring 30d',
    'tollgate keys list --owner "Acme Ltd" --unused 90d --json',
  ],
  async run(words, terminal) {
    const { options } = words;
    const given = givenFilter(words);
    return withStore<ExitCode>(terminal.env, async (store) => {
      const { plans, settings } = store;
      const withRevoked = options.all === true;
      const note = terminal.error;
      const customer =
        given.customer === null
          ? null
          : await meantId(operationsHere(store, note), given.customer, { of: 'CUSTOMER_ID', isRead: true, note });
      const filter = keyFilterFrom({ ...given, customer }, withRevoked, {
        nameOf: (parameter) => (parameter === 'text' ? 'TEXT' : `--${parameter}`),
        secretAdvice: NO_SECRET_IN_ARGUMENTS,
        formats: settings.keyFormats,
        keepsHistory: settings.usageHistory,
      });
      if ('fault' in filter) throw new Failure('bad_usage', filter.fault);
      const progress = new Progress(terminal, () => performance.now());
      const onPage = (searched: number) => progress.show('keys', searched, null, String);
      const all = await Array.fromAsync(everyMatch(filter, contextOn(store), onPage)).finally(() => progress.end());
      const { readable: found, unreadable } = byReadability(all);
      const customers = await customersOf(
        found.map(({ key }) => key),
        store,
      );
      if (options.json === true) {
        const nowMs = Date.now();
        const reports = found.map(({ key, ...lastUse }) => ({
          ...keyReport(key, plans, { customers, nowMs }),
          ...(withRevoked ? { revokedAt: timeOf(key.revokedAtMs) } : {}),
          ...suspendedNow(key, nowMs),
          ...lastUse,
        }));
        terminal.out(json([...reports, ...unreadable.map(unreadableEntry)]));
      } else {
        const isFiltered = Object.values(given).some((value) => value !== null);
        const none = isFiltered
          ? 'No key matches.'
          : 'There are no keys. `tollgate keys create --plan PLAN` makes one.';
        const { columns, cells } = tableOf(found, { plans, customers, terminal }, filter.unusedDays !== null);
        const rows = [...cells, ...unreadable.map(({ id }) => unreadableCells(id, columns))];
        printTable(terminal, columns, rows, `${none}\n`);
      }
      return 0;
    });
  },
};

/** @throws Failure `bad_usage` */
function givenFilter({ options, positionals: [word] }: Words): GivenFilter {
  const of = (name: string) => (options[name] as string | undefined) ?? null;
  const search = of('search');
  if (word !== undefined && search !== null) {
    throw new Failure('bad_usage', 'TEXT is given twice, with --search and without; give it once.');
  }
  return {
    text: word ?? search,
    plan: of('plan'),
    ...filterValues(givenFilters({ options })),
    customer: of('customer'),
    expiring: of('expiring'),
    unused: of('unused'),
  };
}

const FIRST = firstColumns('key');
const COLUMNS: readonly Column[] = [
  { head: 'id', rank: 0, isWhole: true },
  { head: 'secret', rank: 6 },
  { head: 'plan', rank: 3 },
  ...FIRST.columns,
  { head: 'limits', rank: 8 },
  { head: 'created', rank: 7 },
  { head: 'expires', rank: 4 },
  { head: 'state', rank: 1, isStatus: true },
];
const LAST_USED: Column = { head: 'last used', rank: 1.5 };

/** Without a customer among the keys the table is that of earlier versions. */
function tableOf(
  found: readonly FoundKey[],
  { plans, customers, terminal }: { plans: Plans; customers: CustomersOfKeys; terminal: Terminal },
  withLastUse: boolean,
) {
  const nowMs = Date.now();
  const moment = (atMs: number) => momentText(atMs, nowMs, terminal);
  const keys = found.map(({ key }) => key);
  const hasCustomers = keys.some(({ customer }) => customer !== undefined);
  const further = furtherColumns('key', keys);
  const rowOf = ({ key, lastUsedOn }: FoundKey) => {
    const { id, plan, customer, ...report } = keyReport(key, plans, { customers, nowMs });
    const expires = key.expiresAtMs === null ? 'never' : moment(key.expiresAtMs);
    const ends = key.secrets[0] === undefined ? '' : secretLabelOf(key.secrets[0]);
    const state = stateOf(key, customer, nowMs);
    const kept = [...FIRST.cellsOf(report), heldText(report), moment(key.createdAtMs), expires, state];
    const row = [id, ends, plan ?? 'unknown', ...kept, ...(hasCustomers ? [customerCell(customer)] : [])];
    return [...row, ...(withLastUse ? [lastUsedOn ?? '-'] : []), ...further.cellsOf(key)];
  };
  const last = [...(hasCustomers ? [CUSTOMER] : []), ...(withLastUse ? [LAST_USED] : [])];
  return { columns: [...COLUMNS, ...last, ...further.columns], cells: found.map(rowOf) };
}

/** `tollgate keys show`: prints everything that the store holds about one key, except digests. */
export const keysShow: Command = {
  name: 'keys show',
  about:
    'Shows one API key: its plan, all limits that it is held to by the names that `tollgate usage` has, its times, and by their last four ' +
    'characters the secrets that work.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate keys show KEY_ID'],
  options: {
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: that of `keys list`, with revokedAt, and secrets with the day of their last use.',
    },
  },
  async run({ options, positionals }, terminal) {
    const [word] = positionals as [string];
    return withStore<ExitCode>(terminal.env, async (store) => {
      const id = await meantId(operationsHere(store, terminal.error), word, {
        of: 'KEY_ID',
        isRead: true,
        note: terminal.error,
      });
      const key = await recordOf(KEYS, store, id);
      const report = await reportWithUses(key, contextOn(store));
      if (options.json === true) terminal.out(json(shownKey(report)));
      else terminal.out(await keyText(key, report, store, terminal));
      return 0;
    });
  },
};

type ShownKey = Omit<KeyReportWithUses, 'ownLimits'>;

/** What the JSON of `keys show` and `keys find` says of a key. */
export function shownKey({ ownLimits: _, ...report }: KeyReportWithUses): ShownKey {
  return report;
}

/** A key in lines, one for each thing that is known of it. */
export async function keyText(key: StoredKey, report: ShownKey, store: OpenStore, terminal: Terminal): Promise<string> {
  const nowMs = Date.now();
  const moment = (time: string) => momentText(Date.parse(time), nowMs, terminal);
  const rows: [string, string][] = [
    ['id', key.id],
    ['state', tonedStatus(stateOf(key, report.customer, nowMs), terminal.style)],
    ...customerRow(report.customer),
    ['plan', report.plan ?? `unknown. ${report.unreadable}`],
    ...(await limitRows(key, report, store, terminal)),
    ...attributeRows(key),
    ...(report.entry === undefined ? [] : ([['entry', `${report.entry}, of \`keys apply\``]] as [string, string][])),
    ['created', moment(report.createdAt)],
    ['expires', report.expiresAt === null ? 'never' : moment(report.expiresAt)],
    ...(report.revokedAt === null ? [] : ([['revoked', moment(report.revokedAt)]] as [string, string][])),
    ...suspendedRows(report, moment),
    ...report.secrets.map((secret): [string, string] => ['secret', secretText(secret, moment)]),
  ];
  return linesOf(rows);
}

/** What is known of a record, a line for each thing. */
export function linesOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  const indent = ' '.repeat(width + 2);
  return rows.map(([left, right]) => `${left.padEnd(width)}  ${right.replaceAll('\n', `\n${indent}`)}\n`).join('');
}

function secretText(
  { last4, createdAt, expiresAt, lastUsedOn }: KeyReportWithUses['secrets'][number],
  moment: (time: string) => string,
): string {
  const end = expiresAt === null ? '' : `, ends ${moment(expiresAt)}`;
  const use = lastUsedOn === null ? 'no use on record' : `last used ${lastUsedOn}`;
  return `${secretLabelOf({ last4 })}, made ${moment(createdAt)}${end}, ${use}`;
}

export function suspendedRows(
  { suspended }: Pick<KeyReportWithUses, 'suspended'>,
  moment: (time: string) => string,
): [string, string][] {
  if (suspended === undefined) return [];
  const { since, until, reason } = suspended;
  const end = until === null ? 'until it is resumed' : `ends ${moment(until)}`;
  return [['suspended', `${moment(since)}, ${end}${reason === null ? '' : `: ${escapedText(reason)}`}`]];
}

/** Empty for a key without one. */
function customerRow(customer: ShownKey['customer']): [string, string][] {
  if (customer === undefined) return [];
  const { id, name } = customer;
  return [['customer', name === null ? id : `${escapedText(name)} (${id})`]];
}

/** What the key is held to: the limits of its own, of its plan and of its customer. */
async function limitRows(
  key: StoredKey,
  { plan, limits }: ShownKey,
  store: OpenStore,
  { columns }: Terminal,
): Promise<[string, string][]> {
  const owner = await ownerOf(accountIdOf(key.id, key.customer ?? null), store);
  const isKnown = owner !== null && isReadable(owner) && plan !== null;
  const allowance = isKnown ? allowanceOfOwner(owner, plan, store.plans) : null;
  // Without its customer, its plan or a limit that the plan asks for, no request is admitted.
  if (allowance === null) return [['limits', limitsCell(limits)]];
  const { shadow, isShadowOnly } = allowance;
  const held = isShadowOnly ? shadow! : allowance;
  const kinds = kindsText(held);
  const rows: [string, string][] = [
    [isShadowOnly ? 'watched only' : 'limits', budgetsText(held)],
    ...(kinds === '' ? [] : [['windows', kinds] as [string, string]]),
  ];
  const room = columns == null ? {} : { columns: columns - LEFT };
  return rows.map(([left, right]) => [
    left,
    right
      .split('\n')
      .map((line) => wrapped(line, '', room))
      .join('')
      .trimEnd(),
  ]);
}

/** Columns of the longest word on the left with its gap. */
const LEFT = 14;

/** All limits of an allowance, a line for each budget. */
function budgetsText(allowance: Allowance): string {
  return budgetsOf(allowance)
    .map(limitsCell)
    .filter((line) => line !== '')
    .join('\n');
}

/** The kinds of its windows that are not fixed. */
function kindsText(allowance: Allowance): string {
  return allowance.limits
    .map((of) => [of.name ?? of.window, formText(of.window, formOf(of))] as const)
    .filter(([, kind]) => kind !== 'fixed')
    .map(([name, kind]) => `${name}: ${kind}`)
    .join('; ');
}
