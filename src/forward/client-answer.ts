import type { ClientResponse } from './client.ts';
import { Pieces } from './pieces.ts';

/** A small body leaves together with its head, as one piece. */
const JOINED_BYTES = 16 * 1024;

/** An upstream's answer on its way to the client: head, body and end leave in as few writes as they came in. */
export class ClientAnswer {
  readonly #response: ClientResponse;
  readonly #held = new Pieces();
  #isHeadHeld = false;

  constructor(response: ClientResponse) {
    this.#response = response;
  }

  /** Its head stands, and is not written yet. */
  begun(): void {
    this.#isHeadHeld = true;
  }

  add(chunk: Buffer): void {
    this.#held.add(chunk);
  }

  /**
   * Writes what is held. Node would hold a head back until there is some body, and that may be long in coming.
   * @returns false where the client must read before there is more (`drain`)
   */
  flush(): boolean {
    const chunk = this.#held.take();
    if (chunk === null && this.#isHeadHeld) this.#response.flushHeaders();
    this.#isHeadHeld = false;
    return chunk === null || this.#response.write(chunk);
  }

  /** Whether so much is held that it does not leave together with the head. */
  get isLarge(): boolean {
    return this.#held.bytes > JOINED_BYTES;
  }

  /** Whether the system is known to have all that was added. */
  get hasLetGo(): boolean {
    return this.#held.bytes === 0 && this.#response.isTaken === true;
  }

  /** Writes the rest. Who reads requests gives the connection up where its client does not take it in time. */
  end(): void {
    const response = this.#response;
    const last = this.#held.take();
    if (last === null) response.end();
    // Node joins a head with a text into one piece, and writes it in one go; with bytes it would make two of them.
    else if (this.#isHeadHeld && last.length <= JOINED_BYTES) response.end(last.toString('latin1'), 'latin1');
    else response.end(last);
  }
}
