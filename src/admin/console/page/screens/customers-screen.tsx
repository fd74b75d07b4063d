import { SEARCHED } from '../attributes.js';
import { callerColumn } from '../kit/callers.tsx';
import { type Selection, Table } from '../kit/data-table.tsx';
import { type Filter, SPANS } from '../kit/filters.tsx';
import { later } from '../kit/later.tsx';
import { usePlace } from '../place.ts';
import type { Customer, CustomerPage } from '../types.ts';
import { ATTRIBUTE_COLUMNS, FILTERED, recordRows } from './attribute-fields.tsx';
import { CustomerState } from './caller-facts.tsx';
import { useCustomerStandings } from './caller-state.ts';
import { CustomersByUse, HowListed } from './customers-by-use.tsx';
import { ListScreen } from './list-screen.tsx';

const CreateDialog = later(async () => (await import('./opened-dialog.tsx')).CreateCustomerDialog);

/** Those of `GET /admin/customers`. */
const FILTERS: readonly Filter[] = [
  { name: 'plan', label: 'Plan', as: 'plan' },
  ...FILTERED,
  { name: 'expiring', label: 'Expires within', as: 'choice', any: 'any time', options: SPANS },
];

/** `/customers`, the search. */
export function Customers() {
  if (usePlace().query.get('by') === 'use') return <CustomersByUse />;
  return (
    <ListScreen
      noun="customer"
      head={<HowListed />}
      searched={`${SEARCHED}, id, or meta.team=blue`}
      filters={FILTERS}
      rowsOf={({ customers }: CustomerPage) => customers}
      tableOf={(customers: readonly Customer[], selection) => (
        <CustomerTable customers={customers} selection={selection} />
      )}
      csv={(customers: readonly Customer[]) => recordRows(customers)}
      bulk={['suspend', 'resume', 'lift']}
      none={
        <p>
          A customer has keys that share one plan and its limits. Create one here, or with{' '}
          <code>tollgate customers create</code>.
        </p>
      }
      Create={CreateDialog}
    />
  );
}

interface CustomerTableProps {
  readonly customers: readonly Customer[];
  readonly selection: Selection<Customer> | undefined;
}

function CustomerTable({ customers, selection }: CustomerTableProps) {
  const standing = useCustomerStandings(customers.map(({ id }) => id));
  return (
    <Table
      caption="Customers"
      rows={customers}
      selection={selection}
      keyOf={({ id }: Customer) => id}
      columns={[
        callerColumn('Customer', false, 32),
        { title: 'Plan', share: 10, of: ({ plan }: Customer) => plan },
        ...ATTRIBUTE_COLUMNS,
        { title: 'Created', share: 13, as: 'day', of: ({ createdAt }: Customer) => createdAt },
        { title: 'Expires', share: 13, as: 'day', of: ({ expiresAt }: Customer) => expiresAt, none: 'never' },
        { title: 'State', share: 14, cell: (one: Customer) => <CustomerState of={one} standing={standing(one.id)} /> },
      ]}
    />
  );
}
