import { spanText } from '../../io/time-text.ts';
import type { Terminal } from './command.ts';

// What commands draw on a terminal beside tables: bars, and the progress of long work.

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
    const elapsed = spanText(nowMs - this.#startedAtMs, Math.floor);
    const share = total === null || total === 0 ? null : Math.min(done / total, 1);
    const filled = Math.round(BAR_WIDTH * (share ?? 0));
    const bar =
      share === null ? '' : `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${Math.floor(share * 100)} % `;
    const amount = total === null ? textOf(done) : `${textOf(done)} of ${textOf(total)}`;
    this.#terminal.error(`\r\x1b[2K${what} ${bar}${amount}, ${elapsed}`);
    this.#drawnAtMs = nowMs;
    this.#isDrawn = true;
  }

  end(): void {
    if (this.#isDrawn) this.#terminal.error('\r\x1b[2K');
    this.#isDrawn = false;
    this.#drawnAtMs = Number.NEGATIVE_INFINITY;
  }
}
