import { defineConfig } from 'vitest/config';
import base from '../../../vitest.config.ts';
import { ROOM } from '../../support/room.ts';

/** The tests against Debian's `pebble`, a small ACME server, which `npm test` does not need: `npm run test:acme`. */
export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/system/acme/*.acme.ts'],
    testTimeout: 120_000 * ROOM,
    // Each has an authority and gateways, which all want the processor.
    maxWorkers: 2,
  },
});
