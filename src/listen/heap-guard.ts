import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

/** What is known of the part of the heap in which long-lived objects stand, in bytes. */
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

const LOOK_EVERY_MS = 50;
/**
 * Of the limit. V8 collects garbage when the heap has grown halfway from what lives to the limit, so a heap that is found
 * this full is nearly full of what lives.
 */
const SHORT_FROM = 0.9;
/** Load is shed until the heap is back here, so that the gateway does not go back and forth. */
const SHORT_UNTIL = 0.8;
/** So many looks in a row have to find it so: one alone may come just before a collection. */
const LOOKS = 2;

/**
 * Notices that the heap nears the limit at which V8 ends the process, early enough to shed load.
 *
 * Attack: whatever each connection is bounded to, enough connections that each hold as much as they may can fill the
 * heap, and every request that is running is lost with the process.
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

/** Three spaces of 32 MiB for young objects, which V8 counts into its limit: they do not help where the old ones are many. */
const YOUNG_BYTES = 96 * 1024 * 1024;
const YOUNG = /^(?:new_|read_only)/;

/** Measured on Node 26.10: with --max-old-space-size=128 V8 reports a limit of 224 MiB, and the process ends at 128. */
function heapUse(): HeapUse {
  const limit = getHeapStatistics().heap_size_limit;
  let usedBytes = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!YOUNG.test(space_name)) usedBytes += space_used_size;
  }
  return { usedBytes, limitBytes: limit > 2 * YOUNG_BYTES ? limit - YOUNG_BYTES : limit / 2 };
}
