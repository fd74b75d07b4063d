/** A request that a sender's bytes hold without doubt. */
export interface ReadRequest {
  readonly method: string;
  /** As sent, or reduced to path and query where it was a URL. */
  readonly target: string;
  /** What has arrived of it, without the chunks' framing. */
  readonly body: Buffer;
  readonly complete: boolean;
}

export interface Reading {
  readonly requests: readonly ReadRequest[];
  /** How the bytes end: exactly with a request, in the middle of one, or with something that is none. */
  readonly end: 'whole' | 'partial' | 'invalid';
  /** First words of all heads, that of the one that is none among them: what answers are read by. */
  readonly methods: readonly string[];
}

/** node:http reads the names RTSP/1.0 and ICE/1.0 as HTTP/1.0 and does not tell; nothing about the framing changes. */
const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) +([^ ]+) +(?:HTTP\/1\.([01])|(?:RTSP|ICE)\/1\.0)$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?)[ \t]*$/;
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?$/;

/**
 * Reads a client's bytes the one way that nobody can dispute (RFC 9112), and stops at the first thing that two servers
 * could read differently. What a gateway may send on is what is read here, or less; never anything else.
 */
export function readRequests(bytes: Buffer): Reading {
  const text = bytes.toString('latin1');
  const requests: ReadRequest[] = [];
  const methods: string[] = [];
  for (let at = 0; ; ) {
    // RFC 9112 section 2.2: empty lines before a request are ignored; node:http takes half ones for them too.
    while (text[at] === '\r' || text[at] === '\n') at++;
    if (at === text.length) return { requests, end: 'whole', methods };
    methods.push(/^\S*/.exec(text.slice(at, at + 40))![0]);
    const head = headAt(text, at);
    if (typeof head === 'string') return { requests, end: head, methods };
    const { method, target } = head;
    const body = bodyAt(bytes, text, head);
    requests.push({ method, target, body: body.bytes, complete: typeof body.end === 'number' });
    if (typeof body.end === 'string') return { requests, end: body.end, methods };
    at = body.end;
  }
}

interface HeadRead {
  readonly method: string;
  readonly target: string;
  readonly framing: 'none' | 'chunked' | number;
  readonly end: number;
}

function headAt(text: string, start: number): HeadRead | 'partial' | 'invalid' {
  const end = text.indexOf('\r\n\r\n', start);
  if (end === -1) return 'partial';
  const [line = '', ...lines] = text.slice(start, end).split('\r\n');
  const [, method, target, minor] = REQUEST_LINE.exec(line) ?? [];
  const fields = lines.map((field) => FIELD.exec(field));
  if (method === undefined || target === undefined || fields.includes(null)) return 'invalid';
  const all = (name: string) => fields.filter((it) => it![1]!.toLowerCase() === name).map((it) => it![2]!);
  const framing = framingOf(all('content-length'), all('transfer-encoding'), minor === '1');
  const hosts = all('host');
  if (framing === null || hosts.length > 1 || (minor === '1' && hosts.length === 0)) return 'invalid';
  if (!/^(?:\/|https?:\/\/|\*$)/i.test(target)) return 'invalid';
  const path = target.replace(/^https?:\/\/[^/?]+/i, '');
  return { method, target: path === '' ? '/' : path, framing, end: end + 4 };
}

function framingOf(lengths: readonly string[], codings: readonly string[], is11: boolean): HeadRead['framing'] | null {
  if (codings.length > 0) {
    return lengths.length === 0 && codings.length === 1 && codings[0]!.toLowerCase() === 'chunked' && is11
      ? 'chunked'
      : null;
  }
  if (lengths.length === 0) return 'none';
  return lengths.length === 1 && /^[0-9]{1,15}$/.test(lengths[0]!) ? Number(lengths[0]) : null;
}

interface BodyRead {
  readonly bytes: Buffer;
  readonly end: number | 'partial' | 'invalid';
}

function bodyAt(bytes: Buffer, text: string, { framing, end }: HeadRead): BodyRead {
  if (framing === 'none') return { bytes: Buffer.alloc(0), end };
  if (framing === 'chunked') return chunksAt(bytes, text, end);
  const body = bytes.subarray(end, end + framing);
  return { bytes: body, end: body.length === framing ? end + framing : 'partial' };
}

function chunksAt(bytes: Buffer, text: string, start: number): BodyRead {
  const chunks: Buffer[] = [];
  const done = (end: BodyRead['end']): BodyRead => ({ bytes: Buffer.concat(chunks), end });
  for (let at = start; ; ) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return done('partial');
    const size = CHUNK_SIZE.exec(text.slice(at, lineEnd))?.[1];
    if (size === undefined) return done('invalid');
    const length = Number.parseInt(size, 16);
    at = lineEnd + 2;
    if (length === 0) return done(trailersEnd(text, at));
    chunks.push(bytes.subarray(at, at + length));
    if (text.length < at + length + 2) return done('partial');
    if (!text.startsWith('\r\n', at + length)) return done('invalid');
    at += length + 2;
  }
}

function trailersEnd(text: string, start: number): BodyRead['end'] {
  if (text.startsWith('\r\n', start)) return start + 2;
  const end = text.indexOf('\r\n\r\n', start);
  if (end === -1) return 'partial';
  const lines = text.slice(start, end).split('\r\n');
  return lines.every((line) => FIELD.test(line)) ? end + 4 : 'invalid';
}
