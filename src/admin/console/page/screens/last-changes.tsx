import { auditHref } from '../kit/callers.tsx';
import { Table } from '../kit/data-table.tsx';
import { Section } from '../kit/page.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import type { Resource } from '../requests.ts';
import type { Change, ChangePage } from '../types.ts';
import { CHANGE_COLUMNS } from './change-columns.tsx';

/**
 * The last changes of one key or customer.
 * @param what `key` or `customer`
 * @param changes the first page, which may be empty although the record has older ones
 */
export function LastChanges({ id, what, changes }: { id: string; what: string; changes: Resource<ChangePage> }) {
  const all = <a href={auditHref(id)}>All in Audit</a>;
  return (
    <Section title="Last changes" note={all}>
      <Shown of={changes} what="the changes">
        {({ changes, unreadable, cursor }: ChangePage) => (
          <>
            <Table
              caption={`Last changes of this ${what}`}
              rows={changes}
              keyOf={(change: Change) => change.id}
              columns={CHANGE_COLUMNS}
              empty={
                <Empty
                  title={
                    cursor === null
                      ? `No change of this ${what} is recorded.`
                      : `The latest changes do not concern this ${what}. Audit goes further back.`
                  }
                />
              }
            />
            <UnreadableRows rows={unreadable} noun="change" />
          </>
        )}
      </Shown>
    </Section>
  );
}
