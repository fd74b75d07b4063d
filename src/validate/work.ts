import { threadCpuMs } from '../io/clocks.ts';

/** A check that took too much work. */
export class ExcessError extends Error {}

/*
 * Work is counted in steps, so that a request gets the same answer on every machine. A step is what one instruction of a
 * pattern's program takes for one character: at most 30 ns on a machine of 2026. What else is done is counted in the same
 * unit, as measured when it takes longest.
 */

/** A schema that is entered, and for each name that it asks for (`required`, `properties`). */
export const SCHEMA_STEPS = 50;
export const NAME_STEPS = 2;
/** A value of JSON that is read, or compared with others. */
export const VALUE_STEPS = 8;
/** A member of an object that is read. It takes a place in a hash table. */
export const MEMBER_STEPS = 20;
/** Characters that are read or compared once, for one step. */
export const CHARACTERS_PER_STEP = 16;

/** The steps between two readings of the clock: about a quarter of a millisecond. */
const STEPS_PER_READING = 8_192;

/**
 * How much work one request may cause.
 *
 * Attack: a small body takes long to check: alternatives within alternatives in a recursive schema, a pattern with a large
 * program, 300,000 lists within lists. Everything that is done for a request is counted by what it takes, not by the length of
 * what was sent.
 *
 * Attack: something takes longer than its steps indicate. So the processor's time of the thread is bounded as well. It is read
 * only after many steps, which a usual request does not take.
 */
export class Work {
  readonly #cpuMs: () => number;
  #steps = 0;
  #left = 0;
  /** Steps that are left when the clock is read next. */
  #readAt = 0;
  /** When the clock must not be later; null until it has been read for this request. */
  #untilMs: number | null = null;
  #withinMs = 0;

  /** @param cpuMs the time that this thread has had of a processor, in milliseconds */
  constructor(cpuMs: () => number = threadCpuMs) {
    this.#cpuMs = cpuMs;
  }

  /** Resets the count. @param bounds steps, and milliseconds of the processor */
  begin({ steps, cpuMs }: WorkBounds): void {
    this.#steps = this.#left = steps;
    this.#readAt = Math.max(0, steps - STEPS_PER_READING);
    this.#untilMs = null;
    this.#withinMs = cpuMs;
  }

  /** The steps that were taken since `begin`. */
  get spent(): number {
    return this.#steps - this.#left;
  }

  /** @throws ExcessError if too much was done */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < this.#readAt) this.#read();
  }

  #read(): void {
    if (this.#left < 0) throw new ExcessError();
    this.#readAt = Math.max(0, this.#left - STEPS_PER_READING);
    const nowMs = this.#cpuMs();
    this.#untilMs ??= nowMs + this.#withinMs;
    if (nowMs > this.#untilMs) throw new ExcessError();
  }
}

/** The rule of a request that takes too much work. */
export const TOO_MUCH = 'takes too much work to check. Send less, or nest it less deeply.';
interface WorkBounds {
  readonly steps: number;
  /** Milliseconds of the processor. */
  readonly cpuMs: number;
}

/** For path, query and media type of a request: about 10 ms. */
export const OF_HEAD: WorkBounds = { steps: 400_000, cpuMs: 20 };
/** For a body that is checked on the thread that serves requests: 10 ms. */
export const OF_BODY_AT_ONCE: WorkBounds = { steps: 300_000, cpuMs: 15 };
/** For any body: half a second, in which 200,000 schemas can be entered. */
export const OF_BODY: WorkBounds = { steps: 16_000_000, cpuMs: 2_000 };
