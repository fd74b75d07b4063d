import type { Fields } from '../../test/support/http-message.ts';

/** What the upstream does when a request has reached it. */
export interface AnswerScript {
  readonly segments: readonly Buffer[];
  /** What follows the last byte: nothing, the end of the connection, a reset, or silence for ever. */
  readonly end: 'keep' | 'fin' | 'reset' | 'silence';
}

/** One request as it arrived at the upstream. */
export interface SeenRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
  readonly requestId: string;
  /** Whether its connection had carried a byte before. */
  onUsedConnection: boolean;
  /** Grows. */
  body: Buffer;
  complete: boolean;
  /** Whether any byte of an answer has been sent to it. */
  answered: boolean;
}

/** The upstream's view of one exchange, found again by the consumer that the gateway names. */
export interface Exchange {
  /** Ten characters that stand in every answer to this exchange and in no other. */
  readonly tag: string;
  readonly seen: SeenRequest[];
  readonly script: (request: SeenRequest) => AnswerScript;
  /** Called for what arrives after the client side was judged. */
  late: ((request: SeenRequest) => void) | null;
}

/** Placeholders, as long as what replaces them, so that lengths computed before stay right. */
export const KEY_PLACEHOLDER = `tg_live_${'K'.repeat(38)}`;
export const TAG_PLACEHOLDER = '@TAGTAGTAG';

/** Fills in what differs from run to run, so that a seed gives the same template each time. */
export function fillIn(template: string, { key, tag }: { readonly key: string; readonly tag: string }): Buffer {
  return Buffer.from(template.replaceAll(KEY_PLACEHOLDER, key).replaceAll(TAG_PLACEHOLDER, tag), 'latin1');
}

/** Something that must never be; the run stops and shrinks what led to it. */
export class Violation extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = 'Violation';
  }
}
