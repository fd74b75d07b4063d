import { Component, type ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Act } from './act.tsx';
import { countText, latencyText, shareText, Time, Until, UtcDay } from './format.tsx';
import { Icon } from './icon.tsx';

/** How a cell shows its value. */
const FORMS = {
  text: (value: Value) => <bdi>{value}</bdi>,
  code: (value: Value) => <code>{value}</code>,
  count: (value: Value) => countText(Number(value)),
  share: (value: Value) => shareText(Number(value)),
  latency: (value: Value) => latencyText(Number(value)),
  time: (value: Value) => <Time at={value} />,
  day: (value: Value) => <Time at={value} dayOnly={true} />,
  utcDay: (value: Value) => <UtcDay of={String(value)} />,
  until: (value: Value) => <Until at={value} />,
} as const;

type Value = string | number;

export interface Column<Row> {
  readonly title: string;
  /** Numbers are aligned to the right. */
  readonly isNumber?: boolean;
  /** The column that names the row; a screen reader reads it with each cell. */
  readonly isName?: boolean;
  /** Its part of the width, in percent. The rows of a table whose columns have one take one line each. */
  readonly share?: number;
  /** What the rows are shown and sorted by, in this column. Text is compared as people of English read it. */
  readonly of?: (row: Row) => Value | null | undefined;
  /** How `of` is shown: as text unless given. */
  readonly as?: keyof typeof FORMS;
  /** What is shown if there is no value. */
  readonly none?: string;
  /** What rows are sorted by, for a column with `cell`. */
  readonly sort?: (row: Row) => Value;
  /** In place of `of`, for a cell that is more than one value. */
  readonly cell?: (row: Row) => ComponentChildren;
}

function cellOf<Row>({ cell, of, as = 'text', none = '–' }: Column<Row>, row: Row): ComponentChildren {
  if (cell) return cell(row);
  const value = of?.(row) ?? null;
  return value === null ? none : FORMS[as](value);
}

interface Order {
  readonly title: string;
  readonly isUp: boolean;
}

const words = new Intl.Collator('en', { numeric: true });

/** The rows that the reader has chosen, by their keys. */
export interface Selection<Row> {
  readonly selected: ReadonlyMap<string, Row>;
  readonly select: (rows: ReadonlyMap<string, Row>) => void;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Left out, rows cannot be chosen. */
  readonly selection?: Selection<Row> | undefined;
  /** In place of a table without rows. */
  readonly empty?: ComponentChildren;
  /** How many rows are shown until the reader asks for the others; all unless given. */
  readonly least?: number;
}

/**
 * A table that becomes a list of cards where it is narrow: each cell then shows its title. A click on a row follows the link of
 * the column that names it, if there is one.
 */
