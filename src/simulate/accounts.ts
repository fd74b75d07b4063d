import type { AccountState, WindowCount } from '../admit/decide.ts';
import { NO_STRIKES } from '../admit/decide.ts';
import { type Allowance, WINDOWS, type WindowName } from '../admit/plan.ts';

/**
 * The state of every consumer, in columns: about 100 bytes for each instead of the several hundred that as many objects
 * would take, and nothing for the collector to look through.
 */
export class Accounts {
  readonly #windows: Partial<Record<WindowName, { readonly used: Float64Array; readonly endsAtMs: Float64Array }>> = {};
  readonly #strikes: Float64Array;
  readonly #strikesEndAtMs: Float64Array;
  readonly #banNumber: Float64Array;
  readonly #banUntilMs: Float64Array;
  /** Index in WINDOWS. */
  readonly #banWindow: Uint8Array;
  readonly #consumers: number;

  constructor(consumers: number) {
    this.#consumers = consumers;
    this.#strikes = new Float64Array(consumers);
    this.#strikesEndAtMs = new Float64Array(consumers);
    this.#banNumber = new Float64Array(consumers);
    this.#banUntilMs = new Float64Array(consumers);
    this.#banWindow = new Uint8Array(consumers);
  }

  /** What `decide` needs to know. Windows that the allowance does not count stay as they are, as in a store. */
  get(consumer: number, { limits }: Allowance): AccountState {
    const windows: Partial<Record<WindowName, WindowCount>> = {};
    for (const { window } of limits) {
      const column = this.#windows[window];
      const endsAtMs = column?.endsAtMs[consumer] ?? 0;
      if (endsAtMs > 0) windows[window] = { used: column!.used[consumer]!, endsAtMs };
    }
    const count = this.#strikes[consumer]!;
    const number = this.#banNumber[consumer]!;
    return {
      windows,
      strikes: count === 0 ? NO_STRIKES : { count, endsAtMs: this.#strikesEndAtMs[consumer]! },
      ban:
        number === 0
          ? null
          : { number, untilMs: this.#banUntilMs[consumer]!, window: WINDOWS[this.#banWindow[consumer]!]! },
    };
  }

  set(consumer: number, { limits }: Allowance, { windows, strikes, ban }: AccountState): void {
    for (const { window } of limits) {
      this.#windows[window] ??= {
        used: new Float64Array(this.#consumers),
        endsAtMs: new Float64Array(this.#consumers),
      };
      const open = windows[window];
      this.#windows[window].used[consumer] = open?.used ?? 0;
      this.#windows[window].endsAtMs[consumer] = open?.endsAtMs ?? 0;
    }
    this.#strikes[consumer] = strikes.count;
    this.#strikesEndAtMs[consumer] = strikes.endsAtMs;
    this.#banNumber[consumer] = ban?.number ?? 0;
    this.#banUntilMs[consumer] = ban?.untilMs ?? 0;
    if (ban !== null) this.#banWindow[consumer] = WINDOWS.indexOf(ban.window);
  }
}
