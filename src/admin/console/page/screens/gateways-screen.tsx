import { useMemo } from 'preact/hooks';
import { momentText, plural } from '../kit/format.tsx';
import { Badge } from '../kit/page.tsx';
import { Good } from '../kit/seen.tsx';
import { ifKnown, type Reading } from '../reading.ts';
import { type StreamState, useResource } from '../requests.ts';
import type { Gateway, GatewayList } from '../types.ts';

// What several screens say of the gateways and of the stream about them.

/** How often the stream sends what happens now, in milliseconds. */
export const NOW_MS = 2_000;

/** The name of each gateway, by its id: its host, with its port if others have the same host. */
export function gatewayNames(
  gateways: readonly Pick<Gateway, 'id' | 'host' | 'address'>[],
): ReadonlyMap<string, string> {
  return new Map(
    gateways.map(({ id, host, address }) => {
      const isAlone = gateways.every((other) => other.id === id || other.host !== host);
      return [id, isAlone ? host : `${host}:${address.split(':').pop()}`];
    }),
  );
}

/** The names of the gateways on a screen that does not show them; a gateway that has started since has none. */
export function useGatewayNames(): ReadonlyMap<string, string> {
  const list = ifKnown(useResource<GatewayList>('/admin/gateways').reading);
  return useMemo(() => gatewayNames(list?.gateways ?? []), [list]);
}

/** What is known of the other gateways while the store is away. */
export function lastKnownText({ lastKnown }: Pick<GatewayList, 'lastKnown'>): string {
  if (lastKnown === null) return 'other gateways unknown';
  return `${plural(lastKnown.gateways, 'gateway')} when they were seen last, at ${momentText(lastKnown.at)}`;
}

/** Whether a screen follows its stream. @param of the last value of the stream */
export function StreamSign({ state, of }: { state: StreamState; of: Reading<unknown> }) {
  if (state === 'lost' || state === 'ended') return <Badge kind="bad">Connection lost, trying again.</Badge>;
  if (state === 'connecting' || of.state !== 'known') return <Badge kind="plain">Connecting…</Badge>;
  return <Good of={of}>Live</Good>;
}
