import { NothingDone } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { ReplyDeadlines } from '../../io/deadlines.ts';

export interface CircuitOptions {
  /** The deadline of each call. */
  readonly timeoutMs: number;
  /** After this many failures in a row the circuit opens: calls fail at once. */
  readonly failures: number;
  readonly probeEveryMs: number;
  /** Any cheap call. While the circuit is open, it makes only this call. */
  readonly probe: () => Promise<unknown>;
  /**
   * A write like those of the ledger, which must succeed after the probe. A server that is full, read-only or cannot save
   * answers PING and reads, but cannot count.
   */
  readonly trial?: () => Promise<unknown>;
  readonly onChange?: (state: CircuitState, change?: CircuitChange) => void;
  /**
   * Says in a sentence why there is no connection; null if there is one, or the cause is unknown. It is nearer to the cause than a
   * failed call.
   */
  readonly trouble?: () => string | null;
}

/** `away`: calls fail at once until a probe succeeds. */
export type CircuitState = 'present' | 'away';

export interface CircuitChange {
  /** The reason why the store is, or was, away. */
  readonly reason: string;
  /** The length of the previous state, milliseconds. */
  readonly lastedMs: number;
}

/**
 * Maximum concurrent calls when the store has just come back. Each success allows one more; beyond FULL_ROOM the circuit has no
 * maximum.
 */
const FIRST_ROOM = 4;
const FULL_ROOM = 64;
/** If the store goes away again at once, the pause between probes doubles, up to this multiple of `probeEveryMs`. */
const MAX_PATIENCE = 5;

