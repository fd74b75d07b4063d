import type { FieldValues } from '../http1/fields.ts';
import { BodyReader } from './body-reader.ts';
import { amountOf, type BodySource, type CostReading, type CostSource, MAX_AMOUNT } from './cost.ts';
import { type Decoding, isDecodable } from './decoders.ts';
import { LINE_END, RECORD_BEGIN } from './json-lines.ts';
import type { NumberReading } from './json-number.ts';

/** Begins to decompress an answer, as `Decoders.start` does. @param read returns false if no more is needed */
export type StartDecoding = (coding: string, first: number, read: (bytes: Buffer) => boolean) => Decoding;

/** JSON texts with a byte in front of each, in place of a line each (RFC 7464). */
const JSON_SEQUENCE = 'application/json-seq';

/** What each kind of body has as its media type. JSON has every other type that ends in `+json` as well. */
const KINDS: ReadonlyMap<string, BodySource['kind']> = new Map([
  ['application/json', 'json'],
  ['text/json', 'json'],
  ['text/event-stream', 'sse'],
  ['application/x-ndjson', 'ndjson'],
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
  ['application/jsonlines', 'ndjson'],
  ['application/x-jsonlines', 'ndjson'],
  ['application/stream+json', 'ndjson'],
  [JSON_SEQUENCE, 'ndjson'],
]);

/** How the cost in a unit is found: read already, in the body, or measured. */
type Way =
  | { readonly kind: 'read'; readonly found: NumberReading }
  | { readonly kind: 'body'; readonly reader: BodyReader }
  | { readonly kind: 'bytes' | 'milliseconds' };

type Measured = Readonly<Record<'bytes' | 'milliseconds', number>>;
type Readings = readonly CostReading[];
type Unknown = Extract<CostReading, { kind: 'unknown' }>;

/** A unit: the sources of its cost. They are alternatives, see `AnswerReader`. */
interface MeteredUnit {
  readonly sources: readonly CostSource[];
}

/**
 * Reads what a request cost, in each unit, from the service's answer while it passes. Call `chunk` for each piece of the
 * body, and `end`, which is called exactly once and may come at any time.
 *
 * Of the sources of a unit a header field wins if it is there. Otherwise the number in the body counts whose kind has the
 * answer's media type; an answer without a media type, or with `text/plain`, may have any, if the unit has one such source
 * only. Otherwise the length or the duration counts, if it is a source.
 *
 * A compressed body is decompressed by a thread, on the side. Any other is read at once, with some nanoseconds for each byte. Neither
 * has a longest length that is read.
 *
 * Attack: a client asks for an answer that is longer than what the gateway reads, so that its cost is not found.
 */
export class AnswerReader {
  readonly #decode: StartDecoding;
  /** By unit. */
  #ways: readonly Way[];
  /** How many of them read the body and are not over. */
  #reading = 0;
  /** The Content-Encoding of one coding; null if the body is sent as it is. */
  readonly #coding: string | null;
  #decoding: Decoding | null = null;
  /** Why the body cannot be read; null if it can. */
  #fault: Unknown['why'] | null = null;
  /** The length of the body so far. */
  #bytes = 0;

