import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ParsedResponse, readResponses } from '../../test/support/http-response.ts';

export interface Talk {
  /** Everything that the gateway sent. */
  readonly bytes: Buffer;
  readonly responses: readonly ParsedResponse[];
  /** What of `bytes` is not well-formed; null when all of it is. */
  readonly broken: string | null;
  /** Whether the gateway closed the connection before we did. */
  readonly closedFirst: boolean;
  readonly reset: boolean;
  /** Whether it left us waiting for what we were owed. */
  readonly silent: boolean;
}

export interface TalkOptions {
  /** Final answers that we are owed when the gateway does not close before. */
  readonly owed: number;
  readonly methods: readonly string[];
  /** Patience, milliseconds without a byte. */
  readonly quietMs: number;
}

/**
 * Sends segments on a connection of its own, waits for what is owed, then closes its half and reads on to the end, so
 * that nothing that the gateway sends goes unseen.
 */
export async function talk(port: number, segments: readonly Buffer[], options: TalkOptions): Promise<Talk> {
  const { owed, methods, quietMs } = options;
  const socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  const ear = new Ear(socket, quietMs);
  const read = () => reading(ear.received, methods, ear.closed && !ear.reset);
  try {
    await sendAll(socket, segments);
    const served = await ear.until(() => ear.closed || finals(read()) >= owed);
    const closedFirst = ear.closed;
    if (!closedFirst) socket.end();
    const ended = await ear.until(() => ear.closed);
    return { ...read(), closedFirst, reset: ear.reset, silent: !served || !ended };
  } finally {
    socket.destroy();
  }
}

/** Collects what a socket hears. */
class Ear {
  readonly received: Buffer[] = [];
  closed = false;
  reset = false;
  readonly #quietMs: number;
  #wake: () => void = () => {};

  constructor(socket: Socket, quietMs: number) {
    this.#quietMs = quietMs;
    socket.on('data', (chunk: Buffer) => {
      this.received.push(chunk);
      this.#wake();
    });
    socket.on('error', () => {
      this.reset = true;
    });
    const close = () => {
      this.closed = true;
      this.#wake();
    };
    socket.on('end', close).on('close', close);
  }

  /** Waits until it is over; false when nothing was heard for too long. */
  async until(over: () => boolean): Promise<boolean> {
    while (!over()) {
      const heard = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), this.#quietMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      if (!heard) return over();
    }
    return true;
  }
}

type Read = Pick<Talk, 'bytes' | 'responses' | 'broken'>;

function reading(received: Buffer[], methods: readonly string[], ended: boolean): Read {
  const bytes = received.length === 1 ? received[0]! : Buffer.concat(received);
  const read = readAs(bytes, methods, ended);
  if (!isUnsettled(read)) return read;
  // What could not be parsed is answered with a body, whatever its first word was: the connection ends with it.
  const others = methods.flatMap((method, i) =>
    method === 'HEAD' ? [readAs(bytes, methods.with(i, 'GET'), ended)] : [],
  );
  return others.find((other) => !isUnsettled(other)) ?? read;
}

function isUnsettled({ broken, responses }: Read): boolean {
  return broken !== null || responses.at(-1)?.complete === false;
}

function readAs(bytes: Buffer, methods: readonly string[], ended: boolean): Read {
  try {
    return { bytes, responses: readResponses(bytes, methods, ended), broken: null };
  } catch (error) {
    return { bytes, responses: [], broken: String(error) };
  }
}

function finals({ responses, broken }: Read): number {
  if (broken !== null) return Number.POSITIVE_INFINITY;
  return responses.filter(({ status, complete }) => status >= 200 && complete).length;
}

async function sendAll(socket: Socket, segments: readonly Buffer[]): Promise<void> {
  for (const [i, segment] of segments.entries()) {
    if (i > 0) await delay(1);
    if (!socket.writable) return;
    if (segment.length > 0) await new Promise<void>((resolve) => socket.write(segment, () => resolve()));
  }
}
