import { afterReading, afterReadyWork } from './after-reading.ts';

/** What one consumer has had of the thread that serves all. Only `ThreadTime` changes it. */
export class ConsumerTime {
  readonly id: string;
  /** The window in which it last had time. */
  window = -1;
  /** Milliseconds in that window, and in the one before it. */
  ms = 0;
  beforeMs = 0;
  /** Milliseconds since the last `look`. */
  lookedMs = 0;
  /** Its work that waits for a turn, the oldest first. */
  readonly waiting: QueuedTurn[] = [];
  /** It had no work for a while. Work of an older request is charged to the consumer's new object. */
  isForgotten = false;
  readonly #thread: ThreadTime;

  constructor(id: string, thread: ThreadTime) {
    this.id = id;
    this.#thread = thread;
  }

  /** Charges it the work that the thread has done for it since `fromMs` (monotonic). @param toMs the present */
  worked(fromMs: number, toMs: number): void {
    this.#thread.spent(this, toMs - fromMs, toMs);
  }
}

/** @param isLate whether it has waited for `LATEST_MS` of other work */
type Turn = (isLate: boolean) => void;

interface QueuedTurn {
  readonly turn: Turn;
  /** `workedMs` when it began to wait. */
  readonly sinceMs: number;
}

/** What the busiest consumer had of the thread. */
export interface LargestPart {
  readonly consumerId: string;
  /** From 0 to 1, of the time that has passed. */
  readonly part: number;
}

interface ThreadTimeOptions {
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Runs work after the bytes that have arrived are read, and before the next are. Left out: `afterReading`, and `afterReadyWork` for turns. */
  readonly afterReading?: (work: () => void) => void;
  /** One consumer had most of the thread since the last look, and its work had to wait for turns. At most once a minute. */
  readonly onLargest?: (largest: LargestPart) => void;
}

/** A consumer's share is that of this window and the one before it. */
const WINDOW_MS = 100;
/** A consumer with less than this in two windows is never beyond its share. */
const MIN_MS = 2;
/** How many equal parts a consumer may have: of several that send the same, half are above the average. */
const PARTS = 1.2;
/**
 * While the thread has worked for less than this since it last read what has arrived, nothing waits. Measured: with 32 connections
 * of one key beside another key, waiting made 22 % more calls of Redis of the same requests, which cost 15 % more each.
 */
const FREE_MS = 1;
/** Consumers that come within this time of each other count as several, for as long. */
const SEVERAL_MS = 10_000;
/** For how long work in the line is done before the thread reads what has arrived meanwhile. */
const LINE_MS = 0.5;
/** For how long of that one consumer has its turn. */
const TURN_MS = 0.25;
/** Work that has waited while the thread did this much is late. */
const LATEST_MS = 1_000;
const LOOK_EVERY_MS = 1_000;
/** A consumer with more than this part of the thread is reported if its work had to wait. */
const MOST = 0.5;
const REPORT_EVERY_MS = 60_000;

/**
 * Measures how long the thread that serves all works for each consumer, and divides the thread among them.
 *
 * Attack: requests of one consumer that cost the gateway more than the client, or refusals that count towards no quota,
 * arrive on many connections. The thread serves whatever is readable, so everyone's requests wait for all of them.
 *
 * So a consumer that has recently had more than 1.2 equal parts is beyond its share. Once the thread has worked for `FREE_MS` since it
 * read what has arrived, that consumer's further work waits in a line, where the next turn belongs to the consumer that has had
 * least. The thread works on the line for half a millisecond and then reads what has arrived meanwhile. The work of all others is
 * done as it arrives. No time is left unused: a consumer that is alone, or that uses what the others leave, has all of it.
 */
