import type { TLSSocket } from 'node:tls';
import { type Http2Options, Http2Session } from './session.ts';

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
   * @param address the client address that its streams count towards; null for a trusted proxy
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

  /** Lets running streams finish and accepts no new ones. */
  drain(): void {
    this.#draining = true;
    for (const session of this.#sessions) session.drain();
  }

  #look(): void {
    const nowMs = this.#options.nowMs();
    for (const session of this.#sessions) session.look(nowMs);
  }
}
