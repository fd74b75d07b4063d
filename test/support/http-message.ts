/** Field lines of a message in their order, names as they were sent. */
export type Fields = readonly (readonly [name: string, value: string])[];

export interface Head {
  readonly startLine: string;
  readonly fields: Fields;
  /** Where the body begins. */
  readonly end: number;
}

export interface Body {
  readonly body: Buffer;
  readonly trailers: Fields;
  /** Where the next message begins. */
  readonly end: number;
}

/** Something that no HTTP/1.1 sender may send (RFC 9112). */
export class BrokenMessage extends Error {
  constructor(problem: string, bytes: Buffer, at: number) {
    super(`${problem}, at byte ${at}: ${JSON.stringify(bytes.toString('latin1', at, at + 80))}`);
    this.name = 'BrokenMessage';
  }
}

/**
 * Reads a start line and field lines strictly: CRLF only, no folding, no space before the colon (RFC 9112 sections 2
 * and 5).
 * @returns null while the head is incomplete
 * @throws BrokenMessage
 */
export function readHead(bytes: Buffer, start: number): Head | null {
  const empty = bytes.indexOf('\r\n\r\n', start);
  const bare = bareLineFeed(bytes, start, empty === -1 ? bytes.length : empty);
  if (bare !== -1) throw new BrokenMessage('A line that ends without CR', bytes, bare);
  if (empty === -1) return null;
  const [startLine = '', ...lines] = bytes.toString('latin1', start, empty).split('\r\n');
  return { startLine, fields: lines.map((line) => fieldOf(line, bytes, start)), end: empty + 4 };
}

/**
 * Reads a body of a known length.
 * @returns null while it is incomplete
 */
export function readSized(bytes: Buffer, start: number, length: number): Body | null {
  if (bytes.length < start + length) return null;
  return { body: bytes.subarray(start, start + length), trailers: [], end: start + length };
}

/**
 * Reads a chunked body with its trailers (RFC 9112 section 7.1).
 * @param extensions whether a chunk size may have extensions: an upstream may send them, the gateway never does
 * @returns null while it is incomplete
 * @throws BrokenMessage
 */
export function readChunked(bytes: Buffer, start: number, extensions = false): Body | null {
  const sizeLine = extensions ? /^([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?$/ : /^([0-9A-Fa-f]{1,8})$/;
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) {
      if (bytes.length - at > 16 && !extensions) throw new BrokenMessage('No chunk size', bytes, at);
      return null;
    }
    const size = sizeLine.exec(bytes.toString('latin1', at, lineEnd))?.[1];
    if (size === undefined) throw new BrokenMessage('No chunk size', bytes, at);
    const length = Number.parseInt(size, 16);
    at = lineEnd + 2;
    if (length === 0) return readTrailers(bytes, lineEnd, chunks);
    if (bytes.length < at + length + 2) return null;
    if (bytes.toString('latin1', at + length, at + length + 2) !== '\r\n') {
      throw new BrokenMessage('A chunk that is longer than its size', bytes, at + length);
    }
    chunks.push(bytes.subarray(at, at + length));
    at += length + 2;
  }
}

/** All values of a field, each line its own. */
export function valuesOf(fields: Fields, name: string): string[] {
  return fields.filter(([own]) => own.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
}

/**
 * The length that Content-Length declares; null without one.
 * @throws BrokenMessage for a repeated or malformed one
 */
export function contentLengthOf(fields: Fields, bytes: Buffer, at: number): number | null {
  const values = valuesOf(fields, 'content-length');
  if (values.length === 0) return null;
  if (values.length > 1) throw new BrokenMessage('Two Content-Length fields', bytes, at);
  if (!/^\d{1,15}$/.test(values[0] as string)) throw new BrokenMessage('A malformed Content-Length', bytes, at);
  return Number(values[0]);
}

function readTrailers(bytes: Buffer, lastChunkEnd: number, chunks: readonly Buffer[]): Body | null {
  // The line end of the last chunk's size stands for the one that ends a start line.
  const head = readHead(bytes, lastChunkEnd);
  return head === null ? null : { body: Buffer.concat(chunks), trailers: head.fields, end: head.end };
}

function fieldOf(line: string, bytes: Buffer, at: number): readonly [string, string] {
  const [, name, value] =
    /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(|[^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*$/.exec(line) ?? [];
  if (name === undefined || value === undefined) {
    throw new BrokenMessage(`A malformed field line ${JSON.stringify(line)}`, bytes, at);
  }
  return [name, value];
}

function bareLineFeed(bytes: Buffer, start: number, end: number): number {
  for (let at = bytes.indexOf('\n', start); at !== -1 && at < end; at = bytes.indexOf('\n', at + 1)) {
    if (bytes[at - 1] !== 0x0d) return at;
  }
  return -1;
}
