import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Readiness } from '../../admin/listener.ts';
import type { Configuration } from '../../config/settings.ts';
import { Failure } from '../../failure.ts';
import { compileCacheVariables } from '../../io/compile-cache.ts';
import { nodeOptions, programBeside } from '../../io/own-program.ts';
import { SharedBufferSocket } from '../../io/read-buffers.ts';
import { Silence } from '../../io/silence.ts';
import { turnEveryMs } from '../../io/watchdog.ts';
import type { DecidedColumns, LiveQuestion, ProcessAnswer } from '../../operations/live/shapes.ts';
import type { Snapshot } from '../../telemetry/joined-metrics.ts';
import type { ConnectionTaker, Dispatcher } from './dispatcher.ts';
import type { FromWorker, Question, ToWorker } from './worker-context.ts';

// The worker processes of a supervisor: how a lost one is replaced, and what the supervisor sends and asks each of
// them.

interface WorkerPoolOptions extends Omit<WorkerSetup, 'worker' | 'configuration'> {
  /** How long a worker that serves may be silent before it is killed, in milliseconds; null: for ever. */
  readonly silenceLimitMs: number | null;
  /** Returns the configuration in force, for a worker that starts. */
  readonly configuration: () => Configuration;
  readonly dispatcher: Dispatcher<WorkerProcess>;
  /** Called when a worker's process was started. */
  readonly onStarted: (started: WorkerProcess) => void;
  /** Called when a worker cannot start while others serve. */
  readonly onFailed: (failed: WorkerProcess, failure: Failure) => void;
  /** Called when a worker stops by itself (`end` is null) or has ended. Another one is started after `pauseMs`. */
  readonly onLost: (lost: WorkerProcess, end: WorkerEnd | null, pauseMs: number) => void;
  /** Called when a worker no longer turns, before it is killed. */
  readonly onStuck: (stuck: WorkerProcess, silentMs: number) => void;
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
  #watch: NodeJS.Timeout | null = null;
  #isTurning = true;

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