/**
 * A circuit breaker: keeps requests from waiting for a store that is away (contract section 6). Each call has a deadline,
 * and after a few failures in a row calls fail at once until a probe succeeds. When the store is back, the circuit allows a
 * few concurrent calls, then more and more, so that the waiting calls do not overload it.
 *
 * A server that is full, read-only or forbids a write is away for all that counts and changes. It still answers reads, so `read` continues.
 * Fault: Redis is full, and operators could not look for the key that has leaked.
 *
 * Calls reject with Failure `store_unavailable`, or with NothingDone if the call has certainly had no effect.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  #state: CircuitState = 'present';
  #sinceMs = performance.now();
  #reason = '';
  /** While the store is away: true if it refuses writes alone, as far as the circuit knows. */
  #answersReads = false;
  #failures = 0;
  #probing: NodeJS.Timeout | null = null;
  #relapses = 0;
  #reached = false;
  #closed = false;
  /** Maximum calls in flight. Further calls wait in the queue, within their deadline. */
  #room = Number.POSITIVE_INFINITY;
  #inFlight = 0;
  readonly #queue = new Set<QueueEntry>();
  /** Calls that wait for the return of the store. */
  readonly #returning = new Set<() => void>();
  readonly #deadlines = new ReplyDeadlines();
  readonly #late: () => Promise<never>;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#late = lateAfter(options.timeoutMs);
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** True if any call has ever succeeded. */
  get reached(): boolean {
    return this.#reached;
  }

  /**
   * Makes `call`. Rejects with Failure `store_unavailable` if it fails, at its deadline, and at once while the store is away.
   * @param timeoutMs its deadline, if a person waits for it. It waits for a store that has been away for less than that, and an answer that is
   *   too late for a request does not count as one
   */
  async run<T>(call: () => Promise<T>, _about?: unknown, timeoutMs = this.#options.timeoutMs): Promise<T> {
    const isOfRequest = timeoutMs === this.#options.timeoutMs;
    let leftMs = timeoutMs;
    if (this.#state === 'away') leftMs = await this.#waitForReturn(isOfRequest ? 0 : timeoutMs);
    if (this.#inFlight < this.#room) this.#inFlight++;
    else leftMs = await this.#waitForRoom(leftMs);
    try {
      const beganAtMs = isOfRequest ? 0 : performance.now();
      const value = await this.#deadlines.within(call(), leftMs, isOfRequest ? this.#late : lateAfter(timeoutMs));
      if (isOfRequest || performance.now() - beganAtMs < this.#options.timeoutMs) this.#succeeded();
      return value;
    } catch (error) {
      if (isAboutOneName(error)) this.#succeeded();
      else if (!this.#isOwnQueue(error, leftMs, timeoutMs)) this.#failed(error);
      throw asFailure(error);
    } finally {
      this.#inFlight--;
      this.#letIn();
    }
  }

  /** Makes a call that writes nothing, even while the store refuses writes alone. Its result then says nothing about the store. */
  async read<T>(call: () => Promise<T>, _about?: unknown, timeoutMs = this.#options.timeoutMs): Promise<T> {
    if (this.#state === 'present' || !this.#answersReads) return this.run(call, undefined, timeoutMs);
    try {
      return await this.#deadlines.within(call(), timeoutMs, lateAfter(timeoutMs));
    } catch (error) {
      throw asFailure(error);
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#probing !== null) clearTimeout(this.#probing);
  }

  /**
   * Waits until the store is back, if it has been away for less than this.
   * @returns the rest of the time. Rejects with NothingDone
   */
  #waitForReturn(timeoutMs: number): Promise<number> {
    const awayMs = performance.now() - this.#sinceMs;
    const away = () => new NothingDone('Redis is away; waiting for a probe to succeed.');
    if (awayMs >= timeoutMs) return Promise.reject(away());
    return new Promise((resolve, reject) => {
      const deadline = this.#deadlines.set(() => {
        this.#returning.delete(back);
        reject(away());
      }, timeoutMs - awayMs);
      const back = () => {
        deadline.cancel();
        resolve(Math.max(deadline.leftMs(), 1));
      };
      this.#returning.add(back);
    });
  }

  /** Waits until there is room. @returns the rest of `timeoutMs` */
  #waitForRoom(timeoutMs: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const late = () => waiting.leave(() => reject(new NothingDone('Redis had too much to catch up with.')));
      const deadline = this.#deadlines.set(late, timeoutMs);
      const waiting: QueueEntry = {
        enter: () => {
          this.#inFlight++;
          waiting.leave(() => resolve(Math.max(deadline.leftMs(), 1)));
        },
        leave: (then) => {
          deadline.cancel();
          this.#queue.delete(waiting);
          then();
        },
        refuse: () => waiting.leave(() => reject(new NothingDone('Redis went away again.'))),
      };
      this.#queue.add(waiting);
    });
  }

  #letIn(): void {
    for (const waiting of this.#queue) {
      if (this.#inFlight >= this.#room) return;
      waiting.enter();
    }
  }

  #succeeded(): void {
    this.#answeredAtMs = performance.now();
    this.#failures = 0;
    this.#reached = true;
    if (this.#state === 'away') {
      // A late answer does not show that the store accepts writes. If there is a trial, the next probe must find that out.
      if (this.#options.trial === undefined) this.#isBack();
    } else if (this.#room < FULL_ROOM) this.#room++;
    else {
      this.#room = Number.POSITIVE_INFINITY;
      this.#relapses = 0;
    }
  }

  #isBack(): void {
    this.#failures = 0;
    this.#reached = true;
    this.#room = FIRST_ROOM;
    this.#change('present');
    const returning = [...this.#returning];
    this.#returning.clear();
    for (const back of returning) back();
  }

  /** True if a call failed only because it had spent part of its deadline in this queue while the store answered others. */
  #isOwnQueue(error: unknown, leftMs: number, timeoutMs: number): boolean {
    return error instanceof Late && leftMs < timeoutMs && performance.now() - this.#answeredAtMs < timeoutMs;
  }

  #failed(error: unknown): void {
    this.#failures++;
    const mustOpen =
      this.#failures >= this.#options.failures || this.#room !== Number.POSITIVE_INFINITY || countsNothing(error);
    if (this.#state === 'away' || !mustOpen || this.#closed || this.#options.failures === Number.POSITIVE_INFINITY)
      return;
    if (this.#room !== Number.POSITIVE_INFINITY) this.#relapses++;
    this.#room = Number.POSITIVE_INFINITY;
    this.#reason = this.#reasonOf(error);
    this.#answersReads = refusesWrites(error);
    this.#change('away');
    for (const waiting of this.#queue) waiting.refuse();
    this.#probeLater();
  }

  #reasonOf(error: unknown): string {
    return this.#options.trouble?.() ?? reasonOf(error);
  }

  #change(state: CircuitState): void {
    const nowMs = performance.now();
    const change = { reason: this.#reason, lastedMs: nowMs - this.#sinceMs };
    this.#state = state;
    this.#sinceMs = nowMs;
    this.#options.onChange?.(state, change);
  }

  #probeLater(): void {
    // A late answer may have ended the outage of a scheduled probe. That probe serves the next outage too.
    if (this.#closed || this.#probing !== null) return;
    const afterMs = this.#options.probeEveryMs * Math.min(2 ** this.#relapses, MAX_PATIENCE);
    this.#probing = setTimeout(() => void this.#probe(), afterMs);
    this.#probing.unref();
  }

  async #probe(): Promise<void> {
    const { probe, trial, timeoutMs } = this.#options;
    const isBack = await this.#deadlines.within(probe().then(trial), timeoutMs, this.#late).then(
      () => true,
      (error) => {
        this.#reason = this.#reasonOf(error);
        this.#answersReads = refusesWrites(error);
        return false;
      },
    );
    this.#probing = null;
    if (this.#state === 'present' || this.#closed) return;
    if (isBack) this.#isBack();
    else this.#probeLater();
  }
}

