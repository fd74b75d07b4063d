import type { IncomingMessage } from 'node:http';

/** A request body that was read to its end, or why it was not. */
export type Body =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  | { readonly kind: 'too_large' }
  /** The client left, or broke its framing, before the end. */
  | { readonly kind: 'gone' };

export const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Reads a body of at most `MAX_BODY_BYTES`. A longer one is given up as soon as that is known (by Content-Length before
 * the first byte); its rest is left in the request for the caller to drain.
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return { kind: 'too_large' };
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // destroyOnReturn would take the socket, and with it the answer, away from a client that sent too much.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) return { kind: 'too_large' };
      chunks.push(chunk);
    }
  } catch {
    // The iterator throws when the connection ends before the body does.
    return { kind: 'gone' };
  }
  return { kind: 'whole', bytes: Buffer.concat(chunks) };
}

/** True when the head announces a body (RFC 9112 section 6.3). */
export function announcesBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

/** Why a body in this form cannot be read, or null. JSON is UTF-8 (RFC 8259 section 8.1); a charset may only say so. */
export function bodyFault(contentTypes: readonly string[], contentEncodings: readonly string[]): string | null {
  // Who says nothing means the only thing there is.
  const [type = 'application/json'] = contentTypes;
  const parts = /^application\/json[ \t]*(;.*)?$/i.exec(type);
  if (contentTypes.length > 1 || parts === null) return 'Content-Type must be application/json, given at most once.';
  const charset = /;[ \t]*charset=(?:"([^"]*)"|([^;\s]*))/i.exec(parts[1] ?? '');
  if (charset !== null && (charset[1] ?? charset[2])?.toLowerCase() !== 'utf-8') {
    return 'Content-Type must name no charset other than utf-8.';
  }
  const coded = contentEncodings.some((coding) => coding.toLowerCase() !== 'identity');
  return coded ? 'Content-Encoding must be left out: send the JSON as it is.' : null;
}
