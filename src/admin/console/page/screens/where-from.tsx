import { Table } from '../kit/data-table.tsx';
import { countText, shareText, Time } from '../kit/format.tsx';
import { Section } from '../kit/page.tsx';
import { calm, Empty, Shown } from '../kit/states.tsx';
import { useResource } from '../requests.ts';
import type { KeyNetworks } from '../types.ts';

const REFRESH_MS = 15_000;

type Row = KeyNetworks['networks'][number] | (NonNullable<KeyNetworks['others']> & { network: null; firstAt: null });

/** From which networks a key was called, and attempts with secrets of it that have ended. */
export function WhereFrom({ id }: { id: string }) {
  const networks = useResource<KeyNetworks>(`/admin/keys/${encodeURIComponent(id)}/networks`, REFRESH_MS);
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
            {networks.length === 0 ? (
              <Empty title="No calls in the last 30 days." />
            ) : (
              <Table
                caption="Networks, by calls"
                rows={[...networks, ...(others ? [{ ...others, network: null, firstAt: null }] : [])]}
                keyOf={({ network }: Row) => network ?? ''}
                columns={COLUMNS}
              />
            )}
            {isKept ? (
              <p class="muted after">
                Calls since <Time at={since} dayOnly={true} />, refused ones among them.
              </p>
            ) : (
              <p class="muted after">Nothing is added at present: usage.networks or usage.history is off.</p>
            )}
          </>
        )}
      </Shown>
    </Section>
  );
}

const COLUMNS = [
  {
    title: 'Network',
    isName: true,
    sort: ({ network }: Row) => network ?? '',
    cell: ({ network }: Row) => (network === null ? 'All others' : <code class="nowrap">{network}</code>),
  },
  {
    title: 'First',
    sort: ({ firstAt }: Row) => firstAt ?? '',
    cell: ({ firstAt }: Row) => (firstAt === null ? '–' : <Time at={firstAt} />),
  },
  { title: 'Last', sort: ({ lastAt }: Row) => lastAt, cell: ({ lastAt }: Row) => <Time at={lastAt} /> },
  { title: 'Calls', isNumber: true, sort: ({ calls }: Row) => calls, cell: ({ calls }: Row) => countText(calls) },
  {
    title: 'Share',
    isNumber: true,
    sort: ({ share }: Row) => share,
    cell: ({ share }: Row) => shareText(share),
  },
] as const;
