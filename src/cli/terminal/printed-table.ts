import { escapedText, PLAIN, type Style } from '../../io/terminal-text.ts';
import { shortened, widthOf } from '../../io/text-width.ts';
import type { Terminal } from './command.ts';
import { tonedStatus } from './style.ts';

// Tables: aligned columns on a terminal, and elsewhere lines with tabs (contract section 1).

/** A column of a table. A text alone is the head of a column without further properties. */
export interface Column {
  readonly head: string;
  /** The column with the highest rank is left out first where not all fit, after the empty ones. Without it, the position. */
  readonly rank?: number;
  /** True for what people copy, such as an id: it is cut only where nothing else is left. */
  readonly isWhole?: boolean;
  /** True for a status, whose first word may have a colour. */
  readonly isStatus?: boolean;
}

type Columns = readonly (string | Column)[];
type Rows = readonly (readonly string[])[];
type Output = Pick<Terminal, 'isTerminal' | 'columns' | 'style' | 'hasHeader'>;

/** Between two columns, in cells. */
const GAP = 2;
/** A column is not cut below this width, or that of its head; it is left out instead. */
const MIN_WIDTH = 16;
const CUT = '…';
/** What the mark in the header takes where columns are left out. */
const MARK_WIDTH = GAP + CUT.length;
const NUMBER = /^(?:[+-]?[0-9][0-9.,]*|unlimited|custom|-|)$/;

/** Prints a table. Without rows a terminal gets the sentence; elsewhere the sentence goes to standard error, because it is no row. */
export function printTable(terminal: Terminal, columns: Columns, rows: Rows, withoutRows: string): void {
  if (rows.length > 0) terminal.out(table(columns, rows, terminal));
  else if (terminal.isTerminal) terminal.out(withoutRows);
  else {
    terminal.out(table(columns, rows, terminal));
    terminal.error(withoutRows);
  }
}

/**
 * Formats rows under a header. On a terminal the columns are aligned, numbers on the right, and no line is wider than `columns` cells if
 * that is known: the widest columns lose their ends to `…`, and if that is not enough, whole columns are left out, which `…` at the end
 * of the header shows. Elsewhere each row is one line with tabs between its cells, and nothing is cut. Characters that a terminal would
 * obey, or that no one would see, are escaped in both.
 */
export function table(columns: Columns, rows: Rows, terminal: Output): string {
  const specs = columns.map((column): Column => (typeof column === 'string' ? { head: column } : column));
  const heads = specs.map(({ head }) => head.toUpperCase());
  const hasHeader = terminal.hasHeader !== false;
  const cells = rows.map((row) => row.map(escapedText));
  return terminal.isTerminal
    ? alignedText(specs, hasHeader ? heads : null, cells, terminal)
    : tabbedText(specs, hasHeader ? heads : null, cells, terminal);
}

function tabbedText(specs: readonly Column[], heads: readonly string[] | null, rows: Rows, terminal: Output): string {
  const { style = PLAIN } = terminal;
  const line = (cells: readonly string[]) => `${cells.join('\t')}\n`;
  const styled = (row: readonly string[]) => row.map((cell, i) => tonedCell(specs[i], cell, cell, style));
  return (heads === null ? '' : line(heads.map((head) => style('bold', head)))) + rows.map(styled).map(line).join('');
}