export class ThreadTime {
  /** Milliseconds of work for all consumers. */
  workedMs = 0;
  /** How often work had to wait for a turn, and how often a request was refused because its turn came late. */
  waited = 0;
  late = 0;
  /** What the busiest consumer had of the thread between the last two looks, from 0 to 1. */
  largestPart = 0;
  readonly #options: ThreadTimeOptions;
  readonly #afterReading: (work: () => void) => void;
  readonly #afterReadyWork: (work: () => void) => void;
  readonly #consumers = new Map<string, ConsumerTime>();
  /** The consumers with work that waits. */
  readonly #line = new Set<ConsumerTime>();
  #isServing = false;
  /** Whether `#turnMs` is the work since the thread last read what has arrived. */
  #isTurnOpen = false;
  #turnMs = 0;
  #window = -1;
  /** Milliseconds of all consumers, and how many they were: in this window, and in the one before it. */
  #ms = 0;
  #beforeMs = 0;
  #count = 0;
  #countBefore = 0;
  /** By id, because one that was forgotten in a pause has a new object. */
  #latestId: string | null = null;
  #latestAtMs = Number.NEGATIVE_INFINITY;
  #changedAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;
  #lookedAtMs = 0;
  #waitedAtLook = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ThreadTimeOptions) {
    this.#options = options;
    this.#afterReading = options.afterReading ?? afterReading;
    this.#afterReadyWork = options.afterReading ?? afterReadyWork;
  }

  /** Consumers that are held in memory. */
  get size(): number {
    return this.#consumers.size;
  }

  nowMs(): number {
    return this.#options.monotonicMs();
  }

  of(consumerId: string): ConsumerTime {
    return this.#consumers.get(consumerId) ?? this.#newConsumer(consumerId);
  }

  /** Charges work to a consumer. @param toMs the present */
  spent(consumer: ConsumerTime, ms: number, toMs: number): void {
    if (consumer.isForgotten) {
      this.spent(this.of(consumer.id), ms, toMs);
      return;
    }
    const window = Math.floor(toMs / WINDOW_MS);
    if (window !== this.#window) this.#begin(window);
    if (consumer.window !== window) {
      consumer.beforeMs = consumer.window === window - 1 ? consumer.ms : 0;
      consumer.ms = 0;
      consumer.window = window;
      this.#count++;
    }
    if (consumer.id !== this.#latestId) {
      if (toMs - this.#latestAtMs < SEVERAL_MS) this.#changedAtMs = toMs;
      this.#latestId = consumer.id;
    }
    this.#latestAtMs = toMs;
    consumer.ms += ms;
    consumer.lookedMs += ms;
    this.#ms += ms;
    this.#turnMs += ms;
    this.workedMs += ms;
  }

  /**
   * Does work that was not measured otherwise, and charges it. What it charges itself is not charged twice.
   * @returns the present
   */
  measure(consumer: ConsumerTime, work: Turn, isLate = false): number {
    const { workedMs } = this;
    const fromMs = this.nowMs();
    let toMs = fromMs;
    try {
      work(isLate);
    } finally {
      toMs = this.nowMs();
      this.spent(consumer, Math.max(0, toMs - fromMs - (this.workedMs - workedMs)), toMs);
    }
    return toMs;
  }

  /** Whether further work of a consumer has to wait for its turn, because it is beyond its share. */
  mustWait(consumer: ConsumerTime): boolean {
    if (consumer.isForgotten) return this.mustWait(this.of(consumer.id));
    if (consumer.waiting.length > 0) return true;
    if (this.#latestAtMs - this.#changedAtMs > SEVERAL_MS) return false;
    const ms = this.#recentMs(consumer);
    const equalPart = 1 / Math.max(this.#count, this.#countBefore, 2);
    if (ms < MIN_MS || ms <= PARTS * equalPart * (this.#ms + this.#beforeMs)) return false;
    if (this.#line.size > 0) return true;
    if (!this.#isTurnOpen) {
      this.#isTurnOpen = true;
      this.#turnMs = 0;
      this.#afterReading(this.#endTurn);
    }
    return this.#turnMs >= FREE_MS;
  }

  /** Calls `turn` when it is the consumer's turn, never at once. */
  wait(consumer: ConsumerTime, turn: Turn): void {
    // Attack: uploads that pause until their consumer is forgotten, and then count as those of one that has had nothing.
    if (consumer.isForgotten) {
      this.wait(this.of(consumer.id), turn);
      return;
    }
    this.waited++;
    if (consumer.waiting.push({ turn, sinceMs: this.workedMs }) === 1) this.#line.add(consumer);
    this.#serveLater();
  }

  /** Called every second. Notes which consumer had most, and forgets the consumers without work. */
  look(): void {
    const nowMs = this.nowMs();
    const passedMs = Math.max(1, nowMs - this.#lookedAtMs);
    let largest: ConsumerTime | null = null;
    for (const consumer of this.#consumers.values()) {
      if (largest === null || consumer.lookedMs > largest.lookedMs) largest = consumer;
    }
    const part = largest === null ? 0 : Math.min(1, largest.lookedMs / passedMs);
    this.largestPart = part;
    if (part > MOST && this.waited > this.#waitedAtLook && nowMs - this.#reportedAtMs >= REPORT_EVERY_MS) {
      this.#reportedAtMs = nowMs;
      this.#options.onLargest?.({ consumerId: largest!.id, part });
    }
    this.#lookedAtMs = nowMs;
    this.#waitedAtLook = this.waited;
    for (const [id, consumer] of this.#consumers) {
      if (consumer.lookedMs === 0 && consumer.waiting.length === 0) {
        consumer.isForgotten = true;
        this.#consumers.delete(id);
      }
      consumer.lookedMs = 0;
    }
    if (this.#consumers.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #newConsumer(id: string): ConsumerTime {
    const consumer = new ConsumerTime(id, this);
    this.#consumers.set(id, consumer);
    if (this.#timer === null) {
      this.#lookedAtMs = this.nowMs();
      this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS).unref();
    }
    return consumer;
  }

  #begin(window: number): void {
    const isNext = window === this.#window + 1;
    this.#beforeMs = isNext ? this.#ms : 0;
    this.#countBefore = isNext ? this.#count : 0;
    this.#ms = 0;
    this.#count = 0;
    this.#window = window;
  }

  /** Milliseconds of a consumer in this window and the one before it. */
  #recentMs({ window, ms, beforeMs }: ConsumerTime): number {
    if (window === this.#window) return ms + beforeMs;
    return window === this.#window - 1 ? ms : 0;
  }

  #serveLater(): void {
    if (this.#isServing) return;
    this.#isServing = true;
    this.#afterReadyWork(this.#serve);
  }

  readonly #endTurn = (): void => {
    this.#isTurnOpen = false;
  };

  readonly #serve = (): void => {
    let nowMs = this.nowMs();
    const untilMs = nowMs + LINE_MS;
    this.#isServing = false;
    try {
      // Work that waits again, and is done in the same turn, leaves the line empty for the next call.
      while (this.#line.size > 0 && nowMs < untilMs) nowMs = this.#serveNext();
    } finally {
      if (this.#line.size > 0) this.#serveLater();
    }
  };

  /** Serves the consumer whose turn it is: of those that wait, the one that has had least recently. @returns the present */
  #serveNext(): number {
    let next: ConsumerTime | null = null;
    let least = Number.POSITIVE_INFINITY;
    for (const consumer of this.#line) {
      const ms = this.#recentMs(consumer);
      if (ms >= least) continue;
      least = ms;
      next = consumer;
    }
    const consumer = next!;
    let nowMs = this.nowMs();
    const untilMs = nowMs + TURN_MS;
    while (consumer.waiting.length > 0 && nowMs < untilMs) {
      const { turn, sinceMs } = consumer.waiting.shift()!;
      if (consumer.waiting.length === 0) this.#line.delete(consumer);
      nowMs = this.measure(consumer, turn, this.workedMs - sinceMs > LATEST_MS);
    }
    return nowMs;
  }
}
