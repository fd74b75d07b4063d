import type { Contestant } from './contestant.ts';

/** The service behind the others, asked without any of them: what they add is the difference to it. */
export const service: Contestant = {
  name: 'service',
  title: 'the service itself',
  claims: { checksKeys: false, limits: false, proxies: true },
  start: async ({ upstreamPort, upstreamPid }) => ({
    ...{ port: upstreamPort, pid: upstreamPid, version: process.versions.node, redis: null },
  }),
};
