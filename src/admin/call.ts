import type { IncomingMessage } from 'node:http';
import type { Role } from '../config/admin-tokens-file.ts';
import { ReplyDeadlines } from '../io/deadlines.ts';
import type { Actor } from '../operations/audit-trail.ts';
import { type AdminResponse, errorResponse } from './response.ts';

// One request to the admin API, and how its body is read.

/** The sender of a request to the admin API. */
export interface Identity {
  /** Of the token, which is also the name of its sessions, or of the person that an authenticating proxy or the OpenID provider names. */
  readonly name: string;
  readonly role: Role;
  /** A person may have the name of a token. */
  readonly kind: 'token' | 'person';
  /**
   * `session`: a token, the code of a link or a sign-in at the OpenID provider was exchanged for a cookie. `proxy`: a token of the identity proxy. `shell`: a command of the
   * user who owns the store.
   */
  readonly via: 'token' | 'session' | 'proxy' | 'shell';
  /** Who runs the command, for `shell`. */
  readonly shell?: Extract<Actor, { kind: 'shell' }>;
  /** Aborted when the session ends or the token is no longer accepted. Never aborted for ADMIN_TOKEN. */
  readonly signal: AbortSignal;
}

/** A text that is different for each token and each person, also where these have the same name. */
export function personOf({ name, kind }: Pick<Identity, 'name' | 'kind'>): string {
  return `${kind} ${name}`;
}

/** One authenticated request to the admin API. */
export interface Call {
  readonly identity: Identity;
  /** The members of the input that are in the path, in its order. */
  readonly members: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The values of a header field. `name` is in lower case. */
  fields(name: string): readonly string[];
  /** The parsed JSON, or the bytes of the JSON if another thread parses it; undefined if there was no body. */
  readonly body: unknown;
  readonly clientAddress: string;
  readonly requestId: string;
}

const MAX_BODY_BYTES = 64 * 1024;

/**
 * Reads the JSON body of a request.
 * @param maxBytes its size limit
 * @param timeoutMs how long it may take; null: as long as any request
 * @returns its value, which is undefined if there is no body, or the response that refuses it
 */
export async function readBody(
  request: IncomingMessage,
  maxBytes = MAX_BODY_BYTES,
  timeoutMs: number | null = null,
): Promise<{ readonly value: unknown } | { readonly refusal: AdminResponse }> {
  const bytes = readBytes(request, maxBytes);
  const read = await (timeoutMs === null ? bytes : within(timeoutMs, bytes));
  if ('refusal' in read || read.value === undefined) return read;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(read.value);
    return { value: text === '' ? undefined : JSON.parse(text) };
  } catch {
    return { refusal: errorResponse('invalid_request', 'The body is not valid JSON in UTF-8.') };
  }
}

/** What is read, or the response that refuses the request because that took too long. */
function within<T>(timeoutMs: number, reading: Promise<T>): Promise<T | { readonly refusal: AdminResponse }> {
  const message = `The body did not arrive within ${timeoutMs / 1000} s.`;
  return new ReplyDeadlines().within(reading, timeoutMs, () => ({
    refusal: errorResponse('request_timeout', message),
  }));
}

/**
 * Reads the body of a request whose JSON another thread parses.
 * @param maxBytes its size limit
 * @returns its bytes, undefined if there is no body, or the response that refuses it
 */
export async function readBytes(
  request: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly value: Uint8Array | undefined } | { readonly refusal: AdminResponse }> {
  const { headers } = request;
  const declared = Number(headers['content-length'] ?? 0);
  if (declared === 0 && headers['transfer-encoding'] === undefined) return { value: undefined };
  const wrongType = typeFault(headers['content-type'], headers['content-encoding']);
  if (wrongType !== null) return { refusal: errorResponse('unsupported_media_type', wrongType) };
  const value = declared > MAX_DISCARDED_BYTES ? null : await readAtMost(request, maxBytes);
  if (value !== null) return { value };
  return { refusal: errorResponse('payload_too_large', `The body is larger than ${maxBytes} bytes.`) };
}

/** The fault of the Content-Type or Content-Encoding, or null. JSON is UTF-8 (RFC 8259 section 8.1), so is any charset. */
function typeFault(type: string | undefined, coding: string | undefined): string | null {
  const [, , quoted, plain] =
    /^application\/(json|merge-patch\+json)[ \t]*(?:;[ \t]*charset=(?:"([^";]*)"[ \t]*|([^";]*)))?$/i.exec(
      type ?? '',
    ) ?? ([null, null, null, null] as const);
  const charset = quoted ?? plain;
  if (charset === null) return 'Content-Type must be application/json.';
  if (charset !== undefined && charset.toLowerCase() !== 'utf-8') return 'The charset of Content-Type must be utf-8.';
  if (coding === undefined || coding.toLowerCase() === 'identity') return null;
  return 'Content-Encoding must be left out: send the JSON as it is.';
}

/**
 * What a client that sends a body that is too large may send to its end. Many clients read no response before that, and
 * would report a broken connection instead of the 413.
 */
const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;

/** The bytes of the body; null if there are more than `maxBytes`. Rejects if the client disconnects. */
async function readAtMost(request: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // With destroyOnReturn the early return would destroy the socket, and the client would not get the 413.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_DISCARDED_BYTES) return null;
    if (bytes > maxBytes) chunks.length = 0;
    else chunks.push(chunk);
  }
  return bytes > maxBytes ? null : Buffer.concat(chunks);
}
