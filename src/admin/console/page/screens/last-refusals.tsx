import { useState } from 'preact/hooks';
import { Table } from '../kit/data-table.tsx';
import { Time } from '../kit/format.tsx';
import { Section } from '../kit/page.tsx';
import { calm, Empty, Shown } from '../kit/states.tsx';
import { hrefOf } from '../place.ts';
import type { Resource } from '../requests.ts';
import type { Refusal, RefusalsOfCaller } from '../types.ts';

/** How many are shown until the reader asks for the others. */
const FIRST = 10;

/** The last refused requests of a key or a customer, each with the way to why. */
export function LastRefusals({ id, recent }: { id: string; recent: Resource<RefusalsOfCaller> }) {
  const [showsAll, showAll] = useState(false);
  const requests = !id.startsWith('cus_') && (
    <a href={hrefOf(`/live?key=${encodeURIComponent(id)}`)}>Follow its requests</a>
  );
  return (
    <Section title="Last refusals" note={requests}>
      <Shown of={calm(recent)} what="the refusals">
        {({ refusals }: RefusalsOfCaller) =>
          refusals.length === 0 ? (
            <Empty title="No refusals.">
              <p>Each gateway remembers its last 10,000, until it ends.</p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Last refusals, newest first"
                rows={showsAll ? refusals : refusals.slice(0, FIRST)}
                keyOf={({ requestId, at }: Refusal) => `${at} ${requestId}`}
                columns={[
                  {
                    title: 'Request',
                    isName: true,
                    cell: ({ requestId }: Refusal) => (
                      <a
                        href={hrefOf(`/explain/${encodeURIComponent(requestId)}`)}
                        aria-label={`Why was ${requestId} refused?`}
                      >
                        <code class="id">{requestId}</code>
                      </a>
                    ),
                  },
                  { title: 'Time', sort: ({ at }: Refusal) => at, cell: ({ at }: Refusal) => <Time at={at} /> },
                  {
                    title: 'Route',
                    sort: ({ route }: Refusal) => route ?? '',
                    cell: ({ method, route, path }: Refusal) => (
                      <code>
                        {method} {route ?? path ?? '–'}
                      </code>
                    ),
                  },
                  {
                    title: 'Refusal',
                    sort: ({ code }: Refusal) => code,
                    cell: ({ status, code }: Refusal) => (
                      <>
                        {status} <code class="whole">{code}</code>
                      </>
                    ),
                  },
                  {
                    title: 'Address',
                    sort: ({ clientAddress }: Refusal) => clientAddress,
                    cell: ({ clientAddress }: Refusal) => <code class="whole">{clientAddress}</code>,
                  },
                ]}
              />
              {!showsAll && refusals.length > FIRST && (
                <p class="after">
                  <button type="button" onClick={() => showAll(true)}>
                    Show all {refusals.length}
                  </button>
                </p>
              )}
            </>
          )
        }
      </Shown>
    </Section>
  );
}
