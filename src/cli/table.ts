/**
 * Rows for people on a terminal: aligned columns under their heads. Elsewhere one line a row, cells parted by tabs and
 * no heads, for `cut` and `awk` (contract section 1: tables only on a terminal).
 */
export function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  { isTerminal }: { readonly isTerminal: boolean },
): string {
  if (!isTerminal) return rows.map((row) => `${row.join('\t')}\n`).join('');
  const widths = heads.map((head, i) =>
    // Not Math.max of all: there may be more rows than a call takes arguments.
    rows.reduce((width, row) => Math.max(width, row[i]?.length ?? 0), head.length),
  );
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()}\n`;
  return [line(heads.map((head) => head.toUpperCase())), ...rows.map(line)].join('');
}
