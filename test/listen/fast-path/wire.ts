import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { HeldBytesBudget } from '../../../src/io/held-bytes.ts';
import { type BodyReading, RequestFeed } from '../../../src/listen/node-http/request-feed.ts';
import { READING } from '../../support/listener.ts';

const BODIES: BodyReading = {
  ...READING,
  onTooManyChunks: (socket) => void socket.destroy(),
};

const LIMITS = {
  deadlines: new Deadlines(() => performance.now()),
  headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
};

/** What of a fast path's options gives to node:http all that is not simple. */
export function feedingTo(server: Server, bodies: Partial<BodyReading> = {}) {
  const held = new HeldBytesBudget();
  const feeds = new WeakMap<object, RequestFeed>();
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    feeds.get(request.socket)?.announced(request, response);
  });
  const feed = (socket: Socket) => {
    const opened = new RequestFeed(server, socket, held, { ...BODIES, ...bodies }, LIMITS);
    feeds.set(socket, opened);
    return opened;
  };
  return { held, feed };
}

/** A connection whose other side takes nothing while it is told to wait. */
export class Wire extends Duplex {
  takes = true;
  text = '';
  #waiting: (() => void) | null = null;

  constructor() {
    super({ allowHalfOpen: true, decodeStrings: true });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString('latin1');
    if (this.takes) done();
    else this.#waiting = done;
  }

  go(): void {
    this.takes = true;
    this.#waiting?.();
  }
}
