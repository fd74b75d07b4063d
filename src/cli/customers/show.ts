import type { ExitCode } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { momentText } from '../../io/time-text.ts';
import { filterValues, LISTED } from '../../model/attributes.ts';
import { limitsCell } from '../../model/plan.ts';
import { byReadability, type UnreadableRecord } from '../../model/record.ts';
import { type CustomerReport, customerReport } from '../../operations/customer-report.ts';
import { everyCustomer } from '../../operations/customers.ts';
import { shortReport, wholeKeyReport } from '../../operations/key-report.ts';
import { everyMatch, keysOfCustomer } from '../../operations/key-search.ts';
import { CUSTOMERS, recordOf } from '../../operations/operator-store.ts';
import { withStore } from '../../serve/open-store.ts';
import { attributeRows, filterOptions, firstColumns, furtherColumns, givenFilters } from '../keys/attribute-options.ts';
import { linesOf, suspendedRows } from '../keys/show.ts';
import { heldText, json, readDuration, unreadableCells, unreadableEntry } from '../keys/text-form.ts';
import { meantId } from '../meant-id.ts';
import { contextOn } from '../operations.ts';
import { operationsHere } from '../operations-at.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { tonedStatus } from '../terminal/style.ts';
import { type Column, printTable } from '../terminal/table.ts';
import { OF_STORE } from '../terminal/variables.ts';

// The commands that print customers and change nothing: `customers list` and `customers show`.

const FIRST = firstColumns('customer');
const COLUMNS: readonly Column[] = [
  { head: 'id', rank: 0, isWhole: true },
  ...FIRST.columns,
  { head: 'plan', rank: 2 },
  { head: 'limits', rank: 6 },
  { head: 'created', rank: 5 },
  { head: 'expires', rank: 3 },
  { head: 'state', rank: 2.5, isStatus: true },
];

/** `tollgate customers list`. */
export const customersList: Command = {
  name: 'customers list',
  about: 'Lists the customers, oldest first; with conditions, those that match all of them.',
  positionals: ['[TEXT]'],
  environment: OF_STORE,
  printsTable: true,
  options: {
    plan: { type: 'string', value: 'PLAN', about: 'Customers of this plan.' },
    ...filterOptions('Customers'),
    expiring: { type: 'string', value: 'DURATION', about: 'Customers that end within this time, such as 30d.' },
    json: {
      type: 'boolean',
      about:
        `Prints a JSON array of id, plan, ${LISTED.join(', ')}, limits, heldTo, createdAt, expiresAt, notes, ownLimits; and suspended, scopes, addresses, origins and ` +
        'meta for those that have them; {"id","unreadable"} for one whose record cannot be read.',
    },
  },
  examples: [
    'tollgate customers list acme',
    'tollgate customers list meta.team=blue',
    'tollgate customers list --plan pro --expiring 30d --json',
  ],
  async run({ options, positionals: [text] }, terminal) {
    const of = (name: string) => (options[name] as string | undefined) ?? null;
    const expiring = of('expiring');
    const expiringMs = expiring === null ? null : readDuration('--expiring', expiring);
    const filter = { text: text ?? null, plan: of('plan'), ...filterValues(givenFilters({ options })), expiringMs };
    return withStore<ExitCode>(terminal.env, async (store) => {
      const all = await Array.fromAsync(everyCustomer(filter, contextOn(store)));
      const { readable, unreadable } = byReadability(all);
      const found = readable.map((one) => customerReport(one, store.plans, Date.now()));
      const isFiltered = Object.values(filter).some((value) => value !== null);
      const none = isFiltered
        ? 'No customer matches.'
        : 'There are no customers. `tollgate customers create --plan PLAN` makes one.';
      if (options.json === true) terminal.out(json([...found, ...unreadable.map(unreadableEntry)]));
      else {
        const further = furtherColumns('customer', found);
        const columns = [...COLUMNS, ...further.columns];
        const rows = [
          ...found.map((one) => [...rowOf(one, terminal), ...further.cellsOf(one)]),
          ...unreadable.map(({ id }) => unreadableCells(id, columns)),
        ];
        printTable(terminal, columns, rows, `${none}\n`);
      }
      return 0;
    });
  },
};

