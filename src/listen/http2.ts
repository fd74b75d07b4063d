import type { Server } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { ErrorCode } from '../annotate/error.ts';
import { type BreakReason, Http2Session } from './http2-session.ts';
import type { StreamSlots } from './http2-streams.ts';

export interface Http2Settings {
  /** Streams of one session at a time. */
  readonly maxStreams: number;
  /** Streams of one session that a client may break off: so many at once, and as many again in each minute. */
  readonly maxResets: number;
}

export interface Http2Options {
  readonly settings: Http2Settings;
  readonly maxHeaderBytes: number;
  readonly maxUrlBytes: number;
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly writeTimeoutMs: number;
  /** Reads the requests of all streams. */
  readonly server: Server;
  /** Of all sessions. */
  readonly streams: StreamSlots;
  /** Milliseconds that never jump. */
  readonly nowMs: () => number;
  readonly onUnparsed: (code: ErrorCode) => void;
  readonly onBreak: (reason: BreakReason) => void;
}

const LOOK_EVERY_MS = 100;

/** All HTTP/2 sessions of the listener. */
export class Http2Sessions {
  readonly #options: Http2Options;
  readonly #sessions = new Set<Http2Session>();
  #looking: NodeJS.Timeout | null = null;
  #draining = false;

  constructor(options: Http2Options) {
    this.#options = options;
  }

  /**
   * @param socket encrypted, with `h2` agreed on
   * @param address that its streams count for; null for a trusted proxy
   */
  take(socket: TLSSocket, address: string | null): Http2Session {
    const session = new Http2Session(socket, address, this.#options);
    this.#sessions.add(session);
    session.onClose(() => {
      this.#sessions.delete(session);
      if (this.#sessions.size > 0 || this.#looking === null) return;
      clearInterval(this.#looking);
      this.#looking = null;
    });
    this.#looking ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    if (this.#draining) session.drain();
    return session;
  }

  /** What runs is finished, and nothing new is begun. */
  drain(): void {
    this.#draining = true;
    for (const session of this.#sessions) session.drain();
  }

  #look(): void {
    const nowMs = this.#options.nowMs();
    for (const session of this.#sessions) session.look(nowMs);
  }
}
