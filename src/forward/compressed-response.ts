import { constants, createBrotliCompress, createGzip, createZstdCompress } from 'node:zlib';
import type { ClientRequest, ResponseBody } from '../http1/client.ts';
import type { Coding } from '../http1/content-coding.ts';
import { partOf } from '../io/fair-shares.ts';
import { reset } from '../io/graceful-close.ts';
import type { PoolShare, PoolThreads, PoolWork } from '../io/pool-threads.ts';

/** How many responses are compressed at a time; each takes up to 2 MB. */
const MAX_RESPONSES = 64;
/** Uncompressed bytes that wait before the service is no longer read. */
const MAX_WAITING_BYTES = 64 * 1024;

/**
 * Bounds what compression may cost.
 *
 * Attack: many clients ask for compressed responses at once, until all processors and the thread pool do nothing else. So
 * responses beyond `MAX_RESPONSES` are sent as they are, and few threads compress.
 *
 * Attack: one consumer takes every place. So it has at most its share of the places.
 */
export class Compressors {
  readonly threads: PoolThreads;
  #responses = 0;

  constructor(threads: PoolThreads) {
    this.threads = threads;
  }

  /**
   * @param fairShare the part of all places that one consumer may have, above 0 and at most 1
   * @returns null if there is no room for one more response of this consumer; otherwise call `leave`
   */
  enter(consumerId: string, fairShare: number): PoolShare | null {
    if (this.#responses >= MAX_RESPONSES) return null;
    const share = this.threads.takePlace(consumerId);
    const others = Math.max(0, this.#responses - (share.places - 1));
    // Attack: four consumers have a quarter each, and responses to all others stay plain.
    const most = Math.min(partOf(MAX_RESPONSES, fairShare), partOf(MAX_RESPONSES - others, Math.max(fairShare, 0.5)));
    if (share.places > most) {
      share.release();
      return null;
    }
    this.#responses++;
    return share;
  }

  leave(share: PoolShare): void {
    share.release();
    this.#responses--;
  }
}

/** Passes on at once what is written, so that a slow response does not wait until there is more of it. */
function encoderOf(coding: Coding) {
  if (coding === 'gzip') return createGzip({ level: 5, flush: constants.Z_SYNC_FLUSH });
  if (coding === 'br') {
    return createBrotliCompress({
      flush: constants.BROTLI_OPERATION_FLUSH,
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 4,
        [constants.BROTLI_PARAM_LGWIN]: 18,
        [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      },
    });
  }
  return createZstdCompress({
    flush: constants.ZSTD_e_flush,
    params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_windowLog]: 18 },
  });
}

type Call = () => void;

/**
 * A client's response that may turn out to be compressed, once the service's head is known. Until then, and for a
 * response that is not compressed, it is the response itself.
 *
 * What arrives while a piece is being compressed becomes the next piece. The service is read no faster than this. If the
 * response breaks off, the forwarding code resets the connection as always: the compressed body is then cut, and has no end.
 */
export class CompressedResponse implements ResponseBody, PoolWork {
  readonly #response: ResponseBody;
  readonly #compressors: Compressors;
  readonly #consumerId: string;
  readonly #fairShare: number;
  #encoder: ReturnType<typeof encoderOf> | null = null;
  /** Null until it has a place. */
  #share: PoolShare | null = null;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #state: 'idle' | 'waiting' | 'busy' | 'over' = 'idle';
  #isEnding = false;
  /** The client must read before more is written. */
  #isBlocked = false;
  /** `write` returned false, so that its caller waits. */
  #owesDrain = false;
  #onDrain: Call | null = null;

  /** @param fairShare the part of all places that its consumer may have, above 0 and at most 1 */
  constructor(response: ResponseBody, compressors: Compressors, consumerId: string, fairShare: number) {
    this.#response = response;
    this.#compressors = compressors;
    this.#consumerId = consumerId;
    this.#fairShare = fairShare;
  }

  /** Takes a place among the responses that are compressed. @returns false if its consumer may have no place */
  takePlace(): boolean {
    this.#share = this.#compressors.enter(this.#consumerId, this.#fairShare);
    return this.#share !== null;
  }

