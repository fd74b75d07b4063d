import { IncomingMessage } from 'node:http';
import { CORS_FIELDS } from '../annotate/cors.ts';
import type { RequestBody } from '../forward/body.ts';
import type { ClientRequest, ClientResponse } from '../forward/client.ts';
import { type ForwardResult, forward } from '../forward/forward.ts';
import { answerFields, requestFields } from '../forward/headers.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import type { Origin, Parts } from './parts.ts';
import { declaredLength } from './received.ts';
import type { Match } from './route.ts';

/** One admitted request, as it is handed to its upstream. */
export interface Admitted {
  readonly head: Head;
  readonly match: Match;
  readonly requestId: string;
  /** What carries the trace on; null: the client's own fields do. */
  readonly traceFields: readonly string[] | null;
  readonly caller: Caller;
  readonly origin: Origin;
  /** What the gateway adds to the answer. */
  readonly ownFields: readonly string[];
  /** Asked when the answer begins: whether the client's connection ends with it. */
  readonly closes: () => boolean;
  readonly sent: (bytes: number) => void;
  readonly done: (result: ForwardResult) => void;
}

/** What a deprecated route says of itself counts, not what the service behind it says. */
const DEPRECATION = ['deprecation', 'sunset'];
/** By whether pages of other origins are served, and whether the route is deprecated. */
const REPLACED: readonly (readonly ReadonlySet<string>[])[] = [[], CORS_FIELDS].map((cors) =>
  [[], DEPRECATION].map((deprecation) => new Set([...cors, ...deprecation])),
);

/** Forwards an admitted request: its fields rewritten, its body bounded, the answer's fields merged with the gateway's. */
export function passOn(parts: Parts, request: ClientRequest, response: ClientResponse, admitted: Admitted) {
  const { head, match } = admitted;
  return forward(
    parts.upstreams.get(match.route.upstream)!,
    {
      method: head.method,
      target: head.target,
      fields: requestFieldsOf(parts.via, admitted),
      body: bodyOf(request, head, parts.maxBodyBytes),
    },
    response,
    {
      head: (status, fields) => ({
        fields: answerFieldsOf(parts, admitted, status, fields),
        closes: admitted.closes(),
      }),
      earlyHints: (fields) => {
        if (head.httpVersion === '1.1')
          response.writeInformation(103, answerFields(fields, replacedBy(parts, match), 103));
      },
      chunk: admitted.sent,
      writeTimeoutMs: parts.writeTimeoutMs,
    },
    admitted.done,
  );
}

function bodyOf(request: ClientRequest, { body }: Head, maxBytes: number): RequestBody | null {
  if (body === 'none') return null;
  if (!(request instanceof IncomingMessage)) throw new Error('a body from a reader that takes none');
  // A write of nothing sends nothing, and fails on a connection that was reset.
  return { source: request, framing: body, maxBytes, probe: () => request.socket.write('') };
}

/** The fields of the answer as the client gets them. */
export function answerFieldsOf(
  parts: Parts,
  { match, ownFields }: Admitted,
  status: number,
  fields: readonly string[],
): string[] {
  return [...answerFields(fields, replacedBy(parts, match), status), ...ownFields];
}

/** The names of which the gateway's own word alone counts. */
function replacedBy({ cors }: Parts, { route }: Match): ReadonlySet<string> {
  return REPLACED[cors === null ? 0 : 1]![route.deprecated === null ? 0 : 1]!;
}

/** The fields of the request as the upstream gets them. */
export function requestFieldsOf(via: string, { head, requestId, traceFields, caller, origin }: Admitted): string[] {
  return requestFields(head.rawHeaders, head.connectionNames, declaredLength(head), {
    requestId,
    traceFields,
    consumerId: caller.consumer?.id ?? null,
    plan: caller.consumer?.plan ?? null,
    clientAddress: origin.address,
    scheme: origin.scheme,
    host: head.host,
    trustedPeer: origin.trustedPeer,
    via,
    httpVersion: origin.httpVersion ?? head.httpVersion,
  });
}
