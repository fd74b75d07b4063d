import type { Configuration } from '../../config/settings.ts';
import { Failure } from '../../failure.ts';
import type { Dispatcher } from './dispatcher.ts';
import { type WorkerEnd, type WorkerEvents, WorkerProcess, type WorkerSetup } from './worker-process.ts';

export interface WorkerPoolOptions extends Omit<WorkerSetup, 'worker' | 'configuration'> {
  /** Returns the configuration in force, for a worker that starts. */
  readonly configuration: () => Configuration;
  readonly dispatcher: Dispatcher<WorkerProcess>;
  /** Called when a worker's process was started. */
  readonly onStarted: (started: WorkerProcess) => void;
  /** Called when a worker cannot start while others serve. */
  readonly onFailed: (failed: WorkerProcess, failure: Failure) => void;
  /** Called when a worker stops by itself (`end` is null) or has ended. Another one is started after `pauseMs`. */
  readonly onLost: (lost: WorkerProcess, end: WorkerEnd | null, pauseMs: number) => void;
  /** Called when a worker has ended. */
  readonly onEnd: (ended: WorkerProcess, end: WorkerEnd) => void;
}

/** The slot of one worker number. When its worker is lost, another one is started in it. */
interface Slot {
  readonly worker: number;
  readonly pauses: RestartPauses;
  /** Null while the slot waits for its next worker. */
  current: WorkerProcess | null;
  timer: NodeJS.Timeout | null;
}

/** The workers of a gateway. A lost worker is replaced after a pause, which grows if the replacement is lost too. */
export class WorkerPool {
  readonly slots: readonly Slot[];
  readonly #options: WorkerPoolOptions;
  /** Every running worker, with those that were replaced and still finish their requests. */
  readonly #running = new Set<WorkerProcess>();
  readonly #events: WorkerEvents;
  #isStopping = false;
  /** True if a worker that was asked to stop did not exit with 0. */
  #isBroken = false;
  #onChange: () => void = () => {};
  #onFailure: ((failure: Failure) => void) | null = null;

  constructor(options: WorkerPoolOptions) {
    const { workers, dispatcher } = options;
    this.#options = options;
    this.slots = Array.from({ length: workers }, (_, i) => {
      return { worker: i + 1, pauses: new RestartPauses(), current: null, timer: null };
    });
    this.#events = {
      onServing: (one) => {
        if (!this.#isStopping) dispatcher.join(one);
        this.#onChange();
      },
      onFailed: (one, failure) =>
        this.#onFailure === null ? options.onFailed(one, failure) : this.#onFailure(failure),
      onTaken: (one) => dispatcher.taken(one),
      onConnectionsEnded: (one, connections) => dispatcher.ended(one, connections),
      onLeaving: (one) => {
        dispatcher.retire(one);
        one.endFeed();
        this.#replace(one, null);
      },
      onSilent: (one) => dispatcher.leave(one),
      onEnd: (one, end) => this.#ended(one, end),
    };
  }

  get running(): ReadonlySet<WorkerProcess> {
    return this.#running;
  }

  /**
   * Starts all workers. Resolves when at least one serves and each of the others serves or has ended.
   * @throws Failure of the first worker that reports why it cannot start; `no_worker` if none serves. All workers are ended
   *   then.
   */
  async start(): Promise<void> {
    const started = Promise.withResolvers<void>();
    const unsettled = new Set<WorkerProcess>();
    this.#onFailure = started.reject;
    this.#onChange = () => {
      for (const one of unsettled) if (one.state !== 'starting' || !this.#running.has(one)) unsettled.delete(one);
      if (unsettled.size > 0) return;
      if ([...this.#running].some(({ state }) => state === 'serving')) started.resolve();
      else started.reject(new Failure('no_worker', NONE_STARTED));
    };
    for (const slot of this.slots) unsettled.add(this.#start(slot));
    try {
      await started.promise;
    } catch (error) {
      await this.end(0);
      throw error;
    } finally {
      this.#onFailure = null;
      this.#onChange = () => {};
    }
  }

  /** Tells all workers that the gateway drains. They still take connections. */
  drain(): void {
    this.#isStopping = true;
    for (const { timer } of this.slots) if (timer !== null) clearTimeout(timer);
    for (const worker of this.#running) worker.drain();
  }

  /**
   * Tells all workers that no further connection follows, and resolves when all have ended. Workers that have not ended
   * after `withinMs` are killed.
   * @returns whether a worker did not exit with 0
   */
  async end(withinMs: number): Promise<boolean> {
    this.drain();
    for (const worker of this.#running) worker.endFeed();
    const late = setTimeout(() => this.kill(), withinMs);
    await new Promise<void>((resolve) => {
      this.#onChange = () => {
        if (this.#running.size === 0) resolve();
      };
      this.#onChange();
    });
    clearTimeout(late);
    return this.#isBroken;
  }

  kill(): void {
    for (const worker of this.#running) worker.kill();
  }

  #start(slot: Slot): WorkerProcess {
    const started = new WorkerProcess(
      { ...this.#options, configuration: this.#options.configuration(), worker: slot.worker },
      this.#events,
    );
    slot.current = started;
    slot.timer = null;
    this.#running.add(started);
    this.#options.onStarted(started);
    return started;
  }

  #ended(one: WorkerProcess, end: WorkerEnd): void {
    this.#running.delete(one);
    // `drain` kills a worker that is still starting, so its exit code means nothing.
    if (this.#isStopping && one.state !== 'starting' && end.code !== 0) this.#isBroken = true;
    this.#options.onEnd(one, end);
    this.#replace(one, end);
    this.#onChange();
  }

  #replace(lost: WorkerProcess, end: WorkerEnd | null): void {
    const slot = this.slots[lost.worker - 1]!;
    if (slot.current !== lost || this.#isStopping) return;
    slot.current = null;
    const pauseMs = slot.pauses.after(lost.servedMs);
    this.#options.onLost(lost, end, pauseMs);
    slot.timer = setTimeout(() => this.#start(slot), pauseMs);
  }
}

const NONE_STARTED = 'No worker could be started: each of them ended before it served. What they said stands above.';

const FIRST_MS = 100;
const LONGEST_MS = 30_000;
/** A worker that has served so long had started properly, so the pauses begin anew. */
const LIVED_MS = 10_000;

/**
 * The pauses before a lost worker is replaced. The first is short, and each further one is twice as long while the workers
 * of a slot keep ending, so that a worker that cannot run does not take the processor from those that serve.
 */
export class RestartPauses {
  #nextMs = FIRST_MS;

  /**
   * @param servedMs how long the lost worker had served; 0 if it never did
   * @returns milliseconds
   */
  after(servedMs: number): number {
    if (servedMs >= LIVED_MS) this.#nextMs = FIRST_MS;
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(pauseMs * 2, LONGEST_MS);
    return pauseMs;
  }
}
