import { LiveLines, type Screen } from '../kit/screen.ts';
import type { Tally } from './tally.ts';

/** Follows a run for whoever sits before it. */
export interface Watcher {
  /** @param totalMs how long the run is expected to take */
  begin(totalMs: number): void;
  part(name: string, tally: Tally, durationMs: number): void;
  /** All is over but what runs beside. */
  waiting(): void;
  end(): void;
}

const REDRAW_MS = 200;
const BAR = 30;

/** On a terminal a few lines that are drawn again and again; elsewhere a line for each part. */
export function watch(screen: Screen): Watcher {
  return screen.isTerminal ? new Display(screen) : new Lines(screen);
}

class Lines implements Watcher {
  readonly #screen: Screen;
  #last: { readonly name: string; readonly tally: Tally; readonly startedAtMs: number } | null = null;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  begin(totalMs: number): void {
    this.#screen.write(`about ${Math.ceil(totalMs / 1000)} s of load\n`);
  }

  part(name: string, tally: Tally, durationMs: number): void {
    this.#report();
    this.#screen.write(`${name}: ${durationMs / 1000} s\n`);
    this.#last = { name, tally, startedAtMs: performance.now() };
  }

  waiting(): void {
    this.#report();
    this.#screen.write('waiting for what runs beside\n');
  }

  end(): void {
    this.#report();
  }

  #report(): void {
    if (this.#last === null) return;
    const { name, tally, startedAtMs } = this.#last;
    this.#screen.write(`${name}: ${numbers(tally, performance.now() - startedAtMs)}\n`);
    this.#last = null;
  }
}

class Display implements Watcher {
  readonly #screen: Screen;
  readonly #live: LiveLines;
  #startedAtMs = 0;
  #totalMs = 0;
  #part: { readonly name: string; readonly tally: Tally | null; readonly startedAtMs: number } | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(screen: Screen) {
    this.#screen = screen;
    this.#live = new LiveLines(screen);
  }

  begin(totalMs: number): void {
    this.#startedAtMs = performance.now();
    this.#totalMs = totalMs;
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
  }

  part(name: string, tally: Tally): void {
    this.#part = { name, tally, startedAtMs: performance.now() };
    this.#draw();
  }

  waiting(): void {
    this.#part = { name: 'waiting for what runs beside', tally: null, startedAtMs: performance.now() };
  }

  end(): void {
    clearInterval(this.#timer);
    this.#live.erase();
  }

  #draw(): void {
    const nowMs = performance.now();
    const doneMs = nowMs - this.#startedAtMs;
    const totalMs = Math.max(this.#totalMs, doneMs);
    const filled = Math.round((BAR * doneMs) / totalMs);
    const [on, off] = this.#screen.colours ? ['\x1b[36m', '\x1b[39m'] : ['', ''];
    const bar = `${on}${'█'.repeat(filled)}${'░'.repeat(BAR - filled)}${off}`;
    const lines = [`${bar} ${Math.floor(doneMs / 1000)} of ${Math.ceil(totalMs / 1000)} s  ${this.#part?.name ?? ''}`];
    if (this.#part?.tally != null) lines.push(numbers(this.#part.tally, nowMs - this.#part.startedAtMs));
    this.#live.draw(lines);
  }
}

function numbers(tally: Tally, elapsedMs: number): string {
  const statuses = [...tally.statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status === 0 ? 'no answer' : status}: ${count}`);
  const rate = Math.round(tally.requests / Math.max(elapsedMs / 1000, 0.001));
  const { banned } = tally.counts;
  const bans = banned > 0 ? `  (${banned} by bans)` : '';
  return `${rate}/s  ${statuses.join('  ')}${bans}  p99 ${tally.latencyMs(99).toFixed(1)} ms`;
}
