import { useState } from 'preact/hooks';
import type { Helped } from '../help.tsx';
import { HelpDialog } from '../help-later.ts';
import { Act } from '../kit/act.tsx';
import { CallerName, callerColumn, callerHref, nameOf } from '../kit/callers.tsx';
import { type Bar, BarChart, BY_QUOTA, Meter, type Series } from '../kit/charts.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { type Filter, FilterBar, filtersIn } from '../kit/filters.tsx';
import {
  clockText,
  countText,
  lengthText,
  millisecondsOf,
  momentText,
  ordinal,
  percentText,
  plural,
  say,
  Time,
  useNow,
} from '../kit/format.tsx';
import { WINDOWS, windowText } from '../kit/limit-windows.tsx';
import { Badge, Facts, Note, Page, Section, Tile } from '../kit/page.tsx';
import { Aged, Good, useIsOld } from '../kit/seen.tsx';
import { Banner, Empty, Loading, Shown } from '../kit/states.tsx';
import { Tabs } from '../kit/tabs.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import { changeQuery, usePlace } from '../place.ts';
import { derived, ifKnown, type Known, type Reading, UNKNOWN } from '../reading.ts';
import { RefusedSettings } from '../refused-settings.tsx';
import { useLatest, useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { Gateway, NearList, NowEvent } from '../types.ts';
import { gatewayNames, lastKnownText, NOW_MS, StreamSign } from './gateways-screen.tsx';

type Refused = NowEvent['refused'][number];
type MostRefused = NowEvent['mostRefused'][number];
type Near = NowEvent['near'][number];
type Buckets = NowEvent['traffic']['buckets'];
type TrafficColumn = Exclude<keyof Buckets[number], 'at'>;

const VERDICTS: readonly Series[] = [
  ...BY_QUOTA,
  { name: 'unauthenticated', title: 'Unknown caller', color: '--unknown', isStriped: true },
  { name: 'rest', title: 'Other', color: '--other' },
];

/** Some requests of every verdict: one that was admitted may fail. */
const FAILED: readonly Series[] = [{ name: 'failed', title: 'Failed (5xx), of all', color: '--bad' }];

/**
 * What is wrong, what happens, and the callers that are refused, that soon will be, or that are refused most: the screen to open
 * first in an incident.
 */
export function Now() {
  const [helped, setHelped] = useState<Helped | null>(null);
  const [stream, now] = useLatest<NowEvent>('/admin/events/now', 'now', NOW_MS);
  return (
    <Page title="Now" beside={<StreamSign state={stream} of={now} />}>
      {now.state !== 'known' ? (
        <Loading what="what happens now" />
      ) : (
        <Aged of={now}>
          <Outage gateways={now.value.gateways} />
          <RefusedSettings gateways={now.value.gateways.gateways} />
          <Summary of={now} />
          <Callers of={now} lists={listsOf(now)} help={setHelped} />
          <Traffic {...now.value.traffic} />
          <Gateways of={now} />
        </Aged>
      )}
      {helped !== null && <HelpDialog of={helped} onClose={() => setHelped(null)} />}
    </Page>
  );
}

/** Who is refused and who is near a limit, which the gateway reads in the store: as old as that was when the event was made. */
type Lists = Pick<NowEvent, 'refused' | 'refusedMore' | 'near' | 'nearUnreadable'>;

function listsOf(now: Known<NowEvent>): Reading<Lists> {
  const { at, asOf } = now.value;
  return asOf === null ? UNKNOWN : { ...now, at: now.at - (millisecondsOf(at) - millisecondsOf(asOf)) };
}

function Outage({ gateways: { complete, gateways, lastKnown } }: { gateways: NowEvent['gateways'] }) {
  const away = gateways.filter(({ store }) => store === 'away' || store === 'never_reached');
  if (away.length === 0) return null;
  const { outage } = away[0]!;
  return (
    <Banner
      title={
        outage === null ? 'The store is away' : `The store has been away for ${lengthText(outage.lastsMs / 1_000)}`
      }
    >
      <p>
        {complete
          ? `${plural(away.length, 'gateway')} of ${gateways.length} cannot reach it`
          : `The gateway that serves this page cannot reach it, and so cannot see the others${lastKnown === null ? '' : ` (${plural(lastKnown.gateways, 'gateway')} at ${momentText(lastKnown.at)})`}`}
        {outage === null ? '' : `: ${sentence(outage.reason)}`}. Callers are served as <code>redis.onFailure</code>{' '}
        says; what is admitted meanwhile is counted when the store is back. The lists below need the store.
      </p>
    </Banner>
  );
}

/** A sentence of the gateway for the middle of another one: without its full stop. */
function sentence(text: string): string {
  return text.replace(/\.$/, '');
}

const NO_LISTS: Pick<Lists, 'refused' | 'refusedMore'> = { refused: [], refusedMore: false };

/** What is wrong, a sentence each; if nothing is, the state in one. */
function Summary({ of: event }: { of: Known<NowEvent> }) {
  const { gateways, traffic } = event.value;
  const lists = listsOf(event);
  const { refused, refusedMore } = ifKnown(lists) ?? NO_LISTS;
  const areListsOld = useIsOld(lists.state === 'known' ? lists : { ...event, everyMs: 0 });
  const all = gateways.gateways;
  const now = Date.now();
  const banned = refused.filter(({ state }) => state === 'banned').length;
  const callers = `${plural(refused.length, 'caller')}${refusedMore ? ' and more' : ''} refused`;
  const ready = all.filter(({ ready, draining }) => ready && !draining).length;
  const failed = sumOf(lastMinute(traffic), 'failed');
  const targets = all.flatMap(({ upstreams }) => upstreams.flatMap(({ targets }) => targets));
  const down = new Set(targets.filter(({ usable }) => !usable).map(({ name }) => name));
  const days = Math.floor(Math.min(...all.map(({ certificate }) => certificateDays(certificate, now) ?? Infinity)));
  const wrong: readonly (readonly [isSo: boolean, kind: 'bad' | 'warn', text: string])[] = [
    [ready < all.length && gateways.complete, 'bad', `${countText(ready)} of ${plural(all.length, 'gateway')} ready`],
    [ready < all.length && !gateways.complete, 'bad', 'this gateway not ready, others unknown'],
    [failed > 0, 'bad', `${plural(failed, 'response')} with 5xx in the last minute`],
    [down.size > 0, 'bad', `${plural(down.size, 'target')} left out: ${[...down].join(', ')}`],
    [days < 0, 'bad', 'a certificate has expired'],
    [days >= 0 && days < SOON_DAYS, 'warn', `a certificate expires in ${plural(days, 'day')}`],
    [
      refused.length > 0,
      banned > 0 ? 'bad' : 'warn',
      banned > 0 ? `${callers}, ${countText(banned)} of them banned` : callers,
    ],
    [!gateways.complete, 'warn', `other gateways unknown, ${lastKnownText(gateways)}`],
    [areListsOld, 'warn', lists.state === 'known' ? `refusals as of ${clockText(lists.at)}` : 'refusals unknown'],
  ];
  const shown = wrong.filter(([isSo]) => isSo);
  return (
    <ul class="row" aria-label="State">
      {shown.map(([, kind, text]) => (
        <li key={text}>
          <Badge kind={kind}>{text}</Badge>
        </li>
      ))}
      {shown.length === 0 && (
        <li>
          <Good of={event}>
            All well: no caller is refused, {countText(ready)} of {plural(all.length, 'gateway')} ready, no 5xx.
          </Good>
        </li>
      )}
    </ul>
  );
}

/** From how many days before its end on a certificate needs attention. */
const SOON_DAYS = 15;

/** In how many days a certificate expires, negative once it has; null without a certificate. */
function certificateDays(certificate: Gateway['certificate'], nowMs: number): number | null {
  return certificate === null ? null : (millisecondsOf(certificate.expiresAt) - nowMs) / 86_400_000;
}

/** Without the present bucket, which is not full yet. */
function lastMinute({ stepSeconds, buckets }: NowEvent['traffic']): Buckets {
  return buckets.slice(-1 - 60 / stepSeconds, -1);
}

function sumOf(buckets: Buckets, name: TrafficColumn): number {
  return buckets.reduce((sum, bucket) => sum + bucket[name], 0);
}

function Traffic(traffic: NowEvent['traffic']) {
  const { stepSeconds, buckets } = traffic;
  const bars: readonly Bar[] = buckets.map(({ at, ...values }, i) => ({
    label: momentText(at),
    state: i === buckets.length - 1 ? 'running' : undefined,
    values: {
      ...values,
      failed: values.failed || undefined,
      rest: values.shed + values.undecided + values.malformed + values.other,
    },
  }));
  const minute = lastMinute(traffic);
  return (
    <Section title="Traffic" note="Of the last minute, with the course of ten minutes.">
      <dl class="grid figures">
        {FIGURES.map((figure) => (
          <Figure
            key={figure.name}
            {...figure}
            count={sumOf(minute, figure.name)}
            course={buckets.slice(0, -1).map((bucket) => bucket[figure.name])}
          />
        ))}
      </dl>
      <BarChart
        id="traffic"
        title="Requests by verdict"
        series={VERDICTS}
        over={FAILED}
        bars={bars}
        step={`${stepSeconds} seconds`}
      />
    </Section>
  );
}

interface FigureOf {
  readonly name: TrafficColumn;
  readonly title: string;
  /** How the figure looks if it is not 0. */
  readonly kind?: 'bad' | 'warn';
}

const FIGURES: readonly FigureOf[] = [
  { name: 'admitted', title: 'Admitted' },
  { name: 'refused', title: 'Refused (429)', kind: 'warn' },
  { name: 'banned', title: 'Banned (429)', kind: 'warn' },
  { name: 'unauthenticated', title: 'Unknown caller (401)' },
  { name: 'failed', title: 'Failed (5xx)', kind: 'bad' },
];

/** A count of the last minute, with its course in ten. */
function Figure({ title, kind, count, course }: FigureOf & { count: number; course: readonly number[] }) {
  const highest = Math.max(1, ...course);
  const points = course.map(
    (value, i) => `${(100 * i) / Math.max(1, course.length - 1)},${27 - (26 * value) / highest}`,
  );
  return (
    <Tile
      title={title}
      unit="a minute"
      kind={count > 0 ? kind : undefined}
      below={
        <svg class="course" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true">
          <polyline points={points.join(' ')} vector-effect="non-scaling-stroke" />
        </svg>
      }
    >
      {countText(count)}
    </Tile>
  );
}

interface CallersProps {
  readonly of: Known<NowEvent>;
  readonly lists: Reading<Lists>;
  readonly help: (helped: Helped) => void;
}

/** The callers that need someone, in one table with tabs. */
function Callers({ of: now, lists, help }: CallersProps) {
  const asked = usePlace().query.get('callers');
  const { mostRefused, refusedCallers, gateways } = now.value;
  const tabs = [
    { name: 'refused', title: 'Refused', count: derived(lists, ({ refused }) => refused.length), isBad: true },
    { name: 'banned', title: 'Banned', count: derived(lists, (of) => bannedOf(of).length), isBad: true },
    { name: 'near', title: 'Near a limit', count: derived(lists, ({ near }) => near.length) },
    { name: 'most', title: 'Most refused', count: derived(now, () => mostRefused.length) },
  ];
  const chosen = tabs.find(({ name }) => name === asked)?.name ?? 'refused';
  const choose = (name: string) => changeQuery({ callers: name, used: '', window: '' });
  return (
    <Section title="Callers">
      <Tabs id="callers" label="Callers" tabs={tabs} chosen={chosen} choose={choose}>
        {chosen === 'most' ? (
          <MostRefusedKeys keys={mostRefused} callers={refusedCallers} isAway={!gateways.complete} />
        ) : lists.state !== 'known' ? (
          <Empty title="Unknown while the store is away." />
        ) : (
          <Aged of={lists}>
            {chosen === 'refused' && <RefusedKeys now={now.value} keys={lists.value.refused} help={help} />}
            {chosen === 'banned' && <RefusedKeys now={now.value} keys={bannedOf(lists.value)} help={help} />}
            {chosen === 'near' && (
              <NearKeys of={{ keys: lists.value.near, unreadable: lists.value.nearUnreadable }} help={help} />
            )}
          </Aged>
        )}
      </Tabs>
    </Section>
  );
}

function bannedOf({ refused }: Lists): readonly Refused[] {
  return refused.filter(({ state }) => state === 'banned');
}

/** @param keys those of `now.refused` that are shown */
function RefusedKeys({ now, keys, help }: { now: NowEvent; keys: readonly Refused[]; help: (helped: Helped) => void }) {
  const { refusedMore, refusedCallers, traffic } = now;
  const mayHelp = useMay('operator');
  const requests = plural(sumOf(traffic.buckets, 'refused') + sumOf(traffic.buckets, 'banned'), 'request');
  if (keys.length === 0) {
    const isNone = now.refused.length === 0;
    return (
      <Empty title={isNone ? 'No caller is refused at the moment.' : 'No caller is banned.'}>
        {isNone && (
          <p>
            In the last ten minutes: {plural(refusedCallers, 'caller')}, {requests}. Keys that were refused, and whose
            next request would be refused again, appear here within two seconds.
          </p>
        )}
      </Empty>
    );
  }
  const buttons: Column<Refused> = {
    title: '',
    cell: (key) => (
      <span class="row">
        {key.state === 'banned' && (
          <Act text="Lift…" aria-label={`Lift the ban of ${nameOf(key)}`} on={() => help({ ...key, how: 'lift' })} />
        )}
        {key.unreadable === undefined && <TopUpButton of={key} help={help} />}
      </span>
    ),
  };
  return (
    <>
      <Table
        caption="Keys that are refused or banned"
        rows={keys}
        keyOf={({ id }) => id}
        columns={mayHelp ? [...REFUSED_COLUMNS, buttons] : REFUSED_COLUMNS}
      />
      {refusedMore && <p class="hint after">There are more.</p>}
    </>
  );
}

const REFUSED_COLUMNS: readonly Column<Refused>[] = [
  callerColumn('Key'),
  { title: 'Plan', of: ({ plan }) => plan },
  {
    title: 'State',
    cell: ({ state, ban, unreadable }) => (
      <>
        {state === 'banned' ? (
          <Badge kind="bad">Banned ({ordinal(ban ?? 1)} ban)</Badge>
        ) : (
          <Badge kind="warn">Refused</Badge>
        )}{' '}
        {unreadable !== undefined && <Badge kind="bad">Unreadable</Badge>}
      </>
    ),
  },
  { title: 'Window', cell: ({ window }) => windowText(window) },
  { title: 'Until', as: 'until', of: ({ until }) => until },
];

/** Not for callers with tokens, whose limits only their tokens name. */
function TopUpButton({ of: key, help }: { of: Refused | Near; help: (helped: Helped) => void }) {
  if (key.id.startsWith('jwt_')) return null;
  return <Act text="Top up…" aria-label={`Top up ${nameOf(key)}`} on={() => help({ ...key, how: 'topup' })} />;
}

const MOST_REFUSED_COLUMNS: readonly Column<MostRefused>[] = [
  callerColumn('Key'),
  { title: 'Plan', of: ({ plan }) => plan },
  { title: 'Refused', as: 'count', of: ({ refused }) => refused },
  { title: 'Banned', as: 'count', of: ({ banned }) => banned },
];

interface MostRefusedProps {
  readonly keys: readonly MostRefused[];
  readonly callers: number;
  readonly isAway: boolean;
}

function MostRefusedKeys({ keys, callers, isAway }: MostRefusedProps) {
  const title = `${isAway ? 'This gateway refused no caller' : 'No caller was refused'} in the last ten minutes.`;
  if (keys.length === 0) return <Empty title={title} />;
  return (
    <>
      {callers > keys.length && <p class="hint">{say`The first ${keys.length} of ${plural(callers, 'caller')}.`}</p>}
      <Table
        caption="Keys that were refused most in ten minutes"
        rows={keys}
        keyOf={({ id }) => id}
        columns={MOST_REFUSED_COLUMNS}
      />
    </>
  );
}

/** From how much of a window on a caller is near its limit, unless the reader chooses another share: in percent, as the stream has it. */
const NEAR_SHARE = '90';
const NEAR_FILTERS: readonly Filter[] = [
  {
    name: 'used',
    label: 'Used',
    as: 'choice',
    any: `from ${NEAR_SHARE} %`,
    options: ['50', '80'].map((share) => [share, `from ${share} %`] as const),
  },
  { name: 'window', label: 'Window', as: 'choice', any: 'any', options: WINDOWS.map((one) => [one, one] as const) },
];

/** How often callers that the stream does not have are read again, in milliseconds. */
const NEAR_MS = 5_000;

/** @param of those that have used at least 90 % of a window */
function NearKeys({ of, help }: { of: NearList; help: (helped: Helped) => void }) {
  const asked = filtersIn(usePlace().query, NEAR_FILTERS);
  const found = useResource<NearList>(asked.size === 0 ? null : `/admin/near?${asked}`, NEAR_MS);
  const list = ({ keys, unreadable }: NearList) =>
    keys.length + unreadable.length > 0 ? (
      <>
        {keys.length > 0 && <NearTable keys={keys} help={help} />}
        <UnreadableRows rows={unreadable} noun="caller" />
      </>
    ) : (
      <Empty title="No caller is near a limit.">
        <p>
          Callers appear here when they have used {asked.get('used') ?? NEAR_SHARE} % of a{' '}
          {asked.get('window') ?? 'window'}, or all of it.
        </p>
      </Empty>
    );
  return (
    <div class="stack">
      <FilterBar label="Callers near a limit" filters={NEAR_FILTERS} />
      {asked.size === 0 ? (
        list(of)
      ) : (
        <Shown of={found} what="the callers">
          {list}
        </Shown>
      )}
    </div>
  );
}

/** The keys of one customer, or one key without, those with the smallest share left first. */
type NearGroup = readonly [Near, ...Near[]];

const NEAR_COLUMNS: readonly Column<NearGroup>[] = [
  {
    title: 'Customer or key',
    isName: true,
    cell: ([{ customer, ...first }, ...more]) =>
      customer === undefined ? (
        <CallerName {...first} />
      ) : (
        <>
          <CallerName {...customer} owner={null} />
          <ul>
            {[first, ...more].map(({ id, name, used, limit, window }) => (
              <li key={id} class="small">
                <a href={callerHref(id)}>
                  <bdi>{nameOf({ id, name })}</bdi>
                </a>{' '}
                <span class="muted">{say`${percentText(used, limit)} of the ${windowText(window)}`}</span>
              </li>
            ))}
          </ul>
        </>
      ),
  },
  { title: 'Plan', of: ([{ plan }]) => plan },
  { title: 'Window', cell: ([{ window }]) => windowText(window) },
  {
    title: 'Used',
    sort: ([{ used, limit }]) => used / Math.max(1, limit),
    cell: ([{ used, limit, window }]) => (
      <span class="stack tight">
        <Meter label={`Used of the ${windowText(window)}`} used={used} limit={limit} /> {countText(used)} of{' '}
        {countText(limit)}
      </span>
    ),
  },
  { title: 'Left', as: 'count', of: ([{ remaining }]) => remaining },
  { title: 'Resets', as: 'until', of: ([{ resetAt }]) => resetAt },
];

/** A row for each customer with its keys, and for each key without one. */
function NearTable({ keys, help }: { keys: readonly Near[]; help: (helped: Helped) => void }) {
  const groups = [...Map.groupBy(keys, ({ id, customer }) => customer?.id ?? id)];
  const buttons: Column<NearGroup> = { title: '', cell: ([key]) => <TopUpButton of={key} help={help} /> };
  return (
    <Table
      caption="Keys that are near a limit"
      rows={groups.map(([, group]) => group as unknown as NearGroup)}
      keyOf={([{ id, customer }]) => customer?.id ?? id}
      columns={useMay('operator') ? [...NEAR_COLUMNS, buttons] : NEAR_COLUMNS}
    />
  );
}

function Gateways({ of: event }: { of: Known<NowEvent> }) {
  const of = event.value.gateways;
  const { gateways } = of;
  const names = gatewayNames(gateways);
  const versions = new Set(gateways.map(({ versions }) => `${versions.settings} ${versions.plans}`));
  const note = of.complete
    ? versions.size > 1
      ? 'Their settings differ: a reload may be under way.'
      : null
    : `Only the gateway that serves this page: ${lastKnownText(of)}.`;
  return (
    <Section title="Gateways" note={note}>
      <ul class="grid broad">
        {gateways.map((gateway) => (
          <GatewayCard key={gateway.id} {...gateway} title={names.get(gateway.id)!} seen={event} />
        ))}
      </ul>
    </Section>
  );
}

function GatewayCard(gateway: Gateway & { title: string; seen: Known<unknown> }) {
  const { seen, title, address, self, ready, draining, store, outage, settings, versions, certificate, upstreams } =
    gateway;
  const now = useNow();
  const targets = upstreams.flatMap(({ name, targets }) => targets.map((target) => ({ upstream: name, ...target })));
  const down = targets.filter(({ usable }) => !usable);
  const daysLeft = certificateDays(certificate, now);
  const expiry = daysLeft! < 0 ? 'Expired' : `Expires in ${plural(Math.floor(daysLeft!), 'day')}`;
  return (
    <li class="card">
      <div class="row spread">
        <h3>{title}</h3>
        {draining ? (
          <Badge kind="warn">Draining</Badge>
        ) : ready ? (
          <Good of={seen}>Ready</Good>
        ) : (
          <Badge kind="bad">Not ready</Badge>
        )}
      </div>
      <p class="muted">
        {address}
        {self ? ' · serves this page' : ''}
      </p>
      <Facts
        of={[
          [
            'Store',
            store === 'embedded' || store === 'present' ? (
              <Good of={seen}>{store === 'embedded' ? 'Embedded' : 'Present'}</Good>
            ) : (
              <Badge kind="bad">
                {store === 'never_reached' ? 'Never reached' : 'Away'}
                {outage !== null && ` for ${lengthText(outage.lastsMs / 1_000)} so far: ${sentence(outage.reason)}`}
              </Badge>
            ),
          ],
          [
            'Targets',
            down.length === 0 ? (
              <Good of={seen}>{say`${targets.length} of ${targets.length} up`}</Good>
            ) : (
              <Badge kind="bad">
                {targets.length - down.length} of {targets.length} up; down: {down.map(({ name }) => name).join(', ')}
              </Badge>
            ),
          ],
          [
            'Settings',
            <>
              {settings === 'refused' ? (
                <Badge kind="bad">The changed files are refused; the earlier settings are in force</Badge>
              ) : (
                <Good of={seen}>In force</Good>
              )}
              <Note>{say`gateway ${<code>{versions.settings}</code>}, plans ${<code>{versions.plans}</code>}`}</Note>
            </>,
          ],
          [
            'Certificate',
            certificate && (
              <>
                {daysLeft! >= SOON_DAYS ? (
                  <Good of={seen}>{expiry}</Good>
                ) : (
                  <Badge kind={daysLeft! < 1 ? 'bad' : 'warn'}>{expiry}</Badge>
                )}
                <Note>
                  <Time at={certificate.expiresAt} dayOnly={true} />
                </Note>
              </>
            ),
          ],
          ['Memory', gateway.memory === 'short' && <Badge kind="bad">Short: no new connections</Badge>],
          [
            'Load',
            `${plural(gateway.connections, 'connection')}, ${plural(gateway.inFlight, 'request')} in flight${gateway.workers > 1 ? `, ${gateway.workers} workers` : ''}`,
          ],
          ['Running', `${gateway.version}, for ${lengthText((now - millisecondsOf(gateway.startedAt)) / 1_000)}`],
        ]}
      />
    </li>
  );
}
