/** The cells of a file, row by row; null: an empty one. */
export type CsvRows = readonly (readonly (string | number | null | undefined)[])[];

/** Rows as CSV (RFC 4180). */
function csvText(rows: CsvRows): string {
  return rows.map((row) => `${row.map(cellText).join()}\r\n`).join('');
}

/**
 * Attack: a key's name such as `=HYPERLINK(…)` runs as a formula when a spreadsheet opens the file. A text that begins
 * like a formula gets an apostrophe, which makes it plain text (OWASP, CSV injection).
 */
function cellText(value: CsvRows[number][number]): string {
  if (value == null) return '';
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Saves rows as a CSV file of the reader's, without asking the gateway. */
export function saveCsv(name: string, rows: CsvRows): void {
  const url = URL.createObjectURL(new Blob([csvText(rows)], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun to read the file by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
