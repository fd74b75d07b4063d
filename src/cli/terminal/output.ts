import type { Terminal } from './command.ts';

// How commands print on a terminal: tables, and the progress of long work.

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
