import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

/** How full the part of the heap is that holds long-lived objects. */
export interface HeapUse {
  readonly usedBytes: number;
  /** If the heap grows beyond this, V8 ends the process. */
  readonly limitBytes: number;
}

export interface HeapGuardEvents {
  /** The heap has become nearly full, or is no longer nearly full. */
  onChange(isShort: boolean, use: HeapUse): void;
  /** Called at each look while the heap is nearly full. */
  onShort(): void;
}

const LOOK_EVERY_MS = 50;
/**
 * Share of the limit. V8 collects garbage when the heap has grown halfway from its live objects to the limit, so a heap
 * that is this full holds almost nothing but live objects.
 */
const SHORT_FROM = 0.9;
/** Load is shed until the heap is below this share, so that the gateway does not switch back and forth. */
const SHORT_UNTIL = 0.8;
/** How many looks in a row must find the heap nearly full. A single look may fall just before a collection. */
const LOOKS = 2;

/**
 * Detects that the heap approaches the limit at which V8 ends the process, early enough to shed load.
 *
 * Attack: however little each connection may hold, enough connections that each hold that much fill the heap, and every
 * running request is lost with the process.
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

/** Three spaces of 32 MiB for young objects. V8 includes them in its limit, although old objects cannot use them. */
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
