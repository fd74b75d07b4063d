import { PieceWriter } from './piece-writer.ts';

export interface LogOutputOptions {
  /** An open file: 1 is standard output. */
  readonly fd: number;
  /** Bytes of lines held while the file does not take them; beyond it lines are dropped. */
  readonly maxBytes: number;
  /** Called for each line that will never be written. */
  readonly onDrop: () => void;
}

/**
 * Written as soon as so much is held, or so long after the first line: each write is a trip to another thread and back.
 * With the line that reaches it, less than a pipe holds (64 KiB): what is over would be a trip of its own.
 */
const ENOUGH_BYTES = 60 * 1024;
const HELD_MS = 500;
/** What is written in one go, at most, but for a line that is longer alone. */
const PIECE_BYTES = 128 * 1024;
/** A character of a text in its longest form; those beyond are two of a text. */
const BYTES_OF_CHARACTER = 3;
/** The end of the process waits so long for a reader that takes nothing. */
const CLOSE_WITHIN_MS = 500;

/** Lines that are written together, as bytes: texts that wait would be moved by each collection, and joined in the end. */
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
    // To count bytes takes time: only where the line might not fit.
    return line.length * BYTES_OF_CHARACTER <= room || (line.length <= room && Buffer.byteLength(line) <= room);
  }

  /** @returns its bytes */
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
 * Lines on their way to a file, usually standard output, which may be a pipe that nobody reads, one whose reader is
 * gone, or a file on a full disk. No request waits for it, nothing of it ends the process, what is held is bounded, and
 * every line that is lost is counted. (pino's own stream sleeps in the only thread there is, at the end of the process
 * for ever, while a pipe is full, and where a disk is.)
 */
export class LogOutput {
  readonly #options: LogOutputOptions;
  readonly #writer: PieceWriter;
  /** What waits, in order. */
  #held: Piece[] = [];
  /** What is being written. */
  #piece: Piece | null = null;
  /** Memory that is used again. */
  #spare: Piece | null = null;
  /** Of all that is not written yet. */
  #heldBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  /** There will be no reader any more. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  constructor(options: LogOutputOptions) {
    this.#options = options;
    this.#writer = new PieceWriter(options.fd, {
      onWritten: () => this.#wrote(),
      onGone: () => this.#abandon(),
    });
  }

  /** Takes one line. Never throws and never waits. */
  write(line: string): void {
    if (this.#abandoned || this.#heldBytes + line.length > this.#options.maxBytes) {
      this.#options.onDrop();
      return;
    }
    this.#heldBytes += this.#pieceFor(line).add(line);
    if (this.#writer.isBusy) return;
    if (this.#heldBytes >= ENOUGH_BYTES) this.#writeSome();
    else this.#timer ??= setTimeout(() => this.#writeSome(), HELD_MS).unref();
  }

  /** Writes out what is held, for as long as there is a reader for it; what is left then is dropped and counted. */
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
    if (this.#heldBytes >= ENOUGH_BYTES || this.#idle !== null) this.#writeSome();
    else if (this.#heldBytes > 0) this.#timer = setTimeout(() => this.#writeSome(), HELD_MS).unref();
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
