import { messageOf } from '../io/connection-error.ts';
import { LookupError } from '../io/resolver.ts';

/*
 * How forwarding ends: the results, the errors of its steps, and the fault that the log and the client get for an error.
 */

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

/** Why an upstream gave no usable response, as contract section 4 distinguishes the reasons. */
type UpstreamFault = {
  readonly code: 'upstream_unavailable' | 'upstream_timeout' | 'overloaded' | 'no_upstream' | ClientBodyErrorCode;
  /** What happened, for the log only. Never sent to a client. */
  readonly cause: string;
  /** When another try may succeed; 0 if that is unknown. */
  readonly retryAfterMs?: number;
};

const CLIENT_BODY_ERRORS = ['payload_too_large', 'request_timeout', 'invalid_request', 'headers_too_large'] as const;

/** What can be wrong with a client's body while it is forwarded. */
export type ClientBodyErrorCode = (typeof CLIENT_BODY_ERRORS)[number];

export function isClientBodyError(code: UpstreamFault['code']): code is ClientBodyErrorCode {
  return (CLIENT_BODY_ERRORS as readonly string[]).includes(code);
}

/** A deadline of the gateway's own ran out. */
export class DeadlineError extends Error {
  readonly wait: 'connection' | 'connect' | 'head' | 'body';

  /** @param unresolved the host whose name servers have not answered either */
  constructor(wait: DeadlineError['wait'], ms: number, unresolved: string | null = null) {
    const why = unresolved === null ? '' : `: the name servers have not answered for ${unresolved}`;
    super(`no ${wait} within ${ms} ms${why}`);
    this.wait = wait;
  }
}

/** Neither a connection nor a place in the queue is free. */
export class QueueFullError extends Error {
  constructor() {
    super('the queue for a connection is full');
  }
}

/** No target is usable. */
export class NoUpstreamError extends Error {
  /** Milliseconds until a target may be tried again. */
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super('no target is usable');
    this.retryAfterMs = retryAfterMs;
  }
}

/** The client's body turned out to be too large, too slow or malformed while it was forwarded. */
export class ClientBodyError extends Error {
  readonly code: ClientBodyErrorCode;

  constructor(code: ClientBodyErrorCode) {
    super(`the client's body: ${code}`);
    this.code = code;
  }
}

/** The client disconnected, or broke off its own body. */
export class ClientGoneError extends Error {}

/** Derives the error code and cause of the response from what failed. */
export function faultOf(error: unknown): UpstreamFault {
  const cause = describe(error);
  if (error instanceof ClientBodyError) return { code: error.code, cause };
  if (error instanceof NoUpstreamError) return { code: 'no_upstream', cause, retryAfterMs: error.retryAfterMs };
  if (error instanceof QueueFullError) return { code: 'overloaded', cause };
  if (error instanceof DeadlineError) {
    return { code: error.wait === 'connection' ? 'overloaded' : 'upstream_timeout', cause };
  }
  // A look-up that was not answered ends for all callers that share it. To a client it is the same wait.
  if (error instanceof LookupError && error.code === 'ETIMEOUT') return { code: 'upstream_timeout', cause };
  return { code: 'upstream_unavailable', cause };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return `${code}${messageOf(error)}`;
}
