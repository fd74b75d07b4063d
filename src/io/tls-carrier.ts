import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { freeNow, MIN_GIVEN_BYTES, ownCopy } from './buffers.ts';
import { threadCpuMs } from './clocks.ts';
import { carriedBy } from './node-internals.ts';
import { SharedBufferSocket } from './read-buffers.ts';
import { TokenBucket } from './token-bucket.ts';

/** Of the bytes of a TLS connection, this many may bring nothing, and as many more in each second. */
const BURST_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 32 * 1024;
/** A record of one byte takes 23. So what brings any content is no waste: small requests and messages have a record each. */
const BYTES_PER_CONTENT = 32;
/** Content comes a little later than its records, when its reader pauses. */
const LATE_BYTES = 64 * 1024;
/** After how many bytes they are counted. */
const LOOK_EVERY_BYTES = 16 * 1024;
/**
 * As many bytes of records are decrypted at once, because each of 24 bytes costs as much as one of kilobytes.
 *
 * Attack: KeyUpdates that ask for one in return. 8 KiB of them took up to 16 ms.
 */
const PIECE_BYTES = 2 * 1024;
/** As many while at least half of them were content. */
const CONTENT_PIECE_BYTES = 64 * 1024;
/**
 * A handshake may take this much of a client: a ClientHello has up to 2 KiB, three certificates with RSA keys of 4,096 bits have 6.
 *
 * Attack: OpenSSL compares each group of a ClientHello with each key share (65 KiB took 25 ms), and checks each signature and name of a
 * certificate chain (100 KB took 470 ms), before any JavaScript runs, and also if the chain ends in no authority. A certificate of 1.3 KB
 * whose RSA exponent is as long as its modulus of 3,072 bits costs 4.5 ms, and one of 420 bytes on the curve sect571r1 1.7 ms.
 */
const CLIENT_HANDSHAKE_BYTES = 8 * 1024;
/** Records that wait because what they bring is not read. */
const HELD_BYTES = 16 * 1024;
/** So many times as much as plain bytes count in a turn. */
const WEIGHT = 8;

/** Who pays for the processor time of a handshake. */
export interface HandshakePayer {
  /** Whether it has no time left, so that its handshakes end that are under way. */
  readonly isBroke: boolean;
  pay(ms: number): void;
}

export const NO_PAYER: HandshakePayer = { isBroke: false, pay: () => {} };

/**
 * Carries a TLS connection over a TCP connection, so that all that its other side sends passes the budget of a turn.
 *
 * Attack: Node reads and decrypts the records of a connection up to 32 times in one turn of the event loop, 64 KiB each, and runs no
 * JavaScript for records without content. Records of 24 bytes of an address without a key (empty lines, KeyUpdate) stopped the
 * thread that serves all for seconds. So the records are given to Node in pieces, in turn, and a client whose records bring nothing
 * is disconnected. Connections to services are carried too: large responses of 150 of them took turns of 100 ms, and records of one byte
 * 400 ms.
 */
export class TlsCarrier extends Duplex {
  readonly raw: Socket;
  readonly #onWaste: (raw: Socket) => void;
  readonly #payer: HandshakePayer;
  readonly #handshakeBytes: number;
  /** Null until the handshake is done. */
  #secured: TLSSocket | null = null;
  readonly #waste = new TokenBucket(BURST_BYTES, BYTES_PER_SECOND, performance.now());
  #bytes = 0;
  #lookAtBytes = LOOK_EVERY_BYTES;
  #bytesBefore = 0;
  #contentBefore = 0;
  #wasted = -LATE_BYTES;