function rowOf(report: CustomerReport, terminal: Terminal): string[] {
  const { id, plan, createdAt, expiresAt } = report;
  const moment = momentsOf(terminal);
  const ends = expiresAt === null ? 'never' : moment(expiresAt);
  return [id, ...FIRST.cellsOf(report), plan, heldText(report), moment(createdAt), ends, stateOf(report)];
}

/** Whether the keys of a customer can be used now, in one word. */
function stateOf({ expiresAt, suspended }: CustomerReport): 'active' | 'expired' | 'suspended' {
  if (expiresAt !== null && Date.now() >= Date.parse(expiresAt)) return 'expired';
  return suspended === undefined ? 'active' : 'suspended';
}

/** `tollgate customers show`. */
export const customersShow: Command = {
  name: 'customers show',
  about: 'Shows one customer: its plan, the limits that its keys share, and its keys that are not revoked.',
  positionals: ['CUSTOMER_ID'],
  environment: OF_STORE,
  examples: ['tollgate customers show CUSTOMER_ID', 'tollgate customers show CUSTOMER_ID --json'],
  options: {
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: that of `customers list`, with `keys` as `keys list` prints them.',
    },
  },
  async run({ options, positionals: [word] }, terminal) {
    return withStore<ExitCode>(terminal.env, async (store) => {
      const context = contextOn(store);
      const id = await meantId(operationsHere(store, terminal.error), word!, {
        of: 'CUSTOMER_ID',
        isRead: true,
        note: terminal.error,
      });
      const customer = await recordOf(CUSTOMERS, store, id);
      const all = await Array.fromAsync(everyMatch(keysOfCustomer(id), context));
      const { readable: found, unreadable } = byReadability(all);
      const report = customerReport(customer, store.plans, Date.now());
      const owners = new Map([[customer.id, customer]]);
      const keys = found.map(({ key }) => shortReport(wholeKeyReport(key, store.plans, Date.now(), owners)));
      if (options.json === true) terminal.out(json({ ...report, keys: [...keys, ...unreadable.map(unreadableEntry)] }));
      else terminal.out(customerText(report, { keys, unreadable }, terminal));
      return 0;
    });
  },
};

/** A customer in lines, one for each thing that is known of it. */
function customerText(
  report: CustomerReport,
  {
    keys,
    unreadable,
  }: { readonly keys: readonly ReturnType<typeof shortReport>[]; readonly unreadable: readonly UnreadableRecord[] },
  terminal: Terminal,
): string {
  const moment = momentsOf(terminal);
  const rows: [string, string][] = [
    ['id', report.id],
    ['state', tonedStatus(stateOf(report), terminal.style)],
    ['plan', report.plan],
    ['limits', heldText(report)],
    ...attributeRows(report),
    ...(report.entry === undefined ? [] : [['entry', `${report.entry}, of \`keys apply\``] as [string, string]]),
    ['created', moment(report.createdAt)],
    ['expires', report.expiresAt === null ? 'never' : moment(report.expiresAt)],
    ...suspendedRows(report, moment),
    ...keys.map(({ id, name, limits }): [string, string] => {
      const own = limitsCell(limits);
      return ['key', `${id}${name === null ? '' : ` ${escapedText(name)}`}${own === '' ? '' : ` (${own})`}`];
    }),
    ...unreadable.map(({ id }): [string, string] => ['key', `${id} (unreadable)`]),
  ];
  return linesOf(rows);
}

function momentsOf(terminal: Terminal): (time: string) => string {
  const nowMs = Date.now();
  return (time) => momentText(Date.parse(time), nowMs, terminal);
}
