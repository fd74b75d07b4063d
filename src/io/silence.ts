/**
 * For how long something that counts its turns has been silent, as seen by an observer that looks regularly. Only time in which
 * the watcher turned as well counts: a look that comes late counts for no more than one in time. What stops both therefore does
 * not count: a suspended machine, a virtual machine that is moved, processes that are stopped together, a used-up quota of
 * processor time.
 *
 * The text of this class also runs in the thread of watchdog.ts, so it uses nothing outside of itself.
 */
export class Silence {
  readonly #everyMs: number;
  #turns = -1;
  #lookedAtMs = 0;
  #silentMs = 0;

  /** @param everyMs how often the watcher looks */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /**
   * @param turns how many turns have been counted; any change ends the silence
   * @param nowMs monotonic milliseconds of the watcher
   * @returns milliseconds
   */
  look(turns: number, nowMs: number): number {
    if (turns !== this.#turns) this.#silentMs = 0;
    else this.#silentMs += Math.min(nowMs - this.#lookedAtMs, this.#everyMs);
    this.#turns = turns;
    this.#lookedAtMs = nowMs;
    return this.#silentMs;
  }
}
