import { ServerResponse } from 'node:http';
import { type ErrorResponse, errorResponse } from '../annotate/errors.ts';
import { upgrade } from '../forward/websocket/upgrade.ts';
import type { UpgradeClient } from '../forward/websocket/upgrade-client.ts';
import type { ClientResponse } from '../http1/client.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import type { Cuttable, WebSocketLimits } from './open-web-sockets.ts';
import { type Admitted, requestFieldsOf, responseFieldsOf } from './proxy-request.ts';

/** Asks the upstream of an admitted request for an upgrade if the limits allow another WebSocket. */
export function proxyUpgrade(
  deps: GatewayDeps,
  client: UpgradeClient,
  response: ClientResponse,
  admitted: Admitted,
): { readonly breakOff: (reason: Error) => void } | null {
  const { head, match, caller, record, flow } = admitted;
  const form = head.upgrade;
  if (form.kind !== 'upgrade') throw new Error('an upgrade that was not asked for');
  if (!(response instanceof ServerResponse)) throw new Error('an upgrade from a reader that takes none');
  const room = deps.draining.hasBegun ? 'draining' : deps.webSockets.enter(caller.shareId, isKey(caller));
  if (typeof room === 'string') {
    flow.forwarded({ kind: 'refused', error: noRoom(room) });
    return null;
  }
  let forgetExpiry = () => {};
  return upgrade(
    deps.upstreams.get(match.route.upstream)!,
    { target: head.target, fields: requestFieldsOf(deps, admitted), protocol: form.protocol, key: form.key },
    client,
    response,
    {
      taken: (target) => {
        record.target = target;
      },
      head: (status, fields) => responseFieldsOf(deps, admitted, status, fields),
      chunk: (bytes) => {
        record.bytesOut += bytes;
      },
      writeTimeoutMs: deps.writeTimeoutMs,
      idleTimeoutMs: deps.webSocketIdleMs,
      finTimeoutMs: deps.webSocketFinMs,
      closed: (tunnel) => {
        forgetExpiry();
        room.leave();
        deps.records.closeWebSocket({
          requestId: record.requestId,
          route: match.route.path,
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

/** Whether the caller has the record of an API key, which may be revoked or expire. A token contains its own expiry. */
function isKey({ consumer, tokenExpiresAtMs }: Caller): boolean {
  return consumer !== null && tokenExpiresAtMs === null;
}

const NO_ROOM: Readonly<Record<keyof WebSocketLimits | 'draining', string>> = {
  maxPerKey: 'This API key has as many WebSockets open as it may have at a time. Close one, or retry later.',
  max: 'Too many WebSockets are open. Retry later.',
  draining: 'This gateway is about to stop and takes no new WebSocket. Retry shortly.',
};

/** The client may retry after a second, because the gateway cannot know when a WebSocket will end. */
function noRoom(why: keyof typeof NO_ROOM): ErrorResponse {
  return errorResponse('overloaded', NO_ROOM[why], { fields: ['Retry-After', '1'] });
}

/** The longest delay of a timer. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Ends a WebSocket when the token with which it was opened expires, just as a WebSocket of an API key ends with the
 * key.
 * @param expiresAtMs Unix milliseconds; null for never
 * @param wallMs Unix milliseconds
 * @returns a function that cancels this, for a WebSocket that has ended
 */
export function endAtExpiry(tunnel: Cuttable, expiresAtMs: number | null, wallMs: () => number): () => void {
  if (expiresAtMs === null) return () => {};
  let timer: NodeJS.Timeout;
  const wait = () => {
    const leftMs = expiresAtMs - wallMs();
    if (leftMs <= 0) tunnel.cut('expired');
    else timer = setTimeout(wait, Math.min(leftMs, LONGEST_MS)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}
