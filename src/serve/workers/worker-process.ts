import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { Readiness } from '../../admin/listener.ts';
import type { Configuration } from '../../config/settings.ts';
import { Failure } from '../../failure.ts';
import { SharedBufferSocket } from '../../io/shared-buffer-socket.ts';
import type { Snapshot } from '../../telemetry/joined-metrics.ts';
import type { ConnectionTaker } from './dispatcher.ts';
import type { FromWorker, Question, ToWorker } from './worker-context.ts';

export interface WorkerSetup {
  /** From 1. */
  readonly worker: number;
  readonly workers: number;
  readonly configuration: Configuration;
  readonly env: NodeJS.ProcessEnv;
}

/** How a worker ended. */
export interface WorkerEnd {
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
}

const PROGRAM = join(import.meta.dirname, 'worker.ts');

/** Lets the workers use the compile cache of their supervisor. */
function compileCacheVariables(): NodeJS.ProcessEnv {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

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
  /** Null if the system could not start a process. */
  readonly #child: ChildProcess | null;
  readonly #output: Readable;
  readonly #events: WorkerEvents;
  readonly #questions = new Map<number, (value: unknown) => void>();
  #asked = 0;
  #hasEnded = false;
  #servesSinceMs: number | null = null;

  constructor({ worker, workers, configuration, env }: WorkerSetup, events: WorkerEvents) {
    this.worker = worker;
    this.#events = events;
    this.#child = forkWorker(worker, env, (error) => this.#broke(error));
    const output = this.#child?.stdout ?? null;
    this.#output = output === null ? Readable.from([]) : SharedBufferSocket.around(output as Socket);
    this.#child?.on('message', (message: FromWorker) => this.#receive(message));
    // Not 'close', which waits until the pipe of the log is read to its end, and a stalled reader may never do that.
    this.#child?.once('exit', (code, signal) => this.#ended({ code, signal }));
    this.#send({ kind: 'begin', worker, workers, configuration });
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

  signal(signal: NodeJS.Signals): void {
    // Without a pid there is no process to signal; kill(0) would signal the whole process group.
    if (this.pid !== null) this.#child?.kill(signal);
  }

  /** @returns null if the worker does not answer within `withinMs`, or has ended */
  ask<Q extends Question>(question: Q, withinMs: number): Promise<Answers[Q] | null> {
    if (!this.#child?.connected) return Promise.resolve(null);
    const number = this.#asked++;
    return new Promise((resolve) => {
      const settle = (value: unknown) => {
        clearTimeout(late);
        this.#questions.delete(number);
        if (question === 'metrics' && value !== null) this.lastMetrics = value as Snapshot;
        resolve(value as Answers[Q] | null);
      };
      const late = setTimeout(() => settle(null), withinMs);
      this.#questions.set(number, settle);
      this.#send({ kind: 'ask', number, question });
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
   * The 'disconnect' event would tell this, but Node.js does not emit it while a connection that was handed over is
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
    if (message.kind === 'taken') events.onTaken(this);
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
