import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import base from '../../vitest.config.ts';

/** The shortest files first: the first test that fails ends the run. */
class ShortestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toReversed();
  }
}

export default defineConfig({
  test: {
    ...base.test,
    setupFiles: ['test/support/end-of-file.ts', 'tools/mutants/no-shrinking.ts'],
    sequence: { sequencer: ShortestFirst },
    // Stryker asks vitest itself what failed.
    reporters: [{}],
  },
});
