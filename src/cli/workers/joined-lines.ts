import type { Readable } from 'node:stream';
import { PieceWriter } from '../../telemetry/piece-writer.ts';

/** So much is held before those who write are made to wait; they have room for more, and count what they have none for. */
const ENOUGH_BYTES = 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
/** The end of the process waits so long for a reader that takes nothing. */
const CLOSE_WITHIN_MS = 500;
const NEW_LINE = 10;

/**
 * The log of several processes on its way into one file. A pipe takes at most 4 KiB in one piece that nobody else's can
 * come into the middle of, and a gateway writes larger ones, so only one process writes: each worker writes to a pipe of
 * its own, from which whole lines go on to here. A reader that is too slow makes the workers wait, each of which goes on
 * serving and drops and counts what it cannot hold.
 */
export class JoinedLines {
  readonly #writer: PieceWriter;
  readonly #sources = new Set<Readable>();
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** There will be no reader any more. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  /** @param fd an open file: 1 is standard output */
  constructor(fd: number) {
    this.#writer = new PieceWriter(fd, {
      onWritten: (bytes) => this.#wrote(bytes),
      onGone: () => this.#abandon(),
    });
  }

  /** Takes all that comes from `source`, until it ends. A line that its writer did not live to finish is left out. */
  follow(source: Readable): void {
    let rest: Buffer[] = [];
    this.#sources.add(source);
    source.on('data', (bytes: Buffer) => {
      const end = bytes.lastIndexOf(NEW_LINE) + 1;
      if (end > 0) {
        for (const part of [...rest, bytes.subarray(0, end)]) this.#hold(part);
        rest = [];
        this.#writeSome();
      }
      if (end < bytes.length) rest.push(bytes.subarray(end));
    });
    source.once('close', () => this.#sources.delete(source));
    source.on('error', () => {});
    if (this.#abandoned) source.destroy();
    else if (this.#heldBytes > ENOUGH_BYTES) source.pause();
  }

  /** Takes one line of this process. */
  write(line: string): void {
    this.#hold(Buffer.from(line));
    this.#writeSome();
  }

  /** Takes what the others wrote until they ended, and writes it out, for as long as there is a reader for it. */
  async close(): Promise<void> {
    const late = setTimeout(() => this.#abandon(), CLOSE_WITHIN_MS);
    await Promise.all([...this.#sources].map((source) => new Promise((resolve) => source.once('close', resolve))));
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      if (!this.#writer.isBusy) resolve();
    });
    clearTimeout(late);
  }

  #hold(bytes: Buffer): void {
    if (this.#abandoned) return;
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    if (this.#heldBytes > ENOUGH_BYTES) for (const source of this.#sources) source.pause();
  }

  #writeSome(): void {
    if (this.#writer.isBusy || this.#abandoned) return;
    let bytes = 0;
    let parts = 0;
    while (parts < this.#held.length && bytes < PIECE_BYTES) bytes += this.#held[parts++]!.length;
    if (parts === 0) {
      this.#idle?.();
      return;
    }
    this.#writer.write(Buffer.concat(this.#held.splice(0, parts), bytes));
  }

  #wrote(bytes: number): void {
    this.#heldBytes -= bytes;
    if (this.#heldBytes < ENOUGH_BYTES) for (const source of this.#sources) source.resume();
    this.#writeSome();
  }

  /** The workers' pipes break with ours, so that each of them counts what nobody will read. */
  #abandon(): void {
    this.#writer.abandon();
    this.#abandoned = true;
    this.#held = [];
    this.#heldBytes = 0;
    for (const source of this.#sources) source.destroy();
    this.#idle?.();
  }
}
