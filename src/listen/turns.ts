import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isLooseRequestLine } from './request-line.ts';

interface Turn {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly isLoose: boolean;
}

/** @param isLoose whether the request line was other than it must be: see `isLooseRequestLine` */
type Serve = (request: IncomingMessage, response: ServerResponse, isLoose: boolean) => void;

interface Line {
  active: Turn | null;
  readonly waiting: Turn[];
  /** After an answer that closes the connection: nothing that still comes is looked at. */
  closed: boolean;
  /** What follows the last turn, when nothing after it can be read. */
  ending: (() => void) | null;
}

/** Pipelined requests that may wait; the connection is closed after the last of them. */
const MAX_WAITING = 64;

/**
 * Serves the requests of a connection one at a time, as if they had not been sent in one go.
 *
 * Attack: node:http hands out pipelined requests all at once. A request that is refused as ambiguous, with
 * `Connection: close`, would then be followed to the upstream by what stands behind it, although the client is told that
 * nothing more is read (RFC 9112 section 9.6: it must not be processed); and a thousand requests in one packet would be
 * a thousand at the upstream.
 */
export class Turns {
  readonly #serve: Serve;
  readonly #lines = new WeakMap<Socket, Line>();

  constructor(serve: Serve) {
    this.#serve = serve;
  }

  /** Serves the request now, when those before it have been answered, or never, when one of them ends the connection. */
  take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    let line = this.#lines.get(socket);
    if (line === undefined) {
      line = { active: null, waiting: [], closed: false, ending: null };
      this.#lines.set(socket, line);
    }
    if (line.closed) return;
    if (line.active !== null && (line.ending !== null || line.waiting.length === MAX_WAITING)) return;
    const turn = { request, response, isLoose: isLooseRequestLine(request) };
    if (line.active === null) this.#start(socket, line, turn);
    else if (line.waiting.push(turn) === MAX_WAITING) response.shouldKeepAlive = false;
  }

  /**
   * Nothing after this can be read on the connection.
   * @param broken called at once where the request that is being served was still being read
   * @param ending called when all others have been answered, at once where there are none; once in a connection's life
   * @returns whether `ending` has to wait
   */
  end(socket: Socket, broken: () => void, ending: () => void): boolean {
    const line = this.#lines.get(socket);
    if (line === undefined || (line.active === null && line.ending === null)) ending();
    else if (line.ending === null) {
      const last = line.waiting.at(-1);
      if (last === undefined && line.active?.request.complete === false) {
        broken();
        return false;
      }
      // It has not begun, and now it never can.
      if (last?.request.complete === false) line.waiting.pop();
      line.ending = ending;
    }
    return line !== undefined && line.ending !== null;
  }

  #start(socket: Socket, line: Line, turn: Turn): void {
    line.active = turn;
    turn.response.once('close', () => this.#next(socket, line, turn.response));
    this.#serve(turn.request, turn.response, turn.isLoose);
  }

  #next(socket: Socket, line: Line, { shouldKeepAlive, writableFinished }: ServerResponse): void {
    line.active = null;
    if (socket.destroyed || !shouldKeepAlive || !writableFinished) {
      line.closed = true;
      line.waiting.length = 0;
      return;
    }
    const turn = line.waiting.shift();
    if (turn !== undefined) this.#start(socket, line, turn);
    else line.ending?.();
  }
}
