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

/** The cells of one row, as text for the table and for the page. */
export function cellsOf(row: Row): readonly string[] {
  return [
    row.scenario,
    row.answers.map(([label, count]) => `${label}: ${count}`).join(', ') || '—',
    waitOf(row),
    row.quotas
      .filter(({ key }) => key !== 'steady')
      .map(admittedOf)
      .join(', ') || '—',
    row.bans,
    row.normalAfterMs === null ? 'never' : `${row.normalAfterMs.toFixed(0)} ms`,
    row.broken.length === 0 ? 'held' : 'BROKEN',
  ];
}

function waitOf({ longestWaitMs, waitAllowedMs }: Row): string {
  const most = Number.isFinite(waitAllowedMs) ? ` of ${waitAllowedMs.toFixed(0)}` : '';
  return `${longestWaitMs.toFixed(0)}${most} ms`;
}

/** `fast 231 of 200, at most 600`. */
function admittedOf({ key, limit, admitted, most, countedMore }: Quota): string {
  const bound = most === limit ? '' : `, at most ${most}`;
  const counted =
    countedMore === null || countedMore === 0 ? '' : `, counted ${countedMore > 0 ? '+' : ''}${countedMore}`;
  return `${key} ${admitted}/${limit}${bound}${counted}`;
}
