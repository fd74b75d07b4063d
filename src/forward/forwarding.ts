import type { ResponseHead } from '../http1/response-head.ts';
import type { UpstreamFault } from './faults.ts';
import type { RequestBody } from './request-body.ts';

/** A request to an upstream. */
export interface ForwardRequest {
  readonly method: string;
  /** Path and query, exactly as they were routed. */
  readonly target: string;
  /** The lines (`linesOf`) of all fields except Host, which is the target's authority. */
  readonly lines: string;
  /** Null if the request has no body. */
  readonly body: RequestBody | null;
}

/** How forwarding ended. */
export type ForwardResult =
  /** The whole response was forwarded. */
  | { readonly kind: 'answered' }
  /** Nothing has been sent to the client yet, so the gateway sends its own response. */
  | { readonly kind: 'failed'; readonly fault: UpstreamFault }
  /** The response broke off after its head. The client's connection was reset, so that the client notices. */
  | { readonly kind: 'broken'; readonly fault: UpstreamFault }
  /** The client disconnected, or did not read. */
  | { readonly kind: 'client_gone'; readonly cause: string };

/** Called as forwarding proceeds. */
export interface ForwardHooks {
  /**
   * A target was chosen for the request. Called again for each further target, if the one before could not be connected
   * to.
   */
  taken(target: string): void;
  /** Writes the head of the client's response, made from the head of the upstream's final response. Called once. */
  head(head: ResponseHead): void;
  /** A 103 (Early Hints) to forward. */
  earlyHints(fields: readonly string[]): void;
  chunk(bytes: number): void;
  /** Called exactly once, after all others. */
  done(result: ForwardResult): void;
  /** How long a client may read nothing before it is disconnected. */
  readonly writeTimeoutMs: number;
}
