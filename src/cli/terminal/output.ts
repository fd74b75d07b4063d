import type { Terminal } from './command.ts';

// How commands print on a terminal: tables, and the progress of long work.

/** Between two columns. */
const GAP = 2;
/** No column becomes narrower than this, or than its head. */
const LEAST_WIDTH = 6;
const NUMBER = /^(?:[+-]?[0-9][0-9.,]*|unlimited|custom|-|)$/;

/**
 * Formats rows for a terminal as aligned columns under their heads: numbers on the right, and within `columns` if that is known. To
 * that end the widest columns lose their ends to `…`; the first column does not, because it has the ids that people copy. If standard
 * output is not a terminal, each row is one line with tabs between its cells and there are no heads, for `cut` and `awk` (contract
 * section 1).
 */
export function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  { isTerminal, columns = null }: Pick<Terminal, 'isTerminal' | 'columns'>,
): string {
  if (!isTerminal) return rows.map((row) => `${row.join('\t')}\n`).join('');
  const natural = heads.map((head, i) =>
    // Math.max(...) would fail here: there may be more rows than a call takes arguments.
    rows.reduce((width, row) => Math.max(width, row[i]?.length ?? 0), head.length),
  );
  const widths = columns === null ? natural : fitted(natural, heads, columns);
  const isNumeric = heads.map(
    (_, i) => rows.some((row) => /[0-9]/.test(row[i] ?? '')) && rows.every((row) => NUMBER.test(row[i] ?? '')),
  );
  const line = (cells: readonly string[]) =>
    `${cells
      .map((cell, i) => (isNumeric[i] ? cell.padStart(widths[i]!) : shortened(cell, widths[i]!).padEnd(widths[i]!)))
      .join(' '.repeat(GAP))
      .trimEnd()}\n`;
  return [line(heads.map((head) => head.toUpperCase())), ...rows.map(line)].join('');
}

/** The widths of the columns in a terminal of `columns`: the widest one is narrowed until all fit, or none can be. */
function fitted(natural: readonly number[], heads: readonly string[], columns: number): number[] {
  const widths = [...natural];
  const least = heads.map((head) => Math.max(LEAST_WIDTH, head.length));
  let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - columns;
  for (; excess > 0; excess--) {
    let widest = -1;
    for (let i = 1; i < widths.length; i++) {
      if (widths[i]! > least[i]! && (widest === -1 || widths[i]! > widths[widest]!)) widest = i;
    }
    if (widest === -1) break;
    widths[widest]!--;
  }
  return widths;
}

function shortened(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/** A bar of block characters for each amount. The largest amount has `width` columns, and no amount but 0 has none. */
export function barsOf(amounts: readonly number[], width: number): string[] {
  const most = amounts.reduce((a, b) => Math.max(a, b), 0);
  return amounts.map((amount) => {
    const eighths = amount === 0 ? 0 : Math.max(Math.round((amount / most) * width * 8), 1);
    return '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8]!;
  });
}

/** Work that ends sooner shows no bar. */
const SHOWN_AFTER_MS = 1_000;
const REDRAW_MS = 200;
const BAR_WIDTH = 30;

/** A progress bar for work that takes longer than a second. It is drawn on a terminal only (contract section 1). */
export class Progress {
  readonly #terminal: Terminal;
  readonly #nowMs: () => number;
  readonly #startedAtMs: number;
  #drawnAtMs = Number.NEGATIVE_INFINITY;
  #isDrawn = false;

  /** @param nowMs milliseconds that never jump */
  constructor(terminal: Terminal, nowMs: () => number) {
    this.#terminal = terminal;
    this.#nowMs = nowMs;
    this.#startedAtMs = nowMs();
  }

  /** @param total null if it is unknown; the line then shows only the amount that is done */
  show(what: string, done: number, total: number | null, textOf: (amount: number) => string): void {
    const nowMs = this.#nowMs();
    if (!this.#terminal.isTerminal || nowMs - this.#startedAtMs < SHOWN_AFTER_MS || nowMs - this.#drawnAtMs < REDRAW_MS)
      return;
    const seconds = `${Math.floor((nowMs - this.#startedAtMs) / 1_000)} s`;
    const share = total === null || total === 0 ? null : Math.min(done / total, 1);
    const filled = Math.round(BAR_WIDTH * (share ?? 0));
    const bar =
      share === null ? '' : `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${Math.floor(share * 100)} % `;
    const amount = total === null ? textOf(done) : `${textOf(done)} of ${textOf(total)}`;
    this.#terminal.error(`\r\x1b[2K${what} ${bar}${amount}, ${seconds}`);
    this.#drawnAtMs = nowMs;
    this.#isDrawn = true;
  }

  end(): void {
    if (this.#isDrawn) this.#terminal.error('\r\x1b[2K');
    this.#isDrawn = false;
    this.#drawnAtMs = Number.NEGATIVE_INFINITY;
  }
}
