/** Why an upstream gave no usable answer, as the contract's section 4 tells it apart. */
export type UpstreamFault = {
  readonly code: 'upstream_unavailable' | 'upstream_timeout' | 'overloaded' | 'no_upstream' | ClientFault;
  /** For the log: what happened, never for a client. */
  readonly cause: string;
  /** When another try may be worth it; 0 where nothing is known of that. */
  readonly retryAfterMs?: number;
};

/** What a client's body can do wrong while it is passed on. */
export type ClientFault = 'payload_too_large' | 'request_timeout' | 'invalid_request' | 'headers_too_large';

/** A deadline of the gateway's own ran out. */
export class DeadlineError extends Error {
  readonly wait: 'connection' | 'connect' | 'head' | 'body';

  constructor(wait: DeadlineError['wait'], ms: number) {
    super(`no ${wait} within ${ms} ms`);
    this.wait = wait;
  }
}

/** Neither a connection nor a place in the queue is free. */
export class QueueFullError extends Error {
  constructor() {
    super('the queue for a connection is full');
  }
}

/** No target is left that could be asked. */
export class NoUpstreamError extends Error {
  /** Until one may be tried again. */
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super('no target is usable');
    this.retryAfterMs = retryAfterMs;
  }
}

/** The client's body turned out too large, too slow or malformed while it was passed on. */
export class ClientBodyError extends Error {
  readonly code: ClientFault;

  constructor(code: ClientFault) {
    super(`the client's body: ${code}`);
    this.code = code;
  }
}

/** The client left, or broke its own body off. */
export class ClientGoneError extends Error {}

/** Something in an answer's head that must not be passed on. */
export class BadAnswerError extends Error {}

/** Tells 502, 503, 504 and 413 apart by what broke. */
export function faultOf(error: unknown): UpstreamFault {
  const cause = describe(error);
  if (error instanceof ClientBodyError) return { code: error.code, cause };
  if (error instanceof NoUpstreamError) return { code: 'no_upstream', cause, retryAfterMs: error.retryAfterMs };
  if (error instanceof QueueFullError) return { code: 'overloaded', cause };
  if (error instanceof DeadlineError) {
    return { code: error.wait === 'connection' ? 'overloaded' : 'upstream_timeout', cause };
  }
  return { code: 'upstream_unavailable', cause };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return `${code}${error.message}`;
}
