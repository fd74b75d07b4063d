import type { IncomingMessage } from 'node:http';
import type { Role } from '../config/admin-tokens.ts';
import type { KeyFormat } from '../identify/api-key.ts';
import type { KeyStore } from '../identify/key-store.ts';
import type { AuditStore } from '../operations/audit-store.ts';
import type { AuditLine, AuditTrail } from '../operations/audit-trail.ts';
import type { DeprecatedRouteCalls } from '../operations/deprecations.ts';
import { visible } from '../operations/input-values.ts';
import type { Operations } from '../operations/operations.ts';
import type { PlanDrafts } from '../operations/plans/drafts.ts';
import type { PlansFile } from '../operations/plans/plans-file.ts';
import type { PlansInForce } from '../operations/plans/write.ts';
import type { FindBudget } from './find-budget.ts';
import { type AdminResponse, errorResponse } from './response.ts';

// One request to the admin API, what its handler works on, and how its query and the bytes of its body are read.

/** The sender of a request to the admin API. */
export interface Identity {
  /** Of the token, which is also the name of its sessions, or of the person that an authenticating proxy names. */
  readonly name: string;
  readonly role: Role;
  /** `session`: a token or a one-time code was exchanged for a cookie. `proxy`: a token of the identity proxy. */
  readonly via: 'token' | 'session' | 'proxy';
  /** Aborted when the session ends or the token is no longer accepted. Never aborted for ADMIN_TOKEN. */
  readonly signal: AbortSignal;
}

/** A text that is different for each token and each person of a proxy, also where these have the same name. */
export function personOf({ name, via }: Identity): string {
  return `${via === 'proxy' ? 'person' : 'token'} ${name}`;
}

/** One authenticated request to the admin API. */
export interface Call {
  readonly identity: Identity;
  /** The ids in the path, in its order. */
  readonly ids: readonly string[];
  readonly query: URLSearchParams;
  /** The values of a header field. `name` is in lower case. */
  fields(name: string): readonly string[];
  /** The parsed JSON; undefined if there was no body. Of a resource with `bodies`, the bytes of the JSON. */
  readonly body: unknown;
  readonly clientAddress: string;
  readonly requestId: string;
}

/** What the resources below /admin/plans work on. */
export interface PlansAdmin {
  readonly drafts: PlanDrafts;
  readonly file: PlansFile;
  readonly inForce: PlansInForce;
  /** True if `admin.editPlans` is set. */
  readonly mayWrite: boolean;
}

/** What the handlers work on. */
export interface Admin {
  readonly operations: Operations;
  /** Returns the versions of gateway.yaml and plans.yaml that are in force. */
  readonly versions: () => { readonly settings: string; readonly plans: string };
  /** Writes a line to the log. */
  readonly audit: (line: AuditLine) => void;
  /** Reads the record of changes. */
  readonly auditStore: AuditStore;
  /** Writes the record of changes. */
  readonly trail: AuditTrail;
  /** Lists the callers of each deprecated route, in the order of the settings, over the last `days` days including today. */
  readonly deprecations: (days: number) => Promise<readonly { readonly route: string }[]>;
  /** Lists the deprecated routes that a consumer has called, over the last `days` days including today. */
  readonly deprecatedCallsOf: (id: string, days: number) => Promise<readonly DeprecatedRouteCalls[]>;
  /** Returns the formats of keys that were made elsewhere. */
  readonly keyFormats: () => readonly KeyFormat[];
  /** Whether the gateway keeps the usage history. */
  readonly keepsHistory: () => boolean;
  /** What the resources below /admin/plans work on. */
  readonly plans: PlansAdmin;
  /** The keys of the store, to count those that a change of plans touches. */
  readonly keys: Pick<KeyStore, 'list'>;
  /** The look-ups of secrets that belong to no key. */
  readonly finds: FindBudget;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** Serves one method of one resource. Rejects with PreconditionFailed, or with Failure as the operations do. */
export type Handler = (call: Call, admin: Admin) => Promise<AdminResponse>;

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
async function within<T>(timeoutMs: number, reading: Promise<T>): Promise<T | { readonly refusal: AdminResponse }> {
  const { promise: late, resolve } = Promise.withResolvers<{ readonly refusal: AdminResponse }>();
  const message = `The body did not arrive within ${timeoutMs / 1000} s.`;
  const timer = setTimeout(() => resolve({ refusal: errorResponse('request_timeout', message) }), timeoutMs);
  // The connection is closed after the response, and reading fails.
  reading.catch(() => {});
  try {
    return await Promise.race([reading, late]);
  } finally {
    clearTimeout(timer);
  }
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

/** Which page of a list a request asks for. */
interface Page {
  readonly limit: number;
  readonly cursor: string | null;
}

const DEFAULT_PAGE = 100;
const MAX_PAGE = 1_000;

/**
 * Reads the query of a list: `limit`, `cursor`, and the further parameters of this list.
 * @param more the names of the further parameters; in `given`, each is null if the client did not send it
 */
export function readPage<More extends string>(
  query: URLSearchParams,
  more: readonly More[],
): (Page & { readonly given: Readonly<Record<More, string | null>> }) | { readonly refusal: AdminResponse } {
  const read = readQuery(query, ['limit', 'cursor', ...more]);
  if ('refusal' in read) return read;
  const limit = query.get('limit') ?? String(DEFAULT_PAGE);
  if (!/^[1-9][0-9]{0,3}$/.test(limit) || Number(limit) > MAX_PAGE) {
    return invalidQuery(`limit must be a whole number from 1 to ${MAX_PAGE}.`);
  }
  const given = Object.fromEntries(more.map((name) => [name, query.get(name)])) as Record<More, string | null>;
  return { limit: Number(limit), cursor: query.get('cursor'), given };
}

/** Reads the parameters of a query, each of which may come once. @returns their values, null for those not sent */
export function readQuery<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
): Readonly<Record<Name, string | null>> | { readonly refusal: AdminResponse } {
  for (const name of query.keys()) {
    if (!(names as readonly string[]).includes(name)) {
      return invalidQuery(`There is no parameter "${visible(name)}"; there are ${names.join(', ')}.`);
    }
    if (query.getAll(name).length > 1) return invalidQuery(`${name} is given more than once.`);
  }
  return Object.fromEntries(names.map((name) => [name, query.get(name)])) as Record<Name, string | null>;
}

/** The Link field with the URL of the next page (RFC 8288). */
export function linkToNext(path: string, query: URLSearchParams, cursor: string | null): Record<string, string> {
  if (cursor === null) return {};
  const next = new URLSearchParams(query);
  next.set('cursor', cursor);
  return { Link: `<${path}?${next}>; rel="next"` };
}

export function invalidQuery(message: string): { readonly refusal: AdminResponse } {
  return { refusal: errorResponse('invalid_request', message) };
}
