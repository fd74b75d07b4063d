import { useState } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { Table } from '../kit/data-table.tsx';
import { bytesText, countText, latencyText, percentText, plural, rateText, say } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Badge, type Figure, Page, Section, Totals } from '../kit/page.tsx';
import { Good } from '../kit/seen.tsx';
import { Banner, Empty, Shown } from '../kit/states.tsx';
import { hrefOf } from '../place.ts';
import { derived, ifKnown, type Known } from '../reading.ts';
import { useLatest, useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { Gateway, GatewayList, NowEvent, TrafficHistory, TrafficPeriod } from '../types.ts';
import { gatewayNames, lastKnownText, NOW_MS, StreamSign } from './gateways-screen.tsx';

const PurgeDialog = later(async () => (await import('./opened-dialog.tsx')).PurgeDialog);

/** A target as the gateways see it. */
interface Target {
  readonly name: string;
  readonly on: readonly { readonly gateway: Gateway; readonly usable: boolean; readonly weight?: number | undefined }[];
}

interface Upstream {
  readonly name: string;
  /** Of the last ten minutes; null while it is unknown. */
  readonly traffic: Served | null;
  readonly on: readonly { readonly gateway: Gateway; readonly inFlight: number }[];
  readonly targets: readonly Target[];
}

/** What an upstream has answered. */
type Served = TrafficPeriod['series'][number];

const NOTHING = { value: null, isOthers: false, requests: 0, errors: 0, p50Ms: null, p99Ms: null, points: [] } as const;

/** From this part of its requests on, an upstream fails. */
const FAILING = 0.05;
const TRAFFIC_MS = 30_000;

/** The services behind the gateways: which fail, and which target is left out, and where. */
export function Upstreams() {
  const asked = useResource<GatewayList>('/admin/gateways');
  const recent = useResource<TrafficHistory>('/admin/traffic/history?by=upstream&from=10m&top=50', TRAFFIC_MS);
  const [stream, now] = useLatest<NowEvent>('/admin/events/now', 'now', NOW_MS);
  const reading = derived(now, ({ gateways }) => gateways);
  const fleet = reading.state === 'known' ? { ...asked, reading, error: null } : asked;
  return (
    <Page title="Upstreams" beside={<StreamSign state={stream} of={now} />}>
      <Shown of={fleet} what="the upstreams">
        {(list: GatewayList, seen) => {
          const { complete, gateways } = list;
          const upstreams = upstreamsOf(gateways, recent.error === null ? ifKnown(recent.reading) : null);
          return (
            <>
              {!complete && (
                <Banner title="The store is away">
                  <p>This shows only the gateway that serves this page: {lastKnownText(list)}.</p>
                </Banner>
              )}
              {upstreams.length === 0 ? (
                <Empty title="No upstream is set.">
                  <p>Upstreams and their targets are set in gateway.yaml.</p>
                </Empty>
              ) : (
                <>
                  <Summary upstreams={upstreams} gateways={gateways.length} seen={seen} />
                  {upstreams.map((upstream) => (
                    <OneUpstream key={upstream.name} {...upstream} seen={seen} />
                  ))}
                  <ResponseCache of={gateways.map(({ cache }) => cache)} />
                </>
              )}
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

/** The part of its requests that failed. */
function failedOf({ traffic }: Upstream): number {
  return traffic === null ? 0 : traffic.errors / Math.max(1, traffic.requests);
}

interface SummaryProps {
  readonly upstreams: readonly Upstream[];
  readonly gateways: number;
  readonly seen: Known<unknown>;
}

function Summary({ upstreams, gateways, seen }: SummaryProps) {
  const targets = upstreams.flatMap(({ name, targets }) => targets.map((target) => ({ upstream: name, ...target })));
  const down = targets
    .map((target) => ({ ...target, out: target.on.filter(({ usable }) => !usable).length }))
    .filter(({ out }) => out > 0)
    .sort((a, b) => b.out / b.on.length - a.out / a.on.length);
  const failing = upstreams.filter((upstream) => failedOf(upstream) >= FAILING);
  const isWell = failing.length === 0 && upstreams.every(({ traffic }) => traffic !== null);
  const up =
    `${targets.length === 1 ? 'The target is' : `All ${countText(targets.length)} targets are`} up on ` +
    `${gateways === 1 ? 'the gateway' : `all ${countText(gateways)} gateways`}.`;
  return (
    <section class="panel" aria-label="Summary">
      {failing.map(({ name, traffic }) => (
        <p key={name} class="sentence large">
          <Badge kind="bad">
            {percentText(traffic!.errors, traffic!.requests)} of the requests to {name} failed in the last ten minutes.
          </Badge>
        </p>
      ))}
      {down.length === 0 ? (
        <p class="sentence large">{isWell ? <Good of={seen}>{up}</Good> : <Badge kind="plain">{up}</Badge>}</p>
      ) : (
        <>
          <p class="sentence large">
            <Badge kind="bad">{say`${plural(down.length, 'target')} of ${countText(targets.length)} left out`}</Badge>
          </p>
          <ul class="bullets">
            {down.map(({ upstream, name, out, on }) => (
              <li key={`${upstream} ${name}`} class="break">
                <strong>{name}</strong> of {upstream}: on{' '}
                {out === on.length
                  ? `${on.length === 1 ? 'the only gateway' : `all ${countText(on.length)} gateways`}`
                  : `${countText(out)} of ${countText(on.length)} gateways`}
              </li>
            ))}
          </ul>
          <p class="muted">
            A target is left out for a while after failures or failed health checks. If only some gateways leave it out,
            look at the network between them.
          </p>
        </>
      )}
    </section>
  );
}

function OneUpstream({ name, on, targets, traffic, seen }: Upstream & { seen: Known<unknown> }) {
  return (
    <Section title={name} note={<a href={hrefOf('/traffic?by=upstream')}>Traffic</a>}>
      <div class="panel stack">
        <Answered of={traffic} inFlight={on.reduce((sum, { inFlight }) => sum + inFlight, 0)} />
        <Table
          caption={`Targets of ${name}`}
          rows={targets}
          keyOf={(target) => target.name}
          empty={<Empty title="This upstream has no targets." />}
          columns={[
            { title: 'Target', isName: true, as: 'code', of: ({ name }) => name },
            { title: 'Weight', isNumber: true, sort: weightOf, cell: (target) => weightText(target, targets) },
            {
              title: 'Gateways up',
              sort: ({ on }) => on.filter(({ usable }) => usable).length,
              cell: ({ on }) => {
                const up = on.filter(({ usable }) => usable).length;
                const text = `${countText(up)} of ${countText(on.length)}`;
                return up === on.length ? (
                  <Good of={seen}>{text}</Good>
                ) : (
                  <Badge kind={up === 0 ? 'bad' : 'warn'}>{text}</Badge>
                );
              },
            },
            {
              title: 'Each gateway',
              cell: ({ on }) => (
                <ul class="row">
                  {on.map(({ gateway, usable }) => (
                    <li key={gateway.id}>
                      {gateway.host} {usable ? <Good of={seen}>Up</Good> : <Badge kind="bad">Left out</Badge>}
                    </li>
                  ))}
                </ul>
              ),
            },
          ]}
        />
      </div>
    </Section>
  );
}

/** 1 unless it is set. Gateways that are being reloaded may differ for a moment. */
function weightOf({ on }: Target): number {
  return on[0]?.weight ?? 1;
}

/** `5 (83 %)`: the part that it gets while all targets are up. */
function weightText(target: Target, targets: readonly Target[]): string {
  if (target.on.some(({ weight }) => weight === undefined)) return 'unknown';
  const weight = weightOf(target);
  if (weight === 0) return '0, taken out';
  const all = targets.reduce((sum, one) => sum + weightOf(one), 0);
  // Without weights, the one with the fewest requests in flight is next.
  return targets.every((one) => weightOf(one) === weight) ? String(weight) : `${weight} (${percentText(weight, all)})`;
}

/** The stored responses of all gateways. @param of undefined where it is not known, and null where no route has a cache */
function ResponseCache({ of: caches }: { of: readonly Gateway['cache'][] }) {
  const mayPurge = useMay('operator');
  const [isOpen, setOpen] = useState(false);
  if (caches.every((one) => one === null)) return null;
  const known = caches.every((one) => one !== undefined) ? caches.filter((one) => one !== null) : null;
  const sum = (name: 'bytes' | 'hits' | 'misses') => known?.reduce((total, one) => total + one[name], 0) ?? null;
  const [hits, misses, size] = [sum('hits'), sum('misses'), sum('bytes')];
  const figures: readonly Figure[] = [
    ['Hits', hits === null ? 'unknown' : countText(hits)],
    ['Misses', misses === null ? 'unknown' : countText(misses)],
    ['Hit share', hits === null || misses === null ? 'unknown' : percentText(hits, hits + misses)],
    ['Stored', size === null ? 'unknown' : bytesText(size)],
  ];
  return (
    <Section title="Response cache" note="Of routes with cache in gateway.yaml, on all gateways since each started.">
      <div class="panel">
        <Totals of={figures}>{mayPurge && <Act text="Purge…" on={() => setOpen(true)} />}</Totals>
      </div>
      {isOpen && <PurgeDialog onClose={() => setOpen(false)} />}
    </Section>
  );
}

/** What an upstream answered in the last minutes, and the requests that it has not answered yet. */
function Answered({ of: traffic, inFlight }: { of: Served | null; inFlight: number }) {
  const figures = traffic === null ? UNANSWERED : figuresOf(traffic);
  return (
    <Totals of={[...figures, ['In flight', countText(inFlight)]]}>
      <p class="hint">
        {traffic === null
          ? 'What it answered in the last ten minutes is unknown.'
          : 'Of the last ten minutes, as far as known.'}
      </p>
    </Totals>
  );
}

function figuresOf({ requests, errors, p50Ms, p99Ms, points }: Served): readonly Figure[] {
  const minutes = points.filter((point) => point !== null).length;
  return [
    ['Requests a minute', rateText(requests / Math.max(1, minutes))],
    ['Errors', percentText(errors, requests), errors >= FAILING * requests && errors > 0],
    ['Median (p50)', p50Ms === null ? '–' : latencyText(p50Ms)],
    ['99th percentile', p99Ms === null ? '–' : latencyText(p99Ms)],
  ];
}

const UNANSWERED: readonly Figure[] = figuresOf(NOTHING).map(([title]) => [title, 'unknown']);

/** What an upstream answered, by the traffic of the last minutes; null if nothing of them is known. */
function servedBy(name: string, recent: TrafficHistory | null): Served | null {
  if (recent === null || recent.period.points.every(({ known }) => known === 'none')) return null;
  const { series } = recent.period;
  // An upstream without a series may be one of the others.
  return series.find(({ value }) => value === name) ?? (series.some(({ isOthers }) => isOthers) ? null : NOTHING);
}

/**
 * Turns the reports of the gateways round, those first that fail most. Gateways with other settings may lack an upstream or a
 * target.
 */
function upstreamsOf(gateways: readonly Gateway[], recent: TrafficHistory | null): readonly Upstream[] {
  const names = gatewayNames(gateways);
  const called = gateways.map((gateway) => ({ ...gateway, host: names.get(gateway.id)! }));
  const reports = called.flatMap((gateway) => gateway.upstreams.map((upstream) => ({ gateway, ...upstream })));
  const all = [...Map.groupBy(reports, ({ name }) => name)].map(([name, on]) => {
    const seen = on.flatMap(({ gateway, targets }) => targets.map((target) => ({ gateway, ...target })));
    const targets = [...Map.groupBy(seen, ({ name }) => name)].map(([name, on]) => ({ name, on }));
    return { name, on, targets, traffic: servedBy(name, recent) };
  });
  return all.sort((a, b) => failedOf(b) - failedOf(a));
}
