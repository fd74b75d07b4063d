import { constants, openSync, write } from 'node:fs';
import { isatty } from 'node:tty';

interface LogOutputOptions {
  /** An open file: 1 is standard output. */
  readonly fd: number;
  /** How many bytes of lines are held while the file accepts no writes. Further lines are dropped. */
  readonly maxBytes: number;
  /** How long the first line of a write waits for others, in milliseconds; default 500. */
  readonly writeAfterMs?: number;
  /** Called for each line that will never be written. */
  readonly onDrop: () => void;
}

/**
 * Lines are written as soon as this many bytes are held, or this long after the first one: each write costs a round trip to
 * a thread of libuv. With the line that reaches it, it is less than a pipe holds (64 KiB), because the rest would cost a
 * second round trip.
 */
const WRITE_AT_BYTES = 60 * 1024;
const WRITE_AFTER_MS = 500;
/** The size of a piece. Only a single line that is longer gets a larger one. */
const PIECE_BYTES = 128 * 1024;
/** Maximum bytes of UTF-8 for one UTF-16 code unit. A character of 4 bytes has two units. */
const MAX_BYTES_PER_UNIT = 3;
/** How long the end of the process waits for a reader that does not read. */
const CLOSE_WITHIN_MS = 500;

/**
 * Lines that are written together. They are kept as bytes: the garbage collector would move waiting strings at each
 * collection, and they would have to be joined in the end.
 */
class Piece {
  readonly #memory: Buffer;
  length = 0;
  lines = 0;

  constructor(room: number) {
    this.#memory = Buffer.allocUnsafeSlow(room);
  }

  get room(): number {
    return this.#memory.length;
  }

  get bytes(): Buffer {
    return this.#memory.subarray(0, this.length);
  }

  hasRoomFor(line: string): boolean {
    const room = this.#memory.length - this.length;
    // Counting bytes takes time, so it is done only if the line might not fit.
    return line.length * MAX_BYTES_PER_UNIT <= room || (line.length <= room && Buffer.byteLength(line) <= room);
  }

  /** @returns how many bytes the line has */
  add(line: string): number {
    const bytes = this.#memory.write(line, this.length);
    this.length += bytes;
    this.lines++;
    return bytes;
  }

  empty(): void {
    this.length = 0;
    this.lines = 0;
  }
}

/**
 * Writes lines to a file, usually standard output. That may be a pipe whose reader stalls or has gone, or a file on a full
 * disk. Whatever happens to it, no request waits, the process does not end, the held bytes are bounded, and every lost line
 * is counted. (pino's own stream blocks the main thread while a pipe or a disk is full, and at the end of the process it
 * blocks for ever.)
 */
