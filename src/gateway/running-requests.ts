import type { ClientBodyErrorCode } from '../forward/faults.ts';
import type { ClientRequest } from '../http1/client.ts';
import type { ConsumerTime } from '../io/thread-time.ts';

/** A request that can be ended because of a fault in its body. */
interface Breakable {
  /** @returns false if its response has begun or it has ended */
  breakOff(code: ClientBodyErrorCode): boolean;
}

/** The gateway's state of all requests that have not ended. */
export class RunningRequests {
  /** Requests that have not ended, or whose response the client has yet to read. */
  count = 0;
  /** Requests that have ended, whose record waits for what they cost or for limits that are only watched. */
  readonly #closing = new Set<Promise<void>>();
  /** By connection, its request that was not read whole when it began, until it ends. The listener may find a fault in its body. */
  readonly #unread = new WeakMap<object, Breakable>();
  /** By connection, the consumer whose body is read from it. */
  readonly #bodyReaders = new WeakMap<object, ConsumerTime>();

  add(request: ClientRequest, flow: Breakable): void {
    this.count++;
    if (!request.complete) this.#unread.set(request.socket, flow);
  }

  /** Notes the consumer in whose time the listener reads the rest of its body. */
  readFor({ complete, socket }: ClientRequest, time: ConsumerTime): void {
    if (!complete) this.#bodyReaders.set(socket, time);
  }

  /** Notes that it has ended. Fault: while a connection was idle, it kept its last request, which V8 then took for long-lived. */
  ended({ wholeBody, socket }: ClientRequest): void {
    if (wholeBody === undefined) this.#unread.delete(socket);
  }

  /** Closes its record when `known` is fulfilled. */
  closeAfter(known: Promise<void>, close: () => void): void {
    const closed = known.then(close).finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }

  /** Fulfilled when the records of all requests that have ended are closed. */
  async closed(): Promise<void> {
    await Promise.allSettled(this.#closing);
  }

  /** The consumer in whose time the body on a connection is read; undefined if it is not known. */
  readerOf(socket: object): ConsumerTime | undefined {
    return this.#bodyReaders.get(socket);
  }

  /** The request on a connection that was not read whole when it began; undefined without one. */
  unreadOf(socket: object): Breakable | undefined {
    return this.#unread.get(socket);
  }
}
