import type { Terminal } from './command.ts';

/** Quick work is over before anybody wonders. */
const SILENT_MS = 1_000;
const REDRAW_MS = 200;
const BAR = 30;

/** A bar on a terminal for what takes longer than a second; nothing elsewhere (contract section 1). */
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

  /** @param total null where it is not known: then only what is done is told */
  show(what: string, done: number, total: number | null, unit: (amount: number) => string): void {
    const nowMs = this.#nowMs();
    if (!this.#terminal.isTerminal || nowMs - this.#startedAtMs < SILENT_MS || nowMs - this.#drawnAtMs < REDRAW_MS)
      return;
    const seconds = `${Math.floor((nowMs - this.#startedAtMs) / 1_000)} s`;
    const share = total === null || total === 0 ? null : Math.min(done / total, 1);
    const filled = Math.round(BAR * (share ?? 0));
    const bar = share === null ? '' : `${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${Math.floor(share * 100)} % `;
    const told = total === null ? unit(done) : `${unit(done)} of ${unit(total)}`;
    this.#terminal.error(`\r\x1b[2K${what} ${bar}${told}, ${seconds}`);
    this.#drawnAtMs = nowMs;
    this.#isDrawn = true;
  }

  end(): void {
    if (this.#isDrawn) this.#terminal.error('\r\x1b[2K');
    this.#isDrawn = false;
    this.#drawnAtMs = Number.NEGATIVE_INFINITY;
  }
}
