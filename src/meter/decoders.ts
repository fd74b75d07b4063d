import type { Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';

/** How many compressed answers are read at a time. */
const MAX_ANSWERS = 64;
/** How many of them one consumer may have. */
const MAX_OF_CONSUMER = 16;
/** How many compressed bytes of an answer wait for a thread. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** The window of zstd as a power of two: 8 MiB. That of Brotli has at most 16 MiB, those of the others 32 KiB. */
const MAX_ZSTD_WINDOW = 23;

const OPTIONS = { rejectGarbageAfterEnd: true, chunkSize: 64 * 1024 };
const ZSTD_OPTIONS = { ...OPTIONS, params: { [constants.ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW } };
const CREATE: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', () => createGunzip(OPTIONS)],
  ['x-gzip', () => createGunzip(OPTIONS)],
  ['deflate', () => createInflate(OPTIONS)],
  ['br', () => createBrotliDecompress(OPTIONS)],
  ['zstd', () => createZstdDecompress(ZSTD_OPTIONS)],
]);

/** Whether a Content-Encoding of one coding can be read. @param coding in lower case */
export function isDecodable(coding: string): boolean {
  return CREATE.has(coding);
}

/**
 * The answers of a process that are decompressed to be read.
 *
 * Attack: many clients ask for compressed answers at once, until their windows take all memory and the threads of the
 * pool do nothing else. So answers beyond `MAX_ANSWERS` are not read.
 *
 * Attack: one consumer keeps that many answers open, so that the costs of all others are unknown. So it has at most its part.
 */
export class Decoders {
  readonly #open = new Set<Decoding>();
  /** How many, by consumer. */
  readonly #ofConsumers = new Map<string, number>();

  /** How many answers are being read. */
  get open(): number {
    return this.#open.size;
  }

  /**
   * @param coding one that `isDecodable`
   * @param consumerId whose answer it is
   * @param onBytes takes the next piece of the body; it returns false if it needs no more
   * @returns null if there is no room for one more
   */
  start(coding: string, consumerId: string, onBytes: (bytes: Buffer) => boolean): Decoding | null {
    const own = this.#ofConsumers.get(consumerId) ?? 0;
    if (this.#open.size >= MAX_ANSWERS || own >= MAX_OF_CONSUMER) return null;
    const decoding = new Decoding(CREATE.get(coding)!(), onBytes, () => this.#leave(consumerId, decoding));
    this.#open.add(decoding);
    this.#ofConsumers.set(consumerId, own + 1);
    return decoding;
  }

  /** Gives up all answers: their costs are not known. */
  giveUp(): void {
    for (const decoding of this.#open) decoding.giveUp();
  }

  #leave(consumerId: string, decoding: Decoding): void {
    this.#open.delete(decoding);
    const left = this.#ofConsumers.get(consumerId)! - 1;
    if (left === 0) this.#ofConsumers.delete(consumerId);
    else this.#ofConsumers.set(consumerId, left);
  }
}

/**
 * The body of one answer while it is decompressed. It is over when it has ended, when it fails, when `onBytes` needs no more,
 * or with `stop`; then its memory and its place are given back.
 */
export class Decoding {
  /** Null once it is over. */
  #stream: Transform | null;
  readonly #leave: () => void;
  #fault: 'undecodable' | 'too_large' | 'busy' | null = null;
  #onOver: (() => void) | null = null;

  /** @param leave called once, when it is over */
  constructor(stream: Transform, onBytes: (bytes: Buffer) => boolean, leave: () => void) {
    this.#stream = stream;
    this.#leave = leave;
    stream.on('data', (bytes: Buffer) => {
      if (this.#stream !== null && !onBytes(bytes)) this.stop();
    });
    stream.on('end', () => this.stop());
    stream.on('error', () => this.#fail('undecodable'));
  }

  /** Why it could not be read to its end; null if it could, or if `onBytes` needed no more. */
  get fault(): 'undecodable' | 'too_large' | 'busy' | null {
    return this.#fault;
  }

  get isOver(): boolean {
    return this.#stream === null;
  }

  /** Takes a copy of the next piece as the service sends it. */
  add(bytes: Buffer): void {
    if (this.#stream === null) return;
    if (this.#stream.writableLength + bytes.length > MAX_WAITING_BYTES) this.#fail('too_large');
    else this.#stream.write(Buffer.from(bytes));
  }

  /** The service's body has ended. @returns resolves when it is over, and never rejects */
  end(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stream === null) return resolve();
      this.#onOver = resolve;
      this.#stream.end();
    });
  }

  stop(): void {
    const stream = this.#stream;
    if (stream === null) return;
    this.#stream = null;
    stream.destroy();
    this.#leave();
    this.#onOver?.();
  }

  /** It is not read to its end, because the gateway stops. */
  giveUp(): void {
    this.#fail('busy');
  }

  #fail(fault: 'undecodable' | 'too_large' | 'busy'): void {
    if (this.#stream === null) return;
    this.#fault = fault;
    this.stop();
  }
}