  /** False once no worker that serves has turned for `silenceLimitMs`. While the gateway stops it is true. */
  get isTurning(): boolean {
    return this.#isStopping || this.#isTurning;
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
    this.#watch = this.#watchWorkers();
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
    if (this.#watch !== null) clearInterval(this.#watch);
    return this.#isBroken;
  }

  kill(): void {
    for (const worker of this.#running) worker.kill();
  }

  /**
   * Kills each worker that no longer turns; it is then replaced like any other that has ended. A worker that still starts is
   * left alone: compiling and opening the store may keep its thread for seconds.
   */
  #watchWorkers(): NodeJS.Timeout | null {
    const { silenceLimitMs: limitMs, dispatcher } = this.#options;
    if (limitMs === null) return null;
    const everyMs = turnEveryMs(limitMs);
    const silences = new WeakMap<WorkerProcess, Silence>();
    const silenceOfAll = new Silence(everyMs);
    let turns = 0;
    const look = () => {
      const nowMs = performance.now();
      let readsOfAll = 0;
      for (const one of this.#running) {
        if (one.state === 'starting' || one.isGivenUp) continue;
        const silence = silences.get(one) ?? new Silence(everyMs);
        silences.set(one, silence);
        const reads = one.pid === null ? 0 : Silence.readsOf(one.pid);
        readsOfAll += reads;
        const silentMs = silence.look(one.turns, nowMs, reads);
        const isSilent = silentMs >= limitMs && !one.isDebugged && !isTraced(one);
        if (silentMs === 0 || (silentMs >= limitMs && !isSilent)) turns++;
        if (!isSilent) continue;
        this.#options.onStuck(one, Math.round(silentMs));
        dispatcher.retire(one);
        one.giveUp();
      }
      this.#isTurning = silenceOfAll.look(turns, nowMs, readsOfAll) < limitMs;
    };
    return setInterval(look, everyMs).unref();
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

/** Whether a debugger of the system, such as gdb, holds the process. Only Linux says so. */
function isTraced({ pid }: WorkerProcess): boolean {
  try {
    return /^TracerPid:\t[1-9]/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return false;
  }
}

const NONE_STARTED = 'No worker could be started: each of them ended before it served. What they said stands above.';

const FIRST_MS = 100;
const MAX_MS = 30_000;
/** A worker that has served for this time had started properly, so the pauses start from the shortest again. */
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
    this.#nextMs = Math.min(pauseMs * 2, MAX_MS);
    return pauseMs;
  }
}

interface WorkerSetup {
  /** From 1. */
  readonly worker: number;
  readonly workers: number;
  readonly isObserved: boolean;
  readonly forTerminal: boolean;
  readonly configuration: Configuration;
  readonly env: NodeJS.ProcessEnv;
}

/** How a worker ended. */
interface WorkerEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The events of a worker's life, in this order. */
export interface WorkerEvents {
  onServing(worker: WorkerProcess): void;
  /** The worker cannot start, for a reason that the operator has to remove. */
  onFailed(worker: WorkerProcess, failure: Failure): void;
  /** The worker has taken the connection that was handed over last. */
  onTaken(worker: WorkerProcess): void;
  onConnectionsEnded(worker: WorkerProcess, connections: number): void;
  /** The worker stops by itself. */
  onLeaving(worker: WorkerProcess): void;
  /** The channel of the worker has ended, so that no further message comes. */
  onSilent(worker: WorkerProcess): void;
  /** The process has ended, and every message of it has been handled. */
  onEnd(worker: WorkerProcess, end: WorkerEnd): void;
}

interface Answers {
  readonly readiness: Readiness;
  readonly metrics: Snapshot;
  /** Null without an admin token. */
  readonly decidedColumns: DecidedColumns | null;
}

const PROGRAM = programBeside(import.meta, 'worker');

const NO_PROCESS = 'The system gives no process for a worker';
const RAISE = 'raise the limits on open files, processes and memory.';

/**
 * Starts the process of a worker. The worker's number is in its command line, for operators who list processes. Its standard
 * output is a pipe, because the supervisor joins the lines of all workers. `advanced` serialization keeps the Maps in the
 * settings.
 * @param onError called if the system cannot start a process. Node.js emits some of these errors and throws others.
 */
function forkWorker(worker: number, env: NodeJS.ProcessEnv, onError: (error: Error) => void): ChildProcess | null {
  try {
    return fork(PROGRAM, [String(worker)], {
      execArgv: nodeOptions(),
      env: { ...compileCacheVariables(), ...env },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      serialization: 'advanced',
    }).on('error', onError);
  } catch (error) {
    process.nextTick(onError, error as Error);
    return null;
  }
}

/** The supervisor's handle of one worker process: hands over connections, asks for readiness and metrics, and stops it. */
export class WorkerProcess implements ConnectionTaker {
  readonly worker: number;
  state: 'starting' | 'serving' | 'leaving' = 'starting';
  /** The metrics that the worker sent last. */
  lastMetrics: Snapshot = [];
  /** Grows with every message: each shows that the worker turns. */
  turns = 0;
  /** Whether a debugger was open at the worker's last heartbeat. */
  isDebugged = false;
  /** Whether it was killed because it no longer turned. */
  isGivenUp = false;
  /** Null if the system could not start a process. */
  readonly #child: ChildProcess | null;
  readonly #output: Readable;
  readonly #events: WorkerEvents;
  readonly #questions = new Map<number, (value: unknown) => void>();
  #asked = 0;
  #hasEnded = false;
  #servesSinceMs: number | null = null;

