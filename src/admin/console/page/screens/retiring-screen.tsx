import { CallerName, isCallerId } from '../kit/callers.tsx';
import type { CsvRows } from '../kit/csv.ts';
import { type Column, Table } from '../kit/data-table.tsx';
import type { Filter } from '../kit/filters.tsx';
import { countText, leftText, lengthText, millisecondsOf, plural, say, Time, useNow } from '../kit/format.tsx';
import { Badge, Facts } from '../kit/page.tsx';
import { Good } from '../kit/seen.tsx';
import { usePlace } from '../place.ts';
import type { Known } from '../reading.ts';
import type { Deprecation, DeprecationPage } from '../types.ts';
import { ListScreen } from './list-screen.tsx';

type Caller = Deprecation['callers'][number];

/** The gateway keeps calls for 92 days. */
const DAYS = [
  ['7', '7 days'],
  ['90', '90 days'],
] as const;
const FILTERS: readonly Filter[] = [{ name: 'days', label: 'Calls in', as: 'choice', any: '30 days', options: DAYS }];

/** The deprecated routes, and the callers that must still move away from them before they end. */
export function Retiring() {
  const given = usePlace().query.get('days');
  const days = DAYS.some(([one]) => one === given) ? given! : '30';
  return (
    <ListScreen
      noun="route"
      title="Retiring routes"
      path="/retiring"
      list="/deprecations"
      filters={FILTERS}
      ask={() => new URLSearchParams({ days })}
      rowsOf={({ deprecations }: DeprecationPage) => deprecations}
      tableOf={(routes: readonly Deprecation[], _, seen) =>
        routes.map((one) => <Route key={`${one.methods} ${one.route}`} days={days} seen={seen} {...one} />)
      }
      csv={rowsOf}
      none={<p>{say`A route with ${<code>deprecated</code>} in gateway.yaml appears here with its callers.`}</p>}
    />
  );
}

const COLUMNS: readonly Column<Caller>[] = [
  { title: 'Caller', isName: true, share: 55, cell: (caller) => <AnyCaller {...caller} /> },
  { title: 'Plan', share: 15, of: ({ plan }) => plan },
  { title: 'Calls', share: 15, as: 'count', of: ({ calls }) => calls },
  { title: 'Last day', share: 15, as: 'utcDay', of: ({ lastDay }) => lastDay },
];

function Route({ seen, days, ...of }: Deprecation & { days: string; seen: Known<unknown> }) {
  const { route, methods, since, sunset, successor, calls, callers } = of;
  return (
    <section class="panel" aria-label={route}>
      <div class="row spread">
        <h2 class="break">
          <code>{route}</code>
        </h2>
        <Countdown sunset={sunset} isCalled={calls > 0} seen={seen} />
      </div>
      <Facts
        of={[
          ['Methods', methods.join(', ')],
          ['Ends', sunset === null ? 'no date is set' : <Time at={sunset} />],
          ['Deprecated', since && say`since ${<Time at={since} dayOnly={true} />}`],
          ['Successor', successor && <code>{successor}</code>],
          ['Calls', `${countText(calls)} in ${days} days, by ${plural(callers.length, 'caller')}`],
        ]}
      />
      <Table
        caption={`Callers of ${route}`}
        rows={callers}
        keyOf={({ id }) => id}
        columns={COLUMNS}
        empty={<p class="muted">No caller has called it in this time.</p>}
      />
    </section>
  );
}

function Countdown({ sunset, isCalled, seen }: { sunset: string | null; isCalled: boolean; seen: Known<unknown> }) {
  const seconds = (millisecondsOf(sunset ?? 0) - useNow(sunset !== null)) / 1_000;
  if (sunset === null) return <Badge kind="plain">No end is set</Badge>;
  if (seconds <= 0) return <Badge kind="plain">Ended {lengthText(-seconds)} ago</Badge>;
  const text = `Ends in ${leftText(seconds)}`;
  if (!isCalled) return <Good of={seen}>{text}, no calls</Good>;
  return <Badge kind={seconds < 14 * 86_400 ? 'bad' : 'warn'}>{text}</Badge>;
}

/** What the ids that stand for several callers mean. */
const GROUPS: Readonly<Record<string, string>> = {
  '*public': 'Callers without a key',
  '*others': 'Others, not counted separately',
};

function AnyCaller(caller: Caller) {
  const { id } = caller;
  if (isCallerId(id)) return <CallerName {...caller} />;
  return GROUPS[id] ?? <code>{id}</code>;
}

/** The calls as the rows of a file. */
function rowsOf(deprecations: readonly Deprecation[]): CsvRows {
  return [
    ['route', 'methods', 'since', 'sunset', 'successor', 'caller', 'name', 'owner', 'plan', 'calls', 'lastDay'],
    ...deprecations.flatMap(({ route, methods, since, sunset, successor, callers }) =>
      (callers.length === 0 ? [null] : callers).map((one) => [
        ...[route, methods.join(' '), since, sunset, successor],
        ...(one === null
          ? [null, null, null, null, 0, null]
          : [one.id, one.name, one.owner, one.plan, one.calls, one.lastDay]),
      ]),
    ),
  ];
}
