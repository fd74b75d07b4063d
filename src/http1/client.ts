import type { Socket } from 'node:net';
import type { ResponseLines } from './response-head.ts';

/** The address of a client, and how it is connected. */
export interface ClientAddress {
  /** The client's address. IPv4-mapped addresses have become IPv4. */
  readonly address: string;
  /** The address at the other end of the connection, or the one that its PROXY header names: a client's or a trusted proxy's. */
  readonly peer: string;
  readonly trustedPeer: boolean;
  /** `https` if the connection is encrypted. */
  readonly scheme: 'http' | 'https';
  /** The client's HTTP version if it differs from the request's: `2.0` on an HTTP/2 stream, otherwise null. */
  readonly httpVersion: string | null;
  /** The certificate that the client has shown and that an authority of `clientCa` has signed; null without one. */
  readonly certificate: ClientCertificate | null;
  /** Which requests belong on the connection, where the listener has several certificates; null if all do. */
  readonly servesHost: ServesHost | null;
}

/** Whether requests for a host belong on a connection. @param host the Host field as it was sent; null without one */
export type ServesHost = (host: string | null) => boolean;

/** A verified certificate of a client. */
export interface ClientCertificate {
  /** `sha256:` and its fingerprint, then `uri:` and `dns:` with the names of its subjectAltName. */
  readonly names: readonly string[];
  /** Its SHA-256, base64url: `x5t#S256` of RFC 8705. */
  readonly thumbprint: string;
  /** Unix milliseconds. */
  readonly endsAtMs: number;
}

/**
 * A connection that knows when its client has read the response: an HTTP/2 stream, whose client announces how much it accepts.
 *
 * Attack: a client of HTTP/2 asks on thousands of streams and reads nothing. Each response was a request that had ended, in no share, and
 * took 60 KB outside the heap. So the request stays in flight until `onRead`.
 */
export interface ReadConfirming {
  /** @returns false if nothing of the response is left to be read; otherwise `onRead` is called once */
  confirmRead(reader: { onRead(): void }): boolean;
}

/** A connection whose request and response may have trailers that reach the other side: an HTTP/2 stream (RFC 9113 section 8.1). */
export interface TrailerStream {
  /** The trailers of the request, names in lower case and values in turn; empty before its body has ended. */
  readonly requestTrailers: readonly string[];
  /** Called before the head of a response that may have trailers. */
  awaitTrailers(): void;
  /** Sets the trailers of the response, before it ends. @param fields names and values in turn */
  sendTrailers(fields: readonly string[]): void;
}

export function isTrailerStream(socket: Socket & Partial<TrailerStream>): socket is Socket & TrailerStream {
  return socket.awaitTrailers !== undefined;
}

/** What ends a request that has not arrived in time. */
export interface RequestTimed {
  /** The whole request has to arrive within this time of its beginning. */
  requestWithin(ms: number): void;
}

/**
 * A received request: the part of node:http's interface that the gateway uses, so that another reader can implement it.
 */
export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Names and values alternating, as they were received. */
  readonly rawHeaders: readonly string[];
  readonly socket: Socket & Partial<ReadConfirming & TrailerStream & RequestTimed>;
  /** Set by a reader whose socket does not time requests itself. */
  readonly timed?: RequestTimed;
  /** Whether the whole request has been read. */
  readonly complete: boolean;
  /**
   * The body, one character for each byte; null without a body. Set only by readers that read the whole body, not by
   * node:http.
   */
  readonly wholeBody?: string | null;
  readonly destroyed: boolean;
}

/** The response to a request: the part of node:http's interface that the gateway uses. */
export interface ClientResponse {
  readonly req: ClientRequest;
  readonly statusCode: number;
  /** Whether the head of the response has been set, written or not. */
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  readonly socket: Socket | null;
  /**
   * Whether the operating system has accepted everything that was written. Unknown for node:http, which may hold chunks
   * back.
   */
  readonly isTaken?: boolean;
  /** Set to false before the head is set, it ends the connection with this response. */
  shouldKeepAlive: boolean;
  writeContinue(): void;
  writeInformation(status: number, fields: string[]): void;
  /** @param fields names and values alternating */
  writeHead(status: number, fields: string[]): unknown;
  /**
   * Like `writeHead`, with field lines, followed by the gateway's own lines, each with its CRLF. node:http does not
   * have it.
   */
  writeLines?(status: number, lines: ResponseLines, own: string): void;
  flushHeaders(): void;
  /** @returns false if the client does not read fast enough; the caller should continue at `drain` */
  write(chunk: Buffer): boolean;
  end(chunk?: string | Buffer): unknown;
  end(chunk: string, encoding: 'latin1'): unknown;
  /** Ends the connection at once. */
  destroy(): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  removeListener(event: 'close' | 'drain', listener: () => void): unknown;
}

/** The part of a response by which its body is written, once its head is set. */
export type ResponseBody = Pick<
  ClientResponse,
  | 'req'
  | 'headersSent'
  | 'destroyed'
  | 'socket'
  | 'isTaken'
  | 'flushHeaders'
  | 'write'
  | 'end'
  | 'destroy'
  | 'once'
  | 'removeListener'
>;
