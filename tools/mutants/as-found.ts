import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Stryker } from '@stryker-mutator/core';

type Result = Awaited<ReturnType<Stryker['runMutationTest']>>[number];

/** What is printed of a mistake. On a busy machine tests run out of time without a mistake, so these are printed too. */
const ENDS: { readonly [S in Result['status']]?: string } = {
  Survived: '',
  NoCoverage: ' (no test reaches it)',
  Timeout: ' (noticed: the tests ran out of time)',
};
const counts = { Killed: 0, Timeout: 0, Survived: 0, NoCoverage: 0 };

/** Prints each mistake that no test noticed as soon as that is known: a run takes long, and may be interrupted. */
function onMutantTested(result: Result): void {
  const { status } = result;
  if (Object.hasOwn(counts, status)) counts[status as keyof typeof counts]++;
  const end = ENDS[status];
  if (end !== undefined) process.stdout.write(`${described(result)}${end}\n`);
}

/** Stryker loads this file as a plugin, by its path: the module that main.ts has imported. */
export const strykerPlugins = [{ kind: 'Reporter', name: 'as-found', value: { onMutantTested } }];

/** What has been tried so far. */
export function soFar() {
  const noticed = counts.Killed + counts.Timeout;
  const unnoticed = counts.Survived + counts.NoCoverage;
  const planted = noticed + unnoticed;
  return {
    noticed,
    outOfTime: counts.Timeout,
    unnoticed,
    planted,
    percent: planted === 0 ? 100 : (100 * noticed) / planted,
  };
}

/** `src/engine/counting.ts:168:36: a >= b => a > b`. */
function described({ fileName, location: { start, end }, replacement = '' }: Result): string {
  const lines = readFileSync(fileName, 'utf8')
    .split('\n')
    .slice(start.line - 1, end.line);
  const last = lines.length - 1;
  lines[last] = lines[last]!.slice(0, end.column - 1);
  const text = lines.join('\n').slice(start.column - 1);
  const oneLine = (code: string) => code.replaceAll(/\s+/g, ' ').slice(0, 100);
  return `${relative('.', fileName)}:${start.line}:${start.column}: ${oneLine(text)} => ${oneLine(replacement)}`;
}
