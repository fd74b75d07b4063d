import { type HeadLimits, type ValidatedFields, validateFields } from './request-framing.ts';

/** Derives a value from header fields, and from nothing else. */
type FieldReader<T> = (rawHeaders: readonly string[]) => T;

/**
 * The header fields of a request, with everything that is derived from them. Most clients send the same fields, byte
 * for byte, with each request of a connection. The fast path then hands out the same block again, so that nothing is
 * derived twice. Each request from node:http has a block of its own.
 */
export class FieldBlock {
  /** Names and values alternating, as they were received. */
  readonly rawHeaders: readonly string[];
  #validated: ValidatedFields | null = null;
  /** The readers used so far, with their results. A list of so few is searched faster than a map. */
  readonly #readers: FieldReader<unknown>[] = [];
  readonly #results: unknown[] = [];

  constructor(rawHeaders: readonly string[]) {
    this.rawHeaders = rawHeaders;
  }

  /**
   * The result of checking the fields, kept because a block belongs to one connection, whose HTTP version and limits
   * are fixed.
   */
  validated(httpVersion: string, limits: HeadLimits): ValidatedFields {
    this.#validated ??= validateFields(this.rawHeaders, httpVersion, limits);
    return this.#validated;
  }

  /** @param read must be the same function each time, because the block keeps the result under it */
  derived<T>(read: FieldReader<T>): T {
    const at = this.#readers.indexOf(read);
    if (at >= 0) return this.#results[at] as T;
    const result = read(this.rawHeaders);
    this.#readers.push(read);
    this.#results.push(result);
    return result;
  }
}
