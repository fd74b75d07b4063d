import { type Column, Table } from '../kit/data-table.tsx';
import { countText, plural, Time } from '../kit/format.tsx';
import { Section } from '../kit/page.tsx';
import { calm, Empty, Shown } from '../kit/states.tsx';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { GatewayList, KeyNetworks } from '../types.ts';

const REFRESH_MS = 15_000;

type Row = KeyNetworks['networks'][number] | (NonNullable<KeyNetworks['others']> & { network: null; firstAt: null });

/** From which networks a key was called, and attempts with secrets of it that have ended. */
export function WhereFrom({ id }: { id: string }) {
  const networks = useResource<KeyNetworks>(`/admin/keys/${encodeURIComponent(id)}/networks`, REFRESH_MS);
  const fleet = ifKnown(useResource<GatewayList>('/admin/gateways').reading)?.gateways ?? [];
  const lacking = fleet.reduce((sum, { callsWithoutNetwork = 0 }) => sum + callsWithoutNetwork, 0);
  return (
    <Section title="Where from" note="The networks that called with this key.">
      <Shown of={calm(networks)} what="the networks">
        {({ since, networks, others, endedSecrets, isKept }) => (
          <>
            {endedSecrets.map(({ last4, refused, firstAt, lastAt, network }) => (
              <div key={last4} class="state problem">
                <p class="state-title">
                  {last4 === null ? 'An ended secret' : `…${last4}`}: {countText(refused)} refused since{' '}
                  <Time at={firstAt} />
                </p>
                <p>
                  This secret has ended, and is still sent: last from <code class="nowrap">{network}</code>{' '}
                  <Time at={lastAt} />.
                </p>
              </div>
            ))}
            <Table
              caption="Networks, by calls"
              rows={[...networks, ...(others ? [{ ...others, network: null, firstAt: null }] : [])]}
              keyOf={({ network }) => network ?? ''}
              columns={COLUMNS}
              empty={<Empty title="No calls in the last 30 days." />}
            />
            {isKept ? (
              <p class="muted after">
                Calls since <Time at={since} dayOnly={true} />, refused ones among them.
              </p>
            ) : (
              <p class="muted after">Nothing is added at present: usage.networks or usage.history is off.</p>
            )}
            {lacking > 0 && (
              <p class="muted">
                The networks of {plural(lacking, 'call')} were not counted since the gateways started, because more than
                10,000 keys called at a time: some of this key may be among them.
              </p>
            )}
          </>
        )}
      </Shown>
    </Section>
  );
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'Network', isName: true, as: 'code', of: ({ network }) => network, none: 'All others' },
  { title: 'First', as: 'time', of: ({ firstAt }) => firstAt },
  { title: 'Last', as: 'time', of: ({ lastAt }) => lastAt },
  { title: 'Calls', as: 'count', of: ({ calls }) => calls },
  { title: 'Share', as: 'share', of: ({ share }) => share },
];