function alignedText(specs: readonly Column[], heads: readonly string[] | null, rows: Rows, terminal: Output): string {
  const { style = PLAIN, columns: available = null } = terminal;
  const natural = specs.map((_, i) =>
    // Math.max(...) would fail here: there may be more rows than a call takes arguments.
    rows.reduce((width, row) => Math.max(width, widthOf(row[i] ?? '')), widthOf(heads?.[i] ?? '')),
  );
  const isNumeric = specs.map(
    (_, i) => rows.some((row) => /[0-9]/.test(row[i] ?? '')) && rows.every((row) => NUMBER.test(row[i] ?? '')),
  );
  const needs = specs.map(({ head, rank, isWhole }, i) => {
    const least = isWhole || isNumeric[i] ? natural[i]! : Math.max(MIN_WIDTH, heads === null ? 0 : widthOf(head));
    const isEmpty = rows.every((row) => ['', '-'].includes(row[i] ?? ''));
    return { natural: natural[i]!, least: Math.min(natural[i]!, least), rank: isEmpty ? Infinity : (rank ?? i) };
  });
  const widths = available === null ? natural : fitted(needs, available);
  const hasMark = available !== null && widths.includes(LEFT_OUT) && sumOf(widths) + MARK_WIDTH <= available;
  const line = (row: readonly string[], toned: (shown: string, i: number) => string, end: string) => {
    let text = '';
    let owed = 0;
    const put = (shown: string, before: number, after: number) => {
      // Spaces are owed to the next cell, so that no line ends with any.
      if (shown !== '') text += ' '.repeat(owed + before) + shown;
      owed = shown === '' ? owed + before + after : after;
    };
    for (const [i, width] of widths.entries()) {
      if (width === LEFT_OUT) continue;
      const shown = isNumeric[i] ? wholeOrCut(row[i] ?? '', width) : shortened(row[i] ?? '', width);
      const space = width - widthOf(shown);
      put(shown === '' ? '' : toned(shown, i), isNumeric[i] ? space : 0, (isNumeric[i] ? 0 : space) + GAP);
    }
    put(end, 0, 0);
    return `${text}\n`;
  };
  const header = heads === null ? '' : line(heads, (shown) => style('bold', shown), hasMark ? CUT : '');
  return header + rows.map((row) => line(row, (shown, i) => tonedCell(specs[i], row[i]!, shown, style), '')).join('');
}

/** @param shown the cell, or what is left of it */
function tonedCell(spec: Column | undefined, cell: string, shown: string, style: Style): string {
  return spec?.isStatus === true ? tonedStatus(cell, style, shown) : shown;
}

interface Need {
  /** The width that the column has if nothing is cut, and the least one; cells of the terminal. */
  readonly natural: number;
  readonly least: number;
  readonly rank: number;
}

/** The width of a column that is left out. A column whose cells are all empty has 0. */
const LEFT_OUT = -1;

const sumOf = (widths: readonly number[]) =>
  widths.reduce((sum, width) => (width === LEFT_OUT ? sum : sum + width + GAP), -GAP);

/** The widths of the columns in `available` cells. The most important column always stays, cut if it must be. */
function fitted(needs: readonly Need[], available: number): number[] {
  const widths = needs.map(({ least }) => least);
  const byImportance = needs.map((_, i) => i).sort((a, b) => needs[a]!.rank - needs[b]!.rank);
  let room = available;
  for (const i of byImportance.slice(1).reverse()) {
    if (sumOf(widths) <= room) break;
    widths[i] = LEFT_OUT;
    room = available - MARK_WIDTH;
  }
  const first = byImportance[0];
  if (first !== undefined && sumOf(widths) > room) widths[first] = Math.min(widths[first]!, available);
  widen(widths, needs, room);
  return widths;
}

/** Gives the narrowest column one cell more until each has its natural width or no room is left; among equals the most important. */
function widen(widths: number[], needs: readonly Need[], room: number): void {
  for (let left = room - sumOf(widths); left > 0; left--) {
    let best = -1;
    for (const [i, { natural, rank }] of needs.entries()) {
      if (widths[i] === LEFT_OUT || widths[i]! >= natural) continue;
      const isBetter =
        best === -1 || widths[i]! < widths[best]! || (widths[i] === widths[best] && rank < needs[best]!.rank);
      if (isBetter) best = i;
    }
    if (best === -1) return;
    widths[best]!++;
  }
}

/** A part of a number would be another number. */
function wholeOrCut(text: string, width: number): string {
  return widthOf(text) <= width ? text : CUT;
}