  /**
   * Compresses what is written from now on. Call it before anything of the body is written, and once `takePlace` was true.
   */
  compress(coding: Coding): void {
    const encoder = encoderOf(coding);
    this.#encoder = encoder;
    encoder.on('data', (bytes: Buffer) => {
      if (!this.#response.destroyed && !this.#response.write(bytes)) this.#block();
    });
    encoder.on('end', () => {
      this.#leave();
      this.#response.end();
    });
    encoder.on('error', () => {
      this.#leave();
      if (this.#response.socket !== null) reset(this.#response.socket);
    });
    this.#response.once('close', this.#onClose);
  }

  write(chunk: Buffer): boolean {
    if (this.#encoder === null) return this.#response.write(chunk);
    if (this.#state === 'over' || chunk.length === 0) return true;
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#advance();
    this.#owesDrain = this.#isBlocked || this.#waitingBytes > MAX_WAITING_BYTES;
    return !this.#owesDrain;
  }

  end(chunk?: string | Buffer, encoding?: 'latin1'): void {
    if (this.#encoder === null) {
      if (typeof chunk === 'string' && encoding !== undefined) this.#response.end(chunk, encoding);
      else this.#response.end(chunk);
      return;
    }
    if (chunk !== undefined) this.write(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    this.#isEnding = true;
    this.#advance();
  }

  /** Compresses all that waits, as one piece. */
  onThread(): void {
    this.#state = 'busy';
    const piece = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#isEnding) this.#encoder!.end(piece);
    else this.#encoder!.write(piece, this.#onPiece);
  }

  flushHeaders(): void {
    this.#response.flushHeaders();
  }

  once(event: 'close' | 'drain', listener: Call): void {
    if (event === 'drain' && this.#encoder !== null) this.#onDrain = listener;
    else this.#response.once(event, listener);
  }

  removeListener(event: 'close' | 'drain', listener: Call): void {
    if (event === 'drain' && this.#onDrain === listener) this.#onDrain = null;
    else this.#response.removeListener(event, listener);
  }

  get req(): ClientRequest {
    return this.#response.req;
  }

  get headersSent(): boolean {
    return this.#response.headersSent;
  }

  get destroyed(): boolean {
    return this.#response.destroyed;
  }

  get socket(): ResponseBody['socket'] {
    return this.#response.socket;
  }

  /** While it compresses, what was written may still be read by a thread. */
  get isTaken(): boolean {
    return this.#encoder === null && this.#response.isTaken === true;
  }

  destroy(): void {
    this.#response.destroy();
  }

  #advance(): void {
    if (this.#state !== 'idle' || (this.#waiting.length === 0 && !this.#isEnding)) return;
    this.#state = 'waiting';
    this.#compressors.threads.want(this.#share!, this);
  }

  readonly #onPiece = (error?: Error | null): void => {
    if (this.#state === 'over' || error) return;
    this.#state = 'idle';
    this.#compressors.threads.done(this.#share!);
    this.#advance();
    this.#drain();
  };

  #block(): void {
    if (this.#isBlocked) return;
    this.#isBlocked = true;
    this.#response.once('drain', this.#unblock);
  }

  readonly #unblock = (): void => {
    this.#isBlocked = false;
    this.#drain();
  };

  #drain(): void {
    if (!this.#owesDrain || this.#isBlocked || this.#waitingBytes > MAX_WAITING_BYTES) return;
    this.#owesDrain = false;
    const onDrain = this.#onDrain;
    this.#onDrain = null;
    onDrain?.();
  }

  readonly #onClose = (): void => {
    if (this.#state === 'over') return;
    this.#leave();
    this.#encoder?.destroy();
  };

  /** Gives back what it holds, once. */
  #leave(): void {
    if (this.#state === 'over') return;
    const before = this.#state;
    this.#state = 'over';
    this.#waiting = [];
    this.#response.removeListener('close', this.#onClose);
    if (this.#isBlocked) this.#response.removeListener('drain', this.#unblock);
    this.#compressors.threads.forget(this.#share!, this);
    this.#compressors.leave(this.#share!);
    if (before === 'busy') this.#compressors.threads.done(this.#share!);
  }
}
