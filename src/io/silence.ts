/**
 * For how long something that counts its turns has been silent, as seen by an observer that looks regularly. Only time in which
 * the watcher turned as well counts: a look that comes late counts for no more than one in time. What stops both therefore does
 * not count: a suspended machine, a virtual machine that is moved, processes that are stopped together, a used-up quota of
 * processor time.
 *
 * Fault: a thread is busy, and does not hang. While thousands of connections have something to read, Node runs their callbacks one after
 * the other and no timer, so no turn is counted; records of TLS without content do not even run a callback. So time in which the
 * thread reads counts for a part only. A defect that reads a file for ever ends as well, later.
 *
 * The text of this class also runs in the thread of watchdog.ts, so it uses nothing outside of itself.
 */
export class Silence {
  /** How long a thread may be silent that reads, as a multiple of the time for others. */
  static readonly READING = 6;
  readonly #everyMs: number;
  #turns = -1;
  #reads = 0;
  #lookedAtMs = 0;
  #silentMs = 0;

  /** @param everyMs how often the watcher looks */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /**
   * How often the main thread of a process has read, from connections and files.
   * @returns always the same number if the system does not count that. Only Linux does
   */
  static readsOf(pid: number): number {
    try {
      const { readFileSync } = process.getBuiltinModule('node:fs');
      return Number(/^syscr: (\d+)/m.exec(readFileSync(`/proc/${pid}/task/${pid}/io`, 'latin1'))?.[1] ?? 0);
    } catch {
      return 0;
    }
  }

  /**
   * @param turns how many turns have been counted; any change ends the silence
   * @param nowMs monotonic milliseconds of the watcher
   * @param reads how often it has read
   * @returns milliseconds
   */
  look(turns: number, nowMs: number, reads = 0): number {
    const passedMs = Math.min(nowMs - this.#lookedAtMs, this.#everyMs);
    if (turns !== this.#turns) this.#silentMs = 0;
    else this.#silentMs += reads === this.#reads ? passedMs : passedMs / Silence.READING;
    this.#turns = turns;
    this.#reads = reads;
    this.#lookedAtMs = nowMs;
    return this.#silentMs;
  }
}
