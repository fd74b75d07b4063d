import { defineConfig } from 'vitest/config';
import { ROOM } from './test/support/room.ts';
import { SEED } from './test/support/sample.ts';

// Where .ci/run reads the results from; nobody else needs the file.
const report = process.env.TEST_REPORT;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/end-of-file.ts'],
    // Files that run one after the other in a worker share its modules: to load them anew for each of the files took 0.3 s of the
    // processor each. So a file leaves nothing behind: no fake timer, no variable of the environment, no spy.
    isolate: false,
    // The workers take what was measured and chosen here.
    env: { TEST_ROOM: String(ROOM), TEST_SEED: String(SEED) },
    // Only a test that fails takes so long.
    testTimeout: 60_000 * ROOM,
    hookTimeout: 60_000 * ROOM,
    expect: { poll: { timeout: 5_000 * ROOM } },
    // Otherwise a message says `expected [ Array(1) ] to deeply equal []`, and CI prints nothing else of a failure.
    chaiConfig: { truncateThreshold: 4_000 },
    // Many tests wait for deadlines rather than for the processor: of two, these take what they have.
    maxWorkers: 5,
    reporters: ['default', ...(report ? [['json', { outputFile: report }] as ['json', { outputFile: string }]] : [])],
    coverage: {
      provider: 'v8',
      include: ['src/**/*.ts'],
      reporter: ['text-summary'],
      reportsDirectory: '.vitest/coverage',
    },
  },
});
