import { getHeapStatistics } from 'node:v8';

/** What is known of the heap of this process, in bytes. */
export interface HeapUse {
  readonly usedBytes: number;
  /** Beyond it V8 ends the process. */
  readonly limitBytes: number;
}

export interface HeapGuardEvents {
  /** The heap has become nearly full, or no longer is. */
  onChange(isShort: boolean, use: HeapUse): void;
  /** At each look while it is nearly full. */
  onShort(): void;
}

const LOOK_EVERY_MS = 100;
/** Of the limit: from here on the gateway sheds load … */
const SHORT_FROM = 0.85;
/** … and until it is back here, so that it does not go back and forth. */
const SHORT_UNTIL = 0.75;
/**
 * V8 lets garbage grow before it collects, so a single look may find much that is no longer needed. Only so many looks in
 * a row that find the heap nearly full mean that it is.
 */
const LOOKS = 3;

/**
 * Notices that the heap nears the limit at which V8 ends the process, early enough to shed load.
 *
 * Attack: whatever bounds each connection has, enough connections that each hold as much as they may can fill the heap,
 * and then every request that is running is lost with the process.
 */
export class HeapGuard {
  readonly #read: () => HeapUse;
  readonly #events: HeapGuardEvents;
  readonly #timer: NodeJS.Timeout;
  #looks = 0;
  #isShort = false;

  constructor(events: HeapGuardEvents, read: () => HeapUse = heapUse) {
    this.#events = events;
    this.#read = read;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS).unref();
  }

  get isShort(): boolean {
    return this.#isShort;
  }

  look(): void {
    const use = this.#read();
    const share = use.usedBytes / use.limitBytes;
    this.#looks = share >= SHORT_FROM ? this.#looks + 1 : 0;
    const isShort = this.#isShort ? share >= SHORT_UNTIL : this.#looks >= LOOKS;
    if (isShort !== this.#isShort) {
      this.#isShort = isShort;
      this.#events.onChange(isShort, use);
    }
    if (isShort) this.#events.onShort();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

function heapUse(): HeapUse {
  const { used_heap_size, heap_size_limit } = getHeapStatistics();
  return { usedBytes: used_heap_size, limitBytes: heap_size_limit };
}