interface QueueEntry {
  enter(): void;
  refuse(): void;
  leave(then: () => void): void;
}

/** Errors of a server that cannot count any request at present, so that one such error opens the circuit. */
function countsNothing(error: unknown): boolean {
  return error instanceof Error && /^(OOM|READONLY|MISCONF|LOADING|MASTERDOWN|NOAUTH|NOREPLICAS)\b/.test(error.message);
}

/** Errors of a server that refuses a write, and may answer reads. The text of an error within a script begins as the error itself. */
function refusesWrites(error: unknown): boolean {
  return error instanceof Error && /^(OOM|READONLY|MISCONF|NOREPLICAS|NOPERM)\b/.test(error.message);
}

/**
 * True if the server answered, and has another program's value under the name of the call. Fault: one such value would make the
 * store count as away for everyone.
 */
function isAboutOneName(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(?:WRONGTYPE|ERR value is not an integer|ERR increment or decrement would)/.test(error.message)
  );
}

/** True if the client never sent the command. */
function isUnsent(error: unknown): boolean {
  return error instanceof Error && /enableOfflineQueue options is false/.test(error.message);
}

function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const message = 'Redis did not do what was asked.';
  // A refused script has written nothing: the refusal comes from its first write.
  const isRefused = error instanceof Error && error.name === 'ReplyError';
  return isUnsent(error) || isRefused
    ? new NothingDone(message, error)
    : new Failure('store_unavailable', message, error);
}

/** The reason for operators: one line, without data of the gateway. */
function reasonOf(error: unknown): string {
  if (isUnsent(error)) return 'There is no connection to Redis.';
  return error instanceof Error ? error.message.split('\n')[0]! : String(error);
}

function lateAfter(timeoutMs: number): () => Promise<never> {
  return () => Promise.reject(new Late(timeoutMs));
}

/** The store did not answer before the deadline. */
export class Late extends Failure {
  constructor(withinMs: number) {
    super('store_unavailable', `Redis did not answer within ${withinMs} ms.`);
  }
}
