import { write } from 'node:fs';

export interface PieceEvents {
  /** A piece is written whole. */
  readonly onWritten: (bytes: number) => void;
  /** There will be no reader any more: the rest of the piece is lost, and nothing else can be written. */
  readonly onGone: () => void;
}

/** How soon it is tried again when the file takes nothing: at first, and at last. */
const AGAIN_MS = 5;
const AGAIN_AT_LAST_MS = 250;

/**
 * Writes to an open file one piece at a time, however many calls that takes. A full pipe is soon read further; a full
 * disk may be so for hours: both are tried again, without holding up the end of the process.
 */
export class PieceWriter {
  readonly #fd: number;
  readonly #events: PieceEvents;
  #bytes: Buffer | null = null;
  #at = 0;
  #againMs = AGAIN_MS;
  #timer: NodeJS.Timeout | null = null;

  /** @param fd an open file: 1 is standard output */
  constructor(fd: number, events: PieceEvents) {
    this.#fd = fd;
    this.#events = events;
  }

  /** Whether a piece is being written: the next one has to wait. */
  get isBusy(): boolean {
    return this.#bytes !== null;
  }

  write(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#at = 0;
    this.#writeRest();
  }

  /** Leaves the piece as it is, and tells nobody. */
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
      else this.#again();
      return;
    }
    this.#againMs = AGAIN_MS;
    this.#at += written;
    const { length } = this.#bytes;
    if (this.#at < length) {
      this.#writeRest();
      return;
    }
    this.#bytes = null;
    this.#events.onWritten(length);
  }

  #again(): void {
    this.#timer = setTimeout(() => this.#writeRest(), this.#againMs).unref();
    this.#againMs = Math.min(this.#againMs * 2, AGAIN_AT_LAST_MS);
  }
}
