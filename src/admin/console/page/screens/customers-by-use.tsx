import { CallerName } from '../kit/callers.tsx';
import { Meter } from '../kit/charts.tsx';
import { saveCsv } from '../kit/csv.ts';
import { type Column, Table } from '../kit/data-table.tsx';
import { Choice } from '../kit/filters.tsx';
import { countText, plural, shareText, Time } from '../kit/format.tsx';
import { Segments } from '../kit/segments.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { pathWith } from '../kit/text-filter.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import { navigate, usePlace } from '../place.ts';
import { ifKnown, type Reading } from '../reading.ts';
import { request, useResource } from '../requests.ts';
import type { CustomerByUse, CustomerStanding, CustomerUseList } from '../types.ts';
import { useCustomerStandings } from './caller-state.ts';
import { CustomerState } from './customer-facts.tsx';

const REFRESH_MS = 15_000;
const SHOWN = 100;
const MOST = 10_000;

/** Whether the customers are searched, or listed by how much they have used. */
export function HowListed() {
  const isByUse = usePlace().query.get('by') === 'use';
  return (
    <Segments
      label="Which customers"
      options={[
        ['all', 'All'],
        ['use', 'By use'],
      ]}
      value={isByUse ? 'use' : 'all'}
      choose={(by) => navigate(by === 'use' ? '/customers?by=use' : '/customers', 'replace')}
    />
  );
}

/** The customers by how much of a limit their keys have used together. */
export function CustomersByUse() {
  const { query } = usePlace();
  const asked = [...query].filter(([name]) => name === 'window' || name === 'above');
  const set = (name: string) => (value: string) =>
    navigate(pathWith('/customers', [['by', 'use'], ...asked], name, value), 'replace');
  const path = (top: number) => `/admin/usage/customers?${new URLSearchParams([...asked, ['top', String(top)]])}`;
  const found = useResource<CustomerUseList>(path(SHOWN), REFRESH_MS);
  const standing = useCustomerStandings((ifKnown(found.reading)?.customers ?? []).map(({ id }) => id));
  return (
    <>
      <search class="filters" aria-label="Customers by use">
        <Choice
          id="use-window"
          name="window"
          label="Window"
          any="the longest"
          options={WINDOWS}
          onChange={set('window')}
        />
        <Choice id="use-above" name="above" label="Used" any="any share" options={SHARES} onChange={set('above')} />
      </search>
      <Shown of={found} what="the customers">
        {({ customers, matching, isWhole, unreadable }) => (
          <>
            {customers.length === 0 ? (
              <Empty title="No customer has used so much." />
            ) : (
              <Table
                caption="Customers, the largest share first"
                rows={customers}
                keyOf={({ id }: CustomerByUse) => id}
                columns={columnsWith(standing)}
              />
            )}
            <p class="muted">
              {plural(customers.length, 'customer')} of {countText(matching)}
              {isWhole ? '' : '. There are more customers than were looked at'}.
            </p>
            <UnreadableRows rows={unreadable} noun="customer" />
            <p class="row">
              <button type="button" onClick={() => void download(path(MOST))}>
                Download all as CSV
              </button>
            </p>
          </>
        )}
      </Shown>
    </>
  );
}

const WINDOWS = ['minute', 'hour', 'day', 'week', 'month'].map((window) => [window, window] as const);
const SHARES = ['50', '80', '90', '100'].map((share) => [share, `from ${share} %`] as const);

function columnsWith(standing: (id: string) => Reading<CustomerStanding>): readonly Column<CustomerByUse>[] {
  return [
    {
      title: 'Customer',
      isName: true,
      sort: ({ id, name }) => name ?? id,
      cell: ({ id, name }) => <CallerName id={id} name={name} owner={null} />,
    },
    { title: 'Plan', sort: ({ plan }) => plan, cell: ({ plan }) => plan },
    {
      title: 'Used',
      sort: ({ use }) => use?.used ?? -1,
      cell: ({ use }) =>
        use === null ? (
          <span class="muted">no such window</span>
        ) : (
          <>
            {countText(use.used)} of {countText(use.limit)} a {use.window}
            {use.limit !== 'unlimited' && <Meter label={`Used of the ${use.window}`} {...use} limit={use.limit} />}
          </>
        ),
    },
    {
      title: 'Share',
      isNumber: true,
      sort: ({ use }) => use?.share ?? -1,
      cell: ({ use }) => (use?.share == null ? '–' : shareText(use.share)),
    },
    {
      title: 'Last 7 days',
      isNumber: true,
      sort: ({ trend }) => trend?.last7Days ?? -1,
      cell: ({ trend }) => (trend === null ? '–' : <Trend {...trend} />),
    },
    {
      title: 'Runs out',
      sort: ({ use }) => use?.runsOutAt ?? '9',
      cell: ({ use }) => (use?.runsOutAt == null ? '–' : <Time at={use.runsOutAt} dayOnly={true} />),
    },
    { title: 'Keys', isNumber: true, sort: ({ keys }) => keys, cell: ({ keys }) => countText(keys) },
    { title: 'State', cell: (one) => <CustomerState of={one} standing={standing(one.id)} /> },
  ];
}

function Trend({ last7Days, before }: NonNullable<CustomerByUse['trend']>) {
  const change = before === 0 ? null : Math.round((last7Days / before - 1) * 100);
  return (
    <>
      {countText(last7Days)}
      <br />
      <span class="muted">
        {change === null ? 'none before' : `${change < 0 ? '−' : '+'}${countText(Math.abs(change))} %`}
      </span>
    </>
  );
}

async function download(path: string): Promise<void> {
  const { data } = await request<CustomerUseList>('GET', path);
  const head = ['customer', 'name', 'owner', 'plan', 'window', 'used', 'limit', 'resets', 'runs out', 'last 7 days'];
  const rows = data.customers.map(({ id, name, owner, plan, use, trend, keys }) => [
    ...[id, name, owner, plan, use?.window ?? null, use?.used ?? null, use?.limit ?? null],
    ...[use === null ? null : new Date(use.resetAt * 1_000).toISOString(), use?.runsOutAt ?? null],
    ...[trend?.last7Days ?? null, trend?.before ?? null, keys],
  ]);
  saveCsv(`customers-by-use-${new Date().toISOString().slice(0, 10)}.csv`, [[...head, 'before', 'keys'], ...rows]);
}
