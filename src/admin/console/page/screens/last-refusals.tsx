import { type Column, Table } from '../kit/data-table.tsx';
import { say } from '../kit/format.tsx';
import { Section } from '../kit/page.tsx';
import { calm, Empty, Shown } from '../kit/states.tsx';
import { hrefOf } from '../place.ts';
import type { Resource } from '../requests.ts';
import type { Refusal, RefusalsOfCaller } from '../types.ts';

/** How many are shown until the reader asks for the others. */
const LEAST = 10;

const COLUMNS: readonly Column<Refusal>[] = [
  {
    title: 'Request',
    isName: true,
    cell: ({ requestId }) => (
      <a href={hrefOf(`/explain/${encodeURIComponent(requestId)}`)} aria-label={`Why was ${requestId} refused?`}>
        <code class="id">{requestId}</code>
      </a>
    ),
  },
  { title: 'Time', as: 'time', of: ({ at }) => at },
  { title: 'Route', as: 'code', of: ({ method, route, path }) => `${method} ${route ?? path ?? '–'}` },
  {
    title: 'Refusal',
    sort: ({ code }) => code,
    cell: ({ status, code }) => say`${status} ${code !== '' && <code class="nowrap">{code}</code>}`,
  },
  { title: 'Address', as: 'code', of: ({ clientAddress }) => clientAddress },
];

/** The last refused requests of a key or a customer, each with the way to why. */
export function LastRefusals({ id, recent }: { id: string; recent: Resource<RefusalsOfCaller> }) {
  const requests = !id.startsWith('cus_') && (
    <a href={hrefOf(`/live?key=${encodeURIComponent(id)}`)}>Follow its requests</a>
  );
  return (
    <Section title="Last refusals" note={requests}>
      <Shown of={calm(recent)} what="the refusals">
        {({ refusals }) => (
          <Table
            caption="Last refusals, newest first"
            rows={refusals}
            keyOf={({ requestId, at }) => `${at} ${requestId}`}
            columns={COLUMNS}
            least={LEAST}
            empty={
              <Empty title="No refusals.">
                <p>Each gateway remembers its last 10,000, until it ends.</p>
              </Empty>
            }
          />
        )}
      </Shown>
    </Section>
  );
}