  constructor({ worker, workers, isObserved, forTerminal, configuration, env }: WorkerSetup, events: WorkerEvents) {
    this.worker = worker;
    this.#events = events;
    this.#child = forkWorker(worker, env, (error) => this.#broke(error));
    const output = this.#child?.stdout ?? null;
    this.#output = output === null ? Readable.from([]) : SharedBufferSocket.around(output as Socket);
    this.#child?.on('message', (message: FromWorker) => this.#receive(message));
    // Not 'close', which waits until the pipe of the log is read to its end, and a stalled reader may never do that.
    this.#child?.once('exit', (code, signal) => this.#ended({ code, signal }));
    this.#send({ kind: 'begin', worker, workers, isObserved, forTerminal, configuration });
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** How long the worker has served, in milliseconds; 0 if it never did. */
  get servedMs(): number {
    return this.#servesSinceMs === null ? 0 : performance.now() - this.#servesSinceMs;
  }

  get output(): Readable {
    return this.#output;
  }

  hand(socket: Socket, isFull: boolean): void {
    // The supervisor keeps its descriptor open until the worker has taken the connection.
    const message: ToWorker = { kind: 'connection', isFull };
    if (this.#child?.connected) this.#child.send(message, socket, { keepOpen: true });
  }

  /** Asks the worker to drain. A worker that does not serve yet has nothing to finish and is killed. */
  drain(): void {
    if (this.state === 'starting') this.kill();
    else this.#send({ kind: 'drain' });
  }

  /** Tells the worker that no further connection follows. */
  endFeed(): void {
    this.#send({ kind: 'closed' });
  }

  kill(): void {
    this.signal('SIGKILL');
  }

  /** Kills a worker that no longer turns. */
  giveUp(): void {
    this.isGivenUp = true;
    this.kill();
  }

  signal(signal: NodeJS.Signals): void {
    // Without a pid there is no process to signal; kill(0) would signal the whole process group.
    if (this.pid !== null) this.#child?.kill(signal);
  }

  /** @returns null if the worker does not answer within `withinMs`, or has ended */
  async ask<Q extends Exclude<Question, 'live'>>(question: Q, withinMs: number): Promise<Answers[Q] | null> {
    const value = (await this.#ask((number) => ({ kind: 'ask', number, question }), withinMs)) as Answers[Q] | null;
    if (question === 'metrics' && value !== null) this.lastMetrics = value as Snapshot;
    return value;
  }

  /** Asks the worker what it reports of its requests. @returns null also without an admin token */
  async askLive(about: LiveQuestion, withinMs: number): Promise<ProcessAnswer | null> {
    const value = await this.#ask((number) => ({ kind: 'ask', number, question: 'live', about }), withinMs);
    return value as ProcessAnswer | null;
  }

  #ask(messageOf: (number: number) => ToWorker, withinMs: number): Promise<unknown> {
    if (!this.#child?.connected) return Promise.resolve(null);
    const number = this.#asked++;
    return new Promise((resolve) => {
      const settle = (value: unknown) => {
        clearTimeout(late);
        this.#questions.delete(number);
        resolve(value);
      };
      const late = setTimeout(() => settle(null), withinMs);
      this.#questions.set(number, settle);
      this.#send(messageOf(number));
    });
  }

  #send(message: ToWorker): void {
    if (this.#child?.connected) this.#child.send(message);
  }

  /**
   * Fault: the system has no descriptor or process left when a worker is replaced. A process that was not started emits no
   * 'exit', so its slot would stay empty. It is therefore treated as a worker that has ended, and is replaced after a pause.
   */
  #broke(error: NodeJS.ErrnoException): void {
    // Errors of the channel come when the process ends; its 'exit' event handles that.
    if (this.pid !== null || this.#hasEnded) return;
    this.#events.onFailed(this, new Failure('no_worker', `${NO_PROCESS} (${error.code}); ${RAISE}`, error));
    this.#ended({ code: null, signal: null });
  }

  #ended(end: WorkerEnd): void {
    this.#hasEnded = true;
    this.#untilSilent(() => this.#events.onEnd(this, end));
  }

  /**
   * Waits until the channel is read to its end: the last messages, which hold the worker's metrics, may arrive after 'exit'.
   * The 'disconnect' event would report this, but Node.js does not emit it while a connection that was handed over is
   * unacknowledged, and just then it matters. So `connected` is polled.
   */
  #untilSilent(then: () => void): void {
    if (this.#child?.connected) {
      setImmediate(() => this.#untilSilent(then));
      return;
    }
    for (const settle of this.#questions.values()) settle(null);
    this.#events.onSilent(this);
    then();
  }

  #receive(message: FromWorker): void {
    const events = this.#events;
    this.turns++;
    if (message.kind === 'turning') this.isDebugged = message.isDebugged;
    else if (message.kind === 'taken') events.onTaken(this);
    else if (message.kind === 'ended') events.onConnectionsEnded(this, message.connections);
    else if (message.kind === 'answer') this.#questions.get(message.number)?.(message.value);
    else if (message.kind === 'serving') {
      this.state = 'serving';
      this.#servesSinceMs = performance.now();
      events.onServing(this);
    } else if (message.kind === 'leaving') {
      this.state = 'leaving';
      events.onLeaving(this);
    } else if (message.kind === 'failed') events.onFailed(this, new Failure(message.code, message.message));
    else this.lastMetrics = message.metrics as Snapshot;
  }
}
