import type { Socket } from 'node:net';
import type { AnswerLines } from './answer-head.ts';

/** A request as it came: what is used of node:http's, so that another reader can take its place. */
export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  /** Name and value in turn, as they were received. */
  readonly rawHeaders: string[];
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly socket: Socket;
  /** Whether all of it has been read. */
  readonly complete: boolean;
  /** Its body, a character for each byte, of a reader that reads no other; null where it has none. Not of node:http's. */
  readonly wholeBody?: string | null;
  readonly destroyed: boolean;
}

/** Where the answer to it is written: what is used of node:http's. */
export interface ClientResponse {
  readonly req: ClientRequest;
  readonly statusCode: number;
  /** Whether the head of the answer stands, written or not. */
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  readonly socket: Socket | null;
  /** Whether the system has all that was written. Of node:http's nobody knows: it may hold chunks back by itself. */
  readonly isTaken?: boolean;
  /** False, before the head stands: the connection ends with this answer. */
  shouldKeepAlive: boolean;
  writeContinue(): void;
  writeInformation(status: number, fields: string[]): void;
  /** @param fields name and value in turn */
  writeHead(status: number, fields: string[]): unknown;
  /** The same with lines as they stand, and others behind them, each with its end. Not of node:http's. */
  writeLines?(status: number, lines: AnswerLines, own: string): void;
  flushHeaders(): void;
  /** @returns false where there is more to write than the client takes: go on at `drain` */
  write(chunk: Buffer): boolean;
  end(chunk?: string | Buffer): unknown;
  end(chunk: string, encoding: 'latin1'): unknown;
  /** Ends the connection at once. */
  destroy(): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  removeListener(event: 'close' | 'drain', listener: () => void): unknown;
}

/**
 * Whether a reader of requests will hand out this very array again where a client says the same in its next request: it
 * has frozen it then, and keeps it itself. Nothing else is worth the memory of all connections that are idle.
 */
export function mayComeAgain(rawHeaders: readonly string[]): boolean {
  return Object.isFrozen(rawHeaders);
}
