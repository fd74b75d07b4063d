import { useState } from 'preact/hooks';
import { type Bar, BarChart, type Cursor, LineChart, type Series } from '../kit/charts.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import {
  changeText,
  countText,
  latencyText,
  millisecondsOf,
  momentText,
  ownZone,
  percentText,
} from '../kit/format.tsx';
import { useNames } from '../kit/names.ts';
import { Badge, Page, Section, Tile } from '../kit/page.tsx';
import { RangeForm } from '../kit/range-form.tsx';
import { Segments } from '../kit/segments.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { changeQuery, hrefOf, present, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { ChangePage, GatewayList, PlansHistory, TrafficHistory, TrafficPeriod } from '../types.ts';
import { actorText } from './change-columns.tsx';
import { gatewayNames } from './gateways-screen.tsx';

const RANGES = [
  ['', '1 h'],
  ['24h', '24 h'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['own', 'Other'],
] as const;

const DIMENSIONS = [
  ['', 'Route'],
  ['plan', 'Plan'],
  ['customer', 'Customer'],
  ['upstream', 'Upstream'],
  ['status', 'Status'],
] as const;
type Dimension = TrafficHistory['by'];

/** A gateway reports a minute when it is over. */
const REFRESH_MS = 30_000;
const CHANGES_MS = 120_000;

const OUTCOMES: readonly Series[] = [
  { name: 'served', title: 'Without an error', color: '--admitted' },
  { name: 'errors', title: 'Errors (5xx, or no status)', color: '--banned', isStriped: true },
];

const BEFORE: readonly Series[] = [{ name: 'before', title: 'Previous period', color: '--edge', isStriped: true }];

const LATENCIES: readonly Series[] = [
  { name: 'p50Ms', title: 'Median (p50)', color: '--accent' },
  { name: 'p99Ms', title: '99th percentile', color: '--refused', isStriped: true },
];

/** Requests, errors and latency of all gateways over time, and of which routes, plans, customers or upstreams. */
export function Traffic() {
  const { query } = usePlace();
  const [range, by, from, to] = ['range', 'by', 'from', 'to'].map((name) => query.get(name) ?? '') as [
    string,
    string,
    string,
    string,
  ];
  const isCompared = query.get('compare') !== 'no';
  const isOwn = range === 'own';
  const asked = new URLSearchParams({
    ...(isOwn ? { ...(from !== '' && { from }), ...(to !== '' && { to }) } : { range: range || '1h' }),
    by: by || 'route',
    compare: String(isCompared),
  });
  const history = useResource<TrafficHistory>(`/admin/traffic/history?${asked}`, REFRESH_MS);
  const changesIn = useChanges(isOwn ? from : range || '1h');
  return (
    <Page title="Traffic">
      <div class="row spread before">
        <Segments
          label="Range"
          options={RANGES}
          value={range as ''}
          choose={(range) => changeQuery({ range, from: '', to: '' })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={isCompared}
            onChange={(event: Event) =>
              changeQuery({ compare: (event.target as HTMLInputElement).checked ? '' : 'no' })
            }
          />
          Compare with the previous period
        </label>
      </div>
      {isOwn && <RangeForm from={from} to={to} />}
      <Shown of={history} what="the traffic">
        {(data: TrafficHistory) => <Report {...data} dimension={by} changes={changesIn(data)} />}
      </Shown>
    </Page>
  );
}

interface ReportProps extends TrafficHistory {
  readonly dimension: string;
  /** Null while they are not known. */
  readonly changes: readonly MarkedChange[] | null;
}

function Report({ by, step, period, before, isKept, dimension, changes }: ReportProps) {
  const [at, move] = useState<number | null>(null);
  const cursor: Cursor = { at, move };
  const bars = barsOf(period, before, step, changes ?? []);
  const compared = comparedOf(period, before, step);
  const names = useNames(by === 'customer' ? period.series.map(({ value }) => value) : []);
  const unknown = period.points.filter(({ known }) => known !== 'all').length;
  const lost = period.points.reduce((sum, { lost }) => sum + lost, 0);
  const isUnknown = period.points.every(({ known }) => known === 'none');
  if (isUnknown)
    return (
      <Empty title="Nothing is known of this time.">
        <p>
          {isKept
            ? 'Gateways report a minute when it is over.'
            : 'usage.traffic is off in gateway.yaml, so gateways keep no traffic.'}
        </p>
      </Empty>
    );
  return (
    <>
      {!isKept && (
        <div class="banner" role="status">
          <p>usage.traffic is off in gateway.yaml: nothing is added.</p>
        </div>
      )}
      <Totals period={period} compared={compared} />
      <div class="panel">
        <BarChart
          id="requests"
          title="Requests"
          series={OUTCOMES}
          over={before === null ? [] : BEFORE}
          bars={bars.map(({ point: { requests, errors }, before, ...bar }) => ({
            ...bar,
            values: { ...(requests !== null && { served: requests - errors!, errors: errors! }), before },
          }))}
          step={step}
          cursor={cursor}
        />
        <LineChart
          id="latency"
          title="Latency"
          series={LATENCIES}
          bars={bars.map(({ point: { p50Ms, p99Ms }, ...bar }) => ({
            ...bar,
            values: { ...(p50Ms !== null && { p50Ms }), ...(p99Ms !== null && { p99Ms }) },
          }))}
          step={step}
          text={latencyText}
          cursor={cursor}
        />
        <p class="hint">
          {SPAN.formatRange(millisecondsOf(period.from), millisecondsOf(period.to))} {ownZone()}
          {step === 'day' && ', by days of UTC'}.{' '}
          {unknown > 0 && `Not wholly known: ${unknown} of ${period.points.length} bars. `}
          {changes === null && 'Changes are unknown. '}
          {lost > 0 && `${countText(lost)} requests were counted and lost. `}
        </p>
      </div>
      {changes !== null && changes.length > 0 && (
        <Section title="Changes in this time">
          <ul class="bullets">
            {changes.slice(-MAX_CHANGES).map(({ atMs, text, path }) => (
              <li key={`${atMs} ${text}`}>
                <a href={hrefOf(path)}>{text}</a>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="Breakdown">
        <div class="row spread before">
          <Segments label="By" options={DIMENSIONS} value={dimension as ''} choose={(by) => changeQuery({ by })} />
        </div>
        <Table
          caption={`Requests by ${by}`}
          rows={period.series}
          keyOf={keyOf}
          columns={columnsOf(by, period, compared, names)}
        />
      </Section>
    </>
  );
}

/** How many changes are listed, the last ones; all have their marks. */
const MAX_CHANGES = 10;

/** Something that was changed, or a gateway that was started: a mark on the charts. */
interface MarkedChange {
  readonly atMs: number;
  readonly text: string;
  readonly path: string;
}

/** @param since the beginning of the span, as the API takes it @returns the changes in a span, the oldest first; null while they are not known */
function useChanges(since: string): (of: TrafficHistory) => readonly MarkedChange[] | null {
  const query = new URLSearchParams({ action: 'settings.load', since: since || '1h', limit: '100' });
  const loads = ifKnown(useResource<ChangePage>(`/admin/audit?${query}`, CHANGES_MS).reading);
  const plans = ifKnown(useResource<PlansHistory>('/admin/plans/history', CHANGES_MS).reading);
  const fleet = ifKnown(useResource<GatewayList>('/admin/gateways', CHANGES_MS).reading);
  return ({ period: { from, to } }) => {
    if (loads === null || plans === null || fleet === null) return null;
    const names = gatewayNames(fleet.gateways);
    const all = [
      ...plans.versions.map(({ since, version, number, by }) => ({
        at: since,
        text: `Plans changed${by === null || by.kind === 'file' ? '' : ` by ${actorText(by)}`}`,
        path: `/plans/history/${version}?number=${number}`,
      })),
      ...loads.changes
        .filter(({ outcome }) => outcome === 'done')
        .map(({ time }) => ({ at: time, text: 'Settings changed', path: '/audit?action=settings.load' })),
      ...fleet.gateways.map(({ id, startedAt }) => ({
        at: startedAt,
        text: `Gateway ${names.get(id)} started`,
        path: '/',
      })),
    ];
    return all
      .map(({ at, text, path }) => ({ atMs: millisecondsOf(at), text: `${momentText(at)} ${text}`, path }))
      .filter(({ atMs }) => atMs >= millisecondsOf(from) && atMs < endOf(to))
      .sort((a, b) => a.atMs - b.atMs);
  };
}

/** Until when changes belong to a span, Unix milliseconds. One that ends with the last whole minute goes on to the present. */
function endOf(to: string): number {
  return Date.now() - millisecondsOf(to) < 2 * STEP_MS.minute ? Infinity : millisecondsOf(to);
}

type OneSeries = TrafficPeriod['series'][number];
type Point = TrafficPeriod['points'][number];

function keyOf({ value, isOthers }: OneSeries): string {
  return `${isOthers} ${value}`;
}

function barsOf(
  { points, to }: TrafficPeriod,
  before: TrafficPeriod | null,
  step: TrafficHistory['step'],
  changes: readonly MarkedChange[],
): readonly (Omit<Bar, 'values'> & { readonly point: Point; readonly before: number | null })[] {
  const { query } = present();
  return points.map((point, i) => {
    const fromMs = millisecondsOf(point.at);
    const endMs = Math.min(fromMs + STEP_MS[step], millisecondsOf(to));
    const within = new URLSearchParams(query);
    for (const [name, value] of [
      ['range', 'own'],
      ['from', point.at],
      ['to', new Date(endMs).toISOString()],
    ] as const)
      within.set(name, value);
    return {
      label: LABELS[step].format(fromMs),
      point,
      path: points.length === 1 ? undefined : `/traffic?${within}`,
      changes: changes
        .filter(({ atMs }) => atMs >= fromMs && (atMs < endMs || i === points.length - 1))
        .map(({ text }) => text),
      before: before?.points[i]?.requests ?? null,
      state: stateOf(point, step, to),
    };
  });
}

const STEP_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

function stateOf({ at, known }: Point, step: TrafficHistory['step'], to: string): Bar['state'] {
  if (known === 'none') return 'unknown';
  if (known === 'part') return 'part';
  return millisecondsOf(at) + STEP_MS[step] > millisecondsOf(to) ? 'running' : undefined;
}

const LABELS = {
  minute: new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' }),
  hour: new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' }),
  day: new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }),
} as const;

const SPAN = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** The sums of what is known, and how they differ from the previous period. */
function Totals({ period, compared }: { period: TrafficPeriod; compared: Compared | null }) {
  const { requests, errors, p50Ms, p99Ms } = period.total;
  const [now, then] = compared?.of(period.points, compared.before.points) ?? [];
  const earlier = compared?.before.total;
  const figures = [
    ['Requests', countText(requests), now && then && changeText(now.requests, then.requests)],
    ['Errors', percentText(errors, requests), then && `${percentText(then.errors, then.requests)} before`],
    ['Median (p50)', latencyOr(p50Ms), earlier && `${latencyOr(earlier.p50Ms)} before`],
    ['99th percentile', latencyOr(p99Ms), earlier && `${latencyOr(earlier.p99Ms)} before`],
  ] as const;
  return (
    <dl class="grid figures">
      {figures.map(([title, text, note]) => (
        <Tile key={title} title={title} unit={note}>
          {text}
        </Tile>
      ))}
    </dl>
  );
}

function latencyOr(ms: number | null): string {
  return ms === null ? '–' : latencyText(ms);
}

interface Sum {
  readonly requests: number;
  readonly errors: number;
}

/** The sum of the steps that are known. */
function sumOf(points: readonly ({ readonly requests: number | null; readonly errors: number | null } | null)[]): Sum {
  let [requests, errors] = [0, 0];
  for (const point of points) {
    requests += point?.requests ?? 0;
    errors += point?.errors ?? 0;
  }
  return { requests, errors };
}

interface Compared {
  readonly before: TrafficPeriod;
  /** The sums of two rows of steps, of those alone that are over and known in both periods. */
  readonly of: (now: SomePoints, then: SomePoints) => readonly [now: Sum, then: Sum];
}
type SomePoints = Parameters<typeof sumOf>[0];

/** @returns null if no step is known in both periods */
function comparedOf(
  period: TrafficPeriod,
  before: TrafficPeriod | null,
  step: TrafficHistory['step'],
): Compared | null {
  if (before === null) return null;
  const isIn = period.points.map(
    (point, i) =>
      stateOf(point, step, period.to) === undefined && stateOf(before.points[i]!, step, before.to) === undefined,
  );
  const of = (points: SomePoints) => sumOf(points.filter((_, i) => isIn[i]));
  return isIn.includes(true) ? { before, of: (now, then) => [of(now), of(then)] } : null;
}

function columnsOf(
  by: Dimension,
  period: TrafficPeriod,
  compared: Compared | null,
  names: ReadonlyMap<string, string | null>,
): readonly Column<OneSeries>[] {
  const { requests: all } = sumOf(period.points);
  const before = new Map(compared?.before.series.map((one) => [keyOf(one), one.points]));
  return [
    {
      title: DIMENSIONS.find(([one]) => (one || 'route') === by)![1],
      isName: true,
      cell: (one) => <Value by={by} name={names.get(one.value ?? '') ?? null} {...one} />,
    },
    { title: 'Requests', as: 'count', of: ({ requests }) => requests },
    { title: 'Share', isNumber: true, cell: ({ requests }) => percentText(requests, all) },
    ...(compared === null
      ? []
      : [
          {
            title: 'Change',
            isNumber: true,
            cell: (one: OneSeries) => {
              const then = before.get(keyOf(one));
              if (then === undefined) return '–';
              const [a, b] = compared.of(one.points, then);
              return changeText(a.requests, b.requests);
            },
          },
        ]),
    {
      title: 'Errors',
      isNumber: true,
      sort: ({ errors, requests }) => errors / Math.max(1, requests),
      cell: ({ errors, requests }) =>
        errors === 0 ? (
          '0'
        ) : (
          <Badge kind={errors / requests >= 0.01 ? 'bad' : 'warn'}>
            {countText(errors)}, {percentText(errors, requests)}
          </Badge>
        ),
    },
    // Of a status class no latency is kept.
    ...(by === 'status'
      ? []
      : (['p50Ms', 'p99Ms'] as const).map((name) => ({
          title: name === 'p50Ms' ? 'p50' : 'p99',
          as: 'latency' as const,
          of: (one: OneSeries) => one[name],
        }))),
  ];
}

/** A value, with a link to what is behind it. @param name of a customer, if it is known */
function Value({
  by,
  value,
  isOthers,
  name,
}: Pick<OneSeries, 'value' | 'isOthers'> & { by: Dimension; name: string | null }) {
  if (isOthers) return <span class="muted">Others</span>;
  if (value === null) return <span class="muted">{by === 'customer' ? 'No customer' : `No ${by}`}</span>;
  const text = encodeURIComponent(value);
  const path = {
    customer: `/customers/${text}`,
    plan: `/keys?plan=${text}`,
    upstream: '/upstreams',
    route: `/live?route=${text}`,
    status: `/live?status=${text}`,
  }[by];
  return <a href={hrefOf(path)}>{name === null ? <code>{value}</code> : <bdi>{name}</bdi>}</a>;
}
