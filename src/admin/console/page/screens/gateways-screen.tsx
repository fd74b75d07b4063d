import { useMemo } from 'preact/hooks';
import { momentText, plural } from '../kit/format.tsx';
import { Badge } from '../kit/page.tsx';
import { type StreamState, useResource } from '../requests.ts';
import type { Gateway, GatewayList } from '../types.ts';

// What several screens say of the gateways and of the stream about them.

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
  const { data } = useResource<GatewayList>('/admin/gateways');
  return useMemo(() => gatewayNames(data?.gateways ?? []), [data]);
}

/** What is known of the other gateways while the store is away. */
export function lastKnownText({ lastKnown }: Pick<GatewayList, 'lastKnown'>): string {
  if (lastKnown === null) return 'other gateways unknown';
  return `${plural(lastKnown.gateways, 'gateway')} when they were seen last, at ${momentText(lastKnown.at)}`;
}

export function StreamSign({ state, at }: { state: StreamState; at: string | null }) {
  if (state === 'open') return <Badge kind="good">Live</Badge>;
  const since = at === null ? '' : ` Shown is ${momentText(at)}.`;
  if (state === 'connecting') return <Badge kind="plain">Connecting…</Badge>;
  return <Badge kind="bad">Connection lost, trying again.{since}</Badge>;
}
