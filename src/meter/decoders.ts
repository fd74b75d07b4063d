import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { halfOfRest } from '../io/fair-shares.ts';

/** For how many requests at a time the service may be asked for a coding with a large window: br or zstd. */
const MAX_PLACES = 64;
/** The window of zstd as a power of two: 8 MiB. That of Brotli has at most 16 MiB, those of the others 32 KiB. */
const MAX_ZSTD_WINDOW = 23;

const OPTIONS = { chunkSize: 64 * 1024 };
/** With gzip this option would also refuse a second member (RFC 1952 section 2.2). */
const STRICT = { ...OPTIONS, rejectGarbageAfterEnd: true };
const ZSTD_OPTIONS = { ...STRICT, params: { [constants.ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW } };
/** Makes the decompressor of a body. @param first its first byte */
type Create = (first: number) => Transform;
const CREATE: ReadonlyMap<string, Create> = new Map<string, Create>([
  ['gzip', () => createGunzip(OPTIONS)],
  ['x-gzip', () => createGunzip(OPTIONS)],
  ['deflate', (first) => (beginsWithZlibHeader(first) ? createInflate(STRICT) : createInflateRaw(STRICT))],
  ['br', () => createBrotliDecompress(STRICT)],
  ['zstd', () => createZstdDecompress(ZSTD_OPTIONS)],
]);

/**
 * Some services send `deflate` without the header of zlib, and clients read both. The first byte of that header has the method 8
 * and a window of at most 32 KiB (RFC 1950 section 2.2). A raw stream cannot begin so: it would be a stored block with a padding
 * bit that no compressor sets.
 */
function beginsWithZlibHeader(first: number): boolean {
  return (first & 0x8f) === 8;
}

/** Whether a Content-Encoding of one coding can be read. @param coding in lower case */
export function isDecodable(coding: string): boolean {
  return CREATE.has(coding);
}

/** Takes an answer as it is decompressed. */
interface DecodedReader {
  /** @returns false if no more is needed */
  read(bytes: Buffer): boolean;
  /** Calls `next` later if the consumer must wait for its turn on the serving thread. @returns false if it must not */
  waitForTurn(next: () => void): boolean;
}

/**
 * The answers of a process that are decompressed to be read.
 *
 * Attack: many clients ask for compressed answers at once, until the windows of their decompressors take all memory. So the service
 * is asked for a coding with a large window only while a place is free; that of gzip and deflate takes 0.1 MiB with its buffers. An answer
 * that comes in a coding that was not asked for is read without a place: the client cannot choose that. There are no more
 * of either than connections to services.
 *
 * Attack: one consumer, or four of them, keep answers open until no place is free, so that what others pay is not read. No cost is
 * left unread for want of a place, and one consumer has at most half of the places that the others leave.
 */
export class Decoders {
  readonly #open = new Set<Decoding>();
  #taken = 0;
  /** Places taken, by consumer. */
  readonly #ofConsumers = new Map<string, number>();

  /** How many answers are being read. */
  get open(): number {
    return this.#open.size;
  }

  /** How many places are taken. */
  get taken(): number {
    return this.#taken;
  }

  /** @returns false if no place is free for one more request of this consumer; otherwise call `leave` */
  take(consumerId: string): boolean {
    const own = this.#ofConsumers.get(consumerId) ?? 0;
    if (this.#taken >= MAX_PLACES || own >= halfOfRest(MAX_PLACES, this.#taken - own)) return false;
    this.#taken++;
    this.#ofConsumers.set(consumerId, own + 1);
    return true;
  }

  leave(consumerId: string): void {
    this.#taken--;
    const left = this.#ofConsumers.get(consumerId)! - 1;
    if (left === 0) this.#ofConsumers.delete(consumerId);
    else this.#ofConsumers.set(consumerId, left);
  }

  /** @param coding one that `isDecodable` @param first the first byte of the body */
  start(coding: string, first: number, reader: DecodedReader): Decoding {
    const decoding = new Decoding(CREATE.get(coding)!(first), reader, () => this.#open.delete(decoding));
    this.#open.add(decoding);
    return decoding;
  }

  /** Gives up all answers: their costs are not known. */
  giveUp(): void {
    for (const decoding of this.#open) decoding.giveUp();
  }
}

/**
 * The body of one answer while it is decompressed. It is over when it has ended, when it fails, when its reader needs no more,
 * or with `stop`; then its memory is given back.
 *
 * Attack: a small answer that is huge when it is decompressed keeps the serving thread from others. So it is read in the turns of
 * its consumer, and what has arrived waits as a few pieces: the service is read no faster (`isBehind`).
 */
export class Decoding {
  /** Null once it is over. */
  #stream: Transform | null;
  readonly #leave: () => void;
  #fault: 'undecodable' | 'busy' | null = null;
  #onOver: (() => void) | null = null;
  #onCaughtUp: (() => void) | null = null;

  /** @param leave called once, when it is over */
  constructor(stream: Transform, reader: DecodedReader, leave: () => void) {
    this.#stream = stream;
    this.#leave = leave;
    stream.on('data', (bytes: Buffer) => {
      if (this.#stream === null) return;
      if (!reader.read(bytes)) this.stop();
      else if (reader.waitForTurn(() => stream.resume())) stream.pause();
    });
    stream.on('drain', () => this.#caughtUp());
    stream.on('end', () => this.stop());
    stream.on('error', () => this.#fail('undecodable'));
  }

  /** Why it could not be read to its end; null if it could, or if its reader needed no more. */
  get fault(): 'undecodable' | 'busy' | null {
    return this.#fault;
  }

  get isOver(): boolean {
    return this.#stream === null;
  }

  /** Whether what has arrived waits to be decompressed, so that no more should be added. */
  get isBehind(): boolean {
    return this.#stream?.writableNeedDrain === true;
  }

  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void {
    this.#onCaughtUp = next;
  }

  /** Takes a copy of the next piece as the service sends it. */
  add(bytes: Buffer): void {
    this.#stream?.write(Buffer.from(bytes));
  }

  /**
   * Nothing follows. A decompressor that gets its end too early fails and discards what its reader has not taken yet.
   *
   * Attack: a client leaves while its turn has not come, so that what has arrived is never read. So a body that broke off ends for the
   * reader where it is decompressed to.
   * @returns resolves when all that was added has been read, and never rejects
   */
  end(isWhole: boolean): Promise<void> {
    return new Promise((resolve) => {
      const stream = this.#stream;
      if (stream === null) return resolve();
      this.#onOver = resolve;
      if (isWhole) stream.end();
      else stream.write(Buffer.alloc(0), () => stream.push(null));
    });
  }

  stop(): void {
    const stream = this.#stream;
    if (stream === null) return;
    this.#stream = null;
    stream.destroy();
    this.#leave();
    this.#onOver?.();
    this.#caughtUp();
  }

  /** It is not read to its end, because the gateway stops. */
  giveUp(): void {
    this.#fail('busy');
  }

  #caughtUp(): void {
    const next = this.#onCaughtUp;
    this.#onCaughtUp = null;
    next?.();
  }

  #fail(fault: 'undecodable' | 'busy'): void {
    if (this.#stream === null) return;
    this.#fault = fault;
    this.stop();
  }
}
