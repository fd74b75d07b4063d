import { join } from 'node:path';
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { Plan } from '../admit/plan.ts';
import type { Route } from '../gateway/route.ts';
import type { Variables } from './environment.ts';
import { deepFreeze } from './frozen.ts';
import type { Configuration } from './settings.ts';
import type { Beginning, Piece, ThreadData } from './settings-thread.ts';
import type { Steps } from './steps.ts';
import type { Upstream } from './upstreams.ts';

const PROGRAM = join(import.meta.dirname, 'settings-thread.ts');
/** Megabytes of heap. The largest file that is allowed needs 100. */
const MOST_HEAP_MB = 192;

/**
 * Reads the settings once, in a thread of its own, while this one serves.
 *
 * Attack: a file whose check takes a second, or more memory than there is. The thread takes the second, and where its heap
 * is full it ends alone: one more fault of the settings.
 */
export class SettingsReader {
  readonly #worker: Worker;
  readonly #parts: MessageChannel['port1'];
  /** What it died of; null where it was ended. */
  readonly #death: Promise<Error | null>;

  /** Starts the thread, which loads its program meanwhile. @param heapMb what it may take, in megabytes */
  constructor(env: Variables, heapMb = MOST_HEAP_MB) {
    const { port1, port2 } = new MessageChannel();
    this.#parts = port1;
    const data: ThreadData = { env: { ...env }, parts: port2 };
    this.#worker = new Worker(PROGRAM, {
      workerData: data,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const death = Promise.withResolvers<Error | null>();
    this.#death = death.promise;
    this.#worker.on('error', death.resolve).on('exit', () => death.resolve(null));
  }

  /** Reads and checks gateway.yaml, plans.yaml and the environment. A thread that dies of it is their one fault. */
  async read(): Promise<Beginning> {
    const isRead = new Promise<'read'>((resolve) => this.#worker.once('message', resolve));
    this.#worker.postMessage('read');
    const end = await Promise.race([isRead, this.#death]);
    if (end === 'read') return this.#nextPart() as Beginning;
    const reason = end === null ? 'The thread that reads has ended.' : end.message;
    return { faults: [`The settings cannot be read: ${reason}`], more: 0 };
  }

  /** Takes over, frozen, what has been read: a step for each route, upstream and plan. */
  *configuration({ configuration: begun }: Extract<Beginning, { configuration: unknown }>): Steps<Configuration> {
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
    const settings = { ...begun.settings, routes, upstreams };
    return deepFreeze({ ...begun, settings, plans: { ...begun.plans, plans } });
  }

  /** Ends the thread, whatever it is doing. */
  async end(): Promise<void> {
    this.#parts.close();
    await this.#worker.terminate();
  }

  /**
   * One at a time: were they to come as events, all that are there would be taken over in one turn.
   * @throws Error when the thread has been ended
   */
  #nextPart(): Beginning | Piece | null {
    const received = receiveMessageOnPort(this.#parts);
    if (received === undefined)
      throw new Error('The thread that reads the settings was ended before they were taken over.');
    return received.message as Beginning | Piece | null;
  }
}
