import { ServerResponse } from 'node:http';
import { type ErrorResponse, errorResponse } from '../annotate/errors.ts';
import { type UpgradeClient, upgrade } from '../forward/websocket/upgrade.ts';
import type { ClientResponse } from '../http1/client.ts';
import { fieldValues } from '../http1/fields.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import type { Cuttable, FullBecause, WatchedRecord } from './open-web-sockets.ts';
import {
  type AdmittedRequest,
  affinityOf,
  hostFor,
  type Passage,
  requestFieldsOf,
  responseFieldsOf,
  SWITCHING_PROTOCOLS,
  targetFor,
  upstreamOf,
} from './proxy-request.ts';
import type { Refusal } from './refusals.ts';

/*
 * An admitted request for another protocol, mostly a WebSocket: its connection becomes a tunnel to the service.
 */

/** The passage of a request for an upgrade. Its connection has limits of its own, so it takes no place at the upstream. */
export class Upgrade implements Passage {
  readonly #client: UpgradeClient;

  /** @param client the client's connection, which node:http has released */
  constructor(client: UpgradeClient) {
    this.#client = client;
  }

  takePlace(): null {
    return null;
  }

  full({ webSockets }: GatewayDeps, _match: Match, caller: Caller): Refusal | null {
    return webSockets.fullFor(caller) === 'max' ? { error: noRoom('max') } : null;
  }

  start(
    deps: GatewayDeps,
    _share: unknown,
    _request: unknown,
    response: ClientResponse,
    admitted: AdmittedRequest,
  ): ReturnType<Passage['start']> {
    return startUpgrade(deps, this.#client, response, admitted);
  }
}

/** Asks the upstream for an upgrade if the limits allow another WebSocket. */
function startUpgrade(
  deps: GatewayDeps,
  client: UpgradeClient,
  response: ClientResponse,
  admitted: AdmittedRequest,
): ReturnType<Passage['start']> {
  const { head, match, caller, record, time, flow } = admitted;
  const form = head.upgrade;
  if (form.kind !== 'upgrade') throw new Error('an upgrade that was not asked for');
  if (!(response instanceof ServerResponse)) throw new Error('an upgrade from a reader that takes none');
  const room = deps.draining.hasBegun ? 'draining' : deps.webSockets.enter(caller, recordOf(caller));
  if (typeof room === 'string') {
    flow.forwarded({ kind: 'refused', error: noRoom(room) });
    return null;
  }
  let forgetExpiry = () => {};
  return upgrade(
    upstreamOf(deps, match),
    {
      affinity: affinityOf(deps, admitted),
      host: hostFor(deps, admitted),
      target: targetFor(deps, admitted),
      fields: requestFieldsOf(deps, admitted),
      protocol: form.protocol,
      key: form.key,
    },
    client,
    response,
    {
      ...answerHooks(deps, admitted),
      writeTimeoutMs: deps.writeTimeoutMs,
      timeouts: match.route.timeouts,
      idleTimeoutMs: match.route.idleTimeoutMs ?? deps.webSocketIdleMs,
      finTimeoutMs: deps.webSocketFinMs,
      worked: (fromMs, toMs) => time.worked(fromMs, toMs),
      closed: (tunnel) => {
        forgetExpiry();
        room.leave();
        flow.leavePlace();
        deps.records.closeWebSocket({
          requestId: record.requestId,
          route: match.name,
          consumerId: caller.consumer?.id ?? null,
          ...tunnel,
        });
      },
    },
    (result) => {
      if (result.kind === 'upgraded') {
        room.hold(result.tunnel);
        forgetExpiry = endAtExpiry(result.tunnel, caller.tokenExpiresAtMs, deps.wallMs);
      } else room.leave();
      flow.forwarded(result);
    },
  );
}

/** Notes the answer to an upgrade, and makes the head that the client gets. */
function answerHooks(deps: GatewayDeps, admitted: AdmittedRequest) {
  const { record, metering } = admitted;
  return {
    taken: (target: string) => {
      record.target = target;
    },
    sent: () => metering?.sent(deps.monotonicMs()),
    head: (status: number, fields: readonly string[]) => {
      // An upgraded connection pays what it took in advance, any other answer what it says.
      if (status !== SWITCHING_PROTOCOLS) metering?.head(status, fieldValues(fields));
      return responseFieldsOf(deps, admitted, status, fields);
    },
    chunk: (bytes: number) => {
      record.bytesOut += bytes;
    },
    reader: metering,
  };
}

/** The record whose end is the end of the caller's WebSockets: of its API key, or of the customer that its token names. A token contains its own expiry. */
function recordOf({ consumer, tokenExpiresAtMs, secret }: Caller): WatchedRecord | null {
  if (consumer === null) return null;
  if (tokenExpiresAtMs === null) return { id: consumer.id, secret };
  return consumer.customer === null ? null : { id: consumer.customer.id, secret: null };
}

const NO_ROOM: Readonly<Record<FullBecause | 'draining', string>> = {
  maxPerKey: 'This API key has as many WebSockets open as it may have at a time. Close one, or retry later.',
  customer:
    'The keys of this customer have as many WebSockets open as they may have at a time. Close one, or retry later.',
  max: 'Too many WebSockets are open. Retry later.',
  draining: 'This gateway is about to stop and takes no new WebSocket. Retry shortly.',
};

/** The client may retry after a second, because the gateway cannot know when a WebSocket will end. */
function noRoom(why: keyof typeof NO_ROOM): ErrorResponse {
  return errorResponse('overloaded', NO_ROOM[why], { fields: ['Retry-After', '1'] });
}

/** The longest delay of a timer. */
const MAX_MS = 2 ** 31 - 1;

/**
 * Ends a WebSocket when the token with which it was opened expires, just as a WebSocket of an API key ends with the
 * key.
 * @param expiresAtMs Unix milliseconds; null for never
 * @param wallMs Unix milliseconds
 * @returns a function that cancels this, for a WebSocket that has ended
 */
function endAtExpiry(tunnel: Cuttable, expiresAtMs: number | null, wallMs: () => number): () => void {
  if (expiresAtMs === null) return () => {};
  let timer: NodeJS.Timeout;
  const wait = () => {
    const leftMs = expiresAtMs - wallMs();
    if (leftMs <= 0) tunnel.cut('expired');
    else timer = setTimeout(wait, Math.min(leftMs, MAX_MS)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}
