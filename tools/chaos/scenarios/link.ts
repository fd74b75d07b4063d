import type { Fault } from '../fault.ts';

const BACK_MS = 2_500;

/** What may happen between gateways and a Redis that is well. */
export const LINK_FAULTS: readonly Fault[] = [
  {
    name: 'link cut',
    about: 'Every connection to Redis is reset, and every new one, for 2 s.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ link }) => link?.become('cut'),
    heal: async ({ link }) => link?.become('pass'),
  },
  {
    name: 'link slow',
    about: 'Every byte to and from Redis takes 20 ms longer, for 2 s: less than requests may wait.',
    allowed: { normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ link }) => link?.become('pass', 20),
    heal: async ({ link }) => link?.become('pass'),
  },
  {
    name: 'link too slow',
    about: 'Every byte to and from Redis takes 300 ms longer, for 2 s: more than redis.timeout.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ link }) => link?.become('pass', 300),
    heal: async ({ link }) => link?.become('pass'),
  },
  {
    name: 'replies swallowed',
    about: 'Redis does what it is asked, and its replies are lost, for 2 s.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ link }) => link?.become('swallow'),
    heal: async ({ link }) => link?.become('pass'),
  },
  {
    name: 'half-open',
    about: 'Connections to Redis go nowhere and nobody says so; after 2 s new ones work, old ones never again.',
    // The silence of a connection is believed for 5 s.
    allowed: { alone: true, normalWithinMs: 5_000 + BACK_MS },
    holdMs: 2_000,
    strike: async ({ link }) => link?.become('halfOpen'),
    heal: async ({ link }) => link?.become('pass'),
  },
];