export class LogOutput {
  readonly #options: LogOutputOptions;
  readonly #writeAfterMs: number;
  readonly #writer: PieceWriter;
  /** Pieces that wait to be written, in order. */
  #held: Piece[] = [];
  /** The piece that is being written. */
  #piece: Piece | null = null;
  /** A written piece whose memory is used again. */
  #spare: Piece | null = null;
  /** The bytes of all lines that are not written yet. */
  #heldBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  /** True once the reader has gone. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  constructor(options: LogOutputOptions) {
    this.#options = options;
    this.#writeAfterMs = options.writeAfterMs ?? WRITE_AFTER_MS;
    this.#writer = new PieceWriter(options.fd, {
      onWritten: () => this.#wrote(),
      onGone: () => this.#abandon(),
    });
  }

  /** Writes one line, or drops and counts it. Never throws and never waits. */
  write(line: string): void {
    if (this.#abandoned || this.#heldBytes + line.length > this.#options.maxBytes) {
      this.#options.onDrop();
      return;
    }
    this.#heldBytes += this.#pieceFor(line).add(line);
    if (this.#writer.isBusy) return;
    if (this.#heldBytes >= WRITE_AT_BYTES) this.#writeSome();
    else this.#timer ??= setTimeout(() => this.#writeSome(), this.#writeAfterMs).unref();
  }

  /** Writes the held lines. Lines that the reader has not taken after a while are dropped and counted. */
  async close(): Promise<void> {
    if (!this.#writer.isBusy && this.#held.length > 0) this.#writeSome();
    if (!this.#writer.isBusy) return;
    let late: NodeJS.Timeout | undefined;
    await Promise.race([
      new Promise<void>((resolve) => {
        this.#idle = resolve;
      }),
      new Promise<void>((resolve) => {
        late = setTimeout(resolve, CLOSE_WITHIN_MS);
      }),
    ]);
    clearTimeout(late);
    this.#abandon();
  }

  #pieceFor(line: string): Piece {
    const last = this.#held.at(-1);
    if (last?.hasRoomFor(line)) return last;
    const spare = this.#spare;
    this.#spare = null;
    const piece = spare?.hasRoomFor(line) ? spare : new Piece(Math.max(PIECE_BYTES, Buffer.byteLength(line)));
    this.#held.push(piece);
    return piece;
  }

  #writeSome(): void {
    this.#stopTimer();
    this.#piece = this.#held.shift() ?? null;
    if (this.#piece === null) this.#idle?.();
    else this.#writer.write(this.#piece.bytes);
  }

  #wrote(): void {
    const piece = this.#piece!;
    this.#heldBytes -= piece.length;
    piece.empty();
    if (piece.room === PIECE_BYTES) this.#spare = piece;
    this.#piece = null;
    if (this.#heldBytes >= WRITE_AT_BYTES || this.#idle !== null) this.#writeSome();
    else if (this.#heldBytes > 0) this.#timer = setTimeout(() => this.#writeSome(), this.#writeAfterMs).unref();
  }

  #abandon(): void {
    this.#stopTimer();
    this.#writer.abandon();
    this.#abandoned = true;
    let lost = this.#piece?.lines ?? 0;
    for (const { lines } of this.#held) lost += lines;
    this.#held = [];
    this.#piece = null;
    this.#spare = null;
    this.#heldBytes = 0;
    for (let i = 0; i < lost; i++) this.#options.onDrop();
    this.#idle?.();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

interface PieceEvents {
  /** Called when a piece is completely written. */
  readonly onWritten: (bytes: number) => void;
  /** Called when the reader has gone: the rest of the piece is lost, and nothing more can be written. */
  readonly onGone: () => void;
}

/** The pause before a failed write is repeated: the first one, and the longest. */
const FIRST_RETRY_MS = 5;
const MAX_RETRY_MS = 250;

/**
 * Writes one piece at a time to an open file, in as many calls as that takes. It repeats a write that fails because a pipe
 * is full, which takes moments, or a disk is, which may take hours. The pauses do not keep the process from ending.
 */
export class PieceWriter {
  readonly #fd: number;
  readonly #events: PieceEvents;
  #bytes: Buffer | null = null;
  #at = 0;
  #retryMs = FIRST_RETRY_MS;
  #timer: NodeJS.Timeout | null = null;

  /** @param fd an open file: 1 is standard output */
  constructor(fd: number, events: PieceEvents) {
    this.#fd = isatty(fd) ? terminalThatNeverWaits(fd) : fd;
    this.#events = events;
  }

  /** True while a piece is being written; the next one must wait. */
  get isBusy(): boolean {
    return this.#bytes !== null;
  }

  write(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#at = 0;
    this.#writeRest();
  }

  /** Stops writing the piece, without calling an event. */
  abandon(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#bytes = null;
  }

  #writeRest(): void {
    const bytes = this.#bytes!;
    write(this.#fd, bytes, this.#at, bytes.length - this.#at, null, (error, written) => this.#wrote(error, written));
  }

  #wrote(error: NodeJS.ErrnoException | null, written: number): void {
    if (this.#bytes === null) return;
    if (error !== null) {
      if (error.code === 'EPIPE' || error.code === 'EBADF') this.#events.onGone();
      else this.#retryLater();
      return;
    }
    this.#retryMs = FIRST_RETRY_MS;
    this.#at += written;
    const { length } = this.#bytes;
    if (this.#at < length) {
      this.#writeRest();
      return;
    }
    this.#bytes = null;
    this.#events.onWritten(length);
  }

  #retryLater(): void {
    this.#timer = setTimeout(() => this.#writeRest(), this.#retryMs).unref();
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }
}

/**
 * Opens a terminal once more, so that a write fails at once while the terminal takes nothing.
 *
 * Fault: after Ctrl-S a write to the terminal waits until Ctrl-Q, in a thread of libuv. The process waits for that thread when it
 * ends, so neither Ctrl-C nor SIGTERM ended it.
 * @returns `fd` itself where the terminal cannot be opened so: on another system than Linux, or because it is another user's
 */
function terminalThatNeverWaits(fd: number): number {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return fd;
  }
}
