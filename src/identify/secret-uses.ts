import type { StoredKey, StoredSecret } from '../model/record.ts';
import { type SecretUse, type SecretUseStore, secretName } from './secret-use-store.ts';

const FLUSH_MS = 1_000;
/** Uses that one flush writes: at midnight every secret is used for the first time of its day. */
const MAX_AT_ONCE = 500;
const MAX_WAITING = 10_000;

interface SecretUsesOptions {
  readonly store: Pick<SecretUseStore, 'note'>;
}

/**
 * Writes the first use of each secret on a day to the store, in the background. No request waits for it.
 *
 * Attack: a caller sends requests without end, or with many secrets, to make the gateway write. Each secret is written once a day by
 * each process, at most 500 a second, and at most 10,000 wait.
 */
export class SecretUses {
  readonly #options: SecretUsesOptions;
  /** By key and secret. */
  readonly #waiting = new Map<string, SecretUse>();
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> = Promise.resolve();

  constructor(options: SecretUsesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  /**
   * Notes that a secret is in use.
   * @param nowMs Unix milliseconds
   * @returns false if too many uses wait, so that this one was not noted
   */
  note({ id, secrets }: StoredKey, secret: StoredSecret, nowMs: number): boolean {
    if (this.#waiting.size >= MAX_WAITING) return false;
    const day = new Date(nowMs).toISOString().slice(0, 10);
    this.#add({ keyId: id, secret: secretName(secret), day, present: secrets.map(secretName) });
    return true;
  }

  /** Writes some of the uses that wait; those that the store does not accept wait for the next flush. Never rejects. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  async #write(): Promise<void> {
    const some = [...this.#waiting].slice(0, MAX_AT_ONCE);
    if (some.length === 0) return;
    for (const [name] of some) this.#waiting.delete(name);
    try {
      await this.#options.store.note(some.map(([, use]) => use));
    } catch {
      for (const [name, use] of some) if (!this.#waiting.has(name)) this.#add(use);
    }
  }

  #add(use: SecretUse): void {
    this.#waiting.set(`${use.keyId} ${use.secret}`, use);
  }
}
