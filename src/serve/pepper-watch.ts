import { randomBytes } from 'node:crypto';
import { Failure } from '../failure.ts';
import {
  checkPeppers,
  type PepperHistory,
  type PepperState,
  type PepperStore,
  UNVERIFIED,
} from '../identify/pepper-record.ts';

interface PepperWatchOptions {
  /** Called with the reason when the peppers are found to be wrong, and with null when they are right again. */
  readonly onMismatch: (failure: Failure | null) => void;
  readonly onWarning: (sentence: string) => void;
}

type Check = () => Promise<Failure | null>;

const CHECK_AGAIN_MS = 1_000;
const CHECK_EVERY_MS = 10_000;

/**
 * Compares the peppers of a gateway with the record in its store: at the start, or once the gateway reaches the store, and
 * then every 10 s, because operators may change the pepper, or restore or replace the store.
 */
export class PepperWatch {
  readonly #options: PepperWatchOptions;
  #state: PepperState = 'unchecked';
  #hadOther = false;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;
  #given: { readonly record: PepperStore; readonly peppers: readonly string[] } | null = null;

  constructor(options: PepperWatchOptions) {
    this.#options = options;
  }

  get state(): PepperState {
    return this.#state;
  }

  /** Whether the store has ever had another pepper, as the last check found; false before the first. */
  get hadOther(): boolean {
    return this.#hadOther;
  }

  /**
   * Checks the peppers for the first time, and then continues in the background. It retries if the store does not answer.
   * @param peppers newest first; at least one
   * @throws Failure `pepper_mismatch`, `store_corrupt`
   */
  async begin(record: PepperStore, peppers: readonly string[]): Promise<void> {
    this.#given = { record, peppers };
    const check = () => this.#check(record, peppers);
    const failure = await check();
    if (failure !== null) throw failure;
    this.#scheduleCheck(check);
  }

  /**
   * The peppers that the store has had, as its record says now.
   * @throws Failure `pepper_mismatch`, `store_corrupt`, `store_unavailable`, also before `begin`
   */
  async history(): Promise<PepperHistory> {
    if (this.#given === null) throw new Failure('store_unavailable', 'The store has not been opened yet.');
    const { record, peppers } = this.#given;
    return (await checkPeppers(record, peppers, { writes: 'if-missing', random: randomBytes })).history;
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #scheduleCheck(check: Check): void {
    if (this.#closed) return;
    const afterMs = this.#state === 'right' ? CHECK_EVERY_MS : CHECK_AGAIN_MS;
    this.#timer = setTimeout(() => void this.#checkAgain(check), afterMs);
    this.#timer.unref();
  }

  async #checkAgain(check: Check): Promise<void> {
    const before = this.#state;
    const failure = await check();
    if (this.#closed) return;
    if (failure !== null && before !== 'mismatch') this.#options.onMismatch(failure);
    if (failure === null && before === 'mismatch' && this.#state === 'right') this.#options.onMismatch(null);
    this.#scheduleCheck(check);
  }

  /** @returns the mismatch; null if the peppers are right or the store did not answer */
  async #check(record: PepperStore, peppers: readonly string[]): Promise<Failure | null> {
    try {
      // A start writes its peppers as the ones in use. Later checks do not: gateways with `old,new` and with `new,old` run
      // side by side during a change, and would keep overwriting each other's record.
      const writes = this.#state === 'unchecked' ? 'always' : 'if-missing';
      const { history, unverified } = await checkPeppers(record, peppers, { writes, random: randomBytes });
      this.#state = 'right';
      this.#hadOther = history.peppers.length > 1;
      if (unverified) this.#options.onWarning(UNVERIFIED);
      return null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.code === 'store_unavailable') return null;
      this.#state = 'mismatch';
      return error;
    }
  }
}
