import { PieceWriter } from './piece-writer.ts';

export interface LogOutputOptions {
  /** An open file: 1 is standard output. */
  readonly fd: number;
  /** Characters of lines held while the file does not take them; beyond it lines are dropped. */
  readonly maxLength: number;
  /** Called for each line that will never be written. */
  readonly onDrop: () => void;
}

/** Written as soon as so much is held, or so long after the first line: each write is a trip to another thread and back. */
const ENOUGH = 64 * 1024;
const HELD_MS = 500;
const PIECE = 128 * 1024;
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
  readonly #writer: PieceWriter;
  #held: string[] = [];
  #heldLength = 0;
  /** The lines in what is being written, and their characters: to count bytes costs as much as to make a line. */
  #linesOfPiece = 0;
  #lengthOfPiece = 0;
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
    if (this.#abandoned || this.#heldLength + line.length > this.#options.maxLength) {
      this.#options.onDrop();
      return;
    }
    this.#held.push(line);
    this.#heldLength += line.length;
    if (this.#writer.isBusy) return;
    if (this.#heldLength >= ENOUGH) this.#writeSome();
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

  #writeSome(): void {
    this.#stopTimer();
    let length = 0;
    let lines = 0;
    while (lines < this.#held.length && length < PIECE) length += this.#held[lines++]!.length;
    if (lines === 0) {
      this.#idle?.();
      return;
    }
    this.#linesOfPiece = lines;
    this.#lengthOfPiece = length;
    this.#writer.write(Buffer.from(this.#held.splice(0, lines).join('')));
  }

  #wrote(): void {
    this.#heldLength -= this.#lengthOfPiece;
    this.#linesOfPiece = 0;
    this.#lengthOfPiece = 0;
    if (this.#heldLength >= ENOUGH || this.#idle !== null) this.#writeSome();
    else if (this.#heldLength > 0) this.#timer = setTimeout(() => this.#writeSome(), HELD_MS).unref();
  }

  #abandon(): void {
    this.#stopTimer();
    this.#writer.abandon();
    this.#abandoned = true;
    const lost = this.#held.length + this.#linesOfPiece;
    this.#held = [];
    this.#heldLength = 0;
    this.#linesOfPiece = 0;
    this.#lengthOfPiece = 0;
    for (let i = 0; i < lost; i++) this.#options.onDrop();
    this.#idle?.();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
