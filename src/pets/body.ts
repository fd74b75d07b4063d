import type { IncomingMessage } from 'node:http';

/** A whole request body, or why it could not be read. */
export type Body =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  | { readonly kind: 'too_large' }
  /** The client disconnected, or sent broken framing, before the end of the body. */
  | { readonly kind: 'gone' };

export const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Reads a body of at most `MAX_BODY_BYTES`. It stops as soon as a body is known to be longer (with Content-Length, before
 * the first byte); the caller must drain the rest.
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return { kind: 'too_large' };
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // destroyOnReturn would destroy the socket before a client that sent too much could get its response.
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

/** Whether the head announces a body (RFC 9112 section 6.3). */
export function announcesBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

/** Why a body with these fields cannot be read, or null. JSON is UTF-8 (RFC 8259 section 8.1), so no other charset is allowed. */
export function bodyFault(contentTypes: readonly string[], contentEncodings: readonly string[]): string | null {
  // A request without Content-Type is read as JSON, the only type supported.
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
