import type { Settings } from '../../config/settings.ts';

/**
 * The settings of one of several workers: what bounds the whole gateway is divided among them, so that as many workers
 * together take as much as one process would. Each has at least 1. `fairShare` is a part of what the worker has, and is so
 * divided with it. `websockets.maxPerKey` stays: a part of it would refuse what the next worker has room for.
 * @param worker from 1 to `workers`
 */
export function shareOf(settings: Settings, worker: number, workers: number): Settings {
  const part = (whole: number) => Math.max(1, Math.floor(whole / workers) + (worker <= whole % workers ? 1 : 0));
  const { listen, websockets } = settings;
  const upstreams = [...settings.upstreams].map(
    ([name, { maxConnections, maxQueue, ...rest }]) =>
      [
        name,
        // A queue of 0 means that nobody waits, in every worker.
        { ...rest, maxConnections: part(maxConnections), maxQueue: maxQueue === 0 ? 0 : part(maxQueue) },
      ] as const,
  );
  return {
    ...settings,
    listen: {
      ...listen,
      maxConnections: part(listen.maxConnections),
      maxConnectionsPerAddress: part(listen.maxConnectionsPerAddress),
    },
    websockets: { ...websockets, max: part(websockets.max) },
    upstreams: new Map(upstreams),
  };
}
