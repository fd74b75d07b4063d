import type { Socket } from 'node:net';
import type { Readiness } from '../../admin/listener.ts';
import type { Configuration, Settings } from '../../config/settings.ts';
import type { FailureCode } from '../../failure.ts';
import { SharedBufferSocket } from '../../io/read-buffers.ts';
import type { ConnectionFeed } from '../../listen/accept.ts';
import type { DecidedColumns, LiveQuestion, ProcessAnswer } from '../../operations/live/shapes.ts';
import type { Snapshot } from '../../telemetry/joined-metrics.ts';

/** What a worker reports to the supervisor, which runs the admin listener. */
interface WorkerFacts {
  readonly readiness: () => Readiness;
  readonly metrics: () => Promise<Snapshot>;
  /** What it reports of its requests; null without an admin token. */
  readonly live: (question: LiveQuestion) => ProcessAnswer | null;
  /** Its last decided requests; null without an admin token. */
  readonly decidedColumns: () => DecidedColumns | null;
}

/** How a gateway that is one of several workers depends on its supervisor. */
export interface WorkerContext {
  /** From 1. */
  readonly worker: number;
  /** How many there are. */
  readonly workers: number;
  /** Whether anybody can use the admin API, so that this worker remembers its recent requests. */
  readonly isObserved: boolean;
  /** Whether the supervisor shows the log on a terminal: see LogOptions. */
  readonly forTerminal: boolean;
  /** The worker's share of the whole gateway's settings: see `shareOf`. */
  share(settings: Settings): Settings;
  /** The connections that the supervisor hands over. */
  readonly feed: ConnectionFeed;
  /** Sets the facts that the supervisor may ask for from now on. */
  show(facts: WorkerFacts): void;
  /** Announces that this worker stops. Resolves when the supervisor sends no further connection. */
  leave(): Promise<void>;
}

type Begin = Extract<ToWorker, { kind: 'begin' }>;

/**
 * The worker's end of the channel to its supervisor. If the supervisor ends in any way, the worker drains as if the
 * supervisor had asked for it.
 */
export class SupervisorLink {
  /** Resolves to the first message. */
  readonly begun: Promise<Begin>;
  /** Resolves when the supervisor has asked this worker to stop, or has ended. */
  readonly stopped: Promise<void>;
  readonly #closed: Promise<void>;
  #take: (socket: Socket, isFull: boolean) => void = (socket) => socket.destroy();
  #facts: WorkerFacts | null = null;
  #isStopping = false;
  #endedConnections = 0;
  #isBeating = false;

