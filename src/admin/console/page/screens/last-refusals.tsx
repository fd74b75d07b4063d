import { useState } from 'preact/hooks';
import { Table } from '../kit/data-table.tsx';
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
                  { title: 'Time', as: 'time', of: ({ at }: Refusal) => at },
                  {
                    title: 'Route',
                    as: 'code',
                    of: ({ method, route, path }: Refusal) => `${method} ${route ?? path ?? '–'}`,
                  },
                  {
                    title: 'Refusal',
                    sort: ({ code }: Refusal) => code,
                    cell: ({ status, code }: Refusal) => (
                      <>
                        {status} {code !== '' && <code class="nowrap">{code}</code>}
                      </>
                    ),
                  },
                  { title: 'Address', as: 'code', of: ({ clientAddress }: Refusal) => clientAddress },
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
