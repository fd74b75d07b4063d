import type { IncomingMessage } from 'node:http';
import { type Answer, refuse } from './answer.ts';

/** One request to the admin API whose sender may make it. */
export interface Call {
  /** What the path names, in its order. */
  readonly ids: readonly string[];
  readonly query: URLSearchParams;
  /** The values of a field, its name in lower case. */
  fields(name: string): readonly string[];
  /** JSON; undefined where there was no body. */
  readonly body: unknown;
  readonly clientAddress: string;
  readonly requestId: string;
}

export const MAX_BODY_BYTES = 64 * 1024;

/** Reads the body of a request, JSON. @returns its value, undefined where there is none, or what is wrong with it */
export async function readBody(
  request: IncomingMessage,
): Promise<{ readonly value: unknown } | { readonly refusal: Answer }> {
  const { headers } = request;
  const declared = Number(headers['content-length'] ?? 0);
  if (declared === 0 && headers['transfer-encoding'] === undefined) return { value: undefined };
  const wrongType = typeFault(headers['content-type'], headers['content-encoding']);
  if (wrongType !== null) return { refusal: refuse('unsupported_media_type', wrongType) };
  const bytes = declared > MAX_BODY_BYTES ? null : await readAtMost(request);
  if (bytes === null) {
    return { refusal: refuse('payload_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes.`) };
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { value: text === '' ? undefined : JSON.parse(text) };
  } catch {
    return { refusal: refuse('invalid_request', 'The body is not valid JSON in UTF-8.') };
  }
}

/** JSON is UTF-8 (RFC 8259 section 8.1); a charset may only say so. */
function typeFault(type: string | undefined, coding: string | undefined): string | null {
  const [, , charset] =
    /^application\/(json|merge-patch\+json)[ \t]*(?:;[ \t]*charset="?([^";]*)"?[ \t]*)?$/i.exec(type ?? '') ??
    ([null, null, null] as const);
  if (charset === null) return 'Content-Type must be application/json.';
  if (charset !== undefined && charset.toLowerCase() !== 'utf-8') return 'The charset of Content-Type must be utf-8.';
  if (coding === undefined || coding.toLowerCase() === 'identity') return null;
  return 'Content-Encoding must be left out: send the JSON as it is.';
}

/** Null where there is more. A client that leaves rejects. */
async function readAtMost(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // destroyOnReturn would take the socket, and with it the answer, away from a client that sent too much.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The values of a field, one for each time it was sent. */
export function fieldsOf(rawHeaders: readonly string[], name: string): readonly string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name);
}
