import { callerColumn } from '../kit/callers.tsx';
import { type Selection, Table } from '../kit/data-table.tsx';
import type { Key } from '../types.ts';
import { ATTRIBUTE_COLUMNS } from './attribute-fields.tsx';
import { KeyState, LastFour } from './caller-facts.tsx';
import { useStandings } from './caller-state.ts';

interface KeyTableProps {
  readonly keys: readonly Key[];
  readonly isOfOne?: boolean;
  readonly selection?: Selection<Key> | undefined;
}

/** A list of keys. @param isOfOne whether all are of one customer, which the list then does not repeat */
export function KeyTable({ keys, isOfOne = false, selection }: KeyTableProps) {
  const standing = useStandings();
  const hasUse = keys.some(({ lastUsedOn }) => lastUsedOn !== undefined);
  return (
    <Table
      caption="Keys"
      rows={isOfOne ? keys.map(({ customer, ...key }) => key) : keys}
      selection={selection}
      keyOf={(key: Key) => key.id}
      columns={[
        callerColumn('Key', false, 26),
        { title: 'Plan', share: 9, of: ({ plan }: Key) => plan, none: 'unknown' },
        ...ATTRIBUTE_COLUMNS,
        { title: 'Last four', share: 8, cell: (key: Key) => <LastFour of={key} /> },
        { title: 'Created', share: 12, as: 'day', of: ({ createdAt }: Key) => createdAt },
        { title: 'Expires', share: 12, as: 'day', of: ({ expiresAt }: Key) => expiresAt, none: 'never' },
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
        { title: 'State', share: 16, cell: (key: Key) => <KeyState of={key} standing={standing(key.id)} /> },
      ]}
    />
  );
}
