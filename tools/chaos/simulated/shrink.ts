import type { History, Step } from './history.ts';
import { play } from './play.ts';

/**
 * The shortest history that breaks the same kind of bound: steps are removed as long as it still breaks, first many
 * at once, then one by one.
 */
export async function shrink(history: History): Promise<History> {
  const bound = boundOf((await play(history)).broken);
  const breaksWith = async (steps: readonly Step[]) => boundOf((await play({ ...history, steps })).broken) === bound;
  let { steps } = history;
  let size = steps.length;
  while (size >= 1) {
    let hasShrunk = false;
    for (let at = steps.length - size; at > -size; at -= size) {
      const fewer = steps.toSpliced(Math.max(at, 0), Math.min(size, at + size));
      if (!(await breaksWith(fewer))) continue;
      steps = fewer;
      hasShrunk = true;
    }
    if (!hasShrunk || size > 1) size = Math.floor(size / 2);
  }
  return { ...history, steps };
}

/** The sentence without its numbers and names: two histories with the same one break the same bound. */
function boundOf(broken: string | null): string | null {
  return broken === null ? null : broken.replace(/\b(?:cus_)?[a-z]?\d+[a-z]?\b/g, '#').slice(0, 40);
}
