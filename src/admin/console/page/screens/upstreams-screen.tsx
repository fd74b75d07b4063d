import { Table } from '../kit/data-table.tsx';
import { countText, plural } from '../kit/format.tsx';
import { Badge, Page, Section } from '../kit/page.tsx';
import { Good } from '../kit/seen.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { derived, type Known } from '../reading.ts';
import { useLatest, useResource } from '../requests.ts';
import type { Gateway, GatewayList, NowEvent } from '../types.ts';
import { gatewayNames, lastKnownText, NOW_MS, StreamSign } from './gateways-screen.tsx';

/** A target as the gateways see it. */
interface Target {
  readonly name: string;
  readonly on: readonly { readonly gateway: Gateway; readonly usable: boolean }[];
}

interface Upstream {
  readonly name: string;
  readonly on: readonly { readonly gateway: Gateway; readonly inFlight: number }[];
  readonly targets: readonly Target[];
}

/** The services behind the gateways: which target is left out, and where. */
export function Upstreams() {
  const asked = useResource<GatewayList>('/admin/gateways');
  const [stream, now] = useLatest<NowEvent>('/admin/events/now', 'now', NOW_MS);
  const reading = derived(now, ({ gateways }) => gateways);
  const fleet = reading.state === 'known' ? { ...asked, reading, error: null } : asked;
  return (
    <Page title="Upstreams" beside={<StreamSign state={stream} of={now} />}>
      <Shown of={fleet} what="the upstreams">
        {(list: GatewayList, seen) => {
          const { complete, gateways } = list;
          const upstreams = upstreamsOf(gateways);
          return (
            <>
              {!complete && (
                <div class="banner" role="alert">
                  <p class="state-title">The store is away</p>
                  <p>This shows only the gateway that serves this page: {lastKnownText(list)}.</p>
                </div>
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
                </>
              )}
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

function Summary({
  upstreams,
  gateways,
  seen,
}: {
  upstreams: readonly Upstream[];
  gateways: number;
  seen: Known<unknown>;
}) {
  const targets = upstreams.flatMap(({ name, targets }) => targets.map((target) => ({ upstream: name, ...target })));
  const down = targets
    .map((target) => ({ ...target, out: target.on.filter(({ usable }) => !usable).length }))
    .filter(({ out }) => out > 0)
    .sort((a, b) => b.out / b.on.length - a.out / a.on.length);
  return (
    <section class="panel" aria-label="Summary">
      {down.length === 0 ? (
        <p class="sentence large">
          <Good of={seen}>
            {targets.length === 1 ? 'The target is' : `All ${countText(targets.length)} targets are`} up on{' '}
            {gateways === 1 ? 'the gateway' : `all ${countText(gateways)} gateways`}.
          </Good>
        </p>
      ) : (
        <>
          <p class="sentence large">
            <Badge kind="bad">
              {plural(down.length, 'target')} of {countText(targets.length)} left out
            </Badge>
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

function OneUpstream({ name, on, targets, seen }: Upstream & { seen: Known<unknown> }) {
  const inFlight = on.reduce((sum, { inFlight }) => sum + inFlight, 0);
  return (
    <Section title={name} note={`${plural(inFlight, 'request')} in flight`}>
      {targets.length === 0 ? (
        <Empty title="This upstream has no targets." />
      ) : (
        <Table
          caption={`Targets of ${name}`}
          rows={targets}
          keyOf={(target: Target) => target.name}
          columns={[
            {
              title: 'Target',
              isName: true,
              sort: ({ name }: Target) => name,
              cell: ({ name }: Target) => <code class="wide">{name}</code>,
            },
            {
              title: 'Gateways up',
              sort: ({ on }: Target) => on.filter(({ usable }) => usable).length,
              cell: ({ on }: Target) => {
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
              cell: ({ on }: Target) => (
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
      )}
      <p class="hint after">
        In flight: {on.map(({ gateway, inFlight }) => `${gateway.host} ${countText(inFlight)}`).join(' · ')}
      </p>
    </Section>
  );
}

/** Turns the reports of the gateways round. Gateways with other settings may lack an upstream or a target. */
function upstreamsOf(gateways: readonly Gateway[]): readonly Upstream[] {
  const names = gatewayNames(gateways);
  const called = gateways.map((gateway) => ({ ...gateway, host: names.get(gateway.id)! }));
  const reports = called.flatMap((gateway) => gateway.upstreams.map((upstream) => ({ gateway, ...upstream })));
  return [...Map.groupBy(reports, ({ name }) => name)].map(([name, on]) => {
    const seen = on.flatMap(({ gateway, targets }) => targets.map((target) => ({ gateway, ...target })));
    return { name, on, targets: [...Map.groupBy(seen, ({ name }) => name)].map(([name, on]) => ({ name, on })) };
  });
}
