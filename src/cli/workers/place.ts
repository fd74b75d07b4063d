import type { Socket } from 'node:net';
import type { Settings } from '../../config/settings.ts';
import type { Readiness } from '../../listen/admin.ts';
import type { ConnectionFeed } from '../../listen/entry.ts';
import { LendingSocket } from '../../listen/lending-socket.ts';
import type { Snapshot } from '../../telemetry/joined-metrics.ts';
import type { FromWorker, Question, ToWorker } from './messages.ts';
import { shareOf } from './share.ts';

/** What a gateway would show on its own admin listener. */
export interface Facts {
  readonly readiness: () => Readiness;
  readonly metrics: () => Promise<Snapshot>;
}

/** Where a gateway stands that is one of several: another process listens for it, shows how it is, and says when to stop. */
export interface Place {
  /** From 1. */
  readonly worker: number;
  /** What of the whole gateway's settings this worker runs by. */
  share(settings: Settings): Settings;
  readonly feed: ConnectionFeed;
  /** Here is what the supervisor may ask for from now on. */
  show(facts: Facts): void;
  /** It takes no new connection any more. Resolves when none comes. */
  leave(): Promise<void>;
}

type Begin = Extract<ToWorker, { kind: 'begin' }>;

/**
 * The worker's end of the channel to its supervisor. A supervisor that is gone, however it went, has asked to stop and
 * sends no connection.
 */
export class Link {
  /** The first message. */
  readonly begun: Promise<Begin>;
  /** The supervisor has asked to stop, or is gone. */
  readonly stopped: Promise<void>;
  readonly #closed: Promise<void>;
  #take: (socket: Socket, isFull: boolean) => void = (socket) => socket.destroy();
  #facts: Facts | null = null;
  #isStopping = false;
  #endedConnections = 0;

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
      else if (message.kind === 'ask') void this.#answer(message.number, message.question);
      else if (message.kind === 'begin') begun.resolve(message);
      else if (message.kind === 'drain') stop();
      else closed.resolve();
    });
    process.once('disconnect', () => {
      closed.resolve();
      stop();
    });
  }

  placeOf(worker: number, workers: number): Place {
    const shares = new WeakMap<Settings, Settings>();
    return {
      worker,
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
        if (!this.#isStopping) void this.tell({ kind: 'leaving' });
        return this.#closed;
      },
    };
  }

  /** Tells the supervisor what this worker has counted, so that its sums do not fall when it is gone. */
  async tellLast(): Promise<void> {
    if (this.#facts !== null) await this.tell({ kind: 'last', metrics: await this.#facts.metrics() });
  }

  /** Resolves when it is on its way, or there is nobody to tell. */
  tell(message: FromWorker): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
      else resolve();
    });
  }

  #receive(socket: Socket | undefined, isFull: boolean): void {
    // Before a byte of it is read: if this process dies now, the supervisor still holds the connection and knows whether
    // another worker may have it.
    void this.tell({ kind: 'taken' });
    // It was closed while it was on its way.
    if (socket === undefined) {
      this.#ended();
      return;
    }
    const client = LendingSocket.around(socket);
    client.once('close', () => this.#ended());
    this.#take(client, isFull);
  }

  /** Those of one turn in one message. */
  #ended(): void {
    this.#endedConnections++;
    if (this.#endedConnections > 1) return;
    setImmediate(() => {
      void this.tell({ kind: 'ended', connections: this.#endedConnections });
      this.#endedConnections = 0;
    });
  }

  async #answer(number: number, question: Question): Promise<void> {
    if (this.#facts === null) return;
    await this.tell({ kind: 'answer', number, value: await this.#facts[question]() });
  }
}
