import { defineConfig } from 'vitest/config';
import base from '../../../vitest.config.ts';
import { ConformanceSummary } from './summary.ts';

/** All cases of the public suites, where `npm test` plays a part of the longest ones: `npm run conformance`. */
export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/system/conformance/*.test.ts', 'test/system/conformance/*.conformance.ts'],
    // No Redis: these gateways have the embedded store.
    globalSetup: [],
    env: { ...base.test?.env, CONFORMANCE: 'all' },
    reporters: ['default', new ConformanceSummary()],
  },
});
