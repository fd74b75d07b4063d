import type { AnswerHead } from './answer-head.ts';
import type { RequestBody } from './body.ts';
import type { UpstreamFault } from './faults.ts';

/** What is asked of an upstream. */
export interface ForwardRequest {
  readonly method: string;
  /** Path and query, byte for byte as they were routed. */
  readonly target: string;
  /** All fields but Host, which is the target's authority: `linesOf` them. */
  readonly lines: string;
  /** Null where the request has no body. */
  readonly body: RequestBody | null;
}

/** How forwarding ended. */
export type ForwardResult =
  /** The answer was passed on whole. */
  | { readonly kind: 'answered' }
  /** Nothing has been sent to the client yet: the gateway answers. */
  | { readonly kind: 'failed'; readonly fault: UpstreamFault }
  /** The answer broke off after its head: the client's connection was broken too, so that it shows. */
  | { readonly kind: 'broken'; readonly fault: UpstreamFault }
  /** It left, or did not read. */
  | { readonly kind: 'client_gone'; readonly cause: string };

/** Who has something forwarded, and is told how it goes. */
export interface ForwardHooks {
  /** A target was taken for the request: again for each further one, where no connection to it came about. */
  taken(target: string): void;
  /** Makes the head of the client's answer, of the final one of the upstream; called once. */
  head(head: AnswerHead): void;
  /** 103 Early Hints, to be passed on. */
  earlyHints(fields: readonly string[]): void;
  chunk(bytes: number): void;
  /** Called exactly once, the last of all. */
  done(result: ForwardResult): void;
  /** A client that does not read is given up after this long. */
  readonly writeTimeoutMs: number;
}
