import { afterAll, onTestFinished } from 'vitest';
import { endWithParent } from './end-with-us.ts';

endWithParent();

// What was started outside a test. The runner takes no hooks once a file has been collected, so this module registers
// one when it is imported and keeps the list for it; the runner loads the module afresh for each test file.
const untilFileEnds: (() => unknown)[] = [];

afterAll(async () => {
  for (const end of untilFileEnds.splice(0).reverse()) await end();
});

/**
 * Ends something when its time is over: started inside a test or `beforeEach`, with that test; started in `beforeAll`,
 * with the file. What was started last is ended first. `end` may be called although the thing has ended already.
 */
export function atEnd(end: () => unknown): void {
  try {
    onTestFinished(async () => {
      await end();
    });
  } catch {
    untilFileEnds.push(end);
  }
}
