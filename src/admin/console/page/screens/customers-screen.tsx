import { useEffect, useState } from 'preact/hooks';
import { SEARCHED } from '../attributes.js';
import { CallerName } from '../kit/callers.tsx';
import { useCreating } from '../kit/creating.ts';
import { Table } from '../kit/data-table.tsx';
import { Choice, PlanChoice } from '../kit/filters.tsx';
import { later } from '../kit/later.tsx';
import { Page } from '../kit/page.tsx';
import { SearchResults } from '../kit/search.tsx';
import { isSecretLike, pathWith, SPANS, TextFilter } from '../kit/text-filter.tsx';
import { hrefOf, navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { Customer, CustomerPage, InForce } from '../types.ts';
import { ATTRIBUTE_COLUMNS, FILTERED } from './attribute-fields.tsx';
import { useCustomerStandings } from './caller-state.ts';
import { CustomerState } from './customer-facts.tsx';
import { CustomersByUse, HowListed } from './customers-by-use.tsx';

const CreateDialog = later(async () => (await import('./key-form.tsx')).CreateCustomerDialog);

/** The filters in the address, which are those of `GET /admin/customers`. */
const FILTERS = ['q', 'plan', ...FILTERED.map(({ name }) => name), 'expiring'] as const;
type Filter = (typeof FILTERS)[number];

/** `/customers`, the search. */
export function Customers() {
  const { query } = usePlace();
  const mayCreate = useMay('admin');
  const plans = ifKnown(useResource<InForce>('/admin/plans').reading)?.plans ?? null;
  const [isCreating, setCreating] = useCreating('/customers', mayCreate);
  const [isSecretGiven, setSecretGiven] = useState(false);
  const given = FILTERS.flatMap((name) => {
    const value = query.get(name);
    return value && !isSecretLike(value) ? [[name, value] as const] : [];
  });
  const textOf = (name: Filter) => given.find(([one]) => one === name)?.[1] ?? '';
  const set = (name: Filter, value: string) => {
    setSecretGiven(false);
    navigate(pathWith('/customers', given, name, value), 'replace');
  };
  const isSecretAsked = FILTERS.some((name) => isSecretLike(query.get(name) ?? ''));
  useEffect(() => {
    // A user has put a secret into the address by hand.
    if (!isSecretAsked) return;
    navigate('/customers', 'replace');
    setSecretGiven(true);
  }, [isSecretAsked]);
  const text = { set, onSecret: () => setSecretGiven(true) };
  const close = (id: string | null) => {
    setCreating(false);
    if (id !== null) navigate(`/customers/${id}`);
  };
  const create = mayCreate && (
    <button type="button" class="primary" onClick={() => setCreating(true)}>
      Create customer…
    </button>
  );
  if (query.get('by') === 'use')
    return (
      <Page title="Customers" beside={<HowListed />}>
        <CustomersByUse />
      </Page>
    );
  return (
    <Page
      title="Customers"
      beside={
        <>
          <HowListed />
          {create}
        </>
      }
    >
      <search aria-label="Customers">
        <form class="filters" onSubmit={(event: Event) => event.preventDefault()}>
          <TextFilter
            name="q"
            label="Search"
            value={textOf('q')}
            {...text}
            isWide={true}
            placeholder={`${SEARCHED}, id, or meta.team=blue`}
          />
          <PlanChoice id="filter-plan" onChange={(value: string) => set('plan', value)} />
          {FILTERED.map(({ name, label }) => (
            <TextFilter key={name} name={name} label={label} value={textOf(name)} {...text} />
          ))}
          <Choice
            id="filter-expiring"
            name="expiring"
            label="Expires within"
            any="any time"
            options={SPANS}
            onChange={(value: string) => set('expiring', value)}
          />
        </form>
      </search>
      {isSecretGiven && (
        <p class="problem-line" role="alert">
          This looks like the secret of a key. It was not sent.{' '}
          <a href={hrefOf('/keys')}>Search for it on the screen Keys</a>.
        </p>
      )}
      <SearchResults
        path="/admin/customers"
        noun="customer"
        query={new URLSearchParams(given.map(([name, value]) => [name, value])).toString()}
        rowsOf={({ customers }: CustomerPage) => customers}
        tableOf={(customers: readonly Customer[]) => <CustomerTable customers={customers} />}
        none={
          <p>
            A customer has keys that share one plan and its limits. Create one here, or with{' '}
            <code>tollgate customers create</code>.
          </p>
        }
        clear={() => navigate('/customers', 'replace')}
      />
      {isCreating && <CreateDialog plans={plans} onClose={close} />}
    </Page>
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
