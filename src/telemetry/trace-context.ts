import type { Exchange } from '../gateway/exchange.ts';

/** One request's part of a trace. */
export interface RequestTrace {
  /** Null where the request belongs to no trace. */
  readonly traceId: string | null;
  /**
   * The fields that carry the trace on to the upstream in place of the client's own; the upstream's part begins now.
   * Null: the client's own pass through untouched.
   */
  forward(): readonly string[] | null;
  /** Ends the request's part. */
  end(exchange: Exchange): void;
}

/** Where nothing is traced here: the client's context passes through, and only its id is told. */
export function passingTrace(rawHeaders: readonly string[]): RequestTrace {
  const context = readTraceContext(rawHeaders);
  return context === null ? NO_TRACE : { ...NO_TRACE, traceId: context.traceId };
}

const NO_TRACE: RequestTrace = Object.freeze({ traceId: null, forward: () => null, end: () => {} });

/** The caller's place in a trace (W3C Trace Context, level 1). */
export interface TraceContext {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits: the caller's span. */
  readonly parentId: string;
  readonly sampled: boolean;
  /** The vendors' part, as received; null where there is none. */
  readonly tracestate: string | null;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Longest tracestate that is passed on; the standard asks for at least 512 characters. */
const MAX_TRACESTATE = 2_048;

/**
 * Reads `traceparent` and `tracestate`. Null where there is none, more than one, or one that is invalid: the trace then
 * begins anew.
 */
export function readTraceContext(rawHeaders: readonly string[]): TraceContext | null {
  let traceparent: string | null = null;
  const states: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 11 && name.toLowerCase() === 'traceparent') {
      if (traceparent !== null) return null;
      traceparent = rawHeaders[i + 1]!;
    } else if (name.length === 10 && name.toLowerCase() === 'tracestate') states.push(rawHeaders[i + 1]!);
  }
  const parts = traceparent === null ? null : TRACEPARENT.exec(traceparent.trim());
  if (parts === null) return null;
  const [, version, traceId, parentId, flags, more] = parts as unknown as [
    string,
    string,
    string,
    string,
    string,
    string?,
  ];
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return null;
  const tracestate = states.join(',');
  return {
    traceId,
    parentId,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    tracestate: tracestate === '' || tracestate.length > MAX_TRACESTATE ? null : tracestate,
  };
}
