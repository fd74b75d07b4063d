import { alignedLines } from '../../kit/report/text-table.ts';
import type { Row } from '../row.ts';
import { cellsOf, HEADS } from './cells.ts';

/** The rows for a terminal or a file: the columns that are short, and below each scenario what is long. */
export function tableText(rows: readonly Row[]): string {
  const short = (cells: readonly string[]) => [0, 2, 4, 5, 6].map((column) => cells[column]!);
  const [head, ...body] = alignedLines([short(HEADS), ...rows.map((row) => short(cellsOf(row)))]);
  const details = rows.map((row) => {
    const [, saw, , admitted] = cellsOf(row);
    return [`  saw ${saw}`, ...(admitted === '—' ? [] : [`  admitted ${admitted}`])]
      .concat(
        row.notes.map((note) => `  ${note}`),
        row.broken.map((it) => `  BROKEN: ${it}`),
      )
      .join('\n');
  });
  return `${[head, ...body.flatMap((line, i) => [line, details[i]])].join('\n')}\n`;
}
