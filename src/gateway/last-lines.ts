import { mayComeAgain } from '../forward/client.ts';
import { linesOf } from '../forward/field-lines.ts';
import type { FieldNames } from '../forward/field-names.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import type { Origin } from './parts.ts';

/** What the lines of a request are made of. */
export interface LinesFrom {
  readonly head: Head;
  readonly contentLength: string | null;
  readonly caller: Caller;
  readonly origin: Origin;
  readonly via: string;
  readonly allowedNames: FieldNames;
  /** Whether the client's own trace fields are replaced. */
  readonly isTraced: boolean;
}

/**
 * The lines of the last request of a connection: most clients say the same in each of their requests, and then the lines
 * are the same too.
 */
export class LastLines {
  #from: LinesFrom | null = null;
  #lines = '';

  /** @param fieldsOf what is written as lines, name and value in turn: it depends on nothing but `from` */
  of(from: LinesFrom, fieldsOf: (from: LinesFrom) => readonly string[]): string {
    if (this.#from !== null && isSame(this.#from, from)) return this.#lines;
    const lines = linesOf(fieldsOf(from));
    const isWorthIt = mayComeAgain(from.head.rawHeaders);
    this.#from = isWorthIt ? from : null;
    this.#lines = isWorthIt ? lines : '';
    return lines;
  }
}

function isSame(one: LinesFrom, other: LinesFrom): boolean {
  return (
    one.head.rawHeaders === other.head.rawHeaders &&
    one.head.host === other.head.host &&
    one.head.httpVersion === other.head.httpVersion &&
    one.contentLength === other.contentLength &&
    one.caller.consumer === other.caller.consumer &&
    one.origin.peer === other.origin.peer &&
    one.origin.scheme === other.origin.scheme &&
    one.origin.trustedPeer === other.origin.trustedPeer &&
    one.origin.httpVersion === other.origin.httpVersion &&
    one.via === other.via &&
    one.allowedNames === other.allowedNames &&
    one.isTraced === other.isTraced
  );
}
