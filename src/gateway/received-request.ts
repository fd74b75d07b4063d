import { randomFillSync } from 'node:crypto';
import { type ErrorResponse, errorResponse, plainError } from '../annotate/errors.ts';
import type { ClientAddress, ClientRequest, ClientResponse } from '../http1/client.ts';
import { valuesOf, WEBSOCKET } from '../http1/fields.ts';
import { BODYLESS } from '../http1/request-framing.ts';
import type { Head, HeadFault } from '../http1/request-head.ts';
import { closeAfter } from '../io/graceful-close.ts';
import type { Match } from '../routing/router.ts';
import { ExchangeRecorder } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/** Starts the record of a request. @param sentId the id that the client has sent; null if it has sent none */
export function recordingOf(
  deps: GatewayDeps,
  { method = '' }: ClientRequest,
  sentId: string | null,
  traceId: string | null,
  address: string,
): ExchangeRecorder {
  const requestId = sentId ?? deps.requestIds.next();
  return new ExchangeRecorder(requestId, traceId, method, address, deps.monotonicMs());
}

/** Checks the form of a request beyond its framing, once its route is known. @returns null if it is valid */
export function formFault(
  head: Head,
  match: Match | null,
  { servesHost }: Pick<ClientAddress, 'servesHost'>,
  { via, maxBodyBytes }: Pick<GatewayDeps, 'via' | 'maxBodyBytes'>,
): ErrorResponse | null {
  if (servesHost !== null && !servesHost(head.host)) return plainError('misdirected_request');
  if (isLoop(head, via)) return plainError('loop_detected');
  const { upgrade } = head;
  if (upgrade.kind === 'fault' && match?.route.upgrades.includes(WEBSOCKET) === true) {
    return errorResponse('invalid_request', upgrade.message, { fields: upgrade.fields });
  }
  if (head.body === 'none') return null;
  const maxBytes = match?.route.maxBodyBytes ?? maxBodyBytes;
  if (head.contentLength > maxBytes) {
    return errorResponse('payload_too_large', `The body is larger than ${maxBytes} bytes.`);
  }
  if (!BODYLESS.has(head.method) || match?.route.allowsBody === true) return null;
  return errorResponse(
    'invalid_request',
    `${head.method === 'OPTIONS' ? 'An' : 'A'} ${head.method} request must not have a body here.`,
  );
}

/**
 * Whether this gateway, or a replica of it, has forwarded the request before: Via contains its own name (RFC 9110
 * section 7.6.3).
 */
function isLoop({ fields }: Head, name: string): boolean {
  return fields.derived(namesInVia).includes(name);
}

function namesInVia(rawHeaders: readonly string[]): readonly string[] {
  const names: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length !== 3 || rawHeaders[i]!.toLowerCase() !== 'via') continue;
    for (const hop of rawHeaders[i + 1]!.split(',')) names.push(hop.trim().split(/[ \t]+/)[1] ?? '');
  }
  return names;
}

/** Whether part of a request has not been read. @param head null if the head was refused */
export function isUnread(request: ClientRequest, head: Head | null): boolean {
  return !request.complete && (head === null ? announcesBody(request) : head.body !== 'none');
}

/** Whether the client's connection ends with the response to this request. */
export function endsConnection(
  { draining }: Pick<GatewayDeps, 'draining'>,
  request: ClientRequest,
  head: Head,
): boolean {
  return head.httpVersion === '1.0' || isUnread(request, head) || draining.hasBegun;
}

/**
 * Ends the client's connection with the response, if nothing on it can be read with certainty after this request, or if it is the
 * last one anyway.
 * @returns whether part of the request has not been read
 */
export function endsIfUncertain(
  { draining }: Pick<GatewayDeps, 'draining'>,
  request: ClientRequest,
  response: ClientResponse,
  received: Head | HeadFault,
): boolean {
  const head = received.kind === 'fault' ? null : received;
  if (head === null || head.httpVersion === '1.0' || draining.hasBegun) closeAfter(response, false);
  return isUnread(request, head);
}

function announcesBody({ rawHeaders }: ClientRequest): boolean {
  const lengths = valuesOf(rawHeaders, 'content-length');
  return lengths.some((length) => length !== '0') || valuesOf(rawHeaders, 'transfer-encoding').length > 0;
}

/** The client's query, with its `?`, without a key. Nothing else of it is changed. */
export function queryToPass({ keySources }: Pick<GatewayDeps, 'keySources'>, { target, path }: Head): string {
  const query = target.slice(path.length);
  return keySources === null ? query : keySources.withoutKeys(query);
}

/** The value of Content-Length for the upstream. A POST without a body gets `0`, a GET none. */
export function declaredLength({ body, contentLength, method }: Head): string | null {
  if (body === 'length') return String(contentLength);
  return body === 'none' && !BODYLESS.has(method) ? '0' : null;
}

const ID_BYTES = 16;
const IDS = 256;

/**
 * Makes ids for requests without one: 128 random bits in hexadecimal, as nginx does. A counter would reveal how many
 * requests were made between two ids, and UUIDs take three times as long to make.
 */
export class RequestIds {
  readonly #random = Buffer.allocUnsafeSlow(ID_BYTES * IDS);
  #at = this.#random.length;

  next(): string {
    if (this.#at === this.#random.length) {
      randomFillSync(this.#random);
      this.#at = 0;
    }
    const from = this.#at;
    this.#at += ID_BYTES;
    return this.#random.toString('hex', from, this.#at);
  }
}
