import type { FieldBlock } from '../http1/field-block.ts';
import { onlyValue, valuesOf } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import type { Match } from '../routing/router.ts';
import type { Exchange } from './exchange.ts';

/** One request's part of a trace. */
export interface RequestTrace {
  /** Null if the request does not belong to a trace. */
  readonly traceId: string | null;
  /**
   * Starts the upstream's part of the trace, with the request that is forwarded.
   * @returns the trace fields to forward in place of the client's; null if the client's are forwarded unchanged
   */
  forward(head: Head, match: Match): readonly string[] | null;
  /** Ends the request's part. */
  end(exchange: Exchange): void;
}

/**
 * The trace of a request that this gateway does not trace: the client's context passes through, and its id is logged.
 */
export function passingTrace(fields: FieldBlock): RequestTrace {
  const context = fields.derived(readTraceContext);
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
  /** The value of tracestate, as received; null without the field. */
  readonly tracestate: string | null;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Maximum length of a tracestate that is forwarded; the standard asks for at least 512 characters. */
const MAX_TRACESTATE = 2_048;

/**
 * Reads `traceparent` and `tracestate`. Null if traceparent is missing, repeated or invalid; a new trace then begins.
 */
export function readTraceContext(rawHeaders: readonly string[]): TraceContext | null {
  const traceparent = onlyValue(rawHeaders, 'traceparent');
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
  const tracestate = valuesOf(rawHeaders, 'tracestate').join(',');
  return {
    traceId,
    parentId,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    tracestate: tracestate === '' || tracestate.length > MAX_TRACESTATE ? null : tracestate,
  };
}
