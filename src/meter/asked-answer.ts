import { valuesOf } from '../http1/fields.ts';
import { weightsOf } from '../http1/preferences.ts';
import type { CostSource, Times } from './cost.ts';
import { isDecodable } from './decoders.ts';

/*
 * What the service is asked for, so that the cost in the body of its answer can be read.
 *
 * Attack: a client asks for a coding that the gateway does not read, or for a part of the body in which the cost does not stand,
 * and pays what was taken in advance for whatever it costs. So the service is asked only for what can be read.
 */

/** The codings that a client which names none of them means with `*`. */
const COMMON = ['gzip', 'deflate', 'br', 'zstd'];

/** Codings whose decompressors take little memory: a window of 32 KiB. */
const SMALL = ['gzip', 'x-gzip', 'deflate'];

const PLAIN = 'identity';

/** Values of Accept-Encoding. They are the same if `all` has no coding but those of `small`. */
interface AskedCodings {
  /** The codings that the client accepts and the gateway reads; `identity` if there are none. */
  readonly all: string;
  /** Of these the ones that take little memory. */
  readonly small: string;
}

/** Whether the cost is looked for in the body. */
export function isInBody(sources: readonly CostSource[]): boolean {
  return sources.some(standsInBody);
}

function standsInBody(source: CostSource): boolean {
  if (source.kind !== 'sum') return 'pointer' in source;
  return source.parts.some((part) => 'pointer' in part.source || isChosenInBody(part.times));
}

/** Whether a value in the body chooses what a part is multiplied by. */
function isChosenInBody(times: Times): boolean {
  return 'table' in times && times.table.by.of === 'answer' && times.table.by.sources.some((one) => 'pointer' in one);
}

/** The client's Accept-Encoding without the codings that the gateway does not read. Without such a field the client asks for none. */
export function readableCodings(rawHeaders: readonly string[]): AskedCodings {
  const weights = weightsOf(valuesOf(rawHeaders, 'accept-encoding').join(','));
  const others = weights.get('*') ?? 0;
  const names = [...new Set([...weights.keys(), ...(others > 0 ? COMMON : [])])];
  const plain = weights.get(PLAIN) ?? (weights.has('*') ? others : undefined);
  const listOf = (isAskedFor: (name: string) => boolean): string => {
    const readable = names
      .filter(isAskedFor)
      .map((name) => ({ name, weight: weights.get(name) ?? others }))
      .filter(({ weight }) => weight > 0)
      .map(({ name, weight }) => weighted(name, weight));
    if (readable.length === 0) return PLAIN;
    return [...readable, ...(plain === undefined ? [] : [weighted(PLAIN, plain)])].join(', ');
  };
  return { all: listOf(isDecodable), small: listOf((name) => SMALL.includes(name)) };
}

function weighted(name: string, weight: number): string {
  return weight === 1 ? name : `${name};q=${weight}`;
}

/**
 * Fields by which a client asks for a part of an answer, for how it differs from an earlier one (RFC 9110 section 14, RFC 3229), or
 * for another encoding of its text.
 */
const NOT_ASKED = ['range', 'if-range', 'a-im', 'accept-charset'];

/** A text in quotes, or a parameter by which some services choose the encoding of a text. Neither is ever read twice. */
const CHARSETS = /("(?:[^"\\]|\\.)*"?)|;[ \t]*charset[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"?|[^\s,;"]*)/gi;

/** An Accept field without the encodings of texts. */
function withoutCharsets(accept: string): string {
  return accept.replace(CHARSETS, (_all, quoted: string | undefined) => quoted ?? '');
}

/** The fields of a request, with this Accept-Encoding in place of the client's. @param fields names and values alternating */
export function askingFor(acceptEncoding: string, fields: readonly string[]): string[] {
  const asking: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!.toLowerCase();
    if (name === 'accept-encoding' || NOT_ASKED.includes(name)) continue;
    asking.push(fields[i]!, name === 'accept' ? withoutCharsets(fields[i + 1]!) : fields[i + 1]!);
  }
  asking.push('Accept-Encoding', acceptEncoding);
  return asking;
}