  /**
   * @param raw a connection that is read by nothing else from now on
   * @param onWaste called when it is closed because its records bring nothing
   * @param payer who pays for the handshake
   * @param handshakeBytes the most that the other side may send before the handshake is done
   */
  constructor(
    raw: Socket,
    onWaste: (raw: Socket) => void,
    payer: HandshakePayer,
    handshakeBytes = CLIENT_HANDSHAKE_BYTES,
  ) {
    super({ allowHalfOpen: true, highWaterMark: HELD_BYTES });
    this.raw = raw;
    this.#onWaste = onWaste;
    this.#payer = payer;
    this.#handshakeBytes = handshakeBytes;
    // Read only once the TLS stream reads this one.
    raw.pause();
    if (raw instanceof SharedBufferSocket) {
      raw.taker = this.#onBytes;
      raw.pieceBytes = PIECE_BYTES;
      // One piece of a handshake may cost milliseconds, so each takes its turn.
      raw.weight = Number.POSITIVE_INFINITY;
    }
    // Delivers the bytes that were read before.
    raw.on('data', this.#onBytes);
    raw.once('end', () => this.push(null));
    raw.on('error', (error) => this.destroy(error));
    raw.once('close', () => this.destroy());
  }

  /** The handshake is done. @param socket the encrypted side */
  secure(socket: TLSSocket): void {
    this.#secured = socket;
    if (this.raw instanceof SharedBufferSocket) this.raw.weight = WEIGHT;
  }

  readonly #onBytes = (bytes: Buffer): void => {
    if (this.destroyed) return;
    this.#bytes += bytes.length;
    if (this.#secured === null) {
      this.#handshake(bytes);
      return;
    }
    if (this.#bytes >= this.#lookAtBytes && !this.#isUseful()) {
      this.#onWaste(this.raw);
      this.destroy(new Error('TLS records without content'));
      return;
    }
    this.#pass(bytes);
  };

  #handshake(bytes: Buffer): void {
    if (this.#bytes > this.#handshakeBytes) {
      this.destroy(new Error(`a TLS handshake of more than ${this.#handshakeBytes / 1024} KiB`));
    } else if (this.#payer.isBroke) {
      this.destroy(new Error('TLS handshakes that cost too much'));
    } else {
      const beganAtMs = threadCpuMs();
      this.#pass(bytes);
      this.#payer.pay(threadCpuMs() - beganAtMs);
    }
  }

  #pass(bytes: Buffer): void {
    // As `push` would, but without a copy: the TLS stack copies what it is given before this returns.
    if (this.readableFlowing === true && this.readableLength === 0) this.emit('data', bytes);
    else if (!this.push(ownCopy(bytes))) this.raw.pause();
  }

  #isUseful(): boolean {
    this.#lookAtBytes = this.#bytes + LOOK_EVERY_BYTES;
    const all = this.#secured?.bytesRead ?? 0;
    const content = all - this.#contentBefore;
    const bytes = this.#bytes - this.#bytesBefore;
    this.#wasted += bytes - content * BYTES_PER_CONTENT;
    this.#bytesBefore = this.#bytes;
    this.#contentBefore = all;
    if (this.raw instanceof SharedBufferSocket)
      this.raw.pieceBytes = content * 2 < bytes ? PIECE_BYTES : CONTENT_PIECE_BYTES;
    if (this.#wasted <= 0) {
      this.#wasted = Math.max(this.#wasted, -LATE_BYTES);
      return true;
    }
    const wasted = this.#wasted;
    this.#wasted = 0;
    return this.#waste.spend(wasted, performance.now());
  }

  override _read(): void {
    if (this.raw.isPaused()) this.raw.resume();
  }

  // The TLS stack writes to the connection itself, so that one stream instead of two keeps state for each write.
  override write(chunk: Buffer, done?: unknown): boolean {
    const onWritten = done as ((error?: Error | null) => void) | undefined;
    if (chunk.length < MIN_GIVEN_BYTES) return this.raw.write(chunk, onWritten);
    // The TLS stack has copied the records for this write alone.
    return this.raw.write(chunk, (error) => {
      if (!error) freeNow(chunk);
      onWritten?.(error);
    });
  }

  override cork(): void {
    this.raw.cork();
  }

  override uncork(): void {
    this.raw.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.raw.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.raw.destroy();
    done(error);
  }
}

/** The TCP connection of a connection that may be encrypted. Of one that is closed, it is the connection itself. */
export function rawOf(socket: Socket): Socket {
  const carrier = socket instanceof TLSSocket ? carriedBy(socket) : null;
  return carrier instanceof TlsCarrier ? carrier.raw : socket;
}

/** Whether bytes of a connection, plain or encrypted, wait for their turn. */
export function hasWaiting(socket: Socket): boolean {
  const raw = rawOf(socket);
  return raw instanceof SharedBufferSocket && raw.hasWaiting;
}
