import {
  type Body,
  BrokenMessage,
  contentLengthOf,
  type Fields,
  type Head,
  readChunked,
  readHead,
  readSized,
  valuesOf,
} from './http-message.ts';

/** One HTTP/1.x response as it was on the wire. */
export interface ParsedResponse {
  readonly version: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
  /** Raw field lines in their order. */
  readonly headers: Fields;
  readonly trailers: Fields;
  /** Without the chunks' framing. Of an incomplete response, what has arrived of a sized or unframed body. */
  readonly body: Buffer;
  /** Whether the message ended as its framing says. */
  readonly complete: boolean;
  /** The value of a field; null without it, all lines joined by `, ` when there are several. */
  header(name: string): string | null;
  json(): unknown;
}

/**
 * Reads a connection's responses strictly (RFC 9112 sections 4 and 6.3).
 *
 * @param methods of the requests that they answer, in order; GET where there are none
 * @param ended whether the server closed in order: what ends a body without framing
 * @throws BrokenMessage
 */
export function readResponses(bytes: Buffer, methods: readonly string[], ended: boolean): ParsedResponse[] {
  const responses: ParsedResponse[] = [];
  let answered = 0;
  for (let at = 0; at < bytes.length; ) {
    const head = readHead(bytes, at);
    const start = bytes.toString('latin1', at, at + 5);
    if (!'HTTP/'.startsWith(start)) throw new BrokenMessage('Something that is no response', bytes, at);
    if (head === null) break;
    const [version, status, reason] = readStatusLine(head.startLine, bytes, at);
    const body = readBody(bytes, head, status, methods[answered] ?? 'GET', ended);
    if (status >= 200) answered += 1;
    responses.push(response(version, status, reason, head.fields, body));
    // After 101 the bytes are another protocol's.
    if (!body.complete || status === 101) break;
    at = body.end;
  }
  return responses;
}

type Arrived = Body & { readonly complete: boolean };

function readStatusLine(line: string, bytes: Buffer, at: number): ['1.0' | '1.1', number, string] {
  const [, version, status, reason] = /^HTTP\/(1\.[01]) ([1-9]\d\d) ([\t\x20-\x7e\x80-\xff]*)$/.exec(line) ?? [];
  if (version === undefined) throw new BrokenMessage('A malformed status line', bytes, at);
  return [version as '1.0' | '1.1', Number(status), reason ?? ''];
}

function readBody(bytes: Buffer, head: Head, status: number, method: string, ended: boolean): Arrived {
  const length = contentLengthOf(head.fields, bytes, head.end);
  const codings = valuesOf(head.fields, 'transfer-encoding');
  if (codings.length > 0 && length !== null) {
    throw new BrokenMessage('Both Transfer-Encoding and Content-Length', bytes, head.end);
  }
  if (codings.length > 0 && codings.join().toLowerCase() !== 'chunked') {
    throw new BrokenMessage('A Transfer-Encoding other than chunked', bytes, head.end);
  }
  // RFC 9110 section 8.6, RFC 9112 section 6.1: neither field may be there in a response that never has a body.
  if ((status < 200 || status === 204) && (length !== null || codings.length > 0)) {
    throw new BrokenMessage(`A ${status} with a framed body`, bytes, head.end);
  }
  if (status < 200 || status === 204 || status === 304 || method === 'HEAD') return none(head.end);
  if (codings.length > 0) return arrived(readChunked(bytes, head.end), Buffer.alloc(0));
  const rest = bytes.subarray(head.end);
  if (length !== null) return arrived(readSized(bytes, head.end, length), rest);
  return { body: rest, trailers: [], end: bytes.length, complete: ended };
}

function arrived(body: Body | null, soFar: Buffer): Arrived {
  return body === null ? { body: soFar, trailers: [], end: -1, complete: false } : { ...body, complete: true };
}

function none(end: number): Arrived {
  return { body: Buffer.alloc(0), trailers: [], end, complete: true };
}

function response(
  version: '1.0' | '1.1',
  status: number,
  reason: string,
  headers: Fields,
  { body, trailers, complete }: Arrived,
): ParsedResponse {
  return {
    version,
    status,
    reason,
    headers,
    trailers,
    body,
    complete,
    header: (name) => {
      const values = valuesOf(headers, name);
      return values.length === 0 ? null : values.join(', ');
    },
    json: () => JSON.parse(body.toString('utf8')),
  };
}
