import { ServerResponse } from 'node:http';
import { type ErrorAnswer, errorAnswer } from '../annotate/error.ts';
import type { ClientResponse } from '../forward/client.ts';
import type { TunnelRecord } from '../forward/tunnel.ts';
import { type UpgradeResult, upgrade } from '../forward/upgrade.ts';
import type { UpgradeClient } from '../forward/upgrade-client.ts';
import type { Caller } from './caller.ts';
import type { Parts } from './parts.ts';
import { type Admitted, answerFieldsOf, requestFieldsOf } from './pass-on.ts';
import { endAtExpiry } from './token-expiry.ts';
import { upgradeForm } from './upgrade-form.ts';
import type { WebSocketLimits } from './web-sockets.ts';

/** A WebSocket, or another tunnel, that has ended: all that log and metrics ever learn of it beyond its Exchange. */
export interface ClosedWebSocket extends TunnelRecord {
  readonly requestId: string;
  /** The route's pattern. */
  readonly route: string;
  readonly consumerId: string | null;
}

/** How it ended; `refused` where there was no room and nothing was asked. */
export type UpgradeOnResult = UpgradeResult | { readonly kind: 'refused'; readonly error: ErrorAnswer };

/** Asks the upstream of an admitted request for an upgrade, where there is room for one more. */
export function upgradeOn(
  parts: Parts,
  client: UpgradeClient,
  response: ClientResponse,
  admitted: Admitted,
  done: (result: UpgradeOnResult) => void,
): { readonly breakOff: (reason: Error) => void } | null {
  const { head, match, caller, record } = admitted;
  const form = upgradeForm(head);
  if (form.kind !== 'upgrade') throw new Error('an upgrade that was not asked for');
  if (!(response instanceof ServerResponse)) throw new Error('an upgrade from a reader that takes none');
  const room = parts.isDraining() ? 'draining' : parts.webSockets.enter(caller.shareId, isKey(caller));
  if (typeof room === 'string') {
    done({ kind: 'refused', error: noRoom(room) });
    return null;
  }
  let forgetExpiry = () => {};
  return upgrade(
    parts.upstreams.get(match.route.upstream)!,
    { target: head.target, fields: requestFieldsOf(parts, admitted), ...form },
    client,
    response,
    {
      taken: (target) => {
        record.target = target;
      },
      head: (status, fields) => answerFieldsOf(parts, admitted, status, fields),
      chunk: (bytes) => {
        record.bytesOut += bytes;
      },
      writeTimeoutMs: parts.writeTimeoutMs,
      idleTimeoutMs: parts.webSocketIdleMs,
      finTimeoutMs: parts.webSocketFinMs,
      closed: (tunnel) => {
        forgetExpiry();
        room.leave();
        parts.closeWebSocket({
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
        forgetExpiry = endAtExpiry(result.tunnel, caller.tokenExpiresAtMs, parts.wallMs);
      } else room.leave();
      done(result);
    },
  );
}

/** Whether there is a record of an API key, which may be revoked or expire. A token says itself when it ends. */
function isKey({ consumer, tokenExpiresAtMs }: Caller): boolean {
  return consumer !== null && tokenExpiresAtMs === null;
}

const NO_ROOM: Readonly<Record<keyof WebSocketLimits | 'draining', string>> = {
  maxPerKey: 'This API key has as many WebSockets open as it may have at a time. Close one, or retry later.',
  max: 'Too many WebSockets are open. Retry later.',
  draining: 'This gateway is about to stop and takes no new WebSocket. Retry shortly.',
};

/** In a second at the earliest: when one of them ends cannot be known. */
function noRoom(why: keyof typeof NO_ROOM): ErrorAnswer {
  return errorAnswer('overloaded', NO_ROOM[why], { fields: ['Retry-After', '1'] });
}
