import { readCsv, Unreadable } from './csv.ts';

/** What a line of a file says of one key, by column; null where JSON said null, left out where it was empty. */
export type Row = Readonly<Partial<Record<Column, unknown>>>;

/** One line, or what is wrong with it. */
export type Line = { readonly line: number; readonly row: Row } | { readonly line: number; readonly fault: string };

export const COLUMNS = [
  'key',
  'sha256',
  'last4',
  'plan',
  'name',
  'owner',
  'notes',
  'limits',
  'expires',
  'created',
] as const;
export type Column = (typeof COLUMNS)[number];

const LONGEST_LINE = 64 * 1024;

/**
 * Reads a file of keys: CSV with a header, or NDJSON, one object a line.
 * @throws Unreadable where there is no way to go on
 */
export function readRows(chunks: AsyncIterable<string>, format: 'csv' | 'ndjson'): AsyncGenerator<Line> {
  return format === 'csv' ? fromCsv(chunks) : fromNdjson(chunks);
}

async function* fromCsv(chunks: AsyncIterable<string>): AsyncGenerator<Line> {
  let columns: readonly Column[] | null = null;
  for await (const { line, cells } of readCsv(chunks)) {
    if (columns === null) columns = columnsOf(line, cells);
    else if (cells.length !== columns.length) {
      yield { line, fault: `has ${cells.length} cells, and the header ${columns.length}.` };
    } else {
      const given = columns.map((column, i) => [column, cells[i]!] as const).filter(([, cell]) => cell !== '');
      yield { line, row: Object.fromEntries(given) };
    }
  }
}

function columnsOf(line: number, cells: readonly string[]): readonly Column[] {
  const names = cells.map((cell) => cell.trim());
  const known = COLUMNS.join(', ');
  if (!names.some(isColumn)) {
    const what = `the first line must be the header, with commas between its columns; there are ${known}.`;
    throw new Unreadable(line, what);
  }
  for (const name of names) {
    if (!isColumn(name)) throw new Unreadable(line, `the header has ${unknown('a column', name)}; there are ${known}.`);
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw new Unreadable(line, `the header has the column ${name} twice.`);
    }
  }
  return names as Column[];
}

async function* fromNdjson(chunks: AsyncIterable<string>): AsyncGenerator<Line> {
  let line = 0;
  for await (const text of linesOf(chunks)) {
    line++;
    if (text === null) yield { line, fault: `is longer than ${LONGEST_LINE} characters.` };
    else if (text.trim() !== '') yield { line, ...rowFrom(text) };
  }
}

function rowFrom(text: string): { readonly row: Row } | { readonly fault: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The syntax error quotes the text, and the text has a secret in it.
    return { fault: 'is not valid JSON.' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { fault: 'is no JSON object.' };
  const other = Object.keys(value).find((name) => !isColumn(name));
  if (other !== undefined) {
    return { fault: `has ${unknown('a member', other)}; there are ${COLUMNS.join(', ')}.` };
  }
  return { row: value };
}

/** Told by its name only where it looks like one: in the place of a name may stand a secret, as where columns are mixed up. */
function unknown(what: string, name: string): string {
  return /^[A-Za-z _-]{1,24}$/.test(name) ? `${what} "${name}", which is not known` : `${what} that is not known`;
}

function isColumn(name: string): name is Column {
  return (COLUMNS as readonly string[]).includes(name);
}

/** Null for a line that is too long. */
async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string | null> {
  let rest = '';
  let isTooLong = false;
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      yield isTooLong || line.length > LONGEST_LINE ? null : line;
      isTooLong = false;
    }
    // Only its end is of interest any more.
    if (rest.length > LONGEST_LINE) [rest, isTooLong] = ['', true];
  }
  if (isTooLong || rest !== '') yield isTooLong ? null : rest;
}
