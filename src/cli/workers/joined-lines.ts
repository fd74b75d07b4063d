import type { Readable } from 'node:stream';
import { LendingSocket } from '../../listen/lending-socket.ts';
import { PieceWriter } from '../../telemetry/piece-writer.ts';

/** So much is held before those who write are made to wait; they have room for more, and count what they have none for. */
const ENOUGH_BYTES = 1024 * 1024;
/** What there is room for at first. */
const ROOM_BYTES = 128 * 1024;
/** The end of the process waits so long for a reader that takes nothing. */
const CLOSE_WITHIN_MS = 500;
const NEW_LINE = 10;
const NOTHING = Buffer.alloc(0);

/**
 * The log of several processes on its way into one file. A pipe takes at most 4 KiB in one piece that nobody else's can
 * come into the middle of, and a gateway writes larger ones, so only one process writes: each worker writes to a pipe of
 * its own, from which whole lines go on to here. A reader that is too slow makes the workers wait, each of which goes on
 * serving and drops and counts what it cannot hold.
 */
export class JoinedLines {
  readonly #writer: PieceWriter;
  readonly #sources = new Set<Readable>();
  #held = new Gathered();
  /** What is being written, or was. */
  #piece = new Gathered();
  /** There will be no reader any more. */
  #abandoned = false;
  #idle: (() => void) | null = null;

  /** @param fd an open file: 1 is standard output */
  constructor(fd: number) {
    this.#writer = new PieceWriter(fd, {
      onWritten: () => this.#wrote(),
      onGone: () => this.#abandon(),
    });
  }

  /** Takes all that comes from `source`, until it ends. A line that its writer did not live to finish is left out. */
  follow(source: Readable): void {
    const rest = new Gathered();
    const take = (bytes: Buffer) => {
      const end = bytes.lastIndexOf(NEW_LINE) + 1;
      if (end > 0) {
        this.#hold(rest.take());
        this.#hold(bytes.subarray(0, end));
        this.#writeSome();
      }
      rest.add(bytes.subarray(end));
    };
    this.#sources.add(source);
    if (source instanceof LendingSocket) source.taker = take;
    source.on('data', take);
    // It cannot be written to: its end is all of it.
    source.once('end', () => source.destroy());
    source.once('close', () => this.#sources.delete(source));
    source.on('error', () => {});
    if (this.#abandoned) source.destroy();
    else if (this.#isEnough) source.pause();
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

  get #isEnough(): boolean {
    return this.#held.length + this.#piece.length > ENOUGH_BYTES;
  }

  /** @param bytes lent */
  #hold(bytes: Buffer): void {
    if (this.#abandoned) return;
    this.#held.add(bytes);
    if (this.#isEnough) for (const source of this.#sources) source.pause();
  }

  #writeSome(): void {
    if (this.#writer.isBusy || this.#abandoned) return;
    if (this.#held.length === 0) {
      this.#idle?.();
      return;
    }
    [this.#held, this.#piece] = [this.#piece, this.#held];
    this.#writer.write(this.#piece.bytes);
  }

  #wrote(): void {
    this.#piece.take();
    if (!this.#isEnough) for (const source of this.#sources) source.resume();
    this.#writeSome();
  }

  /** The workers' pipes break with ours, so that each of them counts what nobody will read. */
  #abandon(): void {
    this.#writer.abandon();
    this.#abandoned = true;
    this.#held.take();
    for (const source of this.#sources) source.destroy();
    this.#idle?.();
  }
}

/** Bytes that are gathered in memory that is used again: buffers that are made anew each time keep the collector busy. */
class Gathered {
  #room: Buffer = NOTHING;
  length = 0;

  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** @param bytes lent */
  add(bytes: Buffer): void {
    const length = this.length + bytes.length;
    if (length > this.#room.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(ROOM_BYTES, 2 * length));
      this.#room.copy(larger, 0, 0, this.length);
      this.#room = larger;
    }
    bytes.copy(this.#room, this.length);
    this.length = length;
  }

  /** @returns all of them, until something is added */
  take(): Buffer {
    const { bytes } = this;
    this.length = 0;
    return bytes;
  }
}
