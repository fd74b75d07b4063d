import type { Exchange } from '../gateway/exchange.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { RefusedCount } from '../model/refusal.ts';
import { refusedCallersOf } from '../operations/live/refused-callers.ts';
import type { RefusedCallers } from '../operations/live/shapes.ts';

/** Maximum callers whose refusals are counted. A new caller replaces the one that was refused least recently. */
const MAX_REFUSED = 10_000;
/** How many minutes of counts are kept. */
const MINUTES_KEPT = 10;

/** The refusals of the last 10 minutes by caller. Each is counted, whether the store or the gateway decided it. */
export class RefusalCounts {
  /** By consumer. To put one to the end of a Map took an object for each refusal. */
  readonly #callers = new RecentlyUsed<RefusedMinutes>(MAX_REFUSED);

  add({ consumerId, plan, judgement }: Exchange, nowMs: number): void {
    const id = consumerId!;
    let counts = this.#callers.get(id);
    if (counts === undefined) {
      counts = new RefusedMinutes();
      this.#callers.set(id, counts);
    }
    counts.add(plan!, judgement === 'banned', nowMs);
  }

  at(nowMs: number): RefusedCallers {
    const counted = [...this.#callers.entries()].map(([id, counts]) => ({ id, ...counts.at(nowMs) }));
    for (const { id, refused, banned } of counted) if (refused + banned === 0) this.#callers.delete(id);
    return refusedCallersOf([{ callers: 0, most: counted }]);
  }
}

/** The refusals of one caller: a ring of minutes, each with two counts. */
class RefusedMinutes {
  readonly #counts = new Uint32Array(2 * MINUTES_KEPT);
  #plan = '';
  #minute = Number.NEGATIVE_INFINITY;

  add(plan: string, isBan: boolean, nowMs: number): void {
    this.#turnTo(nowMs);
    this.#plan = plan;
    this.#counts[2 * (this.#minute % MINUTES_KEPT) + (isBan ? 1 : 0)]!++;
  }

  at(nowMs: number): Omit<RefusedCount, 'id'> {
    this.#turnTo(nowMs);
    let [refused, banned] = [0, 0];
    for (let i = 0; i < this.#counts.length; i += 2) {
      refused += this.#counts[i]!;
      banned += this.#counts[i + 1]!;
    }
    return { plan: this.#plan, refused, banned };
  }

  /** Empties the minutes since the last call. If the clock was set back a little, the latest minute continues. */
  #turnTo(nowMs: number): void {
    const minute = Math.floor(nowMs / 60_000);
    const passed = minute - this.#minute;
    if (passed <= 0 && passed > -MINUTES_KEPT) return;
    if (passed < 0 || passed >= MINUTES_KEPT) this.#counts.fill(0);
    else {
      for (let i = this.#minute + 1; i <= minute; i++) {
        this.#counts.fill(0, 2 * (i % MINUTES_KEPT), 2 * (i % MINUTES_KEPT) + 2);
      }
    }
    this.#minute = minute;
  }
}
