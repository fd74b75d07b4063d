/** One record of a CSV file. */
export interface Record {
  /** Where it begins, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

/** A record may hold notes of several lines, but not a whole file that lost a quote. */
const LONGEST_RECORD = 64 * 1024;

/** What is wrong with a file, at a line, from 1. Everything before it has been read. */
export class Unreadable extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/**
 * Reads CSV as it comes (RFC 4180): cells in quotes may have commas, line breaks and doubled quotes in them. Lines may end
 * with CR LF or LF; empty ones are no records. One pass over the characters, whatever they are.
 * @throws Unreadable
 */
export async function* readCsv(chunks: AsyncIterable<string>): AsyncGenerator<Record> {
  const reader = new CsvReader();
  for await (const chunk of chunks) yield* reader.read(chunk);
  yield* reader.end();
}

class CsvReader {
  #cells: string[] = [];
  #cell = '';
  #length = 0;
  /** `after`: behind the quote that may have closed a cell, or was the first of two. */
  #state: 'begin' | 'plain' | 'quoted' | 'after' = 'begin';
  #line = 1;
  #begunAt = 1;

  *read(chunk: string): Generator<Record> {
    for (const character of chunk) {
      if (++this.#length > LONGEST_RECORD) {
        const quoted = this.#state === 'quoted' ? ', perhaps because a quote is not closed' : '';
        throw new Unreadable(this.#begunAt, `the record is longer than ${LONGEST_RECORD} characters${quoted}.`);
      }
      if (this.#state === 'quoted') this.#inQuotes(character);
      else if (character === '\n') yield* this.#endRecord();
      else this.#outside(character);
      if (character === '\n') this.#line++;
    }
  }

  *end(): Generator<Record> {
    if (this.#state === 'quoted') throw new Unreadable(this.#begunAt, 'a quote that begins here is not closed.');
    this.#line++;
    yield* this.#endRecord();
  }

  #inQuotes(character: string): void {
    if (character === '"') this.#state = 'after';
    else this.#cell += character;
  }

  #outside(character: string): void {
    if (character === ',') this.#endCell();
    else if (character === '"' && this.#state !== 'plain') {
      if (this.#state === 'after') this.#cell += '"';
      this.#state = 'quoted';
    } else if (this.#state === 'after' && character !== '\r') {
      throw new Unreadable(this.#line, 'there is something between a closing quote and the comma.');
    } else if (character !== '\r' || this.#state !== 'after') {
      this.#cell += character;
      if (this.#state === 'begin') this.#state = 'plain';
    }
  }

  #endCell(): void {
    this.#cells.push(this.#state === 'plain' ? this.#cell.replace(/\r$/, '') : this.#cell);
    this.#cell = '';
    this.#state = 'begin';
  }

  *#endRecord(): Generator<Record> {
    this.#endCell();
    const cells = this.#cells;
    const line = this.#begunAt;
    this.#cells = [];
    this.#length = 0;
    this.#begunAt = this.#line + 1;
    if (cells.length > 1 || cells[0] !== '') yield { line, cells };
  }
}

/**
 * One record as text, with its line end. Attack: someone who may name keys names one `=HYPERLINK(...)`, and the
 * spreadsheet of the operator who opens the export runs it. A cell that a spreadsheet would run as a formula gets a `'` in
 * front.
 */
export function csvLine(cells: readonly (string | null)[]): string {
  return `${cells.map((cell) => quoted(cell ?? '')).join(',')}\n`;
}

function quoted(cell: string): string {
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
