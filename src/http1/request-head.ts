import { FieldBlock } from './field-block.ts';
import { fault, type HeadFault, type HeadLimits } from './request-framing.ts';
import { readRequestTarget } from './request-line.ts';
import { readUpgrade, type UpgradeForm } from './upgrade-form.ts';

export type { HeadFault } from './request-framing.ts';

/** A request head as its parser delivers it. */
export interface ReceivedHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly fields: FieldBlock;
}

/** A request head that can be served, read once from what was received, not from what Node merged. */
export interface Head {
  readonly kind: 'head';
  readonly method: string;
  readonly httpVersion: string;
  /** As received, except that the Max-Forwards of an OPTIONS is decremented. */
  readonly fields: FieldBlock;
  /** Path and query in origin form, exactly as received; `*` is possible for OPTIONS. */
  readonly target: string;
  readonly path: string;
  /** Null if a client with HTTP/1.0 sent none. */
  readonly host: string | null;
  readonly body: 'none' | 'chunked' | 'length';
  /** The declared length in bytes; 0 if none is declared. */
  readonly contentLength: number;
  /** Lower-case names that Connection lists. */
  readonly connectionNames: ReadonlySet<string>;
  readonly expectsContinue: boolean;
  /** True for an OPTIONS that must not be forwarded, because it has `Max-Forwards: 0` (RFC 9110 section 7.6.2). */
  readonly endsHere: boolean;
  /** Whether it asks for another protocol. */
  readonly upgrade: UpgradeForm;
}

/**
 * Checks the framing and form of a request (RFC 9112 sections 3 and 6).
 *
 * Attack: a request that two parsers read differently (two lengths, a length and chunks, two Hosts) smuggles a second
 * one past the gateway. So an ambiguous request is refused, never repaired.
 */
export function readHead({ method, url, httpVersion, fields }: ReceivedHead, limits: HeadLimits): Head | HeadFault {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return fault('http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.');
  }
  if (method === 'CONNECT' || method === 'TRACE') return fault('not_implemented', `${method} is not offered.`);
  if (url.length > limits.maxUrlBytes) {
    return fault('uri_too_long', `The request target is longer than ${limits.maxUrlBytes} bytes.`);
  }
  const validated = fields.validated(httpVersion, limits);
  if (validated.kind === 'fault') return validated;
  const { host, expect, connectionNames } = validated.fields;
  const { body, contentLength } = validated.framing;
  const target = readRequestTarget(url, method, host);
  if (target.kind === 'fault') return fault('invalid_request', target.message);
  if (contentLength > limits.maxBodyBytes) {
    return fault('payload_too_large', `The body is larger than ${limits.maxBodyBytes} bytes.`);
  }
  // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
  const expectation = httpVersion === '1.1' ? expect : null;
  if (expectation !== null && expectation.toLowerCase() !== '100-continue') {
    return fault('expectation_failed', 'The only expectation that can be met is 100-continue.');
  }
  const maxForwards = method === 'OPTIONS' ? readMaxForwards(fields.rawHeaders) : null;
  return {
    kind: 'head',
    method,
    httpVersion,
    fields: maxForwards?.fields ?? fields,
    target: target.target,
    path: target.path,
    host,
    body,
    contentLength,
    connectionNames,
    expectsContinue: expectation !== null && body !== 'none',
    endsHere: maxForwards?.endsHere === true,
    upgrade: readUpgrade(method, httpVersion, body, connectionNames, fields),
  };
}

/** The highest Max-Forwards that is forwarded (RFC 9110 section 7.6.2 allows a recipient to set a maximum). */
const HIGHEST_MAX_FORWARDS = 1_000;

/** Decrements Max-Forwards, and finds out whether it was 0. A value that is not a number is left unchanged. */
function readMaxForwards(rawHeaders: readonly string[]) {
  let endsHere = false;
  const decremented = rawHeaders.map((value, i) => {
    if (i % 2 === 0 || rawHeaders[i - 1]!.toLowerCase() !== 'max-forwards' || !/^[0-9]+$/.test(value)) return value;
    const left = Math.min(Number(value) - 1, HIGHEST_MAX_FORWARDS);
    endsHere ||= left < 0;
    return String(left);
  });
  return { fields: new FieldBlock(decremented), endsHere };
}
