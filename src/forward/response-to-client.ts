import type { ResponseBody } from '../http1/client.ts';
import { Pieces } from '../io/writes.ts';

/** A body up to this size is written together with its head, in one piece. */
const JOINED_BYTES = 16 * 1024;

/** Relays an upstream's response to the client. Head, body and end leave in as few writes as they arrived in. */
export class ResponseToClient {
  readonly #response: ResponseBody;
  readonly #held = new Pieces();
  #isHeadHeld = false;

  constructor(response: ResponseBody) {
    this.#response = response;
  }

  /** Notes that the head has been set, but not written yet. */
  begun(): void {
    this.#isHeadHeld = true;
  }

  add(chunk: Buffer): void {
    this.#held.add(chunk);
  }

  /**
   * Writes the bytes that are held. Node would hold back a head until the first byte of the body, which may take long
   * to arrive.
   * @returns false if the client must read before more is written (`drain`)
   */
  flush(): boolean {
    const chunk = this.#held.take();
    if (chunk === null && this.#isHeadHeld) this.#response.flushHeaders();
    this.#isHeadHeld = false;
    return chunk === null || this.#response.write(chunk);
  }

  /** Whether too much is held to be written together with the head. */
  get isLarge(): boolean {
    return this.#held.bytes > JOINED_BYTES;
  }

  /** Whether the operating system is known to have accepted all bytes that were added. */
  get isBufferReleased(): boolean {
    return this.#held.bytes === 0 && this.#response.isTaken === true;
  }

  /** Writes the rest. The listener closes the connection if its client does not read the rest in time. */
  end(): void {
    const response = this.#response;
    const last = this.#held.take();
    if (last === null) response.end();
    // Node joins a head and a text into a single write. With bytes it would make two writes.
    else if (this.#isHeadHeld && last.length <= JOINED_BYTES) response.end(last.toString('latin1'), 'latin1');
    else response.end(last);
  }
}
