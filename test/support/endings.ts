import { onTestFinished } from 'vitest';
import { endWithParent } from './end-with-us.ts';

endWithParent();

// What was started outside a test, until its file ends.
const untilFileEnds: (() => unknown)[] = [];

/** Ends what the file started outside its tests. The runner calls it after each file (`end-of-file.ts`). */
export async function endFile(): Promise<void> {
  for (const end of untilFileEnds.splice(0).reverse()) await end();
}

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
