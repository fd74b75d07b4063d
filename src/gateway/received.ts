import { type ErrorAnswer, errorAnswer, plainError } from '../annotate/error.ts';
import type { ClientRequest } from '../forward/client.ts';
import type { Head } from '../listen/head.ts';
import { Recording } from './exchange.ts';
import type { Parts } from './parts.ts';
import type { Match } from './route.ts';
import { upgradeForm } from './upgrade-form.ts';

/** Methods whose body has no meaning: one is refused unless the route says otherwise. */
const BODYLESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

/** The client's own request id where it sends one of the right form, and only one; else null. */
export function requestIdOf(rawHeaders: readonly string[]): string | null {
  let id: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length !== 12 || name.toLowerCase() !== 'x-request-id') continue;
    if (id !== null) return null;
    id = rawHeaders[i + 1]!;
  }
  return id !== null && REQUEST_ID.test(id) ? id : null;
}

/** Begins the record of a request. */
export function recordingOf(parts: Parts, request: ClientRequest, traceId: string | null, address: string): Recording {
  const requestId = requestIdOf(request.rawHeaders) ?? parts.newRequestId();
  return new Recording(requestId, traceId, request.method ?? '', address, parts.monotonicMs());
}

/** 400 for a path that matches another route when it is decoded. */
export function ambiguousPath(): ErrorAnswer {
  return errorAnswer(
    'invalid_request',
    'The path names another route when its percent-encoding is decoded. Write it plainly: encode only what must be encoded.',
  );
}

/** What is wrong with the form of a request beyond its framing, once its route is known; null where nothing is. */
export function formFault(head: Head, match: Match | null, via: string): ErrorAnswer | null {
  if (isLoop(head, via)) return plainError('loop_detected');
  if (match?.route.allowsUpgrade === true) {
    const form = upgradeForm(head);
    if (form.kind === 'fault') return form.error;
  }
  if (head.body === 'none' || !BODYLESS.has(head.method) || match?.route.allowsBody === true) return null;
  return errorAnswer(
    'invalid_request',
    `${head.method === 'OPTIONS' ? 'An' : 'A'} ${head.method} request must not have a body here.`,
  );
}

/**
 * Whether this gateway, or a replica of it, has forwarded the request before: its own name stands in Via
 * (RFC 9110 section 7.6.3).
 */
function isLoop({ rawHeaders }: Head, name: string): boolean {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length !== 3 || rawHeaders[i]!.toLowerCase() !== 'via') continue;
    if (rawHeaders[i + 1]!.split(',').some((hop) => hop.trim().split(/[ \t]+/)[1] === name)) return true;
  }
  return false;
}

/** Whether some of a request has not been read. @param head null where it was refused */
export function isUnread(request: ClientRequest, head: Head | null): boolean {
  return !request.complete && (head === null ? announcesBody(request) : head.body !== 'none');
}

/** Whether the client's connection ends with the answer to this request. */
export function endsConnection({ isDraining }: Pick<Parts, 'isDraining'>, request: ClientRequest, head: Head): boolean {
  return head.httpVersion === '1.0' || isUnread(request, head) || isDraining();
}

function announcesBody({ headers }: ClientRequest): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

/** What Content-Length the upstream gets: a POST without a body says so, a GET says nothing. */
export function declaredLength({ body, contentLength, method }: Head): string | null {
  if (body === 'length') return String(contentLength);
  return body === 'none' && !BODYLESS.has(method) ? '0' : null;
}
