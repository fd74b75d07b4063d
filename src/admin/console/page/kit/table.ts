import { useMemo } from 'preact/hooks';
import { type Children, html } from '../html.ts';

export interface Column<Row> {
  readonly title: string;
  /** Numbers are aligned to the right. */
  readonly isNumber?: boolean;
  /** The column that names the row; a screen reader reads it with each cell. */
  readonly isName?: boolean;
  readonly cell: (row: Row) => Children;
}

/** A table that becomes a list of cards where it is narrow: each cell then shows its title. */
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
  return html`<div class="table-frame">
    <table>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(({ title, isNumber }) => html`<th scope="col" class=${isNumber ? 'number' : ''}>${title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<${TableRow} key=${keyOf(row)} row=${row} columns=${columns} />`)}
      </tbody>
    </table>
  </div>`;
}

/** One row. While the row and the columns stay the same objects, it is not compared again: a tail has 500 rows. */
function TableRow<Row>({ row, columns }: { row: Row; columns: readonly Column<Row>[] }) {
  return useMemo(
    () =>
      html`<tr>
        ${columns.map(({ title, isNumber, isName, cell }) =>
          isName
            ? html`<th scope="row" data-title=${title}>${cell(row)}</th>`
            : html`<td class=${isNumber ? 'number' : ''} data-title=${title}>${cell(row)}</td>`,
        )}
      </tr>`,
    [row, columns],
  );
}
