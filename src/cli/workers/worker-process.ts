import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { Configuration } from '../../config/settings.ts';
import { Failure } from '../../failure.ts';
import type { Readiness } from '../../listen/admin.ts';
import { LendingSocket } from '../../listen/lending-socket.ts';
import type { Snapshot } from '../../telemetry/joined-metrics.ts';
import type { Taker } from './dispatcher.ts';
import type { FromWorker, Question, ToWorker } from './messages.ts';

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

/** What becomes of a worker, in this order. */
export interface WorkerEvents {
  onServing(of: WorkerProcess): void;
  /** It cannot start: what to do is for whoever runs the gateway. */
  onFailed(of: WorkerProcess, failure: Failure): void;
  onTaken(of: WorkerProcess): void;
  onConnectionsEnded(of: WorkerProcess, connections: number): void;
  /** It stops by itself. */
  onLeaving(of: WorkerProcess): void;
  /** Nothing will be heard of it any more. */
  onSilent(of: WorkerProcess): void;
  /** It has ended, and all that it said has been heard. */
  onEnd(of: WorkerProcess, end: WorkerEnd): void;
}

interface Answers {
  readonly readiness: Readiness;
  readonly metrics: Snapshot;
}

const PROGRAM = join(import.meta.dirname, 'worker.ts');

/** What was compiled at an earlier start is not compiled again, in workers as in their supervisor. */
function keptCompiled(): NodeJS.ProcessEnv {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

const NO_PROCESS = 'The system gives no process for a worker';
const RAISE = 'raise the limits on open files, processes and memory.';

/**
 * Its number stands in its command line for whoever looks at a list of processes. Its lines are read here, so that those
 * of several are not mixed; structured messages carry settings and numbers as they are.
 * @param onError gets too, later, why there is none: some reasons Node.js tells so, and others it throws
 */
function forked(worker: number, env: NodeJS.ProcessEnv, onError: (error: Error) => void): ChildProcess | null {
  try {
    return fork(PROGRAM, [String(worker)], {
      env: { ...keptCompiled(), ...env },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      serialization: 'advanced',
    }).on('error', onError);
  } catch (error) {
    process.nextTick(onError, error as Error);
    return null;
  }
}

/** One worker: a process with a gateway in it that is fed with connections, asked how it is, and told to stop. */
export class WorkerProcess implements Taker {
  readonly worker: number;
  state: 'starting' | 'serving' | 'leaving' = 'starting';
  /** What it counted, as it last told. */
  lastMetrics: Snapshot = [];
  /** Null: the system gave none. */
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
    this.#child = forked(worker, env, (error) => this.#broke(error));
    const output = this.#child?.stdout ?? null;
    this.#output = output === null ? Readable.from([]) : LendingSocket.around(output as Socket);
    this.#child?.on('message', (message: FromWorker) => this.#hear(message));
    // Not 'close': that waits for whoever reads the log, who may never do so.
    this.#child?.once('exit', (code, signal) => this.#ended({ code, signal }));
    this.#tell({ kind: 'begin', worker, workers, configuration });
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** How long it has served; 0 when it never did. */
  get servedMs(): number {
    return this.#servesSinceMs === null ? 0 : performance.now() - this.#servesSinceMs;
  }

  get output(): Readable {
    return this.#output;
  }

  hand(socket: Socket, isFull: boolean): void {
    // Our own end stays open until the worker has taken the connection.
    const message: ToWorker = { kind: 'connection', isFull };
    if (this.#child?.connected) this.#child.send(message, socket, { keepOpen: true });
  }

  /** The gateway stops. One that has not begun to serve has nothing to finish. */
  drain(): void {
    if (this.state === 'starting') this.kill();
    else this.#tell({ kind: 'drain' });
  }

  /** No connection comes any more. */
  noMore(): void {
    this.#tell({ kind: 'closed' });
  }

  kill(): void {
    this.signal('SIGKILL');
  }

  signal(signal: NodeJS.Signals): void {
    // Without a number of its own it is nobody, or all of us.
    if (this.pid !== null) this.#child?.kill(signal);
  }

  /** @returns null when it has not answered `withinMs`, or is gone */
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
      this.#tell({ kind: 'ask', number, question });
    });
  }

  #tell(message: ToWorker): void {
    if (this.#child?.connected) this.#child.send(message);
  }

  /**
   * Attack: the system has no descriptor or no process left when a worker is replaced. What was not started never exits,
   * so its place would stay empty; it is one more that ended, and is tried again.
   */
  #broke(error: NodeJS.ErrnoException): void {
    // The channel breaks when the process does, and that is told by its exit.
    if (this.pid !== null || this.#hasEnded) return;
    this.#events.onFailed(this, new Failure('no_worker', `${NO_PROCESS} (${error.code}); ${RAISE}`, error));
    this.#ended({ code: null, signal: null });
  }

  #ended(end: WorkerEnd): void {
    this.#hasEnded = true;
    this.#untilSilent(() => this.#events.onEnd(this, end));
  }

  /**
   * What it said last, what it had counted among it, may still be on its way when it has ended. Node.js tells that a channel
   * is at its end with an event, but not while it waits for the receipt of a connection, which is when it matters.
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

  #hear(message: FromWorker): void {
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
