import { alignedLines } from '../kit/text-table.ts';
import type { Quota, Row } from './row.ts';

const HEADS = ['scenario', 'clients saw', 'longest wait', 'admitted', 'bans', 'normal after', 'verdict'] as const;

/** Stands between the items of one cell. */
const BETWEEN = '; ';

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

/** The cells of one row. */
function cellsOf(row: Row): readonly string[] {
  return [
    row.scenario,
    row.answers.map(([label, count]) => `${label}: ${count}`).join(BETWEEN) || '—',
    waitOf(row),
    row.quotas
      .filter(({ key }) => key !== 'steady')
      .map(admittedOf)
      .join(BETWEEN) || '—',
    row.bans,
    row.normalAfterMs === null ? 'never' : `${row.normalAfterMs.toFixed(0)} ms`,
    row.broken.length === 0 ? 'held' : 'BROKEN',
  ];
}

function waitOf({ longestWaitMs, waitAllowedMs }: Row): string {
  const most = Number.isFinite(waitAllowedMs) ? ` of ${waitAllowedMs.toFixed(0)}` : '';
  return `${longestWaitMs.toFixed(0)}${most} ms`;
}

/** `fast 231/200 (at most 600, counted -2)`. */
function admittedOf({ key, limit, admitted, most, countedMore }: Quota): string {
  const bound = most === limit ? [] : [`at most ${most}`];
  const counted = (countedMore ?? 0) === 0 ? [] : [`counted ${countedMore! > 0 ? '+' : ''}${countedMore}`];
  const more = [...bound, ...counted].join(', ');
  return `${key} ${admitted}/${limit}${more === '' ? '' : ` (${more})`}`;
}
