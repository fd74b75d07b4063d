import { NothingDone } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { CallDeadlines, Late } from './call-deadlines.ts';

export interface CircuitOptions {
  /** No call is waited for longer than this. */
  readonly timeoutMs: number;
  /** So many calls in a row fail before none is waited for at all. */
  readonly failures: number;
  readonly probeEveryMs: number;
  /** Any cheap call; while the circuit is open it alone is made. */
  readonly probe: () => Promise<unknown>;
  /**
   * Has to succeed after the probe: a write like those of the ledger. A server that is full, read-only or cannot save
   * answers a PING and all that reads, and counts nothing.
   */
  readonly trial?: () => Promise<unknown>;
  readonly onChange?: (state: CircuitState, change?: CircuitChange) => void;
}

/** `away`: calls fail at once until a probe succeeds. */
export type CircuitState = 'present' | 'away';

export interface CircuitChange {
  /** Why it is away, or was. */
  readonly reason: string;
  /** How long it was in the state before, milliseconds. */
  readonly lastedMs: number;
}

/** So many calls are under way at first when the store is back; each that succeeds makes room for one more. */
const FIRST_ROOM = 4;
const FULL_ROOM = 64;
/** A store that goes away again at once is probed less and less often, down to this share of `probeEveryMs`. */
const MOST_PATIENCE = 5;

/**
 * Keeps requests from waiting for a store that is not there (contract section 6): a deadline for each call, and after a
 * few failures in a row no call at all until a probe succeeds. When it is back, calls are let through a few at a time,
 * then more and more, so that it is not run down by all that waited for it.
 *
 * Calls reject with Failure `store_unavailable`; it is NothingDone where nothing of the call can have taken effect.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  #state: CircuitState = 'present';
  #sinceMs = performance.now();
  #reason = '';
  #failures = 0;
  #probing: NodeJS.Timeout | null = null;
  #relapses = 0;
  #reached = false;
  #closed = false;
  /** How many calls may be under way; the others wait their turn, within their deadline. */
  #room = Number.POSITIVE_INFINITY;
  #underWay = 0;
  readonly #queue = new Set<Waiting>();
  readonly #deadlines = new CallDeadlines();
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CircuitOptions) {
    this.#options = options;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Whether any call has ever succeeded. */
  get reached(): boolean {
    return this.#reached;
  }

  /** Makes `call`. Rejects with Failure `store_unavailable` at the deadline, at once while away, or when it fails. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    const { timeoutMs } = this.#options;
    if (this.#state === 'away') throw new NothingDone('Redis is away; waiting for a probe to succeed.');
    let leftMs = timeoutMs;
    if (this.#underWay < this.#room) this.#underWay++;
    else leftMs = await this.#turn(timeoutMs);
    try {
      const value = await this.#deadlines.within(call(), leftMs, timeoutMs);
      this.#succeeded();
      return value;
    } catch (error) {
      if (!this.#isOwnQueue(error, leftMs)) this.#failed(error);
      throw asFailure(error);
    } finally {
      this.#underWay--;
      this.#letIn();
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#probing !== null) clearTimeout(this.#probing);
  }

  /** Waits until there is room; tells what is left of `timeoutMs`. */
  #turn(timeoutMs: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const untilMs = performance.now() + timeoutMs;
      const late = () => waiting.leave(() => reject(new NothingDone('Redis had too much to catch up with.')));
      const timer = setTimeout(late, timeoutMs);
      const waiting: Waiting = {
        enter: () => {
          this.#underWay++;
          waiting.leave(() => resolve(Math.max(untilMs - performance.now(), 1)));
        },
        leave: (then) => {
          clearTimeout(timer);
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
      if (this.#underWay >= this.#room) return;
      waiting.enter();
    }
  }

  #succeeded(): void {
    this.#answeredAtMs = performance.now();
    this.#failures = 0;
    this.#reached = true;
    if (this.#state === 'away') {
      // Of a late answer nobody knows whether it took a write; where that is asked, the probe tells.
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
  }

  /** It had waited for its turn and so had less than the whole deadline, of a store that answers: that is not its failure. */
  #isOwnQueue(error: unknown, leftMs: number): boolean {
    const { timeoutMs } = this.#options;
    return error instanceof Late && leftMs < timeoutMs && performance.now() - this.#answeredAtMs < timeoutMs;
  }

  #failed(error: unknown): void {
    this.#failures++;
    const isOver = this.#failures >= this.#options.failures || this.#room !== Number.POSITIVE_INFINITY || isOut(error);
    if (this.#state === 'away' || !isOver || this.#closed || this.#options.failures === Number.POSITIVE_INFINITY)
      return;
    if (this.#room !== Number.POSITIVE_INFINITY) this.#relapses++;
    this.#room = Number.POSITIVE_INFINITY;
    this.#reason = reasonOf(error);
    this.#change('away');
    for (const waiting of this.#queue) waiting.refuse();
    this.#probeLater();
  }

  #change(state: CircuitState): void {
    const nowMs = performance.now();
    const change = { reason: this.#reason, lastedMs: nowMs - this.#sinceMs };
    this.#state = state;
    this.#sinceMs = nowMs;
    this.#options.onChange?.(state, change);
  }

  #probeLater(): void {
    // A call that was answered late may have ended the outage that the probe in waiting is for; it serves the next one too.
    if (this.#closed || this.#probing !== null) return;
    const afterMs = this.#options.probeEveryMs * Math.min(2 ** this.#relapses, MOST_PATIENCE);
    this.#probing = setTimeout(() => void this.#probe(), afterMs);
    this.#probing.unref();
  }

  async #probe(): Promise<void> {
    const { probe, trial, timeoutMs } = this.#options;
    const isBack = await this.#deadlines.within(probe().then(trial), timeoutMs, timeoutMs).then(
      () => true,
      (error) => {
        this.#reason = reasonOf(error);
        return false;
      },
    );
    this.#probing = null;
    if (this.#state === 'present' || this.#closed) return;
    if (isBack) this.#isBack();
    else this.#probeLater();
  }
}

interface Waiting {
  enter(): void;
  refuse(): void;
  leave(then: () => void): void;
}

/** What a server says that can count nothing for anybody: no further call has to find that out. */
function isOut(error: unknown): boolean {
  return error instanceof Error && /^(OOM|READONLY|MISCONF|LOADING|MASTERDOWN|NOAUTH|NOREPLICAS)\b/.test(error.message);
}

/** The client never sent it. */
function isUnsent(error: unknown): boolean {
  return error instanceof Error && /enableOfflineQueue options is false/.test(error.message);
}

function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const message = 'Redis did not do what was asked.';
  // A script that is refused has written nothing: its first write is where the refusal comes from.
  const isRefused = error instanceof Error && error.name === 'ReplyError';
  return isUnsent(error) || isRefused
    ? new NothingDone(message, error)
    : new Failure('store_unavailable', message, error);
}

/** For operators: one line, without anything that the gateway sent. */
function reasonOf(error: unknown): string {
  if (isUnsent(error)) return 'There is no connection to Redis.';
  return error instanceof Error ? error.message.split('\n')[0]! : String(error);
}
