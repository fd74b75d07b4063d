import { createConnection } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

const EVERY_MS = 20;
const GIVEN_UP_AFTER_MS = 10_000;
/** Without Host: refused with 400 by whoever accepts the connection, before anybody is asked anything. */
const BAD_REQUEST = 'GET / HTTP/1.1\r\n\r\n';

/**
 * How long the machine keeps requests waiting that wait for nothing: one that is refused at once, again and again, sent
 * by the process that also makes the load. What a request waited beyond that, it waited for its store.
 */
export class Pulse {
  readonly #over = new AbortController();
  readonly #beating: Promise<unknown>;
  readonly #stalls = monitorEventLoopDelay({ resolution: 10 });
  readonly #lateAfterMs: number;
  /** For each port, when what it waits for should have come: an answer, or the end of a pause. */
  readonly #dueAtMs = new Map<number, number>();
  #longestMs = 0;
  #lateUntilMs = Number.NEGATIVE_INFINITY;

  /** @param lateAfterMs a request, or a pause of this process, that takes so much longer than it should was kept waiting by the machine */
  constructor(origins: readonly string[], lateAfterMs: number) {
    this.#lateAfterMs = lateAfterMs;
    this.#stalls.enable();
    this.#beating = Promise.all(origins.map((origin) => this.#beat(Number(new URL(origin).port))));
  }

  /** Ends it, also if it has ended. Milliseconds: the longest answer of a gateway that answered, and the longest turn of this process. */
  async stop(): Promise<number> {
    this.#over.abort();
    await this.#beating;
    this.#stalls.disable();
    return this.#longestMs + this.#stalls.max / 1e6;
  }

  /** The last moment at which the machine kept something waiting, as `performance.now` counts; -Infinity if it never did. */
  lateUntilMs(): number {
    for (const port of this.#dueAtMs.keys()) this.#look(port);
    return this.#lateUntilMs;
  }

  #look(port: number): void {
    const nowMs = performance.now();
    if (nowMs - this.#dueAtMs.get(port)! > this.#lateAfterMs) this.#lateUntilMs = nowMs;
  }

  async #beat(port: number): Promise<void> {
    while (!this.#over.signal.aborted) {
      const askedAtMs = performance.now();
      this.#dueAtMs.set(port, askedAtMs);
      // One that was killed answers nothing.
      if (await answers(port)) this.#longestMs = Math.max(this.#longestMs, performance.now() - askedAtMs);
      this.#look(port);
      this.#dueAtMs.set(port, performance.now() + EVERY_MS);
      await delay(EVERY_MS);
      this.#look(port);
    }
    this.#dueAtMs.delete(port);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
    const end = (answered: boolean) => {
      socket.destroy();
      resolve(answered);
    };
    socket.setTimeout(GIVEN_UP_AFTER_MS, () => end(true));
    socket.once('data', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
    socket.write(BAD_REQUEST);
  });
}
