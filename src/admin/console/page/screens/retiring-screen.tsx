import { CallerName } from '../kit/callers.tsx';
import { saveCsv } from '../kit/csv.ts';
import { Table } from '../kit/data-table.tsx';
import { Choice, Filters, isCallerId } from '../kit/filters.tsx';
import { countText, leftText, lengthText, millisecondsOf, plural, Time, useNow } from '../kit/format.tsx';
import { Badge, Page } from '../kit/page.tsx';
import { Good } from '../kit/seen.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { usePlace } from '../place.ts';
import { ifKnown, type Known } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { Deprecation, DeprecationPage } from '../types.ts';

type Caller = Deprecation['callers'][number];

/** The gateway keeps calls for 92 days. */
const DAYS = ['7', '30', '90'];

/** The deprecated routes, and the callers that must still move away from them before they end. */
export function Retiring() {
  const given = usePlace().query.get('days') ?? '';
  const days = DAYS.includes(given) ? given : '30';
  const routes = useResource<DeprecationPage>(`/admin/deprecations?days=${days}&limit=1000`);
  const found = ifKnown(routes.reading)?.deprecations ?? [];
  const save = () => saveCsv(`retiring-routes-${days}-days.csv`, rowsOf(found));
  return (
    <Page
      title="Retiring routes"
      beside={
        found.length > 0 && (
          <button type="button" onClick={save}>
            Download CSV
          </button>
        )
      }
    >
      <Filters path="/retiring" label="Filter the calls">
        <Choice
          id="retiring-days"
          name="days"
          label="Calls in"
          any="30 days"
          options={[
            ['7', '7 days'],
            ['90', '90 days'],
          ]}
        />
      </Filters>
      <Shown of={routes} what="the retiring routes">
        {({ deprecations, cursor }: DeprecationPage, seen) =>
          deprecations.length === 0 ? (
            <Empty title="No route is deprecated.">
              <p>
                A route with <code>deprecated</code> in gateway.yaml appears here with its callers.
              </p>
            </Empty>
          ) : (
            <>
              {deprecations.map((one) => (
                <Route key={`${one.methods} ${one.route}`} days={days} seen={seen} {...one} />
              ))}
              {cursor !== null && (
                <p class="muted">Only the first {countText(deprecations.length)} routes are shown.</p>
              )}
            </>
          )
        }
      </Shown>
    </Page>
  );
}

function Route({
  seen,
  days,
  route,
  methods,
  since,
  sunset,
  successor,
  calls,
  callers,
}: Deprecation & { days: string; seen: Known<unknown> }) {
  return (
    <section class="panel" aria-label={route}>
      <div class="row spread">
        <h2 class="break">
          <code>{route}</code>
        </h2>
        <Countdown sunset={sunset} isCalled={calls > 0} seen={seen} />
      </div>
      <dl class="facts">
        <dt>Methods</dt>
        <dd>{methods.join(', ')}</dd>
        <dt>Ends</dt>
        <dd>{sunset === null ? 'no date is set' : <Time at={sunset} />}</dd>
        {since !== null && (
          <>
            <dt>Deprecated</dt>
            <dd>
              since <Time at={since} dayOnly={true} />
            </dd>
          </>
        )}
        {successor !== null && (
          <>
            <dt>Successor</dt>
            <dd>
              <code>{successor}</code>
            </dd>
          </>
        )}
        <dt>Calls</dt>
        <dd>
          {countText(calls)} in {days} days, by {plural(callers.length, 'caller')}
        </dd>
      </dl>
      {callers.length === 0 ? (
        <p class="muted">No caller has called it in this time.</p>
      ) : (
        <Table
          caption={`Callers of ${route}`}
          rows={callers}
          keyOf={({ id }: Caller) => id}
          columns={[
            { title: 'Caller', isName: true, share: 55, cell: (caller: Caller) => <AnyCaller {...caller} /> },
            { title: 'Plan', share: 15, of: ({ plan }: Caller) => plan },
            { title: 'Calls', share: 15, as: 'count', of: ({ calls }: Caller) => calls },
            { title: 'Last day', share: 15, as: 'utcDay', of: ({ lastDay }: Caller) => lastDay },
          ]}
        />
      )}
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

function rowsOf(deprecations: readonly Deprecation[]) {
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