export function Table<Row>({
  caption,
  columns,
  rows: all,
  keyOf,
  selection,
  empty,
  least = Infinity,
}: TableProps<Row>) {
  const [order, setOrder] = useState<Order | null>(null);
  const [isWhole, setWhole] = useState(false);
  const body = useRef<HTMLTableSectionElement>(null);
  const rows = isWhole ? all : all.slice(0, least);
  const sorted = inOrder(rows, columns, order);
  const { first, last, height } = useInSight(rows.length, body);
  const latest = useRef(selection);
  latest.current = selection;
  // The same function at each drawing, so that rows that stay the same are not drawn again.
  const [choose] = useState(() => (row: Row) => {
    const { selected, select } = latest.current!;
    const next = new Map(selected);
    if (!next.delete(keyOf(row))) next.set(keyOf(row), row);
    select(next);
  });
  const isAll = selection !== undefined && rows.every((row) => selection.selected.has(keyOf(row)));
  const chooseAll = () => selection?.select(new Map(isAll ? [] : rows.map((row) => [keyOf(row), row])));
  if (all.length === 0 && empty !== undefined) return empty;
  const hasShares = columns.some(({ share }) => share !== undefined);
  const table = (
    <div class="table-frame">
      <table class={hasShares ? 'fixed' : ''} aria-rowcount={rows.length + 1}>
        <caption class="hidden">{caption}</caption>
        {hasShares && (
          <colgroup>
            {selection && <col width="44" />}
            {columns.map(({ title, share }) => (
              <col key={title} width={`${share}%`} />
            ))}
          </colgroup>
        )}
        <thead>
          <tr>
            {selection && (
              <td class="choice">
                <input type="checkbox" aria-label="Select all that are shown" checked={isAll} onChange={chooseAll} />
              </td>
            )}
            {columns.map((column) => (
              <Head key={column.title} of={column} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <Room of={first * height} />
        <tbody ref={body}>
          {sorted.slice(first, last).map((row, i) => (
            <TableRow
              key={keyOf(row)}
              row={row}
              index={first + i + 2}
              columns={columns}
              choose={selection && choose}
              isChosen={selection?.selected.has(keyOf(row)) === true}
            />
          ))}
        </tbody>
        <Room of={(rows.length - last) * height} />
      </table>
    </div>
  );
  if (rows.length === all.length) return table;
  return (
    <>
      {table}
      <p class="after">
        <Act text={`Show all ${countText(all.length)}`} on={() => setWhole(true)} />
      </p>
    </>
  );
}

/** A cell of two lines, the second of which is muted. */
export function Lines({ note, children }: { note: ComponentChildren; children: ComponentChildren }) {
  return (
    <span class="lines">
      {children}
      <span class="muted">{note}</span>
    </span>
  );
}

/** Rows up to which all are drawn, and how many are drawn of a longer list: those in sight, with as many around. */
const MAX_DRAWN = 200;

/** The rows of a list to draw, and how high one is. Own code: @tanstack/virtual-core is larger than what the page may still grow. */
function useInSight(count: number, body: { readonly current: HTMLElement | null }) {
  const [{ first, height }, set] = useState({ first: 0, height: 0 });
  const isLong = count > MAX_DRAWN;
  useEffect(() => {
    if (!isLong) return;
    const look = () => {
      const drawn = [...body.current!.children];
      const table = body.current!.parentElement!;
      const [from, to] = [drawn[0]!.getBoundingClientRect(), drawn.at(-1)!.getBoundingClientRect()];
      const height = (to.bottom - from.top) / drawn.length;
      const above = Math.floor(-table.getBoundingClientRect().top / height);
      // In steps, so that most scrolling draws nothing.
      const wanted = Math.floor((above - MAX_DRAWN / 3) / 50) * 50;
      set({ first: Math.max(0, Math.min(wanted, count - MAX_DRAWN)), height });
    };
    look();
    addEventListener('scroll', look, { passive: true, capture: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look, { capture: true });
      removeEventListener('resize', look);
    };
  }, [isLong, count]);
  return isLong ? { first, last: Math.min(count, first + MAX_DRAWN), height } : { first: 0, last: count, height: 0 };
}

/** The place of rows that are not drawn. @param of pixels */
function Room({ of: height }: { of: number }) {
  if (height === 0) return null;
  return (
    <tbody aria-hidden="true">
      <tr>
        <td height={Math.round(height)}></td>
      </tr>
    </tbody>
  );
}

/** Sorted by the column whose heading was clicked; otherwise as they came. */
function inOrder<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order | null): readonly Row[] {
  const keyIn = sortOf(columns.find(({ title }) => title === order?.title));
  if (order === null || keyIn === undefined) return rows;
  const sign = order.isUp ? 1 : -1;
  return rows.toSorted((one, other) => {
    const [a, b] = [keyIn(one), keyIn(other)];
    const difference = typeof a === 'number' && typeof b === 'number' ? a - b : words.compare(String(a), String(b));
    return sign * difference;
  });
}

function sortOf<Row>(column: Column<Row> | undefined): ((row: Row) => Value) | undefined {
  const of = column?.of;
  // Rows without a value come last.
  return column?.sort ?? (of && ((row) => of(row) ?? '\uffff'));
}

function Head<Row>({
  of: column,
  order,
  setOrder,
}: {
  of: Column<Row>;
  order: Order | null;
  setOrder: (order: Order) => void;
}) {
  const { title } = column;
  const kind = isNumeric(column) ? 'number' : '';
  // A column of buttons needs no heading.
  if (title === '') return <td></td>;
  if (sortOf(column) === undefined)
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
  if ((target as Element).closest('a, button, input') !== null || window.getSelection()?.isCollapsed === false) return;
  (currentTarget as Element).querySelector<HTMLElement>('th a')?.click();
}

function isNumeric<Row>({ isNumber, as }: Column<Row>): boolean {
  return isNumber === true || as === 'count' || as === 'share' || as === 'latency';
}

interface RowProps<Row> {
  readonly row: Row;
  readonly index: number;
  readonly columns: readonly Column<Row>[];
  readonly choose: ((row: Row) => void) | undefined;
  readonly isChosen: boolean;
}

/**
 * One row. While the row and the columns stay the same objects, it is not drawn again: a tail has many rows.
 *
 * Fault: a row that remembered its elements (`useMemo`) kept those of all rows before it alive, 1.3 GB after five minutes of Requests.
 */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate({ row, index, columns, isChosen }: RowProps<Row>): boolean {
    const { props } = this;
    return row !== props.row || index !== props.index || columns !== props.columns || isChosen !== props.isChosen;
  }

  override render({ row, index, columns, choose, isChosen }: RowProps<Row>) {
    return (
      <tr onClick={openRow} aria-rowindex={index} class={isChosen ? 'chosen' : ''}>
        {choose && (
          <td class="choice" data-title="">
            <input
              type="checkbox"
              aria-label={`Select row ${index - 1}`}
              checked={isChosen}
              onChange={() => choose(row)}
            />
          </td>
        )}
        {columns.map((column) =>
          column.isName ? (
            <th scope="row" data-title={column.title}>
              {cellOf(column, row)}
            </th>
          ) : (
            <td class={isNumeric(column) ? 'number' : ''} data-title={column.title}>
              {cellOf(column, row)}
            </td>
          ),
        )}
      </tr>
    );
  }
}
