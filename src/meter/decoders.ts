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
import type { PoolShare, PoolThreads, PoolWork } from '../io/pool-threads.ts';

/** For how many requests at a time the service may be asked for a coding with a large window: br or zstd. */
const MAX_PLACES = 64;
/** So many answers of one consumer may be read while they count as no request. A client may send its next request before one is over. */
const MANY = 16;
/** Compressed bytes that wait before the service is no longer read. */
const MAX_WAITING_BYTES = 64 * 1024;
/** Decompressed bytes after which another may have the thread. */
const MAX_BYTES_OF_TURN = 1024 * 1024;
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
  readonly #threads: PoolThreads;
  readonly #open = new Set<Decoding>();
  #taken = 0;
  /** Places taken, by consumer. */
  readonly #ofConsumers = new Map<string, number>();

  constructor(threads: PoolThreads) {
    this.#threads = threads;
  }

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

  /** Whether this many answers of the consumer are being read: those whose client has left then count as requests in flight. */
  hasMany(consumerId: string): boolean {
    const share = this.#threads.takePlace(decodedFor(consumerId));
    share.release();
    return share.places > MANY;
  }

  /** @param coding one that `isDecodable` @param first the first byte of the body */
  start(coding: string, first: number, consumerId: string, reader: DecodedReader): Decoding {
    const share = this.#threads.takePlace(decodedFor(consumerId));
    const leave = () => this.#open.delete(decoding);
    const decoding = new Decoding(CREATE.get(coding)!(first), reader, this.#threads, share, leave);
    this.#open.add(decoding);
    return decoding;
  }

  /** Gives up all answers: their costs are not known. */
  giveUp(): void {
    for (const decoding of this.#open) decoding.giveUp();
  }
}

/** Apart from what is compressed for the consumer, whose share bounds how much that is. */
function decodedFor(consumerId: string): string {
  return `decoded ${consumerId}`;
}

/**
 * The body of one answer while it is decompressed. It is over when it has ended, when it fails, when its reader needs no more,
 * or with `stop`; then its memory is given back.
 *
 * Attack: a small answer that is huge when it is decompressed keeps the serving thread from others. So it is read in the turns of
 * its consumer, and what has arrived waits as a few pieces: the service is read no faster (`isBehind`).
 *
 * Attack: many such answers keep the threads of the pool from others. So it has one of the few threads that compress and decompress
 * while it works on a piece, and lets others have it after some bytes and while it waits for a turn.
 */
export class Decoding implements PoolWork {
  /** Null once it is over. */
  #stream: Transform | null;
  readonly #threads: PoolThreads;
  readonly #share: PoolShare;
  readonly #leave: () => void;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #ending: 'whole' | 'cut' | null = null;
  /** Whether it has a thread. */
  #state: 'idle' | 'waiting' | 'busy' = 'idle';
  /** A piece is not decompressed whole. */
  #hasPiece = false;
  #isOutOfTurn = false;
  /** Decompressed since it has its thread. */
  #bytes = 0;
  #fault: 'undecodable' | 'busy' | null = null;
  #onOver: (() => void) | null = null;
  #onCaughtUp: (() => void) | null = null;

  /** @param share of `threads`; released when it is over @param leave called once, when it is over */
  constructor(stream: Transform, reader: DecodedReader, threads: PoolThreads, share: PoolShare, leave: () => void) {
    this.#stream = stream;
    this.#threads = threads;
    this.#share = share;
    this.#leave = leave;
    stream.on('data', (bytes: Buffer) => {
      if (this.#stream === null) return;
      this.#bytes += bytes.length;
      if (!reader.read(bytes)) this.stop();
      else if (reader.waitForTurn(this.#onTurn)) {
        this.#isOutOfTurn = true;
        stream.pause();
        this.#giveThread();
      } else if (this.#bytes >= MAX_BYTES_OF_TURN && this.#hasPiece) {
        stream.pause();
        this.#giveThread();
        this.#advance();
      }
    });
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
    return this.#waitingBytes >= MAX_WAITING_BYTES;
  }

  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void {
    this.#onCaughtUp = next;
  }

  /** Takes a copy of the next piece as the service sends it. */
  add(bytes: Buffer): void {
    if (this.#stream === null) return;
    this.#waiting.push(Buffer.from(bytes));
    this.#waitingBytes += bytes.length;
    this.#advance();
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
      if (this.#stream === null) return resolve();
      this.#onOver = resolve;
      this.#ending = isWhole ? 'whole' : 'cut';
      this.#advance();
    });
  }

  /** Goes on with its piece, or begins with all that waits as the next one. */
  onThread(): void {
    const stream = this.#stream!;
    this.#state = 'busy';
    this.#bytes = 0;
    stream.resume();
    if (this.#hasPiece) return;
    this.#hasPiece = true;
    const piece = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#ending === null) stream.write(piece, this.#onPiece);
    else if (this.#ending === 'whole') stream.end(piece);
    else stream.write(piece, () => stream.push(null));
    this.#caughtUp();
  }

  stop(): void {
    const stream = this.#stream;
    if (stream === null) return;
    this.#stream = null;
    stream.destroy();
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#threads.forget(this.#share, this);
    this.#giveThread();
    this.#share.release();
    this.#leave();
    this.#onOver?.();
    this.#caughtUp();
  }

  /** It is not read to its end, because the gateway stops. */
  giveUp(): void {
    this.#fail('busy');
  }

  #advance(): void {
    if (this.#stream === null || this.#state !== 'idle' || this.#isOutOfTurn) return;
    if (!this.#hasPiece && this.#waiting.length === 0 && this.#ending === null) return;
    this.#state = 'waiting';
    this.#threads.want(this.#share, this);
  }

  readonly #onPiece = (error?: Error | null): void => {
    if (this.#stream === null || error) return;
    this.#hasPiece = false;
    this.#giveThread();
    this.#advance();
  };

  readonly #onTurn = (): void => {
    this.#isOutOfTurn = false;
    if (!this.#hasPiece) this.#stream?.resume();
    this.#advance();
  };

  #giveThread(): void {
    if (this.#state !== 'busy') return;
    this.#state = 'idle';
    this.#threads.done(this.#share);
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
