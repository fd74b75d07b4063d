import { eventually } from '../../../test/support/conditions.ts';
import type { Fault } from '../fault.ts';

/** What may happen to gateways while Redis is well. Others, and what is started again, hold the limits exactly. */
export const GATEWAY_FAULTS: readonly Fault[] = [
  {
    name: 'gateway killed',
    about: 'kill -9 of one gateway; a second later it is started again.',
    allowed: { lost: true, killed: 1, normalWithinMs: 1_000 },
    holdMs: 1_000,
    strike: ({ gateways }, chance) => gateways[chance.below(gateways.length)]!.kill(),
    heal: async ({ gateways }) => {
      await Promise.all(gateways.filter((gateway) => gateway.ended() !== null).map((gateway) => gateway.start()));
    },
  },
  {
    name: 'nothing',
    about: 'No fault at all: what the others are compared with.',
    allowed: { normalWithinMs: 500 },
    holdMs: 1_500,
    strike: async () => {},
  },
];

export const WORKER_KILLED: Fault = {
  name: 'worker killed',
  about: 'kill -9 of one worker of a gateway with WORKERS=2; the gateway replaces it.',
  allowed: { lost: true, killed: 1, normalWithinMs: 5_000 },
  holdMs: 1_000,
  strike: async ({ gateways }, chance) => {
    const gateway = gateways[chance.below(gateways.length)]!;
    const { workers } = gateway;
    if (workers.length < 2) throw new Error(`${gateway.name} has ${workers.length} workers with WORKERS=2.`);
    process.kill(chance.of(workers), 'SIGKILL');
  },
  heal: async ({ gateways }) => {
    const all = () => gateways.every(({ workers }) => workers.length === 2);
    await eventually(all, { withinMs: 10_000, everyMs: 25 });
  },
};
