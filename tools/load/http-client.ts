import { type Dispatcher, Pool } from 'undici';
import type { Headers } from './exchange.ts';

/** What came of one request on the wire. */
export type Answer =
  | { readonly status: number; readonly headers: Headers; readonly body: string }
  | { readonly fault: string };

export interface Request {
  readonly path: string;
  readonly authorization: string | null;
  /** The address to call from; null: whatever the system takes. */
  readonly address: string | null;
}

/** No request of the test may hang for longer: by then it counts as unanswered. */
const DEADLINE_MS = 10_000;
/** Connections to one gateway from one address. More requests at once wait, and their latency tells. */
const CONNECTIONS = 128;
/** Bodies of refusals are read, up to this; of an animal nobody here wants to know. */
const BODY_BYTES = 4_096;

/** Calls gateways in turn over connections that are kept open. Never retries: a request is counted once or not at all. */
export class HttpClient {
  readonly #origins: readonly string[];
  readonly #pools = new Map<string, Pool>();
  #turn = 0;

  constructor(origins: readonly string[]) {
    this.#origins = origins;
  }

  /** Never rejects. */
  get({ path, authorization, address }: Request): Promise<Answer> {
    const origin = this.#origins[this.#turn++ % this.#origins.length]!;
    const headers = authorization === null ? {} : { authorization };
    return new Promise((resolve) => {
      this.#pool(origin, address).dispatch({ method: 'GET', path, headers }, new Reader(resolve));
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }

  #pool(origin: string, address: string | null): Pool {
    const name = `${address ?? ''} ${origin}`;
    const known = this.#pools.get(name);
    if (known !== undefined) return known;
    const pool = new Pool(origin, {
      connections: CONNECTIONS,
      allowH2: false,
      headersTimeout: DEADLINE_MS,
      bodyTimeout: DEADLINE_MS,
      connect: { timeout: DEADLINE_MS },
      ...(address === null ? {} : { localAddress: address }),
    });
    this.#pools.set(name, pool);
    return pool;
  }
}

class Reader implements Dispatcher.DispatchHandler {
  readonly #resolve: (answer: Answer) => void;
  #status = 0;
  #headers: Headers = {};
  #body = '';

  constructor(resolve: (answer: Answer) => void) {
    this.#resolve = resolve;
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status >= 400 && this.#body.length < BODY_BYTES) this.#body += chunk;
  }

  onResponseEnd(): void {
    this.#resolve({ status: this.#status, headers: this.#headers, body: this.#body });
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const { code = error.name, message } = error as NodeJS.ErrnoException;
    this.#resolve({ fault: `${code}: ${message}` });
  }
}
