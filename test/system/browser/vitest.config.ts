import { defineConfig } from 'vitest/config';
import base from '../../../vitest.config.ts';
import { ROOM } from '../../support/room.ts';

/** The checks that need a browser, which `npm test` does not: `npm run test:browser`. */
export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/system/browser/*.browser.ts'],
    // A test may look at every screen, and a hook may start a stand and fill its store.
    testTimeout: 120_000 * ROOM,
    hookTimeout: 120_000 * ROOM,
    // Each has a browser, gateways and a Redis, which all want the processor.
    maxWorkers: 2,
  },
});
