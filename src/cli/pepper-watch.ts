import { randomBytes } from 'node:crypto';
import { Failure } from '../failure.ts';
import { checkPeppers, type PepperStore, UNVERIFIED } from '../identify/pepper-record.ts';

/** `unchecked`: the store has not been reached yet. */
export type PepperState = 'unchecked' | 'right' | 'mismatch';

export interface PepperWatchOptions {
  readonly record: PepperStore;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Called when the peppers turn out to be wrong, with the reason, and with null when they are right again. */
  readonly onMismatch: (failure: Failure | null) => void;
  readonly onWarning: (sentence: string) => void;
}

const LOOK_AGAIN_MS = 1_000;
const LOOK_EVERY_MS = 10_000;

/**
 * Holds the peppers of a gateway against the record in its store: at the start, or once the store is reached, and from
 * then on every 10 s, since they may be changed by others, and the store restored or replaced.
 */
export class PepperWatch {
  readonly #options: PepperWatchOptions;
  #state: PepperState = 'unchecked';
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: PepperWatchOptions) {
    this.#options = options;
  }

  get state(): PepperState {
    return this.#state;
  }

  /**
   * Checks the peppers for the first time, and goes on in the background. A store that does not answer is asked again.
   * @throws Failure `pepper_mismatch`, `store_corrupt`
   */
  async begin(): Promise<void> {
    const failure = await this.#check();
    if (failure !== null) throw failure;
    this.#lookLater();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #lookLater(): void {
    if (this.#closed) return;
    const afterMs = this.#state === 'right' ? LOOK_EVERY_MS : LOOK_AGAIN_MS;
    this.#timer = setTimeout(() => void this.#look(), afterMs);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    const before = this.#state;
    const failure = await this.#check();
    if (this.#closed) return;
    if (failure !== null && before !== 'mismatch') this.#options.onMismatch(failure);
    if (failure === null && before === 'mismatch' && this.#state === 'right') this.#options.onMismatch(null);
    this.#lookLater();
  }

  /** @returns what is wrong with the peppers; null where nothing is, or the store did not answer */
  async #check(): Promise<Failure | null> {
    const { record, peppers, onWarning } = this.#options;
    try {
      // The start makes its peppers the ones in use. Later on, gateways with `old,new` and `new,old` side by side would undo
      // what the other has written all the time.
      const writes = this.#state === 'unchecked' ? 'always' : 'if-missing';
      const { unverified } = await checkPeppers(record, peppers, { writes, random: randomBytes });
      this.#state = 'right';
      if (unverified) onWarning(UNVERIFIED);
      return null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.code === 'store_unavailable') return null;
      this.#state = 'mismatch';
      return error;
    }
  }
}
