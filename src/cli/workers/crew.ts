import type { Configuration } from '../../config/settings.ts';
import { Failure } from '../../failure.ts';
import type { Dispatcher } from './dispatcher.ts';
import { RestartPauses } from './restart-pauses.ts';
import { type WorkerEnd, type WorkerEvents, WorkerProcess, type WorkerSetup } from './worker-process.ts';

export interface CrewOptions extends Omit<WorkerSetup, 'worker' | 'configuration'> {
  /** What is in force now. */
  readonly configuration: () => Configuration;
  readonly dispatcher: Dispatcher<WorkerProcess>;
  /** A worker was started. */
  readonly onStarted: (of: WorkerProcess) => void;
  /** A worker cannot start, but others serve. */
  readonly onFailed: (of: WorkerProcess, failure: Failure) => void;
  /** A worker stops or has ended without being told to, and another takes its place `pauseMs` from now. */
  readonly onLost: (of: WorkerProcess, end: WorkerEnd | null, pauseMs: number) => void;
  /** A worker is no more. */
  readonly onEnd: (of: WorkerProcess, end: WorkerEnd) => void;
}

/** The place of one worker, which another takes when it is empty. */
interface Slot {
  readonly worker: number;
  readonly pauses: RestartPauses;
  /** Null: between two workers. */
  current: WorkerProcess | null;
  timer: NodeJS.Timeout | null;
}

/** The workers of a gateway, each replaced when it is lost, with a pause that grows while it keeps being lost. */
export class Crew {
  readonly slots: readonly Slot[];
  readonly #options: CrewOptions;
  /** Every worker that runs, those too that have left their slot and still finish what they have. */
  readonly #running = new Set<WorkerProcess>();
  readonly #events: WorkerEvents;
  #isStopping = false;
  /** Whether one of those that were told to stop did not end well. */
  #isBroken = false;
  #onChange: () => void = () => {};
  #onFailure: ((failure: Failure) => void) | null = null;

  constructor(options: CrewOptions) {
    const { workers, dispatcher } = options;
    this.#options = options;
    this.slots = Array.from({ length: workers }, (_, i) => {
      return { worker: i + 1, pauses: new RestartPauses(), current: null, timer: null };
    });
    this.#events = {
      onServing: (of) => {
        if (!this.#isStopping) dispatcher.join(of);
        this.#onChange();
      },
      onFailed: (of, failure) => (this.#onFailure === null ? options.onFailed(of, failure) : this.#onFailure(failure)),
      onTaken: (of) => dispatcher.taken(of),
      onConnectionsEnded: (of, connections) => dispatcher.ended(of, connections),
      onLeaving: (of) => {
        dispatcher.retire(of);
        of.noMore();
        this.#replace(of, null);
      },
      onSilent: (of) => dispatcher.leave(of),
      onEnd: (of, end) => this.#ended(of, end),
    };
  }

  /** The workers that run. */
  get running(): ReadonlySet<WorkerProcess> {
    return this.#running;
  }

  /**
   * Starts them all. Resolves when one serves and of each of the others it is known whether it does.
   * @throws Failure of the first one that cannot start, or when none of them could; all are ended then
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

  /** Tells all of them that the gateway stops. Connections may still be handed to them. */
  drain(): void {
    this.#isStopping = true;
    for (const { timer } of this.slots) if (timer !== null) clearTimeout(timer);
    for (const worker of this.#running) worker.drain();
  }

  /**
   * Tells them that no connection comes any more, and resolves when all have ended; those that have not `withinMs` from
   * now are killed.
   * @returns whether one of them did not end as it should
   */
  async end(withinMs: number): Promise<boolean> {
    this.drain();
    for (const worker of this.#running) worker.noMore();
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

  #ended(of: WorkerProcess, end: WorkerEnd): void {
    this.#running.delete(of);
    // One that was still starting was ended by us.
    if (this.#isStopping && of.state !== 'starting' && end.code !== 0) this.#isBroken = true;
    this.#options.onEnd(of, end);
    this.#replace(of, end);
    this.#onChange();
  }

  #replace(of: WorkerProcess, end: WorkerEnd | null): void {
    const slot = this.slots[of.worker - 1]!;
    if (slot.current !== of || this.#isStopping) return;
    slot.current = null;
    const pauseMs = slot.pauses.after(of.servedMs);
    this.#options.onLost(of, end, pauseMs);
    slot.timer = setTimeout(() => this.#start(slot), pauseMs);
  }
}

const NONE_STARTED = 'No worker could be started: each of them ended before it served. What they said stands above.';