  /** @param fields of the final response */
  constructor(units: readonly MeteredUnit[], fields: FieldValues, decode: StartDecoding) {
    this.#decode = decode;
    const type = mediaTypeOf(fields);
    const codings = codingsOf(fields);
    this.#coding = codings[0] ?? null;
    if (codings.length > 1 || (this.#coding !== null && !isDecodable(this.#coding))) this.#fault = 'undecodable';
    this.#ways = units.map(({ sources }) => wayOf(sources, fields, type));
    if (this.#fault !== null) return;
    for (const { kind } of this.#ways) if (kind === 'body') this.#reading++;
  }

  /** A piece of the body as the service sends it. Its memory may be reused after the call. */
  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#reading === 0 || bytes.length === 0) return;
    if (this.#coding === null) {
      this.#read(bytes);
      return;
    }
    this.#decoding ??= this.#decode(this.#coding, bytes[0]!, (decoded) => this.#read(decoded));
    this.#decoding.add(bytes);
  }

  /** Whether the body is decompressed to be read. */
  get isCompressed(): boolean {
    return this.#reading > 0 && this.#coding !== null;
  }

  /** Whether the body arrives faster than it is decompressed, so that the next piece should wait. */
  get isBehind(): boolean {
    return this.#decoding?.isBehind === true;
  }

  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void {
    this.#decoding?.whenCaughtUp(next);
  }

  /**
   * Attack: a client leaves as soon as it has the last event of a compressed stream, while that is still being decompressed. So
   * all that has arrived is read.
   * @param isWhole false if the answer broke off, or the client left
   * @param elapsedMs how long the request was at the service
   * @returns by unit, in their order; a promise, which never rejects, only while a thread still decompresses
   */
  end(isWhole: boolean, elapsedMs: number): Readings | Promise<Readings> {
    if (this.#decoding === null || this.#decoding.isOver) return this.#take(isWhole, elapsedMs);
    return this.#decoding.end(isWhole).then(() => this.#take(isWhole, elapsedMs));
  }

  /** @returns whether any reader reads on */
  #read(bytes: Buffer): boolean {
    for (const way of this.#ways) {
      if (way.kind !== 'body' || way.reader.isOver) continue;
      way.reader.add(bytes);
      if (way.reader.isOver) this.#reading--;
    }
    return this.#reading > 0;
  }

  /** Takes the readings and frees all that is kept. */
  #take(isWhole: boolean, elapsedMs: number): Readings {
    const fault = this.#decoding?.fault ?? this.#fault;
    const measured = { bytes: this.#bytes, milliseconds: Math.ceil(elapsedMs) };
    const readings = this.#ways.map((way): CostReading => {
      // What a field says is known however much of the body came.
      const isKnown = way.kind === 'read' && typeof way.found === 'number';
      if (!isWhole && !isKnown) return unknown('cut', seenBy(way, measured));
      if (way.kind === 'body' && fault !== null) return unknown(fault, way.reader.seen);
      return readingBy(way, measured);
    });
    this.#ways = [];
    this.#reading = 0;
    this.#decoding = null;
    return readings;
  }
}

function wayOf(sources: readonly CostSource[], fields: FieldValues, type: string | null): Way {
  for (const source of sources) {
    if (source.kind !== 'header') continue;
    const values = fields.values(source.name);
    if (values.length === 1) return { kind: 'read', found: amountOf(values[0]!) ?? 'invalid' };
    if (values.length > 1) return { kind: 'read', found: 'invalid' };
  }
  const source = bodySourceOf(sources, type);
  if (source === null) return measuredWay(sources);
  return { kind: 'body', reader: new BodyReader(source, type === JSON_SEQUENCE ? RECORD_BEGIN : LINE_END) };
}

/** The way of an answer of which nothing but its length and its duration can be known. */
function measuredWay(sources: readonly CostSource[]): Way {
  const source = sources.find(({ kind }) => kind === 'bytes' || kind === 'milliseconds');
  return source?.kind === 'bytes' || source?.kind === 'milliseconds'
    ? { kind: source.kind }
    : { kind: 'read', found: 'absent' };
}

/** @param type the media type of the answer, null if it has none */
function bodySourceOf(sources: readonly CostSource[], type: string | null): BodySource | null {
  const kind = type === null ? null : (KINDS.get(type) ?? (type.endsWith('+json') ? 'json' : undefined));
  for (const source of sources) if (source.kind === kind) return source as BodySource;
  if (type !== null && type !== 'text/plain') return null;
  const ofBody = sources.filter((source): source is BodySource => 'pointer' in source);
  return ofBody.length === 1 ? ofBody[0]! : null;
}

/** The media type in lower case, without parameters; null without a Content-Type field, and empty if it has several. */
function mediaTypeOf(fields: FieldValues): string | null {
  const types = fields.values('content-type');
  if (types.length === 0) return null;
  if (types.length > 1) return '';
  const type = types[0]!;
  return KINDS.has(type) ? type : type.split(';', 1)[0]!.trim().toLowerCase();
}

/** The codings of a body in lower case, without those that change nothing. */
function codingsOf(fields: FieldValues): readonly string[] {
  const values = fields.values('content-encoding');
  if (values.length === 0) return values;
  return values
    .join(',')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
}

function readingBy(way: Way, measured: Measured): CostReading {
  const found = way.kind === 'read' ? way.found : way.kind === 'body' ? way.reader.end() : measured[way.kind];
  if (typeof found !== 'number') return unknown(found === 'no_json' ? 'invalid' : found, seenBy(way, measured));
  return found <= MAX_AMOUNT ? { kind: 'known', amount: found } : unknown('too_large', null);
}

/** The last amount that has been read; null if none has. */
function seenBy(way: Way, measured: Measured): number | null {
  if (way.kind === 'read') return typeof way.found === 'number' ? way.found : null;
  return way.kind === 'body' ? way.reader.seen : Math.min(measured[way.kind], MAX_AMOUNT);
}

function unknown(why: Unknown['why'], seen: number | null): CostReading {
  return { kind: 'unknown', why, seen };
}
