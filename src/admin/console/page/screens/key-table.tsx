import { CallerName } from '../kit/callers.tsx';
import { Table } from '../kit/data-table.tsx';
import { Time, UtcDay } from '../kit/format.tsx';
import type { Key } from '../types.ts';
import { ATTRIBUTE_COLUMNS } from './attribute-fields.tsx';
import { KeyState, LastFour } from './caller-facts.tsx';
import { useStandings } from './caller-state.ts';

/** A list of keys. @param isOfOne whether all are of one customer, which the list then does not repeat */
export function KeyTable({ keys, isOfOne = false }: { keys: readonly Key[]; isOfOne?: boolean }) {
  const standing = useStandings();
  const hasUse = keys.some(({ lastUsedOn }) => lastUsedOn !== undefined);
  return (
    <Table
      caption="Keys"
      rows={keys}
      keyOf={(key: Key) => key.id}
      columns={[
        {
          title: 'Key',
          isName: true,
          sort: ({ id, name }: Key) => name ?? id,
          cell: ({ id, name, customer }: Key) => (
            <CallerName id={id} name={name} owner={null} customer={isOfOne ? undefined : customer} />
          ),
        },
        { title: 'Plan', sort: ({ plan }: Key) => plan ?? '', cell: ({ plan }: Key) => plan ?? 'unknown' },
        ...ATTRIBUTE_COLUMNS,
        { title: 'Last four', cell: (key: Key) => <LastFour of={key} /> },
        {
          title: 'Created',
          sort: ({ createdAt }: Key) => createdAt,
          cell: ({ createdAt }: Key) => <Time at={createdAt} dayOnly={true} />,
        },
        {
          title: 'Expires',
          sort: ({ expiresAt }: Key) => expiresAt ?? '9',
          cell: ({ expiresAt }: Key) => (expiresAt === null ? 'never' : <Time at={expiresAt} dayOnly={true} />),
        },
        ...(hasUse
          ? [
              {
                title: 'Last used',
                sort: ({ lastUsedOn }: Key) => lastUsedOn ?? '',
                cell: ({ lastUsedOn }: Key) => (lastUsedOn ? <UtcDay of={lastUsedOn} /> : 'not within 92 days'),
              },
            ]
          : []),
        { title: 'State', cell: (key: Key) => <KeyState of={key} standing={standing(key.id)} /> },
      ]}
    />
  );
}
