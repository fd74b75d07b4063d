import { totalmem } from 'node:os';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

/** How full a memory is. */
export interface MemoryUse {
  /** `heap`: the part for long-lived objects. `container`: all memory of the process, against the limit of its container. */
  readonly of: 'heap' | 'container';
  readonly usedBytes: number;
  /** If the memory grows beyond this, V8, or the kernel, ends the process. */
  readonly limitBytes: number;
}

interface HeapGuardEvents {
  /** A memory has become nearly full, or is no longer nearly full. */
  onChange(isShort: boolean, use: MemoryUse): void;
  /** Called at each look while a memory is nearly full. */
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
 * After this many looks the memory of a process that is still nearly full counts as used up by then: what was freed within it
 * serves new allocations first. Only further growth is then a shortage.
 */
const SETTLED_AFTER_LOOKS = 100;
const GROWTH = 0.02;

/**
 * Detects that the heap approaches the limit at which V8 ends the process, or the process the limit at which the kernel does,
 * early enough to shed load.
 *
 * Attack: however little each connection may hold, enough connections that each hold that much fill the heap, and every
 * running request is lost with the process.
 *
 * Attack: TLS sessions and unread responses of HTTP/2 are outside the heap. They fill the container while the heap is
 * nearly empty.
 */
export class HeapGuard {
  readonly #levels: readonly Level[];
  readonly #events: HeapGuardEvents;
  readonly #timer: NodeJS.Timeout;

  /** @param reads what is looked at */
  constructor(events: HeapGuardEvents, reads: readonly (() => MemoryUse)[]) {
    this.#levels = reads.map((read) => new Level(read));
    this.#events = events;
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS).unref();
  }

  get isShort(): boolean {
    return this.#levels.some(({ isShort }) => isShort);
  }

  look(): void {
    for (const level of this.#levels) {
      const changed = level.look();
      if (changed !== null) this.#events.onChange(level.isShort, changed);
    }
    if (this.isShort) this.#events.onShort();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** One memory. */
class Level {
  readonly #read: () => MemoryUse;
  #looks = 0;
  #shortLooks = 0;
  /** The share from which it is short. */
  #from = SHORT_FROM;
  #isShort = false;

  constructor(read: () => MemoryUse) {
    this.#read = read;
  }

  get isShort(): boolean {
    return this.#isShort;
  }

  /** @returns what it has found, if that is a change */
  look(): MemoryUse | null {
    const use = this.#read();
    const share = use.usedBytes / use.limitBytes;
    if (share < SHORT_UNTIL) this.#from = SHORT_FROM;
    this.#looks = share >= this.#from ? this.#looks + 1 : 0;
    const isShort = this.#isShort ? share >= SHORT_UNTIL && !this.#isSettled(use, share) : this.#looks >= LOOKS;
    if (isShort === this.#isShort) return null;
    this.#isShort = isShort;
    this.#shortLooks = 0;
    return use;
  }

  #isSettled({ of }: MemoryUse, share: number): boolean {
    if (of === 'heap' || ++this.#shortLooks < SETTLED_AFTER_LOOKS) return false;
    this.#from = share + GROWTH;
    this.#looks = 0;
    return true;
  }
}

/**
 * What a process has to look at: its heap and, in a container with a limit, its part of that limit.
 * @param processes how many serve in the container; each has the same part
 */
export function memoriesOf(processes: number): readonly (() => MemoryUse)[] {
  // 0 or a huge number: there is no limit.
  const limit = process.constrainedMemory();
  if (limit === 0 || limit >= totalmem()) return [heapUse];
  const limitBytes = limit / processes;
  return [heapUse, () => ({ of: 'container', usedBytes: process.memoryUsage.rss(), limitBytes })];
}

/** Three spaces of 32 MiB for young objects. V8 includes them in its limit, although old objects cannot use them. */
const YOUNG_BYTES = 96 * 1024 * 1024;
const YOUNG = /^(?:new_|read_only)/;

/** Measured on Node 26.10: with --max-old-space-size=128 V8 reports a limit of 224 MiB, and the process ends at 128. */
function heapUse(): MemoryUse {
  const limit = getHeapStatistics().heap_size_limit;
  let usedBytes = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!YOUNG.test(space_name)) usedBytes += space_used_size;
  }
  return { of: 'heap', usedBytes, limitBytes: limit > 2 * YOUNG_BYTES ? limit - YOUNG_BYTES : limit / 2 };
}
