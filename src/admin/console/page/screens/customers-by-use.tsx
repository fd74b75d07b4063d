import { Act } from '../kit/act.tsx';
import { callerColumn } from '../kit/callers.tsx';
import { Meter } from '../kit/charts.tsx';
import { saveCsv } from '../kit/csv.ts';
import { type Column, Table } from '../kit/data-table.tsx';
import { type Filter, FilterBar, filtersIn } from '../kit/filters.tsx';
import { changeText, countText, plural } from '../kit/format.tsx';
import { Page } from '../kit/page.tsx';
import { Segments } from '../kit/segments.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import { navigate, usePlace } from '../place.ts';
import { ifKnown, type Reading } from '../reading.ts';
import { request, useResource } from '../requests.ts';
import type { CustomerByUse, CustomerStanding, CustomerUseList } from '../types.ts';
import { CustomerState } from './caller-facts.tsx';
import { useCustomerStandings } from './caller-state.ts';

const REFRESH_MS = 15_000;
const SHOWN = 100;
const MOST = 10_000;

/** Whether the customers are searched, or listed by how much they have used. */
export function HowListed() {
  const isByUse = usePlace().query.get('by') === 'use';
  const options = [
    ['all', 'All'],
    ['use', 'By use'],
  ] as const;
  const choose = (by: string) => navigate(by === 'use' ? '/customers?by=use' : '/customers', 'replace');
  return <Segments label="Which customers" options={options} value={isByUse ? 'use' : 'all'} choose={choose} />;
}

const WINDOWS = ['minute', 'hour', 'day', 'week', 'month'].map((window) => [window, window] as const);
const SHARES = ['50', '80', '90', '100'].map((share) => [share, `from ${share} %`] as const);
const FILTERS: readonly Filter[] = [
  { name: 'window', label: 'Window', as: 'choice', any: 'the longest', options: WINDOWS },
  { name: 'above', label: 'Used', as: 'choice', any: 'any share', options: SHARES },
];

/** The customers by how much of a limit their keys have used together. */
export function CustomersByUse() {
  const asked = filtersIn(usePlace().query, FILTERS);
  const path = (top: number) => `/admin/usage/customers?${new URLSearchParams([...asked, ['top', String(top)]])}`;
  const found = useResource<CustomerUseList>(path(SHOWN), REFRESH_MS);
  const standing = useCustomerStandings((ifKnown(found.reading)?.customers ?? []).map(({ id }) => id));
  return (
    <Page title="Customers" beside={<HowListed />}>
      <FilterBar label="Customers by use" filters={FILTERS} />
      <Shown of={found} what="the customers">
        {({ customers, matching, isWhole, unreadable }) => (
          <div class="stack">
            <Table
              caption="Customers, the largest share first"
              rows={customers}
              keyOf={({ id }) => id}
              columns={columnsWith(standing)}
              empty={<Empty title="No customer has used so much." />}
            />
            <UnreadableRows rows={unreadable} noun="customer" />
            <p class="row muted">
              {plural(customers.length, 'customer')} of {countText(matching)}
              {isWhole ? '' : '. There are more customers than were looked at'}.
              <Act text="Download all as CSV" kind="quiet" on={() => void download(path(MOST))} />
            </p>
          </div>
        )}
      </Shown>
    </Page>
  );
}

function columnsWith(standing: (id: string) => Reading<CustomerStanding>): readonly Column<CustomerByUse>[] {
  return [
    callerColumn('Customer', false),
    { title: 'Plan', of: ({ plan }) => plan },
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
    { title: 'Share', as: 'share', of: ({ use }) => use?.share },
    {
      title: 'Last 7 days',
      isNumber: true,
      sort: ({ trend }) => trend?.last7Days ?? -1,
      cell: ({ trend }) =>
        trend === null ? (
          '–'
        ) : (
          <>
            {countText(trend.last7Days)}
            <br />
            <span class="muted">{changeText(trend.last7Days, trend.before)}</span>
          </>
        ),
    },
    { title: 'Runs out', as: 'day', of: ({ use }) => use?.runsOutAt },
    { title: 'Keys', as: 'count', of: ({ keys }) => keys },
    { title: 'State', cell: (one) => <CustomerState of={one} standing={standing(one.id)} /> },
  ];
}

async function download(path: string): Promise<void> {
  const { data } = await request<CustomerUseList>('GET', path);
  const head = ['customer', 'name', 'owner', 'plan', 'window', 'used', 'limit', 'resets', 'runs out', 'last 7 days'];
  const rows = data.customers.map(({ id, name, owner, plan, use, trend, keys }) => [
    ...[id, name, owner, plan, use?.window, use?.used, use?.limit],
    ...[use && new Date(use.resetAt * 1_000).toISOString(), use?.runsOutAt, trend?.last7Days, trend?.before, keys],
  ]);
  saveCsv(`customers-by-use-${new Date().toISOString().slice(0, 10)}.csv`, [[...head, 'before', 'keys'], ...rows]);
}
