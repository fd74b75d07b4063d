import { mayComeAgain } from '../forward/client.ts';
import { fault, type HeadFault } from './head-fault.ts';
import { type JudgedFields, judge } from './judged-fields.ts';
import { readTarget } from './target.ts';

export type { HeadFault } from './head-fault.ts';

/** A request head that can be served, read once from what was received (`rawHeaders`), not from what Node merged. */
export interface Head {
  readonly kind: 'head';
  readonly method: string;
  readonly httpVersion: string;
  /** As received, but for a Max-Forwards that OPTIONS brought, which is less by one. */
  readonly rawHeaders: readonly string[];
  /** Path and query in origin form, byte for byte; `*` for OPTIONS. */
  readonly target: string;
  readonly path: string;
  /** Null where HTTP/1.0 sent none. */
  readonly host: string | null;
  readonly body: 'none' | 'chunked' | 'length';
  /** The declared length in bytes; 0 where none is declared. */
  readonly contentLength: number;
  /** Lower-case names that Connection lists. */
  readonly connectionNames: ReadonlySet<string>;
  readonly expectsContinue: boolean;
  /** True for an OPTIONS that must not be passed on: it came with `Max-Forwards: 0` (RFC 9110 section 7.6.2). */
  readonly endsHere: boolean;
}

export interface HeadLimits {
  readonly maxUrlBytes: number;
  /** Without the request line. */
  readonly maxHeaderBytes: number;
  readonly maxBodyBytes: number;
}

export interface ReceivedHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
}

/**
 * Checks the framing and form of a request (RFC 9112 sections 3 and 6).
 *
 * Attack: a request that two parsers read differently (two lengths, a length and chunks, two Hosts) smuggles a second
 * one past the gateway. So whatever is ambiguous is refused, never repaired.
 */
export function readHead(received: ReceivedHead, limits: HeadLimits): Head | HeadFault {
  return headOf(received, judge(received, limits), limits);
}

/** Reads the heads of one connection. Fields that come again, as the very same array, are not judged again. */
export class HeadReader {
  readonly #limits: HeadLimits;
  #rawHeaders: readonly string[] | null = null;
  #judged: JudgedFields | null = null;

  constructor(limits: HeadLimits) {
    this.#limits = limits;
  }

  /** As `readHead`. @param received of HTTP/1.1 */
  read(received: ReceivedHead): Head | HeadFault {
    const { rawHeaders } = received;
    if (this.#judged !== null && rawHeaders === this.#rawHeaders) return headOf(received, this.#judged, this.#limits);
    const judged = judge(received, this.#limits);
    this.#rawHeaders = mayComeAgain(rawHeaders) ? rawHeaders : null;
    this.#judged = this.#rawHeaders === null ? null : judged;
    return headOf(received, judged, this.#limits);
  }
}

function headOf(
  { method, url, httpVersion, rawHeaders }: ReceivedHead,
  judged: JudgedFields,
  limits: HeadLimits,
): Head | HeadFault {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return fault('http_version_not_supported', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.');
  }
  if (method === 'CONNECT' || method === 'TRACE') return fault('not_implemented', `${method} is not offered.`);
  if (url.length > limits.maxUrlBytes) {
    return fault('uri_too_long', `The request target is longer than ${limits.maxUrlBytes} bytes.`);
  }
  if (judged.kind === 'fault') return judged;
  const { fields, framing } = judged;
  const target = readTarget(url, method, fields.host);
  if (target.kind === 'fault') return fault('invalid_request', target.message);
  if (framing.contentLength > limits.maxBodyBytes) {
    return fault('payload_too_large', `The body is larger than ${limits.maxBodyBytes} bytes.`);
  }
  // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
  const expectation = httpVersion === '1.1' ? fields.expect : null;
  if (expectation !== null && expectation.toLowerCase() !== '100-continue') {
    return fault('expectation_failed', 'The only expectation that can be met is 100-continue.');
  }
  const maxForwards = method === 'OPTIONS' ? readMaxForwards(rawHeaders) : null;
  return {
    kind: 'head',
    method,
    httpVersion,
    rawHeaders: maxForwards?.rawHeaders ?? rawHeaders,
    target: target.target,
    path: target.path,
    host: fields.host,
    body: framing.body,
    contentLength: framing.contentLength,
    connectionNames: fields.connectionNames,
    expectsContinue: expectation !== null && framing.body !== 'none',
    endsHere: maxForwards?.endsHere === true,
  };
}

/** The highest Max-Forwards that is passed on (RFC 9110 section 7.6.2 lets a recipient have one). */
const MOST_FORWARDS = 1_000;

/** Fields whose Max-Forwards is less by one, and whether it was 0; what is no number is passed on as it is. */
function readMaxForwards(rawHeaders: readonly string[]) {
  let endsHere = false;
  const lessened = rawHeaders.map((value, i) => {
    if (i % 2 === 0 || rawHeaders[i - 1]!.toLowerCase() !== 'max-forwards' || !/^[0-9]+$/.test(value)) return value;
    const left = Math.min(Number(value) - 1, MOST_FORWARDS);
    endsHere ||= left < 0;
    return String(left);
  });
  return { rawHeaders: lessened, endsHere };
}
