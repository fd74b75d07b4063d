import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DURABLE } from '../admit/ledger.ts';
import type { Failure } from '../failure.ts';
import type { StoredKey } from '../identify/key-store.ts';
import { type Change, codeOfFailure } from '../operations/recorded.ts';

/** A complete response of the admin API, before it is written to the socket. */
export interface AdminResponse {
  readonly status: number;
  readonly body: object;
  readonly fields: Readonly<Record<string, string>>;
  /** The body as JSON, if it has been made before. */
  readonly json?: string;
  /** What the request has changed, for the record of changes; left out if it changed nothing. */
  readonly change?: Change;
}

/** The error codes of the admin API and their status codes. */
const STATUS = {
  invalid_request: 400,
  missing_admin_token: 401,
  invalid_admin_token: 401,
  forbidden: 403,
  cross_origin: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  invalid_plans: 422,
  too_costly: 422,
  precondition_required: 428,
  idempotency_key_reused: 422,
  too_many_failed_attempts: 429,
  too_many_streams: 429,
  internal_error: 500,
  audit_unavailable: 503,
  identity_unavailable: 503,
  busy: 503,
  store_unavailable: 503,
} as const;

export type RefusalCode = keyof typeof STATUS;

export function jsonResponse(
  status: number,
  body: object,
  fields: Readonly<Record<string, string>> = {},
): AdminResponse {
  return { status, body, fields };
}

/** The same response, with its JSON made now. */
export function withJson(response: AdminResponse): AdminResponse {
  return { ...response, json: JSON.stringify(response.body) };
}

/** The response to a change that was made: 202 with `durability: unknown` if a failover of the store may undo it. */
export function changeResponse(
  status: 200 | 201,
  change: Change,
  body: object,
  fields: Readonly<Record<string, string>> = {},
): AdminResponse {
  const { durability = DURABLE } = change;
  const response =
    durability.kind === 'durable'
      ? jsonResponse(status, body, fields)
      : jsonResponse(202, { ...body, durability: 'unknown' }, fields);
  return { ...response, change };
}

/** An error with the same body as all errors of the gateway: code, message, status (contract section 4). */
export function errorResponse(
  code: RefusalCode,
  message: string,
  fields: Readonly<Record<string, string>> = {},
): AdminResponse {
  const status = STATUS[code];
  return jsonResponse(status, { code, message, status }, fields);
}

/** The code of an error response. */
export function codeOf({ body }: AdminResponse): string {
  return 'code' in body ? String(body.code) : 'internal_error';
}

/** The response to a Failure; null if it is a defect, or the store holds something unreadable: those stay private. */
export function refusalOf(failure: Failure): AdminResponse | null {
  const code = codeOfFailure(failure);
  if (code === null) return null;
  const message = PRIVATE_MESSAGES[failure.code] ?? failure.message;
  return errorResponse(code, message, STATUS[code] === 503 ? { 'Retry-After': '1' } : {});
}

/** In place of messages that are for operators of the store alone. */
const PRIVATE_MESSAGES: Readonly<Partial<Record<Failure['code'], string>>> = {
  store_unavailable: 'The store does not answer at the moment. Retry shortly.',
  pepper_mismatch: 'The KEY_PEPPER of this gateway is not the one that the keys in the store were made under.',
};

/** Sends a response. Caches must not store it, because it may hold a secret. */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, body, fields, json }: AdminResponse,
  requestId: string,
): void {
  const text = json ?? JSON.stringify(body);
  // If the body was not read to its end, the rest of it could be parsed as the next request.
  const rest: Record<string, string> = request.complete ? {} : { Connection: 'close' };
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
    ...rest,
    ...fields,
  });
  response.end(text);
  request.resume();
}

/**
 * The entity tag of a key (RFC 9110 section 8.8.3). It changes when an operator changes the key, but not when the gateway
 * stores a secret's digest under a new pepper.
 */
export function etagOf(key: StoredKey): string {
  const { id, plan, limits, name, owner, notes, createdAtMs, expiresAtMs, revokedAtMs } = key;
  const windows = Object.entries(limits).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const secrets = key.secrets.map((secret) => [secret.last4, secret.createdAtMs, secret.expiresAtMs]);
  const what = [id, plan, windows, name, owner, notes ?? null, createdAtMs, expiresAtMs, revokedAtMs, secrets];
  return `"${hash('sha256', JSON.stringify(what), 'base64url').slice(0, 22)}"`;
}

/** The key is no longer the version that If-Match names. */
export class PreconditionFailed extends Error {}

/**
 * Reads If-Match (RFC 9110 section 13.1.1).
 * @returns a guard that throws PreconditionFailed for any other version; undefined if every version matches; a response
 *   that refuses the request if the field is malformed
 */
export function guardOf(ifMatch: string | null): ((before: StoredKey) => void) | undefined | AdminResponse {
  if (ifMatch === null) return undefined;
  const tags = entityTagsOf(ifMatch);
  if (tags === null) return undefined;
  if ('status' in tags) return tags;
  return (before) => {
    // Strong comparison: a weak tag never matches.
    if (!tags.includes(etagOf(before))) throw new PreconditionFailed();
  };
}

/** The entity tags of If-Match; null for `*`; a response that refuses the request if the field is malformed. */
export function entityTagsOf(ifMatch: string): readonly string[] | null | AdminResponse {
  if (ifMatch.trim() === '*') return null;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  if (tags.every((tag) => /^(W\/)?"[\x21\x23-\x7e]*"$/.test(tag))) return tags;
  return errorResponse(
    'invalid_request',
    'If-Match must be an ETag in its quotes, several with commas between them, or *.',
  );
}
