import type { Readable } from 'node:stream';
import type { ConsumerShare } from '../forward/upstream/upstream.ts';
import { freeNow } from '../io/buffers.ts';
import { halfOfRest } from '../io/fair-shares.ts';
import { HeldBytes, type HeldMemory, MAX_TOTAL_BYTES } from '../io/held-bytes.ts';

/** How reading a body ended. `no_room`: the bodies of its consumer, or all of them, have taken all their memory. */
export type HeldResult =
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  | { readonly kind: 'too_large' | 'no_room' | 'gone' };

/**
 * The memory of all bodies that are held.
 *
 * Attack: one consumer sends many large bodies slowly, or with requests that the service answers late, until there is no
 * memory left and the bodies of all others are refused. So one consumer has at most its part, and at most half of what the
 * others leave.
 */
export class HeldBodies {
  #all = 0;
  /** The bytes that the bodies of each consumer take. */
  readonly #held = new Map<string, number>();

  /** The memory for one consumer. @param maxBytes of all its bodies together */
  of(consumerId: string, maxBytes: number): HeldMemory {
    return {
      take: (bytes) => {
        const before = this.#held.get(consumerId) ?? 0;
        const held = before + bytes;
        if (held > Math.min(maxBytes, halfOfRest(MAX_TOTAL_BYTES, this.#all - before))) return false;
        this.#all += bytes;
        this.#held.set(consumerId, held);
        return true;
      },
      release: (bytes) => {
        const held = (this.#held.get(consumerId) ?? 0) - bytes;
        if (held > 0) this.#held.set(consumerId, held);
        else this.#held.delete(consumerId);
        this.#all -= bytes;
      },
    };
  }
}

/**
 * A body that is read whole and held in memory, until its request has ended.
 *
 * Attack: many clients send bodies slowly, or declare long ones and send nothing, until memory is full. So the memory of
 * all held bodies is bounded, and taken only as their bytes arrive. How long a body may take is bounded by the listener
 * (`requestTimeout`), and how many a consumer has in flight by its share of the upstream.
 */
export class HeldBody {
  readonly #source: Readable;
  readonly #maxBytes: number;
  readonly #held: HeldBytes;
  readonly #share: ConsumerShare | null;
  readonly #done: (result: HeldResult) => void;
  #isReading = true;

  /**
   * @param share with the place of the request at its upstream; null if it has none. The place is paused while the body is read
   * @param done called once, unless reading is stopped before
   */
  constructor(
    source: Readable,
    maxBytes: number,
    memory: HeldMemory,
    share: ConsumerShare | null,
    done: (result: HeldResult) => void,
  ) {
    this.#source = source;
    this.#maxBytes = maxBytes;
    this.#held = new HeldBytes(memory, maxBytes);
    this.#share = share;
    this.#done = done;
    share?.pause();
    source.on('data', this.#onData);
    source.once('end', this.#onEnd);
    source.once('error', this.#onBreak);
    source.once('close', this.#onBreak);
  }

  /** Gives the memory back, and reads nothing more. */
  release(): void {
    this.#stop();
    this.#held.drop();
  }

  readonly #onData = (piece: Buffer): void => {
    if (this.#held.length + piece.length > this.#maxBytes) this.#end({ kind: 'too_large' });
    else if (this.#held.add(piece)) freeNow(piece);
    else this.#end({ kind: 'no_room' });
  };

  readonly #onEnd = (): void => this.#end({ kind: 'whole', bytes: this.#held.bytes });

  readonly #onBreak = (): void => this.#end({ kind: 'gone' });

  #end(result: HeldResult): void {
    if (!this.#isReading) return;
    this.#stop();
    this.#done(result);
  }

  #stop(): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    this.#share?.resume();
    const source = this.#source;
    source.removeListener('data', this.#onData);
    source.removeListener('end', this.#onEnd);
    source.removeListener('error', this.#onBreak);
    source.removeListener('close', this.#onBreak);
    // Without a listener, an error of the stream would end the process.
    source.on('error', () => {});
    if (!source.readableEnded) source.pause();
  }
}
