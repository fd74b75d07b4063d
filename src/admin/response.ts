import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DURABLE } from '../admit/ledger.ts';
import { Failure, Refused } from '../failure.ts';
import { type Attributes, FIRST_ATTRIBUTES, FURTHER_ATTRIBUTES } from '../model/attributes.ts';
import type { StoredCustomer, StoredKey, StoredRecord } from '../model/record.ts';
import { type Change, codeOfFailure } from '../operations/recorded.ts';

/** A complete response of the admin API, before it is written to the socket. */
export interface AdminResponse {
  readonly status: number;
  readonly body: object;
  readonly fields: Readonly<Record<string, string | readonly string[]>>;
  /** The body as JSON, if it has been made before. */
  readonly json?: string;
}

/** The error codes of the admin API and their status codes. */
export const STATUS = {
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
  store_corrupt: 500,
  audit_unavailable: 503,
  identity_unavailable: 503,
  busy: 503,
  store_unavailable: 503,
} as const;

export type RefusalCode = keyof typeof STATUS;

export function jsonResponse(status: number, body: object, fields: AdminResponse['fields'] = {}): AdminResponse {
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
  if (durability.kind === 'durable') return jsonResponse(status, body, fields);
  return jsonResponse(202, { ...body, durability: 'unknown' }, fields);
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

/**
 * The response to an error that refuses a request; null if it is a defect, which stays private.
 * @param ownsStore whether the sender may read what is for operators of the store alone
 */
export function refusalOf(error: unknown, ownsStore = false): AdminResponse | null {
  if (error instanceof Refused) return responseToRefused(error);
  return error instanceof Failure ? responseToFailure(error, ownsStore) : null;
}

function responseToRefused({ refusal: code, message, more }: Refused): AdminResponse {
  const { status, body } = errorResponse(code, message);
  const fields = {
    ...(code === 'busy' ? { 'Retry-After': '1' } : {}),
    ...(more.version === undefined ? {} : { ETag: `"${more.version}"` }),
    ...(more.keyId === undefined ? {} : { Location: `/admin/keys/${more.keyId}` }),
    ...(more.customerId === undefined ? {} : { Location: `/admin/customers/${more.customerId}` }),
  };
  return jsonResponse(status, { ...body, ...more.members }, fields);
}

function responseToFailure(failure: Failure, ownsStore: boolean): AdminResponse | null {
  const code = codeOfFailure(failure);
  if (code === null) return null;
  const message = (ownsStore ? undefined : PRIVATE_MESSAGES[failure.code]) ?? failure.message;
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
 * The entity tag of a key or a customer (RFC 9110 section 8.8.3). It changes when an operator changes the record, but not when the
 * gateway stores a secret's digest under a new pepper.
 */
export function etagOf(record: StoredRecord): string {
  const { id, plan, limits, createdAtMs, expiresAtMs } = record;
  const windows = Object.entries(limits).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const first = FIRST_ATTRIBUTES.map((name) => record[name] ?? null);
  const common = [id, plan, windows, ...first, createdAtMs, expiresAtMs];
  const what = 'secrets' in record ? [...common, ...ofKey(record)] : [...common, ...ofCustomer(record)];
  return `"${hash('sha256', JSON.stringify(what), 'base64url').slice(0, 22)}"`;
}

/** Nothing for a customer that is not suspended and says nothing of who may call what. */
function ofCustomer(customer: StoredCustomer): readonly unknown[] {
  const { suspended } = customer;
  return [...(suspended === undefined ? [] : [suspended]), ...furtherAttributes(customer)];
}

/** Those that the record has. */
function furtherAttributes(record: Attributes): readonly unknown[] {
  return FURTHER_ATTRIBUTES.flatMap((name) => (record[name] === undefined ? [] : [[name, record[name]]]));
}

function ofKey(key: StoredKey): readonly unknown[] {
  const { revokedAtMs, secrets, customer, suspended } = key;
  const shown = secrets.map((secret) => [secret.last4, secret.createdAtMs, secret.expiresAtMs]);
  const present = [customer, suspended].filter((member) => member !== undefined);
  return [revokedAtMs, shown, ...present, ...furtherAttributes(key)];
}
