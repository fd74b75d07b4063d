import { type NetConnectOpts, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { afterReading } from './after-reading.ts';
import { BUFFER_BYTES, type Buffers, MIN_GIVEN_BYTES, ownCopy, PIECES } from './buffers.ts';
import { type AcceptedHandle, interceptEnds, moveConnection, type OnRead, readInto, readOn } from './node-internals.ts';
import { Turns } from './turns.ts';

/*
 * Buffers for reading from connections, shared or used again. By default Node allocates one of 64 KiB for each read.
 */

/** The reader of a connection's bytes. */
export interface BufferReader {
  /**
   * @param isLent whether bytes that are kept beyond this call must be copied
   * @returns whether all bytes that the reader kept are no longer needed
   */
  onBytes(chunk: Buffer, isLent: boolean): boolean;
  /** Whether a body has begun and has not ended. */
  readonly isAmidBody: boolean;
  /** Who shares a turn with it. */
  readonly owner: unknown;
}

/** What may be read in one turn of the event loop without waiting. */
class BytesOfTurn {
  readonly #most: number;
  #left: number;
  #isTurnOpen = false;
  /** When a turn in which something has taken long has had enough, on the clock of `performance`. */
  #untilMs = Number.POSITIVE_INFINITY;

  constructor(most: number) {
    this.#most = most;
    this.#left = most;
  }

  /** @returns whether this turn allows them. They are counted in any case */
  spend(bytes: number): boolean {
    this.#left -= bytes;
    // Not in each turn, because that would cost each of them a call.
    if (this.#left < this.#most / 2) this.#open();
    return this.#left > 0 && (this.#untilMs === Number.POSITIVE_INFINITY || performance.now() < this.#untilMs);
  }

  /** Allows nothing more in this turn once `SLOW_TURN_MS` have passed since then. */
  slow(sinceMs: number): void {
    this.#untilMs = Math.min(this.#untilMs, sinceMs + SLOW_TURN_MS);
    this.#open();
  }

  #open(): void {
    if (this.#isTurnOpen) return;
    this.#isTurnOpen = true;
    setImmediate(this.#beginTurn);
  }

  /** Not more than 0 if the turn allows no more. */
  get left(): number {
    return this.#left;
  }

  readonly #beginTurn = (): void => {
    this.#left = this.#most;
    this.#untilMs = Number.POSITIVE_INFINITY;
    this.#isTurnOpen = false;
  };
}

/** For how long pieces that wait for their turn are processed in one turn of the event loop. */
const TURN_MS = 0.25;
const READS = new Turns(() => performance.now(), TURN_MS);

/** Beyond this, what services send waits for its turn. */
const INTAKE_IN_TURN_BYTES = 2 * 1024 * 1024;
const INTAKE = new BytesOfTurn(INTAKE_IN_TURN_BYTES);
/** Of what waits, a quarter of that is processed in one turn of the event loop. */
const INTAKES = new Turns(() => -INTAKE.left, INTAKE_IN_TURN_BYTES / 4);
/** The connections to services whose bytes wait. */
const WAITING_INTAKES = new Set<Intake>();
/** As many bytes count for each millisecond that the bytes read took, if they took longer than others: chunks of one byte do. */
const BYTES_PER_MS = INTAKE_IN_TURN_BYTES / 10;
/** A response is read in pieces of 4 KiB until one of them took less time than this for its bytes. Most fit into one. */
const FEW_BYTES = 4 * 1024;
const CHEAP_BYTES_PER_MS = 40 * 1024;

/** Shared by all connections: the bytes are processed before anything else is read. */
const SHARED = Buffer.allocUnsafeSlow(BUFFER_BYTES);
const FEW = SHARED.subarray(0, FEW_BYTES);

/**
 * Gives a connection the buffers for its reads. By default Node allocates a buffer of 64 KiB for each read, which costs
 * more than reading a small response. So all connections read into one shared buffer. Only in the middle of a body does
 * a connection get a buffer of its own, whose bytes need no copy. It is reused once the client's connection has
 * accepted them.
 *
 * Attack: libuv reads each ready connection up to 32 times before any timer runs. A client that reads large responses on 64
 * connections, and pauses, made turns of a hundred milliseconds. Attack: 64 KiB in chunks of one byte take 7 ms, and 200 connections
 * have as much ready at the same moment. So beyond the budget of a turn what was read waits, and is processed in turn.
 */
export class Intake {
  readonly #buffers: Buffers;
  #reader: BufferReader | null = null;
  #socket: Socket | null = null;
  #own: Buffer | null = null;
  #isCheap = false;
  /** What waits for its turn. The connection is not read meanwhile. */
  #waiting: Buffer | null = null;

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
  }

  /** For `onread` of node:net. */
  readonly onread: OnRead = {
    buffer: (): Buffer => {
      // Node asks for it after a read, for the next one.
      if (this.#waiting !== null) return FEW;
      if (this.#reader?.isAmidBody === true) {
        if (!this.#isCheap || INTAKE.left <= 0) return FEW;
        this.#own ??= this.#buffers.take();
        return this.#own;
      }
      if (this.#own !== null) this.#buffers.give(this.#own);
      this.#own = null;
      return FEW;
    },
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      const chunk = (buffer as Buffer).subarray(0, bytes);
      if (this.#mayProcess) {
        this.#process(chunk);
        if (INTAKE.left > 0) return true;
        READS.later(this, this.#readOn);
        return false;
      }
      const piece = buffer === this.#own ? chunk : ownCopy(chunk);
      if (this.#waiting === null) {
        WAITING_INTAKES.add(this);
        INTAKES.later(this.#reader?.owner, this.deliver);
      }
      // Its user may have resumed it.
      this.#waiting = this.#waiting === null ? piece : Buffer.concat([this.#waiting, piece]);
      return false;
    },
  };

  /**
   * @param socket the connection, for which `onread` was given unless it is encrypted
   * @returns false if it must be read as a stream
   */
  into(reader: BufferReader, socket: Socket): boolean {
    this.#reader = reader;
    this.#socket = socket;
    return !(socket instanceof TLSSocket) || readInto(socket, this.onread);
  }

  /** Whether bytes that the service has sent wait for their turn. */
  get hasWaiting(): boolean {
    return this.#waiting !== null;
  }

  /** What costs little is not worth the wait, if there are no masses of it. */
  get #mayProcess(): boolean {
    if (this.#waiting !== null) return false;
    return this.#isCheap ? INTAKE.left > -INTAKE_IN_TURN_BYTES : INTAKE.left > 0 && WAITING_INTAKES.size === 0;
  }

  #process(chunk: Buffer): void {
    // What has waited may be larger than a buffer, and is in memory that nothing else uses.
    const isLent = chunk.buffer === SHARED.buffer || chunk.length < MIN_GIVEN_BYTES;
    const beganAtMs = performance.now();
    const isFree = this.#reader?.onBytes(chunk, isLent) === true;
    if (!isLent && !isFree) this.#own = null;
    const tookMs = performance.now() - beganAtMs;
    this.#isCheap = tookMs * CHEAP_BYTES_PER_MS < chunk.length;
    INTAKE.spend(Math.max(chunk.length, tookMs * BYTES_PER_MS));
  }

  /**
   * Processes what waits: when it is its turn, or at once because the connection ends.
   *
   * Fault: TLS reports the end right behind the last bytes, also to a reader that has stopped, so that the response ended before what
   * waited of it.
   */
  readonly deliver = (): void => {
    const chunk = this.#waiting;
    this.#waiting = null;
    WAITING_INTAKES.delete(this);
    if (chunk === null || this.#socket?.destroyed === true) return;
    this.#process(chunk);
    this.#readOn();
  };

  readonly #readOn = (): void => {
    if (this.#socket?.isPaused() === false) this.#socket.resume();
  };
}

/** Shared by all connections: the bytes are processed, or copied, before anything else is read. */
const SHARED_BY_CLIENTS = Buffer.allocUnsafeSlow(BUFFER_BYTES);
/**
 * A connection is read into this part of it, until that does not hold all that has arrived.
 *
 * Attack: 900 connections send 64 KiB each at the same moment. Reading and keeping these took a turn of 80 ms.
 */
const FIRST_PART = SHARED_BY_CLIENTS.subarray(0, 8 * 1024);

/** A piece that is all that has arrived is processed at once, as long as those of a turn are no more than this, with so much for each. */
const SMALL_IN_TURN_BYTES = 192 * 1024;
const EACH_BYTES = 4 * 1024;
const SMALL_READS = new BytesOfTurn(SMALL_IN_TURN_BYTES);
/**
 * A small piece that is encrypted and takes longer than this is slow. After one, small pieces are processed at once for `SLOW_TURN_MS` of
 * a turn.
 *
 * Attack: a few bytes on each of 20 sessions of HTTP/2 with 99 streams each. A bad frame, or a wider window for responses that wait,
 * is 4 ms of work for each session, and all of them took one turn of 80 ms.
 */
const SLOW_MS = 0.25;
const SLOW_TURN_MS = 2;

/** How many plain connections are ended in one turn of the event loop. One that is encrypted counts as much as all of them. */
const ENDS_IN_TURN = 8;

class Ends {
  #ended = 0;
  /** Counts ends in place of milliseconds, because most of what an end costs follows later, in events of Node. */
  readonly #turns = new Turns(() => this.#ended, ENDS_IN_TURN);

  later(owner: unknown, weight: number, end: () => void): void {
    this.#turns.later(owner, () => {
      this.#ended += Math.min(weight, ENDS_IN_TURN);
      end();
    });
  }
}

const ENDS = new Ends();

/** Receives bytes as they arrive. They are valid during the call only, so it must copy those that it keeps. */
type TakeBytes = (bytes: Buffer) => void;

/**
 * A connection that can be read without a stream and without a new buffer of 64 KiB for each read, which together are a
 * tenth of the cost of a refusal. Node offers that (`onread`) only for outgoing connections, so an accepted connection
 * is moved to a new socket.
 *
 * All that clients send passes through here, whatever reads it, and what services send over TLS and through tunnels, so here is the
 * budget of a turn of the event loop.
 *
 * Attack: libuv reads each ready connection up to 32 times before any timer runs. 100 WebSockets or uploads of one key made turns of
 * hundreds of milliseconds, in which all others waited. So large pieces, and all that exceed what a turn allows, are processed for
 * a quarter of a millisecond in each turn, of each owner in turn. Until it is its turn a connection is not read.
 */
export class SharedBufferSocket extends Socket {
  /** Receives the bytes; null if the connection is read as a stream. */
  taker: TakeBytes | null = null;
  /** Who shares a turn with it: the network of its client, once that is known. */
  owner: unknown = this;
  /** The most bytes that are processed at once. */
  pieceBytes = BUFFER_BYTES;
  /** How many times as much as those of others its bytes count. */
  weight = 1;
  /** A piece that waits for its turn. The connection is not read meanwhile, even if a reader resumes it. */
  #waiting: Buffer | null = null;
  /** The buffer in which it waits, of those that are used again; null if it has memory of its own. */
  #copy: Buffer | null = null;
  /** Whether the piece is in the buffer of all connections. */
  #isLent = false;
  /** Into which part of that buffer it is read. */
  #part = FIRST_PART;
  /** Whether the reader of the last piece wanted more. */
  #readsOn = true;
  /** Whether the other side has ended or broken the connection, which may wait for its turn. */
  #isEnding = false;

  private constructor(options: object) {
    const self: { socket: SharedBufferSocket | null } = { socket: null };
    super({
      ...options,
      allowHalfOpen: true,
      onread: {
        buffer: () => (self.socket === null ? FIRST_PART : self.socket.#part),
        callback: (bytes: number) => {
          const socket = self.socket!;
          socket.#part = bytes < FIRST_PART.length ? FIRST_PART : SHARED_BY_CLIENTS;
          return socket.#arrived(SHARED_BY_CLIENTS.subarray(0, bytes));
        },
      },
    });
    self.socket = this;
    if (!('handle' in options)) return;
    interceptEnds(this, (end) => {
      this.#isEnding = true;
      endInTurn(this.owner, this.weight, end);
    });
  }

  /** @returns a socket for a connection of which none was made */
  static of(handle: AcceptedHandle): Socket {
    return new SharedBufferSocket({ handle });
  }

  /** @returns a socket for the same connection. If it is not the given socket, that must no longer be used */
  static around(accepted: Socket): Socket {
    return moveConnection(accepted, (options) => new SharedBufferSocket(options)) ?? accepted;
  }

  /** Opens a connection. What ends it is not deferred, so that none is taken for idle that its service has closed. */
  static to(address: NetConnectOpts): SharedBufferSocket {
    return new SharedBufferSocket(address).connect(address);
  }

  /** Whether bytes that the other side has sent wait for their turn. Until they are processed, the connection is neither idle nor late. */
  get hasWaiting(): boolean {
    return this.#waiting !== null;
  }

  override resume(): this {
    return SharedBufferSocket.#mayRead(this) ? super.resume() : Duplex.prototype.resume.call(this) && this;
  }

  override read(size?: number): unknown {
    return SharedBufferSocket.#mayRead(this) ? super.read(size) : Duplex.prototype.read.call(this, size);
  }

  override _read(size: number): void {
    if (SharedBufferSocket.#mayRead(this)) readOn(this, size);
  }

  /** Also while the constructor of Socket runs, before the members of this class exist. */
  static #mayRead(socket: SharedBufferSocket): boolean {
    return !(#isEnding in socket) || (socket.#waiting === null && !socket.#isEnding);
  }

  /** @returns whether to continue reading */
  #arrived(bytes: Buffer): boolean {
    const weighed = bytes.length * this.weight;
    if (weighed < FIRST_PART.length && SMALL_READS.spend(weighed + EACH_BYTES)) {
      return this.weight === 1 ? this.#deliver(bytes, true) : this.#deliverTimed(bytes);
    }
    this.#waiting = bytes;
    this.#isLent = true;
    READS.begin(this.owner, this.#inTurn);
    this.#isLent = false;
    if (this.#waiting === null) return this.#readsOn;
    this.#copy = PIECES.copy(this.#waiting);
    this.#waiting = this.#copy;
    return false;
  }

  /** @returns whether there is more to process */
  readonly #inTurn = (): boolean => {
    // Fault: a write to this connection has failed in the same turn. Until Node has reported that, its stream drops what is pushed.
    if (this.errored !== null && !this.destroyed) {
      afterReading(() => READS.later(this.owner, this.#inTurn));
      return false;
    }
    const bytes = this.#waiting!;
    const piece = bytes.subarray(0, this.pieceBytes);
    this.#waiting = this.destroyed || piece.length === bytes.length ? null : bytes.subarray(piece.length);
    const isLent = this.#isLent;
    if (!this.destroyed) this.#readsOn = this.#deliver(piece, isLent);
    if (this.#waiting !== null) return true;
    if (this.#copy !== null) PIECES.giveBack(this.#copy);
    this.#copy = null;
    if (this.destroyed) return false;
    if (!isLent && this.#readsOn && !this.isPaused()) readOn(this, piece.length);
    return false;
  };

  #deliverTimed(bytes: Buffer): boolean {
    const beganAtMs = performance.now();
    const readsOn = this.#deliver(bytes, true);
    if (performance.now() - beganAtMs > SLOW_MS) SMALL_READS.slow(beganAtMs);
    return readsOn;
  }

  #deliver(bytes: Buffer, isLent: boolean): boolean {
    if (this.taker !== null) {
      this.taker(bytes);
      return true;
    }
    // The stream keeps the bytes.
    this.#copy = null;
    return this.push(isLent ? PIECES.copy(bytes) : bytes);
  }
}

/**
 * Continues with held bytes of a connection in a later turn of the event loop, within its budget.
 *
 * Attack: 900 connections of one address send requests without waiting for responses. One of each was served in each turn.
 */
export function readInTurn(socket: Socket, work: () => void): void {
  READS.later(socket instanceof SharedBufferSocket ? socket.owner : socket, work);
}

/**
 * Ends a connection that its client has ended or broken, in a later turn of the event loop if others are ended before it.
 *
 * Attack: a client resets 1,400 uploads, or 20 sessions of HTTP/2 with 99 streams each, at the same moment. Ending them took one turn
 * of 80 to 100 ms.
 * @param weight for how many ends it counts
 */
export function endInTurn(owner: unknown, weight: number, end: () => void): void {
  ENDS.later(owner, weight, end);
}
