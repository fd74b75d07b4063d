import { write } from 'node:fs';

export interface LogOutputOptions {
  /** An open file: 1 is standard output. */
  readonly fd: number;
  /** Lines held while the file does not take them; beyond it they are dropped. */
  readonly maxBytes: number;
  /** Called for each line that will never be written. */
  readonly onDrop: () => void;
}

/** Written as soon as so much is held, or so long after the first line: each write is a trip to another thread and back. */
const ENOUGH_BYTES = 64 * 1024;
const HELD_MS = 500;
const PIECE_BYTES = 128 * 1024;
/** How soon it is tried again when the file takes nothing: at first, and at last. */
const AGAIN_MS = 5;
const AGAIN_AT_LAST_MS = 250;
/** The end of the process waits so long for a reader that takes nothing. */
const CLOSE_WITHIN_MS = 500;

/**
 * Lines on their way to a file, usually standard output, which may be a pipe that nobody reads, one whose reader is
 * gone, or a file on a full disk. No request waits for it, nothing of it ends the process, what is held is bounded, and
 * every line that is lost is counted. (pino's own stream sleeps in the only thread there is, at the end of the process
 * for ever, while a pipe is full, and where a disk is.)
 */
export class LogOutput {
  readonly #options: LogOutputOptions;
  #held: string[] = [];
  #heldBytes = 0;
  /** What is being written: a buffer, how far it is written, and the lines in it. */
  #piece: { readonly bytes: Buffer; readonly lines: number; at: number } | null = null;
  #timer: NodeJS.Timeout | null = null;
  #againMs = AGAIN_MS;
  /** There will be no reader any more. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  constructor(options: LogOutputOptions) {
    this.#options = options;
  }

  /** Takes one line. Never throws and never waits. */
  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#abandoned || this.#heldBytes + bytes > this.#options.maxBytes) {
      this.#options.onDrop();
      return;
    }
    this.#held.push(line);
    this.#heldBytes += bytes;
    if (this.#piece !== null) return;
    if (this.#heldBytes >= ENOUGH_BYTES) this.#writeSome();
    else this.#timer ??= setTimeout(() => this.#writeSome(), HELD_MS).unref();
  }

  /** Writes out what is held, for as long as there is a reader for it; what is left then is dropped and counted. */
  async close(): Promise<void> {
    if (this.#piece === null && this.#held.length > 0) this.#writeSome();
    if (this.#piece === null) return;
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

  #writeSome(): void {
    this.#stopTimer();
    let bytes = 0;
    let lines = 0;
    while (lines < this.#held.length && bytes < PIECE_BYTES) bytes += Buffer.byteLength(this.#held[lines++]!);
    if (lines === 0) {
      this.#idle?.();
      return;
    }
    this.#piece = { bytes: Buffer.from(this.#held.splice(0, lines).join('')), lines, at: 0 };
    this.#writePiece();
  }

  #writePiece(): void {
    const { bytes, at } = this.#piece!;
    write(this.#options.fd, bytes, at, bytes.length - at, null, (error, written) => this.#wrote(error, written));
  }

  #wrote(error: NodeJS.ErrnoException | null, written: number): void {
    const piece = this.#piece;
    if (piece === null) return;
    if (error !== null) {
      if (error.code === 'EPIPE' || error.code === 'EBADF') this.#abandon();
      else this.#again();
      return;
    }
    this.#againMs = AGAIN_MS;
    piece.at += written;
    if (piece.at < piece.bytes.length) {
      this.#writePiece();
      return;
    }
    this.#heldBytes -= piece.bytes.length;
    this.#piece = null;
    if (this.#heldBytes >= ENOUGH_BYTES || this.#idle !== null) this.#writeSome();
    else if (this.#heldBytes > 0) this.#timer = setTimeout(() => this.#writeSome(), HELD_MS).unref();
  }

  /** A full pipe is soon read further; a full disk may be so for hours. */
  #again(): void {
    this.#timer = setTimeout(() => this.#writePiece(), this.#againMs).unref();
    this.#againMs = Math.min(this.#againMs * 2, AGAIN_AT_LAST_MS);
  }

  #abandon(): void {
    this.#stopTimer();
    this.#abandoned = true;
    const lost = this.#held.length + (this.#piece?.lines ?? 0);
    this.#held = [];
    this.#heldBytes = 0;
    this.#piece = null;
    for (let i = 0; i < lost; i++) this.#options.onDrop();
    this.#idle?.();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
