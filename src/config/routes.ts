import { createHash } from 'node:crypto';
import { type Allowance, WINDOW_MS, WINDOWS } from '../admit/plan.ts';
import { type Route, withHead } from '../routing/router.ts';
import type { GatewayFile } from './gateway-file.ts';

type RouteEntry = GatewayFile['routes'][number];

export function routeOf(entry: RouteEntry): Route {
  const { path, methods, upstream, cost, body, websocket, deprecated } = entry;
  return {
    path,
    methods: withHead(methods),
    upstream,
    cost,
    allowsBody: body,
    allowsUpgrade: websocket,
    perAddress: perAddressOf(entry),
    deprecated:
      deprecated === undefined
        ? null
        : {
            sinceMs: deprecated.since,
            sunsetMs: deprecated.sunset ?? null,
            successor: deprecated.successor ?? null,
            link: deprecated.link ?? null,
            brownouts: deprecated.brownouts,
          },
  };
}

/** Each route has limits of its own. The id under which the store counts them is the same on every replica. */
function perAddressOf({ path, auth, limits = {} }: RouteEntry): Route['perAddress'] {
  if (auth !== 'none') return null;
  const id = `public-${createHash('sha256').update(path).digest('hex').slice(0, 12)}`;
  const allowance: Allowance = {
    plan: 'public',
    limits: WINDOWS.flatMap((window) => {
      const limit = limits[window];
      return limit === undefined ? [] : [{ window, lengthMs: WINDOW_MS[window], limit }];
    }),
    unlimited: [],
    bans: null,
  };
  return { id, allowance };
}
