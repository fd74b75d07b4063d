/** Lines with aligned columns. @param isRight whether the cells of a column stand on its right */
export function alignedLines(
  rows: readonly (readonly string[])[],
  isRight: (column: number) => boolean = () => false,
): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const aligned = (cell: string, column: number) =>
    isRight(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!);
  return rows.map((row) => row.map(aligned).join('  ').trimEnd());
}
