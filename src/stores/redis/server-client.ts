import { Redis, type RedisOptions } from 'ioredis';

/** Between an end that nobody asked for and the next attempt. */
const AGAIN_AFTER_MS = 200;

/**
 * ioredis for one server, or for the primary that Sentinels name, and for good: until `disconnect()` it comes back.
 * ioredis itself gives up (status `end`) when a link is dropped while the next one is being looked for, as its failover
 * detector does when the Sentinels tell twice of one failover.
 */
export class ServerClient extends Redis {
  #isClosed = false;
  #again: NodeJS.Timeout | null = null;

  constructor(options: RedisOptions & { readonly replyMapping: 'legacy' }) {
    super(options);
    this.on('end', () => this.#connectSoon());
  }

  override disconnect(reconnect = false): void {
    if (!reconnect) {
      this.#isClosed = true;
      if (this.#again !== null) clearTimeout(this.#again);
    }
    super.disconnect(reconnect);
  }

  #connectSoon(): void {
    if (this.#isClosed) return;
    this.#again = setTimeout(() => this.connect().catch(() => {}), AGAIN_AFTER_MS);
  }
}
