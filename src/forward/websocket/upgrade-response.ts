import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { valuesOf } from '../../http1/fields.ts';
import { BadResponseError, type ResponseHead, readResponseHead } from '../../http1/response-head.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { reset } from '../../io/graceful-close.ts';
import { hasWaiting } from '../../io/tls-carrier.ts';
import { ClientGoneError, DeadlineError, type ForwardResult, faultOf } from '../faults.ts';
import type { AnswerBodyReader } from '../forward.ts';

interface NonUpgradeResponseOptions {
  readonly deadlines: Deadlines;
  /** How long the upstream may be silent. */
  readonly bodyTimeoutMs: number;
  /** How long a client may read nothing before it is disconnected. */
  readonly writeTimeoutMs: number;
  readonly chunk: (bytes: number) => void;
  /** Null if the gateway does not read the body. */
  readonly reader: AnswerBodyReader | null;
  /** Called once. */
  readonly done: (result: ForwardResult) => void;
}

/** Relays the body of a response other than 101 to an upgrade request, once its head has been written to the client. */
export class NonUpgradeResponse implements Timed {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  readonly #answer: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #options: NonUpgradeResponseOptions;
  #waitsForClient = false;
  #settled = false;

  constructor(answer: IncomingMessage, response: ServerResponse, options: NonUpgradeResponseOptions) {
    this.#answer = answer;
    this.#response = response;
    this.#options = options;
  }

  pass(): void {
    const answer = this.#answer;
    this.#response.flushHeaders();
    this.#response.once('close', this.#onClientClose);
    this.#options.deadlines.watch(this);
    this.#waitFor(false);
    answer.on('data', this.#onData);
    answer.once('end', this.#onEnd);
    answer.on('error', (error) => this.#break(error));
    answer.once('close', () => this.#break(new Error('the upstream closed the connection')));
  }

  onDeadline(): void {
    if (this.#waitsForClient) this.#break(new ClientGoneError('the client does not read'));
    // The service is not late: the gateway has yet to process what it has sent. So this looks at it again later.
    else if (hasWaiting(this.#answer.socket)) this.deadlineAtMs = this.#options.deadlines.nowMs();
    else this.#break(new DeadlineError('body', this.#options.bodyTimeoutMs));
  }

  readonly #onData = (chunk: Buffer): void => {
    const { reader } = this.#options;
    this.#options.chunk(chunk.length);
    reader?.chunk(chunk);
    this.#waitFor(false);
    const isTaken = this.#response.write(chunk);
    if (isTaken && reader?.isBehind !== true) return;
    this.#answer.pause();
    this.#waitFor(true);
    // node:http has released this response, so only its socket still emits `drain`.
    if (isTaken) this.#onDrain();
    else this.#response.socket?.once('drain', this.#onDrain);
  };

  readonly #onDrain = (): void => {
    if (this.#settled) return;
    const { reader } = this.#options;
    if (reader?.isBehind === true) {
      // The relay waits for the reader of the answer, and not for the client.
      this.deadlineAtMs = Number.POSITIVE_INFINITY;
      reader.whenCaughtUp(this.#onDrain);
      return;
    }
    this.#waitFor(false);
    this.#answer.resume();
  };

  readonly #onEnd = (): void => {
    if (this.#settled) return;
    if (!this.#answer.complete) {
      this.#break(new Error('the upstream closed the connection'));
      return;
    }
    this.#settle({ kind: 'answered' });
    const response = this.#response;
    const timer = setTimeout(() => response.destroy(), this.#options.writeTimeoutMs);
    // A response that node:http did not start itself never emits `close`; its socket does.
    for (const ending of [response, response.socket]) ending?.once('close', () => clearTimeout(timer));
    response.end();
  };

  readonly #onClientClose = (): void => this.#break(new ClientGoneError('the client left'));

  #break(error: Error): void {
    if (this.#settled) return;
    const isGone = error instanceof ClientGoneError;
    const { socket } = this.#response;
    this.#settle(isGone ? { kind: 'client_gone', cause: error.message } : { kind: 'broken', fault: faultOf(error) });
    // If the connection ended cleanly, the client would take the response for complete.
    if (socket !== null) reset(socket);
    this.#response.destroy();
  }

  #waitFor(client: boolean): void {
    const { deadlines, bodyTimeoutMs, writeTimeoutMs } = this.#options;
    this.#waitsForClient = client;
    this.deadlineAtMs = deadlines.nowMs() + (client ? writeTimeoutMs : bodyTimeoutMs);
  }

  #settle(result: ForwardResult): void {
    this.#settled = true;
    this.#options.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    this.#options.done(result);
  }
}

type Received = Pick<IncomingMessage, 'statusCode' | 'rawHeaders'>;

/** RFC 6455 section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/**
 * Checks that a 101 agrees to the upgrade that was requested (RFC 6455 section 4.1).
 *
 * Attack: an upstream that did not understand the request, or a cache in front of it, answers 101 anyway. Joining the two
 * connections would then let the client talk to that upstream unchecked.
 * @param key Sec-WebSocket-Key; null for a protocol other than WebSocket
 * @throws BadResponseError
 */
export function checkSwitch({ statusCode, rawHeaders }: Received, protocol: string, key: string | null): void {
  if (statusCode !== 101) throw new BadResponseError(`status ${statusCode} with the header fields of an upgrade`);
  readResponseHead(textOf(200, rawHeaders), 'HEAD');
  if (valuesOf(rawHeaders, 'upgrade').join(', ').toLowerCase() !== protocol.toLowerCase()) {
    throw new BadResponseError('101 that switches to a protocol not requested');
  }
  if (key === null) return;
  const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64');
  if (valuesOf(rawHeaders, 'sec-websocket-accept').join(', ') !== accept) {
    throw new BadResponseError('wrong Sec-WebSocket-Accept');
  }
}

/** Reads the head of a response other than 101, by the rules for every response. @throws BadResponseError */
export function readOtherHead({ statusCode = 0, rawHeaders }: Received): ResponseHead {
  return readResponseHead(textOf(statusCode, rawHeaders), 'GET');
}

/** The head as it was on the wire, except for what Node has already validated. */
function textOf(status: number, rawHeaders: readonly string[]): string {
  let text = `HTTP/1.1 ${String(status).padStart(3, '0')} `;
  for (let i = 0; i < rawHeaders.length; i += 2) text += `\r\n${rawHeaders[i]}: ${rawHeaders[i + 1]}`;
  return text;
}
