import type { IncomingMessage } from 'node:http';
import type { AuditStore } from '../operations/audit-store.ts';
import type { AuditLine, AuditTrail } from '../operations/audit-trail.ts';
import type { Operations } from '../operations/operations.ts';
import { type AdminResponse, errorResponse } from './response.ts';

/** One authenticated request to the admin API. */
export interface Call {
  /** The ids in the path, in its order. */
  readonly ids: readonly string[];
  readonly query: URLSearchParams;
  /** The values of a header field. `name` is in lower case. */
  fields(name: string): readonly string[];
  /** The parsed JSON; undefined if there was no body. */
  readonly body: unknown;
  readonly clientAddress: string;
  readonly requestId: string;
}

const MAX_BODY_BYTES = 64 * 1024;

/**
 * Reads the JSON body of a request.
 * @returns its value, which is undefined if there is no body, or the response that refuses it
 */
export async function readBody(
  request: IncomingMessage,
): Promise<{ readonly value: unknown } | { readonly refusal: AdminResponse }> {
  const { headers } = request;
  const declared = Number(headers['content-length'] ?? 0);
  if (declared === 0 && headers['transfer-encoding'] === undefined) return { value: undefined };
  const wrongType = typeFault(headers['content-type'], headers['content-encoding']);
  if (wrongType !== null) return { refusal: errorResponse('unsupported_media_type', wrongType) };
  const bytes = declared > MAX_BODY_BYTES ? null : await readAtMost(request);
  if (bytes === null) {
    return { refusal: errorResponse('payload_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes.`) };
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { value: text === '' ? undefined : JSON.parse(text) };
  } catch {
    return { refusal: errorResponse('invalid_request', 'The body is not valid JSON in UTF-8.') };
  }
}

/** The fault of the Content-Type or Content-Encoding, or null. JSON is UTF-8 (RFC 8259 section 8.1), so is any charset. */
function typeFault(type: string | undefined, coding: string | undefined): string | null {
  const [, , charset] =
    /^application\/(json|merge-patch\+json)[ \t]*(?:;[ \t]*charset="?([^";]*)"?[ \t]*)?$/i.exec(type ?? '') ??
    ([null, null, null] as const);
  if (charset === null) return 'Content-Type must be application/json.';
  if (charset !== undefined && charset.toLowerCase() !== 'utf-8') return 'The charset of Content-Type must be utf-8.';
  if (coding === undefined || coding.toLowerCase() === 'identity') return null;
  return 'Content-Encoding must be left out: send the JSON as it is.';
}

/** The bytes of the body; null if there are more than `MAX_BODY_BYTES`. Rejects if the client disconnects. */
async function readAtMost(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // With destroyOnReturn the early return would destroy the socket, and the client would not get the 413.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** What the handlers work on. */
export interface Admin {
  readonly operations: Operations;
  /** Returns the versions of gateway.yaml and plans.yaml that are in force. */
  readonly versions: () => { readonly settings: string; readonly plans: string };
  /** Writes the line of a change to the log, and its outcome to the record of changes. */
  readonly audit: (line: AuditLine) => void;
  /** Reads the record of changes. */
  readonly auditStore: AuditStore;
  /** Writes the record of changes. */
  readonly trail: AuditTrail;
  /** Lists the callers of each deprecated route, in the order of the settings, for so many days back, today included. */
  readonly deprecations: (days: number) => Promise<readonly { readonly route: string }[]>;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** Serves one method of one resource. Rejects with PreconditionFailed, or with Failure as the operations do. */
export type Handler = (call: Call, admin: Admin) => Promise<AdminResponse>;
