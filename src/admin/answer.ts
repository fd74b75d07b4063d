import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Failure } from '../failure.ts';
import type { Durability } from '../identify/key-store.ts';

/** One answer of the admin API, whole, before it touches a socket. */
export interface Answer {
  readonly status: number;
  readonly body: object;
  readonly fields: Readonly<Record<string, string>>;
}

/** Every code of the admin API and its status. */
const STATUS = {
  invalid_request: 400,
  missing_admin_token: 401,
  invalid_admin_token: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_key_reused: 422,
  too_many_failed_attempts: 429,
  internal_error: 500,
  audit_unavailable: 503,
  store_unavailable: 503,
} as const;

export type RefusalCode = keyof typeof STATUS;

export function answer(status: number, body: object, fields: Readonly<Record<string, string>> = {}): Answer {
  return { status, body, fields };
}

/** Of a change that was made: 202, with a member that says so, where a failover of the store may undo it. */
export function answerChange(
  status: 200 | 201,
  durability: Durability,
  body: object,
  fields: Readonly<Record<string, string>> = {},
): Answer {
  return durability.kind === 'durable'
    ? answer(status, body, fields)
    : answer(202, { ...body, durability: 'unknown' }, fields);
}

/** An answer with the body that all errors of the gateway have: code, message, status (contract section 4). */
export function refuse(code: RefusalCode, message: string, fields: Readonly<Record<string, string>> = {}): Answer {
  const status = STATUS[code];
  return answer(status, { code, message, status }, fields);
}

/** The code of a refusal. */
export function codeOf({ body }: Answer): string {
  return 'code' in body ? String(body.code) : 'internal_error';
}

/** What is told of a failure; null where it is a defect of ours, or of the store's content, and stays private. */
export function refusalOf({ code, message }: Failure): Answer | null {
  if (code === 'store_unavailable') {
    return refuse(code, 'The store does not answer at the moment. Retry shortly.', { 'Retry-After': '1' });
  }
  if (code === 'audit_unavailable') return refuse(code, message, { 'Retry-After': '1' });
  if (code === 'pepper_mismatch') {
    const what = 'The KEY_PEPPER of this gateway is not the one that the keys in the store were made under.';
    return refuse('store_unavailable', what, { 'Retry-After': '1' });
  }
  if (code === 'not_found' || code === 'conflict') return refuse(code, message);
  return code === 'refused' ? refuse('invalid_request', message) : null;
}

/** Nothing of it is for a cache: a secret may be in it. */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, body, fields }: Answer,
  requestId: string,
): void {
  const text = JSON.stringify(body);
  // A body that was not read to its end could pass for the next request.
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
