import { BackgroundWrites } from '../io/background-writes.ts';
import type { StoredKey, StoredSecret } from '../model/record.ts';
import { type SecretUse, type SecretUseStore, secretName } from './secret-use-store.ts';

const FLUSH_MS = 100;
/**
 * Uses that one flush writes: at midnight every secret is used for the first time of its day. Fault: 500 once a second took the event
 * loop 30 to 40 ms, and requests waited meanwhile.
 */
const MAX_AT_ONCE = 50;
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
  readonly writes = new BackgroundWrites(FLUSH_MS, (all) => this.#write(all ? MAX_WAITING : MAX_AT_ONCE));

  constructor(options: SecretUsesOptions) {
    this.#options = options;
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

  async #write(most: number): Promise<void> {
    const some: [string, SecretUse][] = [];
    for (const entry of this.#waiting) {
      if (some.length === most) break;
      some.push(entry);
      this.#waiting.delete(entry[0]);
    }
    if (some.length === 0) return;
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
