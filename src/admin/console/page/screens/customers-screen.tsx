import { useState } from 'preact/hooks';
import { SEARCHED } from '../attributes.js';
import { CallerName } from '../kit/callers.tsx';
import { Table } from '../kit/data-table.tsx';
import { later } from '../kit/later.tsx';
import { Page } from '../kit/page.tsx';
import { hrefOf, usePlace } from '../place.ts';
import type { Customer, CustomerPage } from '../types.ts';
import { ATTRIBUTE_COLUMNS, FILTERED } from './attribute-fields.tsx';
import { useCustomerStandings } from './caller-state.ts';
import { CustomerState } from './customer-facts.tsx';
import { CustomersByUse, HowListed } from './customers-by-use.tsx';
import { type ListFilter, ListScreen } from './list-screen.tsx';

const CreateDialog = later(async () => (await import('./key-form.tsx')).CreateCustomerDialog);

/** Those of `GET /admin/customers`. */
const FILTERS: readonly ListFilter[] = [
  { name: 'plan', label: 'Plan', as: 'plan' },
  ...FILTERED,
  { name: 'expiring', label: 'Expires within', as: 'span' },
];

/** `/customers`, the search. */
export function Customers() {
  const [isSecretGiven, setSecretGiven] = useState(false);
  const filter = () => {
    setSecretGiven(false);
    return false;
  };
  if (usePlace().query.get('by') === 'use')
    return (
      <Page title="Customers" beside={<HowListed />}>
        <CustomersByUse />
      </Page>
    );
  return (
    <ListScreen
      noun="customer"
      head={<HowListed />}
      searched={`${SEARCHED}, id, or meta.team=blue`}
      filters={FILTERS}
      onFilter={filter}
      onSecret={() => setSecretGiven(true)}
      rowsOf={({ customers }: CustomerPage) => customers}
      tableOf={(customers: readonly Customer[]) => <CustomerTable customers={customers} />}
      none={
        <p>
          A customer has keys that share one plan and its limits. Create one here, or with{' '}
          <code>tollgate customers create</code>.
        </p>
      }
      Create={CreateDialog}
    >
      {isSecretGiven && (
        <p class="problem-line" role="alert">
          This looks like the secret of a key. It was not sent.{' '}
          <a href={hrefOf('/keys')}>Search for it on the screen Keys</a>.
        </p>
      )}
    </ListScreen>
  );
}

function CustomerTable({ customers }: { customers: readonly Customer[] }) {
  const standing = useCustomerStandings(customers.map(({ id }) => id));
  return (
    <Table
      caption="Customers"
      rows={customers}
      keyOf={({ id }: Customer) => id}
      columns={[
        {
          title: 'Customer',
          isName: true,
          share: 40,
          sort: ({ id, name }: Customer) => name ?? id,
          cell: ({ id, name }: Customer) => <CallerName id={id} name={name} owner={null} />,
        },
        { title: 'Plan', share: 12, of: ({ plan }: Customer) => plan },
        ...ATTRIBUTE_COLUMNS,
        { title: 'Created', share: 12, as: 'day', of: ({ createdAt }: Customer) => createdAt },
        { title: 'Expires', share: 12, as: 'day', of: ({ expiresAt }: Customer) => expiresAt, none: 'never' },
        { title: 'State', share: 12, cell: (one: Customer) => <CustomerState of={one} standing={standing(one.id)} /> },
      ]}
    />
  );
}
