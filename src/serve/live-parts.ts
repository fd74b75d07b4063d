import { randomBytes } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { Logger } from 'pino';
import manifest from '../../package.json' with { type: 'json' };
import { EventStreams } from '../admin/event-streams.ts';
import type { Readiness } from '../admin/listener.ts';
import type { Settings } from '../config/settings.ts';
import { CLOCKS } from '../io/clocks.ts';
import { Fleet } from '../operations/fleet/fleet.ts';
import type { GatewayFacts, LocalGateway, ProcessState } from '../operations/live/shapes.ts';
import type { LiveParts } from './admin-api.ts';
import type { GatewayStores } from './gateway-stores.ts';

/** Why streams end when the gateway does. */
export const GATEWAY_STOPS = 'This gateway stops.';

/** Begins to exchange messages with the other gateways on the store. */
export function openFleet(
  local: LocalGateway,
  stores: () => Promise<Pick<GatewayStores, 'fleet' | 'explanations'>>,
  logger: Logger,
): LiveParts {
  const fleet = new Fleet({
    id: `gw_${randomBytes(6).toString('hex')}`,
    local,
    store: async () => (await stores()).fleet,
    explanations: async () => (await stores()).explanations,
    ...CLOCKS,
    onDefect: (error) => logger.error({ err: error }, 'a defect'),
  });
  return { fleet, streams: new EventStreams(CLOCKS.monotonicMs) };
}

type GatewayIdentity = Pick<GatewayFacts, 'host' | 'address' | 'version' | 'startedAt' | 'workers'>;

/** @param listening returns where the public listener is; before it is open, where it will be */
export function identityOf(
  { listen }: Settings,
  workers: number,
  listening: () => { readonly port: number },
): () => GatewayIdentity {
  const startedAt = new Date(CLOCKS.wallMs()).toISOString();
  const scheme = listen.tls === null ? 'http' : 'https';
  const host = reachable(listen.host);
  return () => {
    const address = `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${listening().port}`;
    return { host: hostname(), address, version: manifest.version, startedAt, workers };
  };
}

/** An address of this machine for a listener on all of its addresses. */
function reachable(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host;
  const others = Object.values(networkInterfaces()).flatMap((them) => them?.filter(({ internal }) => !internal) ?? []);
  return (others.find(({ family }) => family === 'IPv4') ?? others[0])?.address ?? '127.0.0.1';
}

/** What a gateway reports about itself. */
export function factsOf(
  identity: GatewayIdentity,
  { ready, draining, store, outage, settings, faults, memory }: Readiness,
  versions: GatewayFacts['versions'],
  { certificateExpiresAtMs, ...state }: ProcessState,
): GatewayFacts {
  return {
    ...identity,
    ...{ ready, draining, store, outage: outage ?? null, settings: settings ?? 'in_force', versions },
    certificate: certificateExpiresAtMs === null ? null : { expiresAt: new Date(certificateExpiresAtMs).toISOString() },
    faults: faults ?? [],
    memory: memory ?? 'enough',
    ...state,
  };
}
