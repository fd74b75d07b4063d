import { Component, type ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

export interface Column<Row> {
  readonly title: string;
  /** Numbers are aligned to the right. */
  readonly isNumber?: boolean;
  /** The column that names the row; a screen reader reads it with each cell. */
  readonly isName?: boolean;
  /** What the rows can be sorted by, in this column. Text is compared as people of English read it. */
  readonly sort?: (row: Row) => string | number;
  readonly cell: (row: Row) => ComponentChildren;
}

interface Order {
  readonly title: string;
  readonly isUp: boolean;
}

const words = new Intl.Collator('en', { numeric: true });

/**
 * A table that becomes a list of cards where it is narrow: each cell then shows its title. A click on a row follows the link of
 * the column that names it, if there is one.
 */
export function Table<Row>({
  caption,
  columns,
  rows,
  keyOf,
}: {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
}) {
  const [order, setOrder] = useState<Order | null>(null);
  const sorted = inOrder(rows, columns, order);
  return (
    <div class="table-frame">
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.title} of={column} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <TableRow key={keyOf(row)} row={row} columns={columns} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Sorted by the column whose heading was clicked; otherwise as they came. */
function inOrder<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order | null): readonly Row[] {
  const keyIn = columns.find(({ title }) => title === order?.title)?.sort;
  if (order === null || keyIn === undefined) return rows;
  const sign = order.isUp ? 1 : -1;
  return rows.toSorted((one, other) => {
    const [a, b] = [keyIn(one), keyIn(other)];
    const difference = typeof a === 'number' && typeof b === 'number' ? a - b : words.compare(String(a), String(b));
    return sign * difference;
  });
}

function Head<Row>({
  of: { title, isNumber, sort },
  order,
  setOrder,
}: {
  of: Column<Row>;
  order: Order | null;
  setOrder: (order: Order) => void;
}) {
  const kind = isNumber ? 'number' : '';
  // A column of buttons needs no heading.
  if (title === '') return <td></td>;
  if (sort === undefined)
    return (
      <th scope="col" class={kind}>
        {title}
      </th>
    );
  const isSorted = order?.title === title;
  const isUp = isSorted && order.isUp;
  const turn = () => setOrder({ title, isUp: !isUp });
  return (
    <th scope="col" class={kind} aria-sort={!isSorted ? 'none' : isUp ? 'ascending' : 'descending'}>
      <button type="button" onClick={turn}>
        {title}
        {isSorted && <Icon of={isUp ? 'up' : 'down'} />}
      </button>
    </th>
  );
}

/** Follows the link that names a row when another part of the row is clicked, but not while text is selected. */
function openRow({ target, currentTarget }: MouseEvent): void {
  if ((target as Element).closest('a, button') !== null || window.getSelection()?.isCollapsed === false) return;
  (currentTarget as Element).querySelector<HTMLElement>('th a')?.click();
}

interface RowProps<Row> {
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
}

/**
 * One row. While the row and the columns stay the same objects, it is not drawn again: a tail has many rows.
 *
 * Fault: a row that remembered its elements (`useMemo`) kept those of all rows before it alive, 1.3 GB after five minutes of Requests.
 */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate({ row, columns }: RowProps<Row>): boolean {
    return row !== this.props.row || columns !== this.props.columns;
  }

  override render({ row, columns }: RowProps<Row>) {
    return (
      <tr onClick={openRow}>
        {columns.map(({ title, isNumber, isName, cell }) =>
          isName ? (
            <th scope="row" data-title={title}>
              {cell(row)}
            </th>
          ) : (
            <td class={isNumber ? 'number' : ''} data-title={title}>
              {cell(row)}
            </td>
          ),
        )}
      </tr>
    );
  }
}
