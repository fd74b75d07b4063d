import { escapedText } from '../../io/terminal-text.ts';
import { limitsCell } from '../../model/plan.ts';
import { listCustomers, showCustomer } from '../../operations/catalogue/customer-operations.ts';
import { attributeRows, spelledFilters } from '../keys/attribute-options.ts';
import { endText, suspendedRows, timeRows } from '../keys/keys-show.ts';
import { firstColumns, furtherColumns, heldText, stateOf } from '../keys/text-form.ts';
import { linesOf, listCommand, showCommand } from '../reading-command.ts';
import { tonedStatus } from '../terminal/style.ts';

// The commands that print customers and change nothing: `customers list` and `customers show`.

/** `tollgate customers list`. */
export const customersList = listCommand({
  name: 'customers list',
  operation: listCustomers,
  about: 'Lists the customers, oldest first; with conditions, those that match all of them.',
  spelled: {
    plan: { about: 'Customers of this plan.' },
    ...spelledFilters('Customers'),
    expiring: { value: 'DURATION', about: 'Customers that end within this time, such as 30d.' },
  },
  examples: [
    'tollgate customers list acme',
    'tollgate customers list meta.team=blue',
    'tollgate customers list --plan pro --expiring 30d --json',
  ],
  entries: 'customers',
  none: (isFiltered) =>
    isFiltered ? 'No customer matches.' : 'There are no customers. `tollgate customers create --plan PLAN` makes one.',
  columns: [
    { head: 'id', rank: 0, isWhole: true, cell: ({ id }) => id },
    ...firstColumns('customer'),
    { head: 'plan', rank: 2, cell: ({ plan }) => plan },
    { head: 'limits', rank: 6, cell: heldText },
    { head: 'created', rank: 5, cell: ({ createdAt }, { moment }) => moment(createdAt) },
    { head: 'expires', rank: 3, cell: endText },
    { head: 'state', rank: 2.5, isStatus: true, cell: (customer, { nowMs }) => stateOf(customer, nowMs) },
    ...furtherColumns('customer'),
  ],
});

/** `tollgate customers show`. */
export const customersShow = showCommand({
  name: 'customers show',
  operation: showCustomer,
  about: 'Shows one customer: its plan, the limits that its keys share, and its first 100 keys that are not revoked.',
  positional: 'CUSTOMER_ID',
  examples: ['tollgate customers show CUSTOMER_ID', 'tollgate customers show CUSTOMER_ID --json'],
  text: (customer, print) =>
    linesOf([
      ['id', customer.id],
      ['state', tonedStatus(stateOf(customer, print.nowMs), print.terminal.style)],
      ['plan', customer.plan],
      ['limits', heldText(customer)],
      ...attributeRows(customer),
      ...timeRows(customer, print),
      ...suspendedRows(customer, print),
      ...customer.keys.map(({ id, name, limits }) => {
        const own = limitsCell(limits);
        return ['key', `${id}${name === null ? '' : ` ${escapedText(name)}`}${own === '' ? '' : ` (${own})`}`] as const;
      }),
      ...customer.unreadable.map(({ id }) => ['key', `${id} (unreadable)`] as const),
      ...(customer.keysCursor === null
        ? []
        : [['key', `… \`tollgate keys list --customer ${customer.id}\` lists all.`] as const]),
    ]),
});
