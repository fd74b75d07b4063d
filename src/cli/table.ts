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
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()}\n`;
  return [line(heads.map((head) => head.toUpperCase())), ...rows.map(line)].join('');
}
