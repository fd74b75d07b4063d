import type { IncomingMessage, ServerResponse } from 'node:http';
import { boundedBody } from '../forward/body.ts';
import { type ForwardResult, forward } from '../forward/forward.ts';
import { answerFields, requestFields } from '../forward/headers.ts';
import type { Consumer } from '../identify/identify.ts';
import type { Head } from '../listen/head.ts';
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
  readonly consumer: Consumer;
  readonly origin: Origin;
  /** What the gateway adds to the answer. */
  readonly ownFields: readonly string[];
  /** Asked when the answer begins: whether the client's connection ends with it. */
  readonly closes: () => boolean;
  readonly sent: (bytes: number) => void;
  readonly done: (result: ForwardResult) => void;
}

const NOTHING: ReadonlySet<string> = new Set();
/** What a deprecated route says of itself counts, not what the service behind it says. */
const DEPRECATION: ReadonlySet<string> = new Set(['deprecation', 'sunset']);

/** Forwards an admitted request: its fields rewritten, its body bounded, the answer's fields merged with the gateway's. */
export function passOn(parts: Parts, request: IncomingMessage, response: ServerResponse, admitted: Admitted) {
  const { head, match, ownFields } = admitted;
  const replaced = match.route.deprecated === null ? NOTHING : DEPRECATION;
  return forward(
    parts.upstreams.get(match.route.upstream)!,
    {
      method: head.method,
      target: head.target,
      fields: fieldsOf(parts.via, admitted),
      body: boundedBody(request, head.body, parts.maxBodyBytes),
    },
    response,
    {
      head: (status, raw) => ({
        fields: [...answerFields(raw, replaced, status), ...ownFields],
        closes: admitted.closes(),
      }),
      earlyHints: (raw) => {
        if (head.httpVersion === '1.1') response.writeInformation(103, answerFields(raw, replaced, 103));
      },
      chunk: admitted.sent,
      writeTimeoutMs: parts.writeTimeoutMs,
    },
    admitted.done,
  );
}

function fieldsOf(via: string, { head, requestId, traceFields, consumer, origin }: Admitted): string[] {
  return requestFields(head.rawHeaders, head.connectionNames, declaredLength(head), {
    requestId,
    traceFields,
    consumerId: consumer.id,
    plan: consumer.plan,
    clientAddress: origin.address,
    scheme: 'http',
    host: head.host,
    trustedPeer: origin.trustedPeer,
    via,
    httpVersion: head.httpVersion,
  });
}
