/**
 * Formats rows for a terminal as aligned columns under their heads. If standard output is not a terminal, each row is one
 * line with tabs between its cells and there are no heads, for `cut` and `awk` (contract section 1).
 */
export function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  { isTerminal }: { readonly isTerminal: boolean },
): string {
  if (!isTerminal) return rows.map((row) => `${row.join('\t')}\n`).join('');
  const widths = heads.map((head, i) =>
    // Math.max(...) would fail here: there may be more rows than a call takes arguments.
    rows.reduce((width, row) => Math.max(width, row[i]?.length ?? 0), head.length),
  );
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()}\n`;
  return [line(heads.map((head) => head.toUpperCase())), ...rows.map(line)].join('');
}
