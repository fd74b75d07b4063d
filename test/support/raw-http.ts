import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from './conditions.ts';
import { type ParsedResponse, readResponses } from './http-response.ts';
import { ROOM } from './room.ts';

export type { ParsedResponse } from './http-response.ts';

export interface ExchangeOptions {
  /**
   * When the exchange is over: after this many final answers (1xx do not count), or when the server has closed the
   * connection. 1 by default. In any case after `withinMs` or `forMs`, which is no error: look at what has arrived.
   */
  readonly until?: number | 'closed';
  /** 3000 by default, times {@link ROOM}: only an exchange that does not end by itself takes so long. */
  readonly withinMs?: number;
  /** In place of `withinMs` for an exchange that is not expected to end: exactly so long. */
  readonly forMs?: number;
  /** Methods of the requests in their order, to know answers to HEAD (no body). All GET by default. */
  readonly methods?: readonly string[];
  /** Pause before each further part, for senders that are slow on purpose. Parts go out as separate segments anyway. */
  readonly pauseMs?: number;
  /** Closes the sending half after the last part. */
  readonly halfClose?: boolean;
  /** 127.0.0.1 by default. */
  readonly host?: string;
}

export interface RawExchange {
  /** Everything that the server sent. */
  readonly bytes: Buffer;
  /** In their order, 1xx among them. The last one may be incomplete. */
  readonly responses: readonly ParsedResponse[];
  /** Whether the server closed the connection before the exchange was over. Wait for it with `until: 'closed'`. */
  readonly closed: boolean;
  /** Whether it closed with a reset. */
  readonly reset: boolean;
}

/** Bytes to send; or a condition that the next ones wait for, of the answers so far: see `eventually`. */
export type Part = string | Uint8Array | ((responses: readonly ParsedResponse[]) => unknown);

/**
 * Sends bytes as they are on a TCP connection of their own, and reads what comes back strictly.
 * @throws BrokenMessage when the server sends anything that HTTP/1.1 does not allow; Error when it cannot be reached
 */
export async function rawExchange(
  port: number,
  bytes: string | Uint8Array | readonly Part[],
  options: ExchangeOptions = {},
): Promise<RawExchange> {
  const { until = 1, withinMs = 3_000, forMs = ROOM * withinMs, methods = [], host = '127.0.0.1' } = options;
  const socket = await connect(port, host);
  const received: Buffer[] = [];
  let closed = false;
  let reset = false;
  const over = Promise.withResolvers<void>();
  const read = () => readResponses(Buffer.concat(received), methods, closed && !reset);
  socket.on('data', (chunk: Buffer) => {
    received.push(chunk);
    try {
      const finals = read().filter(({ status, complete }) => status >= 200 && complete).length;
      if (until !== 'closed' && finals >= until) over.resolve();
    } catch (error) {
      over.reject(error);
    }
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    reset ||= error.code === 'ECONNRESET' || error.code === 'EPIPE';
  });
  socket.on('end', () => {
    closed = true;
    over.resolve();
  });
  socket.on('close', () => {
    closed = true;
    over.resolve();
  });
  const deadline = setTimeout(over.resolve, forMs);
  try {
    send(socket, partsOf(bytes), read, options).catch(over.reject);
    await over.promise;
    return { bytes: Buffer.concat(received), responses: read(), closed, reset };
  } finally {
    clearTimeout(deadline);
    socket.destroy();
  }
}

async function send(
  socket: Socket,
  parts: readonly Part[],
  read: () => readonly ParsedResponse[],
  options: ExchangeOptions,
): Promise<void> {
  for (const [index, part] of parts.entries()) {
    if (typeof part === 'function') {
      await eventually(() => !socket.writable || Boolean(part(read())));
      continue;
    }
    if (index > 0) await delay(options.pauseMs ?? 0);
    if (!socket.writable) return;
    await new Promise<void>((resolve) => socket.write(bytesOf(part), () => resolve()));
  }
  if (options.halfClose === true) socket.end();
}

function partsOf(bytes: string | Uint8Array | readonly Part[]): readonly Part[] {
  return typeof bytes === 'string' || bytes instanceof Uint8Array ? [bytes] : bytes;
}

function bytesOf(part: string | Uint8Array): Buffer {
  return typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part);
}

function connect(port: number, host: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    // Half-open: a server that closes its half must not make us stop sending.
    const socket = createConnection({ port, host, allowHalfOpen: true, noDelay: true });
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });
}
