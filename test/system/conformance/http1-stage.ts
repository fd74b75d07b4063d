import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { type ParsedResponse, readResponses } from '../../support/http-response.ts';
import { type RecordedRequest, startUpstream, type Upstream, type UpstreamHandler } from '../../support/upstream.ts';
import { bytesOf, type Row, stepsOf } from './http1-row.ts';

/** Short enough for the rows that wait for them, and long enough for a machine that is busy with other tests. */
const DEADLINES = { headersTimeout: '1200ms', requestTimeout: '1800ms' };
/** Beyond all deadlines: what has not come by then does not come. */
const PATIENCE_MS = 10_000;
/** Rows that are played at a time. */
const AT_ONCE = 40;
/** Bytes: no word of a request is read from one such piece. */
const MIN_PIECE = 3;
/** The request that shows whether a connection was kept, and that nothing was left on it. */
const NEXT = { target: '/next', sent: 'GET /next HTTP/1.1⏎Host: a.test⏎⏎' };
const TAG = '"v1"';
const MODIFIED = 'Fri, 05 Dec 2025 00:00:00 GMT';

const FOR_EVERYBODY = 'upstream: store, auth: none, limits: { minute: 1000000 }';
const ROUTES = `
  - { path: /, methods: [GET, POST, OPTIONS], ${FOR_EVERYBODY} }
  - { path: /**, methods: [GET, POST, OPTIONS], ${FOR_EVERYBODY} }
`;

export interface Stage {
  readonly gateway: TestGateway;
  readonly upstream: Upstream;
  /**
   * Plays all rows, many at a time.
   * @param pieces in how many writes each step goes out, at most; 1 by default
   */
  play(rows: readonly Row[], pieces?: number): Promise<ReadonlyMap<Row, Played>>;
}

/** What came of a row. */
export interface Played {
  /** As in `Row.answer`. */
  readonly outcome: string;
  /** The last one, but for that to NEXT. */
  readonly answer: ParsedResponse | null;
  /** What reached the upstream because of the row, but for NEXT. */
  readonly whole: readonly RecordedRequest[];
  /** Likewise, but broken off in its body. */
  readonly broken: readonly RecordedRequest[];
}

/**
 * Starts a gateway that serves everybody, before a service such as the suites want it: it sends back what it is sent, and
 * knows OPTIONS and conditional requests.
 *
 * Each row comes from an address of its own, which the upstream finds in X-Forwarded-For. So whatever reaches the upstream
 * is found with the row that brought it about, although most rows are no requests that could be marked.
 */
export async function setStage(): Promise<Stage> {
  const upstream = await startUpstream(serve);
  const gateway = await startGateway({ upstream: upstream.origin, listen: DEADLINES, routes: ROUTES });
  let rows = 0;
  const playOne = async (row: Row, pieces: number): Promise<Played> => {
    const address = addressOf(++rows);
    const heard = await new Conversation(gateway.port, address, pieces).hold(stepsOf(row));
    const [whole, broken]: RecordedRequest[][] = [[], []];
    for (const request of upstream.requests.filter((it) => comesFrom(it) === address && it.url !== NEXT.target)) {
      ((await request.whole) ? whole! : broken!).push(request);
    }
    return { ...heard, whole: whole!, broken: broken! };
  };
  return {
    gateway,
    upstream,
    play: async (all, pieces = 1) => {
      const played = new Map<Row, Played>();
      const left = [...all];
      const player = async () => {
        for (let row = left.shift(); row !== undefined; row = left.shift()) played.set(row, await playOne(row, pieces));
      };
      await Promise.all(Array.from({ length: AT_ONCE }, player));
      return played;
    },
  };
}

/** All of 127.0.0.0/8 is this machine. */
function addressOf(row: number): string {
  return `127.1.${row >> 8}.${row & 255}`;
}

/** The address of the client that a request is for; empty where the gateway has not said so exactly once. */
export function comesFrom(request: RecordedRequest): string {
  const addresses = request.values('x-forwarded-for');
  return addresses.length === 1 ? addresses[0]! : '';
}

