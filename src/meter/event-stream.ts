import type { Value } from './cost.ts';
import type { NumberReading } from './json-number.ts';
import { LastNumber } from './last-number.ts';

const [LF, CR, SPACE] = [0x0a, 0x0d, 0x20] as const;
const LINE_BREAK = Buffer.from('\n');
/** How events end, apart from the rare `\r\r` and mixtures, whose events are all read. */
const EVENT_END = Buffer.from('\n\n');
const EVENT_END_OF_CRS = Buffer.from('\r\n\r\n');
/** How a line begins that has data of an event. */
const DATA = Buffer.from('data:');
const NAME_LENGTH = DATA.length - 1;
/** In place of how much of `DATA` a line has: its data have begun, or it is another line. */
const [IN_DATA, IN_OTHER] = [DATA.length + 1, DATA.length + 2] as const;

/**
 * Reads an event stream (WHATWG HTML, section "Server-sent events") whose events have JSON as their data: the last event that
 * has the number counts. Events whose data are not JSON, such as `[DONE]`, do not.
 *
 * A client drops an event that the stream ends in. Here it counts, because the service has spent what it states.
 */
export class EventStream {
  readonly #last: LastNumber;
  readonly isOver = false;
  /** How many bytes of `DATA` the present line has begun with, or IN_DATA or IN_OTHER. */
  #line = 0;
  #hasData = false;
  /** The last byte was a CR; an LF behind it belongs to the same line end. */
  #isAfterCr = false;

  constructor(pointer: readonly string[], value?: Value) {
    this.#last = new LastNumber(pointer, value);
  }

  /** The last amount that has been read; null if none has. */
  get seen(): number | null {
    return this.#last.seen;
  }

  add(bytes: Buffer, from: number): void {
    let at = from;
    const isBetweenEvents = this.#line === 0 && !this.#hasData && !this.#isAfterCr;
    if (isBetweenEvents) {
      at = this.#last.firstToRead(bytes, at, EVENT_END);
      if (bytes.includes(CR, at)) at = this.#last.firstToRead(bytes, at, EVENT_END_OF_CRS);
    }
    let lf = -1;
    let cr = -1;
    while (at < bytes.length) {
      if (this.#isAfterCr && bytes[at] === LF) at++;
      this.#isAfterCr = false;
      if (lf < at) lf = nextOf(LF, bytes, at);
      if (cr < at) cr = nextOf(CR, bytes, at);
      const end = Math.min(lf, cr);
      this.#readLine(bytes, at, end);
      if (end < bytes.length) this.#endLine();
      this.#isAfterCr = end === cr && end < bytes.length;
      at = end + 1;
    }
  }

  /** The number of the last event that has one. */
  end(): NumberReading {
    this.#last.endText();
    return this.#last.found;
  }

  /** Reads a piece of the present line. */
  #readLine(bytes: Buffer, from: number, to: number): void {
    let at = from;
    for (; at < to && this.#line < DATA.length; at++) {
      this.#line = bytes[at] === DATA[this.#line] ? this.#line + 1 : IN_OTHER;
    }
    if (at === to || this.#line === IN_OTHER) return;
    if (this.#line === DATA.length) {
      this.#beginData();
      if (bytes[at] === SPACE) at++;
    }
    this.#last.add(bytes, at, to);
  }

  #endLine(): void {
    if (this.#line === 0) {
      this.#last.endText();
      this.#hasData = false;
    } else if (this.#line === NAME_LENGTH || this.#line === DATA.length) this.#beginData();
    this.#line = 0;
  }

  /** The data of several lines are joined by line breaks. */
  #beginData(): void {
    if (this.#hasData) this.#last.add(LINE_BREAK, 0, 1);
    this.#hasData = true;
    this.#line = IN_DATA;
  }
}

/** @returns the position of the next such byte, or the length of the piece if it has no such byte */
function nextOf(byte: number, bytes: Buffer, from: number): number {
  const at = bytes.indexOf(byte, from);
  return at < 0 ? bytes.length : at;
}
