import { CsvError, parse } from 'csv-parse';
import { ATTRIBUTE_NAMES } from '../../model/attributes.ts';

/** The values of one line of a file, by column; null if JSON has null, left out if empty. */
export type Row = Readonly<Partial<Record<Column, unknown>>>;

/** One line, or its fault. */
export type ImportLine =
  | { readonly line: number; readonly row: Row }
  | { readonly line: number; readonly fault: string };

export const COLUMNS = [
  'key',
  'sha256',
  'last4',
  'plan',
  'limits',
  'expires',
  'created',
  'customer',
  ...ATTRIBUTE_NAMES,
] as const;
export type Column = (typeof COLUMNS)[number];

const MAX_LINE = 64 * 1024;

/**
 * Reads a file of keys: CSV with a header, or NDJSON, one object a line.
 * @throws UnreadableCsv if the rest of the file cannot be read
 */
export function readRows(chunks: AsyncIterable<string>, format: 'csv' | 'ndjson'): AsyncGenerator<ImportLine> {
  return format === 'csv' ? fromCsv(chunks) : fromNdjson(chunks);
}

async function* fromCsv(chunks: AsyncIterable<string>): AsyncGenerator<ImportLine> {
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
    throw new UnreadableCsv(line, what);
  }
  for (const name of names) {
    if (!isColumn(name))
      throw new UnreadableCsv(line, `the header has ${unknown('a column', name)}; there are ${known}.`);
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw new UnreadableCsv(line, `the header has the column ${name} twice.`);
    }
  }
  return names as Column[];
}

async function* fromNdjson(chunks: AsyncIterable<string>): AsyncGenerator<ImportLine> {
  let line = 0;
  for await (const text of linesOf(chunks)) {
    line++;
    if (text === null) yield { line, fault: `is longer than ${MAX_LINE} characters.` };
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
  const unwritable = unwritableIn(value);
  if (unwritable !== null) return { fault: unwritable };
  const other = Object.keys(value).find((name) => !isColumn(name));
  if (other !== undefined) {
    return { fault: `has ${unknown('a member', other)}; there are ${COLUMNS.join(', ')}.` };
  }
  return { row: value };
}

const MAX_DEPTH = 8;

/** Fault: thousands of brackets, or 1e999, are read, and can then not be written, so that no line of the slice would be imported. */
function unwritableIn(value: unknown, levels = 0): string | null {
  if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY)
    return 'has a number that is too large.';
  if (typeof value !== 'object' || value === null) return null;
  if (levels === MAX_DEPTH) return `has values in more than ${MAX_DEPTH} levels.`;
  for (const member of Object.values(value)) {
    const found = unwritableIn(member, levels + 1);
    if (found !== null) return found;
  }
  return null;
}

/**
 * Quotes a name only if it looks like one, because a secret may be in its place, for example if columns are mixed up.
 */
function unknown(what: string, name: string): string {
  return /^[A-Za-z _-]{1,24}$/.test(name) ? `${what} "${name}", which is not known` : `${what} that is not known`;
}

function isColumn(name: string): name is Column {
  return (COLUMNS as readonly string[]).includes(name);
}

/** Splits a text into lines; null for a line that is too long. */
async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string | null> {
  let rest = '';
  let isTooLong = false;
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      yield isTooLong || line.length > MAX_LINE ? null : line;
      isTooLong = false;
    }
    // The line is too long, so from here on only its end matters.
    if (rest.length > MAX_LINE) [rest, isTooLong] = ['', true];
  }
  if (isTooLong || rest !== '') yield isTooLong ? null : rest;
}

/** One record of a CSV file. */
interface CsvRecord {
  /** The line at which it begins, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

/**
 * Maximum bytes of a record. It may contain notes of several lines, but not the rest of a file in which a quote is
 * missing.
 */
const MAX_RECORD = 64 * 1024;

/** A fault of a file, with its line, from 1. Everything before that line has been read. */
export class UnreadableCsv extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

const FAULTS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote that begins here is not closed.',
  CSV_INVALID_CLOSING_QUOTE: 'there is something between a closing quote and the comma.',
  INVALID_OPENING_QUOTE:
    'there is a quote in a cell that does not begin with one; put the cell in quotes and write each quote in it twice.',
};

/**
 * Reads CSV as it arrives (RFC 4180). Quoted cells may contain commas, line breaks and doubled quotes. Lines may end
 * with CR LF or LF; empty lines are skipped. Holds one chunk and one record of the file in memory.
 * @throws UnreadableCsv
 */
export async function* readCsv(chunks: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
  const records: CsvRecord[] = [];
  const unread = new UnreadText();
  const parser = parse({
    record_delimiter: ['\r\n', '\n'],
    skip_empty_lines: true,
    relax_column_count: true,
    // csv-parse keeps no record: it would discard those that are not consumed yet when a later one cannot be parsed.
    on_record: (cells: string[], { bytes }) => {
      const line = unread.takeRecord(bytes);
      if (cells.length > 1 || cells[0] !== '') records.push({ line, cells });
      return null;
    },
  });
  // The callbacks below receive the error. Without a listener the event would end the process.
  parser.on('error', () => {});
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk);
    unread.add(bytes);
    const error = await new Promise<unknown>((resolve) => parser.write(bytes, resolve));
    yield* records.splice(0);
    if (error) throw unread.unreadable(error);
    unread.checkLength();
  }
  const error = await new Promise<unknown>((resolve) => parser.end(resolve));
  yield* records.splice(0);
  if (error) throw unread.unreadable(error);
}

const CR = 0x0d;
const LF = 0x0a;

/**
 * The text after the end of the last record. It finds the line at which a record begins, because csv-parse counts a CR
 * LF in quotes as two lines, and it bounds the length of a record, because csv-parse does not count commas.
 */
class UnreadText {
  #text = Buffer.alloc(0);
  /** How many bytes of the file precede the text. */
  #offset = 0;
  /** The line at which the text begins. */
  #line = 1;

  add(bytes: Buffer): void {
    this.#text = Buffer.concat([this.#text, bytes]);
    this.#skipEmptyLines();
  }

  /** Removes the record that ends at this byte of the file. @returns the line at which it began */
  takeRecord(end: number): number {
    const line = this.#line;
    const length = end - this.#offset;
    if (length > MAX_RECORD) throw this.#tooLong();
    this.#take(length);
    this.#skipEmptyLines();
    return line;
  }

  /** @throws UnreadableCsv if an unfinished record is already too long */
  checkLength(): void {
    if (this.#text.length > MAX_RECORD) throw this.#tooLong();
  }

  unreadable(error: unknown): unknown {
    if (!(error instanceof CsvError)) return error;
    // The message of csv-parse quotes the text, which may contain a secret.
    const fault = FAULTS[error.code];
    return fault === undefined ? error : new UnreadableCsv(this.#line, fault);
  }

  #tooLong(): UnreadableCsv {
    const hint = this.#text.includes('"') ? ', perhaps because a quote is not closed' : '';
    return new UnreadableCsv(this.#line, `the record is longer than ${MAX_RECORD} bytes${hint}.`);
  }

  #skipEmptyLines(): void {
    for (;;) {
      const length = this.#text[0] === CR && this.#text[1] === LF ? 2 : this.#text[0] === LF ? 1 : 0;
      if (length === 0) return;
      this.#take(length);
    }
  }

  #take(length: number): void {
    for (const byte of this.#text.subarray(0, length)) if (byte === LF) this.#line++;
    this.#text = this.#text.subarray(length);
    this.#offset += length;
  }
}
