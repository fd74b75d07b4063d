import { CallerName } from '../kit/callers.tsx';
import { type Selection, Table } from '../kit/data-table.tsx';
import type { Key } from '../types.ts';
import { ATTRIBUTE_COLUMNS } from './attribute-fields.tsx';
import { KeyState, LastFour } from './caller-facts.tsx';
import { useStandings } from './caller-state.ts';

/** A list of keys. @param isOfOne whether all are of one customer, which the list then does not repeat */
export function KeyTable({
  keys,
  isOfOne = false,
  selection,
}: {
  keys: readonly Key[];
  isOfOne?: boolean;
  selection?: Selection<Key> | undefined;
}) {
  const standing = useStandings();
  const hasUse = keys.some(({ lastUsedOn }) => lastUsedOn !== undefined);
  return (
    <Table
      caption="Keys"
      rows={keys}
      selection={selection}
      keyOf={(key: Key) => key.id}
      columns={[
        {
          title: 'Key',
          isName: true,
          share: 32,
          sort: ({ id, name }: Key) => name ?? id,
          cell: ({ id, name, customer }: Key) => (
            <CallerName id={id} name={name} owner={null} customer={isOfOne ? undefined : customer} />
          ),
        },
        { title: 'Plan', share: 10, of: ({ plan }: Key) => plan, none: 'unknown' },
        ...ATTRIBUTE_COLUMNS,
        { title: 'Last four', share: 9, cell: (key: Key) => <LastFour of={key} /> },
        { title: 'Created', share: 11, as: 'day', of: ({ createdAt }: Key) => createdAt },
        { title: 'Expires', share: 11, as: 'day', of: ({ expiresAt }: Key) => expiresAt, none: 'never' },
        ...(hasUse
          ? [
              {
                title: 'Last used',
                share: 13,
                as: 'utcDay' as const,
                of: ({ lastUsedOn }: Key) => lastUsedOn,
                none: 'not within 92 days',
              },
            ]
          : []),
        { title: 'State', share: 12, cell: (key: Key) => <KeyState of={key} standing={standing(key.id)} /> },
      ]}
    />
  );
}
