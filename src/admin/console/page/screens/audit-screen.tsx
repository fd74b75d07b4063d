import { ACTIONS } from '../actions.js';
import { CallerChoice, useNamedCaller } from '../kit/caller-field.tsx';
import { CallerName, isRecordId } from '../kit/callers.tsx';
import { type Column, Lines, Table } from '../kit/data-table.tsx';
import type { Filter } from '../kit/filters.tsx';
import type { Change, ChangePage } from '../types.ts';
import { actionText, actorText, CHANGE_COLUMNS, changeText } from './change-columns.tsx';
import { ListScreen } from './list-screen.tsx';

/** What `since` takes, from the present back. */
const SINCE = [
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
] as const;

/** Those of `GET /admin/audit`. */
const FILTERS: readonly Filter[] = [
  { name: 'key', label: 'Key or customer', as: 'record' },
  { name: 'action', label: 'Action', as: 'choice', options: ACTIONS.map((one) => [one, actionText(one)]) },
  { name: 'actor', label: 'Actor', placeholder: 'Actor: jo, jo (token)' },
  { name: 'since', label: 'Since', as: 'choice', any: 'any time', options: SINCE },
  {
    name: 'until',
    label: 'Before',
    pattern: '\\d{4}-\\d\\d-\\d\\d',
    title: 'A day such as 2026-12-31; changes before it, UTC',
    placeholder: 'Before: YYYY-MM-DD',
  },
];

const COLUMNS: readonly Column<Change>[] = [
  ...CHANGE_COLUMNS.slice(0, 3),
  {
    title: 'Target',
    cell: ({ target: id, name }) =>
      id === null ? '–' : isRecordId(id) ? <CallerName id={id} name={name} owner={null} /> : <code>{id}</code>,
  },
  ...CHANGE_COLUMNS.slice(3),
  {
    title: 'Request id',
    cell: ({ requestId, clientAddress }) => (
      <Lines note={clientAddress}>{requestId === null ? '–' : <code class="id">{requestId}</code>}</Lines>
    ),
  },
];

/** Who changed what. */
export function Audit() {
  const caller = useNamedCaller(true);
  return (
    <ListScreen
      noun="change"
      title="Audit"
      path="/audit"
      filters={FILTERS}
      ask={(given) => {
        if (caller.id !== null) given.set('key', caller.id);
        return given;
      }}
      instead={caller.isSettled ? null : <CallerChoice of={caller} />}
      rowsOf={({ changes }: ChangePage) => changes}
      tableOf={(changes: readonly Change[]) => (
        <Table caption="Changes, newest first" rows={changes} keyOf={({ id }) => id} columns={COLUMNS} />
      )}
      csv={(changes) => [
        ['time', 'actor', 'kind', 'action', 'outcome', 'code', 'target', 'name', 'change', 'request id', 'address'],
        ...changes.map(({ actor, ...one }) => [
          ...[one.time, actorText(actor), actor.kind, one.action, one.outcome, one.code, one.target, one.name],
          ...[changeText(one), one.requestId, one.clientAddress],
        ]),
      ]}
      none={<p>Changes to keys, bans, plans and settings are recorded here, those by commands and files too.</p>}
    />
  );
}
