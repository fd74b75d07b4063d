import { ACTIONS } from '../actions.js';
import { CallerChoice, CallerField, useNamedCaller } from '../kit/caller-field.tsx';
import { CallerName } from '../kit/callers.tsx';
import { Table } from '../kit/data-table.tsx';
import { Field } from '../kit/dialog.tsx';
import { Choice, Filters, isRecordId } from '../kit/filters.tsx';
import { ShowMore, useMore } from '../kit/more.tsx';
import { Page } from '../kit/page.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import { usePlace } from '../place.ts';
import type { Change, ChangePage } from '../types.ts';
import { actionText, CHANGE_COLUMNS } from './change-columns.tsx';

/** What `since` takes, from the present back. */
const SPANS: readonly (readonly [since: string, title: string])[] = [
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

/** Who changed what. */
export function Audit() {
  const { query } = usePlace();
  const asked = new URLSearchParams({ limit: '50' });
  const caller = useNamedCaller(true);
  if (caller.id !== null) asked.set('key', caller.id);
  for (const name of ['actor', 'action', 'since', 'until']) {
    const value = query.get(name) ?? '';
    if (value !== '') asked.set(name, value);
  }
  return (
    <Page title="Audit">
      <Filters path="/audit" label="Filter the changes">
        <CallerField id="audit-key" withCustomers={true} />
        <Choice
          id="audit-action"
          name="action"
          label="Action"
          any="all"
          options={ACTIONS.map((action) => [action, actionText(action)])}
        />
        <Field id="audit-actor" label="Actor">
          <input
            id="audit-actor"
            name="actor"
            placeholder="Actor: jo, jo (token)"
            size={20}
            autocomplete="off"
            spellcheck={false}
          />
        </Field>
        <Choice id="audit-since" name="since" label="Since" any="any time" options={SPANS} />
        <Field id="audit-until" label="Before">
          <input
            id="audit-until"
            name="until"
            pattern={'\\d{4}-\\d\\d-\\d\\d'}
            title="A day such as 2026-12-31; changes before it, UTC"
            placeholder="Before: YYYY-MM-DD"
            size={18}
            autocomplete="off"
            spellcheck={false}
          />
        </Field>
      </Filters>
      {caller.isSettled ? (
        <List path={`/admin/audit?${asked}`} isFiltered={asked.size > 1} />
      ) : (
        <CallerChoice of={caller} />
      )}
    </Page>
  );
}

function List({ path, isFiltered }: { path: string; isFiltered: boolean }) {
  const { first, pages, ...more } = useMore<ChangePage>(path);
  const changes = pages.flatMap(({ changes }) => changes);
  const unreadable = pages.flatMap(({ unreadable }) => unreadable);
  return (
    <Shown of={first} what="the changes">
      {() =>
        changes.length + unreadable.length === 0 && !more.hasMore ? (
          <Empty title={isFiltered ? 'No change matches these filters.' : 'No change was made yet.'}>
            <p>Changes to keys, bans, plans and settings are recorded here, those by commands and files too.</p>
          </Empty>
        ) : (
          <div>
            <Table
              caption="Changes, newest first"
              rows={changes}
              keyOf={({ id }: Change) => id}
              columns={[
                ...CHANGE_COLUMNS.slice(0, 3),
                {
                  title: 'Target',
                  cell: ({ target, name }: Change) => <Target id={target} name={name} />,
                },
                ...CHANGE_COLUMNS.slice(3),
                {
                  title: 'Request id',
                  cell: ({ requestId, clientAddress }: Change) => (
                    <span class="lines">
                      {requestId === null ? '–' : <code class="id">{requestId}</code>}
                      <span class="muted">{clientAddress}</span>
                    </span>
                  ),
                },
              ]}
            />
            <UnreadableRows rows={unreadable} noun="change" />
            <ShowMore count={changes.length} noun="change" {...more} />
          </div>
        )
      }
    </Shown>
  );
}

function Target({ id, name }: { id: string | null; name: string | null }) {
  if (id === null) return '–';
  if (!isRecordId(id)) return <code>{id}</code>;
  return <CallerName id={id} name={name} owner={null} />;
}
