import { Duplex } from 'node:stream';

/** A connection whose other side takes nothing while it is told to wait. */
export class Wire extends Duplex {
  takes = true;
  text = '';
  #waiting: (() => void) | null = null;

  constructor() {
    super({ allowHalfOpen: true, decodeStrings: true });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString('latin1');
    if (this.takes) done();
    else this.#waiting = done;
  }

  go(): void {
    this.takes = true;
    this.#waiting?.();
  }
}
