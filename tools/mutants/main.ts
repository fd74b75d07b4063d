import { globSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';
import { anySeed, Chance } from '../kit/chance.ts';
import { ROOMS } from './rooms.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'boolean', default: false },
    seed: { type: 'string' },
    concurrency: { type: 'string', default: '2' },
    help: { type: 'boolean', default: false },
  },
});

/** Of the mistakes in a room its own tests must notice so many, percent; in a single file, where one weighs more, fewer. */
const ROOM_THRESHOLD = 90;
const FILE_THRESHOLD = 80;
/** Of a few dozen mistakes. Where a room's tests notice 90 %, one sample in 400 is below this. */
const SAMPLE_THRESHOLD = 60;
/**
 * A sample has this many pieces of this many lines, so that CI waits for minutes and not for an hour.
 *
 * Fault: a sample was forty neighbouring lines of one file. One function without tests decided it, and CI failed by chance.
 */
const PIECES = 16;
const LINES_OF_PIECE = 4;

type Result = Awaited<ReturnType<Stryker['runMutationTest']>>[number];

/** A room, or one file of it. */
interface Target {
  readonly files: readonly string[];
  readonly tests: readonly string[];
  readonly threshold: number;
}

if (values.help || (positionals.length === 0) !== values.sample) {
  process.stdout.write(`npm run test:mutants -- ROOM [--concurrency N]
npm run test:mutants -- FILE [--concurrency N]
npm run test:mutants -- --sample [--seed N] [--concurrency N]

Plants mistakes of one operator in the files of a room (${Object.keys(ROOMS).join(', ')}), in one of its files, or
in lines of a room that the seed chooses, and runs the room's own tests against each of them, N at a time (2 by default). Fails if
the tests notice fewer than ${ROOM_THRESHOLD} % of them, or ${FILE_THRESHOLD} % of those in one file, or ${SAMPLE_THRESHOLD} % of a sample. The mistakes that no test noticed are printed.
`);
  if (!values.help) process.exitCode = 2;
} else {
  process.exitCode = (await plantIn(targetOf(positionals[0]))) ? 0 : 1;
}

function targetOf(name: string | undefined): Target {
  if (name === undefined) return sampleBy(Number(values.seed ?? anySeed()));
  if (Object.hasOwn(ROOMS, name)) return { ...ROOMS[name]!, threshold: ROOM_THRESHOLD };
  const room = Object.values(ROOMS).find(({ files }) => globSync([...files]).includes(name));
  if (room === undefined) throw new Error(`${name} is neither a room nor a file of one; see --help.`);
  return { files: [name], tests: room.tests, threshold: FILE_THRESHOLD };
}

/** Pieces of the files of one room, which the seed chooses: each line of the room is as likely as any other. */
function sampleBy(seed: number): Target {
  const chance = new Chance(seed);
  const { files, tests } = chance.of(Object.values(ROOMS));
  const pieces = globSync([...files])
    .toSorted()
    .flatMap((file) => piecesOf(file, readFileSync(file, 'utf8').split('\n').length));
  const chosen = Array.from({ length: PIECES }, () => chance.of(pieces));
  process.stdout.write(`Seed ${seed}: ${chosen.join(', ')}.\n`);
  return { files: chosen, tests, threshold: SAMPLE_THRESHOLD };
}

/** The pieces of a file, one from each line on. */
function piecesOf(file: string, lines: number): readonly string[] {
  return Array.from({ length: lines }, (_, i) => `${file}:${i + 1}-${i + LINES_OF_PIECE}`);
}

/** @returns whether the room's tests noticed enough of the mistakes */
async function plantIn({ files, tests, threshold }: Target): Promise<boolean> {
  const startedMs = performance.now();
  const results = await new Stryker({
    packageManager: 'npm',
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    // Only the room's own tests: that a test of the whole would fail as well helps nobody who changes the room.
    vitest: { configFile: 'tools/mutants/vitest.config.ts', related: false },
    testFiles: [...tests],
    mutate: [...files],
    // Only the tests that reach a mistake run against it.
    coverageAnalysis: 'perTest',
    // A mistake in what a module computes when it is loaded needs a load of its own and all tests, so twenty take as long as
    // all others. Nearly all of these are tables and expressions, whose rows tests have.
    ignoreStatic: true,
    // Texts are for people: a test that repeats each of them notices nothing. An empty body, object or array is no mistake
    // that somebody makes, and nearly any test notices it.
    mutator: { excludedMutations: ['StringLiteral', 'ObjectLiteral', 'BlockStatement', 'ArrayDeclaration'] },
    concurrency: Number(values.concurrency),
    // Endless loops end earlier, because Stryker counts how often a mistake is passed. This is for promises without an end, beyond
    // one and a half times what the tests take without a mistake.
    timeoutMS: 5_000,
    // Stryker would rewrite the paths in it with functions of the compiler that TypeScript 7 does not have. There are none.
    tsconfigFile: 'no-tsconfig.json',
    tempDirName: '.vitest/stryker',
    ignorePatterns: ['/docs', '/.vitest', '/dist', '/data'],
    allowEmpty: true,
    reporters: ['progress-append-only'],
  }).runMutationTest();
  return report(results, threshold, performance.now() - startedMs);
}

function report(results: readonly Result[], threshold: number, tookMs: number): boolean {
  const of = (...statuses: string[]) => results.filter(({ status }) => statuses.includes(status));
  const unnoticed = of('Survived', 'NoCoverage');
  for (const mutant of unnoticed) process.stdout.write(`${described(mutant)}\n`);
  const noticed = of('Killed', 'Timeout').length;
  const planted = noticed + unnoticed.length;
  const percent = planted === 0 ? 100 : (100 * noticed) / planted;
  // One says nothing: a sample may be of lines that hold no other.
  const isEnough = percent >= threshold || unnoticed.length <= 1;
  process.stdout.write(
    `${noticed} of ${planted} planted mistakes noticed: ${percent.toFixed(1)} %, ${threshold} % asked for, in ${(tookMs / 1_000).toFixed(0)} s.\n` +
      `${isEnough ? 1 : 0} passed, ${isEnough ? 0 : 1} failed, 0 skipped\n`,
  );
  return isEnough;
}

/** `src/engine/counting.ts:168:36: a >= b => a > b`, of a mistake that no test noticed. */
function described({ fileName, location: { start, end }, replacement = '', status }: Result): string {
  const lines = readFileSync(fileName, 'utf8')
    .split('\n')
    .slice(start.line - 1, end.line);
  const last = lines.length - 1;
  lines[last] = lines[last]!.slice(0, end.column - 1);
  const text = lines.join('\n').slice(start.column - 1);
  const oneLine = (code: string) => code.replaceAll(/\s+/g, ' ').slice(0, 100);
  const why = status === 'NoCoverage' ? ' (no test reaches it)' : '';
  return `${relative('.', fileName)}:${start.line}:${start.column}: ${oneLine(text)} => ${oneLine(replacement)}${why}`;
}