const serve: UpstreamHandler = async (request, response, recorded) => {
  if (!(await recorded.whole)) return;
  const { method, url } = request;
  response.setHeader('ETag', TAG);
  response.setHeader('Last-Modified', MODIFIED);
  if (method === 'OPTIONS') response.writeHead(204, { Allow: 'GET, HEAD, POST, OPTIONS' }).end();
  else if (isUnchanged(recorded)) response.writeHead(304).end();
  else {
    response.setHeader('Content-Type', 'text/plain');
    if (method === 'POST') response.end(recorded.body);
    else response.end(url === '/echo' || url === '/cookie' ? fieldLines(recorded) : 'OK');
  }
};

/** RFC 9110 sections 13.1.2 and 13.1.3. */
function isUnchanged(request: RecordedRequest): boolean {
  const [tags] = request.values('if-none-match');
  if (tags !== undefined) return tags === '*' || tags.replace(/^W\//, '') === TAG;
  return request.values('if-modified-since')[0] === MODIFIED;
}

/** A line for each field as it arrived. */
export function fieldLines({ rawHeaders }: RecordedRequest): string {
  return rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : [])).join('\n');
}

/** One connection of a client's. */
class Conversation {
  readonly #socket: Socket;
  readonly #pieces: number;
  readonly #received: Buffer[] = [];
  /** Of the requests in their order, as far as they are known: an answer to HEAD has no body. */
  readonly #methods: string[] = [];
  #isClosed = false;
  #isReset = false;
  #wake = () => {};

  constructor(port: number, localAddress: string, pieces: number) {
    this.#pieces = pieces;
    this.#socket = createConnection({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true, noDelay: true });
    this.#socket.on('data', (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#wake();
    });
    this.#socket.on('error', () => {
      this.#isReset = true;
    });
    const close = () => {
      this.#isClosed = true;
      this.#wake();
    };
    this.#socket.on('end', close).on('close', close);
  }

  /** @returns as soon as it is clear what became of the connection; `silent` where it was neither answered nor closed */
  async hold(steps: readonly string[]): Promise<Pick<Played, 'outcome' | 'answer'>> {
    try {
      for (const [i, step] of steps.entries()) {
        if (!this.#isClosed) await this.#ask(step, () => this.#finals() > i);
      }
      const answers = this.#read();
      const answer = answers.at(-1) ?? null;
      if (/close/i.test(answer?.header('Connection') ?? '')) await this.#until(() => false);
      else if (answer !== null) await this.#ask(NEXT.sent, () => this.#finals() > steps.length);
      return { answer, outcome: [...answers.map(({ status }) => status), this.#state(answers.length)].join(' ') };
    } catch (error) {
      return { answer: null, outcome: `broken: ${error}` };
    } finally {
      this.#socket.destroy();
    }
  }

  async #ask(step: string, isAnswered: () => boolean): Promise<void> {
    this.#methods.push(/^[A-Z]*/.exec(step.replace(/^⏎+/, ''))![0]);
    const bytes = bytesOf(step);
    const size = Math.max(Math.ceil(bytes.length / this.#pieces), MIN_PIECE);
    for (let at = 0; at < bytes.length && !this.#isClosed; at += size) {
      if (at > 0) await delay(1);
      this.#socket.write(bytes.subarray(at, at + size));
    }
    await this.#until(isAnswered);
  }

  #state(answers: number): string {
    const next = this.#read()[answers];
    if (next === undefined) return this.#isClosed ? 'closed' : 'silent';
    return next.status === 200 && next.body.toString() === 'OK' ? 'kept' : `then ${next.status}`;
  }

  #finals(): number {
    return this.#read().filter(({ status, complete }) => status >= 200 && complete).length;
  }

  #read(): ParsedResponse[] {
    return readResponses(Buffer.concat(this.#received), this.#methods, this.#isClosed && !this.#isReset);
  }

  /** Waits until it is over, or the gateway has closed the connection. */
  async #until(isOver: () => boolean): Promise<void> {
    const latestMs = performance.now() + PATIENCE_MS;
    while (!this.#isClosed && !isOver() && performance.now() < latestMs) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, PATIENCE_MS);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
