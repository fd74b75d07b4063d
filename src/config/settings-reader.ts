import { join } from 'node:path';
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { Plan } from '../admit/plan.ts';
import type { Route } from '../routing/router.ts';
import type { Variables } from './environment.ts';
import { deepFreeze } from './frozen.ts';
import type { Configuration, Upstream } from './settings.ts';
import type { Beginning, Piece, ThreadData } from './settings-thread.ts';
import type { Steps } from './steps.ts';

const PROGRAM = join(import.meta.dirname, 'settings-thread.ts');
/** Megabytes of heap that the thread may use. The largest settings file needs 100. */
const MOST_HEAP_MB = 192;

/**
 * Reads the settings once, in a thread of its own, while the main thread serves requests.
 *
 * Attack: a file whose check takes a second, or more memory than the process has. Only the thread is busy for that
 * second, and only the thread ends when its heap is full, which the reader reports as a fault of the settings.
 */
export class SettingsReader {
  readonly #worker: Worker;
  readonly #parts: MessageChannel['port1'];
  /** Fulfilled when the thread has ended: with its error, or null if it exited without one. */
  readonly #ended: Promise<Error | null>;

  /** Starts the thread, which begins to load its program. @param heapMb size limit of its heap, in megabytes */
  constructor(env: Variables, heapMb = MOST_HEAP_MB) {
    const { port1, port2 } = new MessageChannel();
    this.#parts = port1;
    const data: ThreadData = { env: { ...env }, parts: port2 };
    this.#worker = new Worker(PROGRAM, {
      workerData: data,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const ended = Promise.withResolvers<Error | null>();
    this.#ended = ended.promise;
    this.#worker.on('error', ended.resolve).on('exit', () => ended.resolve(null));
  }

  /** Reads and checks gateway.yaml, plans.yaml and the environment. If the thread fails, that is the only fault. */
  async read(): Promise<Beginning> {
    const isRead = new Promise<'read'>((resolve) => this.#worker.once('message', resolve));
    this.#worker.postMessage('read');
    const outcome = await Promise.race([isRead, this.#ended]);
    if (outcome === 'read') return this.#nextPart() as Beginning;
    const reason = outcome === null ? 'The thread that reads has ended.' : outcome.message;
    return { faults: [`The settings cannot be read: ${reason}`], more: 0 };
  }

  /** Receives the rest of the configuration and freezes it: one step for each route, upstream and plan. */
  *configuration({ configuration: beginning }: Extract<Beginning, { configuration: unknown }>): Steps<Configuration> {
    const routes: Route[] = [];
    const upstreams = new Map<string, Upstream>();
    const plans = new Map<string, Plan>();
    for (let piece = this.#nextPart() as Piece | null; piece !== null; piece = this.#nextPart() as Piece | null) {
      for (const item of piece.items) {
        deepFreeze(item);
        yield;
      }
      if (piece.of === 'routes') routes.push(...piece.items);
      else if (piece.of === 'upstreams') for (const item of piece.items) upstreams.set(item.name, item);
      else for (const item of piece.items) plans.set(item.name, item);
    }
    const settings = { ...beginning.settings, routes, upstreams };
    return deepFreeze({ ...beginning, settings, plans: { ...beginning.plans, plans } });
  }

  /** Terminates the thread, even while it reads. */
  async end(): Promise<void> {
    this.#parts.close();
    await this.#worker.terminate();
  }

  /**
   * Receives one part synchronously. With `message` events, Node would deliver all parts in one turn of the event loop.
   * @throws Error when the thread has been terminated
   */
  #nextPart(): Beginning | Piece | null {
    const received = receiveMessageOnPort(this.#parts);
    if (received === undefined)
      throw new Error('The thread that reads the settings was ended before they were taken over.');
    return received.message as Beginning | Piece | null;
  }
}
