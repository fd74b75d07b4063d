import type { Quota, Row } from '../row.ts';

export const HEADS = [
  'scenario',
  'clients saw',
  'longest wait',
  'admitted',
  'bans',
  'normal after',
  'verdict',
] as const;

/** Stands between the items of one cell. */
export const BETWEEN = '; ';

/** The cells of one row, as text for the table and for the page. */
export function cellsOf(row: Row): readonly string[] {
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