  constructor() {
    const begun = Promise.withResolvers<Begin>();
    const stopped = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    [this.begun, this.stopped, this.#closed] = [begun.promise, stopped.promise, closed.promise];
    const stop = () => {
      this.#isStopping = true;
      stopped.resolve();
    };
    process.on('message', (message: ToWorker, socket?: Socket) => {
      if (message.kind === 'connection') this.#receive(socket, message.isFull);
      else if (message.kind === 'ask') void this.#answer(message);
      else if (message.kind === 'begin') begun.resolve(message);
      else if (message.kind === 'drain') stop();
      else closed.resolve();
    });
    process.once('disconnect', () => {
      closed.resolve();
      stop();
    });
  }

  contextOf({ worker, workers, isObserved, forTerminal }: Omit<Begin, 'kind' | 'configuration'>): WorkerContext {
    const shares = new WeakMap<Settings, Settings>();
    return {
      worker,
      workers,
      isObserved,
      forTerminal,
      share: (settings) => {
        const share = shares.get(settings) ?? shareOf(settings, worker, workers);
        shares.set(settings, share);
        return share;
      },
      feed: {
        open: (take) => {
          this.#take = take;
        },
      },
      show: (facts) => {
        this.#facts = facts;
      },
      leave: () => {
        if (!this.#isStopping) void this.send({ kind: 'leaving' });
        return this.#closed;
      },
    };
  }

  /** Sends the last metrics of this worker, so that the sums of the gateway do not fall when it has ended. */
  async sendLastMetrics(): Promise<void> {
    if (this.#facts !== null) await this.send({ kind: 'last', metrics: await this.#facts.metrics() });
  }

  /** Sends the supervisor a sign that this worker turns, unless the previous one is still on its way. */
  beat(isDebugged: boolean): void {
    if (this.#isBeating) return;
    this.#isBeating = true;
    void this.send({ kind: 'turning', isDebugged }).then(() => {
      this.#isBeating = false;
    });
  }

  /** Resolves when the message has been sent, or the supervisor has ended. */
  send(message: FromWorker): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
      else resolve();
    });
  }

  #receive(socket: Socket | undefined, isFull: boolean): void {
    // Confirm before reading a byte. If this process dies before the confirmation, the supervisor still holds the connection
    // and hands it to another worker.
    void this.send({ kind: 'taken' });
    // The client closed the connection before it arrived here.
    if (socket === undefined) {
      this.#ended();
      return;
    }
    const client = SharedBufferSocket.around(socket);
    client.once('close', () => this.#ended());
    this.#take(client, isFull);
  }

  /** Reports all connections that end in one turn with one message. */
  #ended(): void {
    this.#endedConnections++;
    if (this.#endedConnections > 1) return;
    setImmediate(() => {
      void this.send({ kind: 'ended', connections: this.#endedConnections });
      this.#endedConnections = 0;
    });
  }

  async #answer(asked: AskMessage): Promise<void> {
    if (this.#facts === null) return;
    const value = asked.question === 'live' ? this.#facts.live(asked.about) : await this.#facts[asked.question]();
    await this.send({ kind: 'answer', number: asked.number, value });
  }
}

type AskMessage = Extract<ToWorker, { kind: 'ask' }>;

/** What the supervisor can ask a worker for. `live` has an argument. */
export type Question = keyof WorkerFacts;

/** The messages from the supervisor to a worker. The channel keeps their order and loses none while the worker lives. */
export type ToWorker =
  /** The first message. It carries the settings, so that a worker that is started later runs with the same ones. */
  | {
      readonly kind: 'begin';
      readonly worker: number;
      readonly workers: number;
      readonly isObserved: boolean;
      readonly forTerminal: boolean;
      readonly configuration: Configuration;
    }
  /**
   * Comes with a socket: a client connection of which no byte has been read. `isFull`: all workers together have
   * `maxConnections` already, so this worker must close an idle connection, or this one.
   */
  | { readonly kind: 'connection'; readonly isFull: boolean }
  /** The gateway drains: the worker reports this and ends keep-alive. Connections may still follow. */
  | { readonly kind: 'drain' }
  /** The supervisor sends no further connection. */
  | { readonly kind: 'closed' }
  | {
      readonly kind: 'ask';
      readonly number: number;
      readonly question: Exclude<Question, 'live'>;
      readonly about?: undefined;
    }
  | { readonly kind: 'ask'; readonly number: number; readonly question: 'live'; readonly about: LiveQuestion };

/** The messages from a worker to its supervisor. */
export type FromWorker =
  | { readonly kind: 'serving' }
  /** The worker cannot start, for a reason that the operator has to remove. */
  | { readonly kind: 'failed'; readonly code: FailureCode; readonly message: string }
  /** The worker has taken the connection that was handed over last. It has not read a byte of it yet. */
  | { readonly kind: 'taken' }
  /** How many of its connections have ended since the last such message. */
  | { readonly kind: 'ended'; readonly connections: number }
  /** The heartbeat of a worker. `isDebugged`: a debugger is open, so the worker may stop at a breakpoint. */
  | { readonly kind: 'turning'; readonly isDebugged: boolean }
  /** The worker stops by itself because of a defect. */
  | { readonly kind: 'leaving' }
  | { readonly kind: 'answer'; readonly number: number; readonly value: unknown }
  /** The worker's metrics at its end. */
  | { readonly kind: 'last'; readonly metrics: unknown };

/**
 * The settings of one of several workers. The bounds of the gateway are divided among the workers, so that together they
 * accept as much as one process would; each has at least 1. `fairShare` is a fraction of a bound and needs no division.
 * `websockets.maxPerKey` is not divided: a worker would refuse a key's WebSocket although other workers have room for it.
 * @param worker from 1 to `workers`
 */
export function shareOf(settings: Settings, worker: number, workers: number): Settings {
  const part = (whole: number) => Math.max(1, Math.floor(whole / workers) + (worker <= whole % workers ? 1 : 0));
  const { listen, websockets } = settings;
  const upstreams = [...settings.upstreams].map(
    ([name, { maxConnections, maxQueue, ...rest }]) =>
      [
        name,
        // With a queue of 0 no request waits, in any worker.
        { ...rest, maxConnections: part(maxConnections), maxQueue: maxQueue === 0 ? 0 : part(maxQueue) },
      ] as const,
  );
  return {
    ...settings,
    listen: {
      ...listen,
      maxConnections: part(listen.maxConnections),
      maxConnectionsPerAddress: part(listen.maxConnectionsPerAddress),
    },
    websockets: { ...websockets, max: part(websockets.max) },
    upstreams: new Map(upstreams),
  };
}
