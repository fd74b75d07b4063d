import { fieldsWithout, onlyValue, valuesOf } from './fields.ts';
import { weightsOf } from './preferences.ts';
import type { ResponseHead } from './response-head.ts';

/*
 * Which content coding a client accepts, and which responses may be compressed (RFC 9110 sections 8.4 and 12.5.3).
 */

/** The codings that the gateway can apply. */
export const CODINGS = ['zstd', 'br', 'gzip'] as const;
export type Coding = (typeof CODINGS)[number];

/** `compression` of an upstream or a route. */
export interface CompressionRules {
  /** The one that is preferred first. At least one. */
  readonly codings: readonly Coding[];
  /** Bodies whose declared length is less are sent as they are. */
  readonly minBytes: number;
}

/** The client's Accept-Encoding; null if the client sent no such field, so that it may be an old one that knows no coding. */
export function acceptedCodings(rawHeaders: readonly string[]): ReadonlyMap<string, number> | null {
  const values = valuesOf(rawHeaders, 'accept-encoding');
  return values.length === 0 ? null : weightsOf(values.join(','));
}

interface CodingChoice {
  /** Null if the client accepts no coding that the gateway knows, or prefers an uncompressed body. */
  readonly coding: Coding | null;
  /** Whether the client refuses an uncompressed body (`identity;q=0`). */
  readonly refusesPlain: boolean;
}

/** Chooses the accepted coding with the highest weight; of several with the same weight, the first one of the rules. */
export function codingFor(accepted: ReadonlyMap<string, number> | null, { codings }: CompressionRules): CodingChoice {
  if (accepted === null) return { coding: null, refusesPlain: false };
  const others = accepted.get('*') ?? 0;
  const plain = accepted.get('identity');
  const refusesPlain = plain === 0 || (plain === undefined && accepted.get('*') === 0);
  let [coding, best]: [Coding | null, number] = [null, 0];
  for (const one of codings) {
    // RFC 9110 section 8.4.1.3: x-gzip is another name of gzip.
    const weight = accepted.get(one) ?? (one === 'gzip' ? accepted.get('x-gzip') : undefined) ?? others;
    if (weight > best) [coding, best] = [one, weight];
  }
  return { coding: (plain ?? 0) > best ? null : coding, refusesPlain };
}

/** Texts. An event stream is one too, but its events are small and each must arrive at once. */
const COMPRESSIBLE =
  /^(?:text\/(?!event-stream$)[!#-.0-~]+|application\/(?:[!#-.0-~]+\+)?(?:json|xml)|application\/(?:javascript|x-javascript|x-ndjson|graphql)|image\/svg\+xml)$/i;
/** Of success, but not of parts, patches (226) or nothing, and of errors. */
function isCompressibleStatus(status: number): boolean {
  return (status >= 200 && status <= 203) || status === 207 || (status >= 400 && status <= 599);
}

/** The body is that of one caller, or must not be changed. */
const KEPT_PLAIN = /(?:^|[\s,])(?:no-store|no-transform|private)(?:$|[\s,=])/i;
/** Fields that say that a body is coded, a part, secret, or has a digest that a coding would make false. */
const FORBIDDING =
  /^(?:content-encoding|content-range|set-cookie2?|content-md5|digest|content-digest|repr-digest|signature)$/i;

/**
 * Whether a response may be compressed for a client that accepts it.
 *
 * Attack: if a page has a secret and also text that an attacker chose, its compressed length reveals whether the two are
 * alike, and a browser sends the attacker's requests with the victim's cookies (BREACH). So nothing is compressed that
 * sets a cookie, or that a cache must not keep or share; and the caller ensures that no request with a cookie gets a
 * compressed response. API keys and tokens are not sent by a browser of its own accord.
 *
 * A strong ETag promises bytes. A weak one instead would break the `If-Match` of clients that change what they have read,
 * so such a response is sent as it is.
 * @param fields the response's fields, names and values alternating
 */
export function mayBeCompressed(
  { status, framing }: Pick<ResponseHead, 'status' | 'framing'>,
  fields: readonly string[],
): boolean {
  if (framing === 'none' || !isCompressibleStatus(status)) return false;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (FORBIDDING.test(name)) return false;
    if (/^cache-control$/i.test(name) && KEPT_PLAIN.test(fields[i + 1]!)) return false;
    if (/^etag$/i.test(name) && !fields[i + 1]!.startsWith('W/')) return false;
  }
  const type = onlyValue(fields, 'content-type');
  return type !== null && COMPRESSIBLE.test(type.split(';', 1)[0]!.trim());
}

/** The fields of a response that is compressed. */
export function fieldsOfCompressed(fields: readonly string[], coding: Coding): string[] {
  return [...fieldsWithoutLength(fields), 'Content-Encoding', coding];
}

const OF_ORIGINAL: ReadonlySet<string> = new Set(['content-length', 'accept-ranges']);

/** Without the length and the ranges of the original, which do not apply to a compressed response. */
export function fieldsWithoutLength(fields: readonly string[]): string[] {
  return fieldsWithout(fields, OF_ORIGINAL);
}
