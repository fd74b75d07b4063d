import { globSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';
import { anySeed, Chance } from '../kit/chance.ts';
import { soFar } from './as-found.ts';
import { ROOMS } from './rooms.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'boolean', default: false },
    seed: { type: 'string' },
    pieces: { type: 'string', default: '16' },
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
 * A sample has pieces of this many lines, 16 by default, so that CI waits for minutes and not for an hour.
 *
 * Fault: a sample was forty neighbouring lines of one file. One function without tests decided it, and CI failed by chance.
 */
const LINES_OF_PIECE = 4;

/** A room, or one file of it. */
interface Target {
  readonly files: readonly string[];
  readonly tests: readonly string[];
  readonly threshold: number;
}

if (values.help || (positionals.length === 0 && !values.sample)) {
  process.stdout.write(`npm run test:mutants -- ROOM [--concurrency N]
npm run test:mutants -- FILE [--concurrency N]
npm run test:mutants -- [ROOM] --sample [--pieces N] [--seed N] [--concurrency N]

Plants mistakes of one operator in the files of a room (${Object.keys(ROOMS).join(', ')}), in one of its files, or
in N pieces of ${LINES_OF_PIECE} lines (16 by default) of the room, or of a room that the seed chooses, and runs the room's own tests against each
of them, N at a time (2 by default). Each mistake that no test noticed is printed as soon as it is found, and their number at the end, also
after Ctrl+C. Fails if the tests notice fewer than ${ROOM_THRESHOLD} % of them, or ${FILE_THRESHOLD} % of those in one file, or ${SAMPLE_THRESHOLD} % of a sample.
`);
  if (!values.help) process.exitCode = 2;
} else {
  process.exitCode = (await plantIn(targetOf(positionals[0]))) ? 0 : 1;
}

function targetOf(name: string | undefined): Target {
  if (values.sample || name === undefined) return sampleBy(Number(values.seed ?? anySeed()), name);
  if (Object.hasOwn(ROOMS, name)) return { ...ROOMS[name]!, threshold: ROOM_THRESHOLD };
  const room = Object.values(ROOMS).find(({ files }) => globSync([...files]).includes(name));
  if (room === undefined) throw new Error(`${name} is neither a room nor a file of one; see --help.`);
  return { files: [name], tests: room.tests, threshold: FILE_THRESHOLD };
}

/** Pieces of the files of one room, which the seed chooses unless it is named: each line of the room is as likely as any other. */
function sampleBy(seed: number, named: string | undefined): Target {
  const chance = new Chance(seed);
  const room = named ?? chance.of(Object.keys(ROOMS).filter((name) => !ROOMS[name]!.isSlow));
  if (!Object.hasOwn(ROOMS, room)) throw new Error(`${room} is no room; see --help.`);
  const { files, tests } = ROOMS[room]!;
  const pieces = globSync([...files])
    .toSorted()
    .flatMap((file) => piecesOf(file, readFileSync(file, 'utf8').split('\n').length));
  const chosen = Array.from({ length: Number(values.pieces) }, () => chance.of(pieces));
  process.stdout.write(`Repeat with: ${room} --sample --pieces ${chosen.length} --seed ${seed}\n`);
  return { files: chosen, tests, threshold: SAMPLE_THRESHOLD };
}

/** The pieces of a file, one from each line on. */
function piecesOf(file: string, lines: number): readonly string[] {
  return Array.from({ length: lines }, (_, i) => `${file}:${i + 1}-${i + LINES_OF_PIECE}`);
}

/** @returns whether the room's tests noticed enough of the mistakes */
async function plantIn({ files, tests, threshold }: Target): Promise<boolean> {
  process.once('exit', () => printCount(threshold));
  await new Stryker({
    packageManager: 'npm',
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner', './tools/mutants/as-found.ts'],
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
    // For the tests without a mistake, on a busy machine.
    dryRunTimeoutMinutes: 20,
    // Stryker would rewrite the paths in it with functions of the compiler that TypeScript 7 does not have. There are none.
    tsconfigFile: 'no-tsconfig.json',
    tempDirName: '.vitest/stryker',
    ignorePatterns: ['/docs', '/.vitest', '/dist', '/data'],
    allowEmpty: true,
    reporters: ['progress-append-only', 'as-found'],
  }).runMutationTest();
  const { unnoticed, percent } = soFar();
  // One says nothing: a sample may be of lines that hold no other.
  const isEnough = percent >= threshold || unnoticed <= 1;
  process.once('exit', () =>
    process.stdout.write(`${isEnough ? 1 : 0} passed, ${isEnough ? 0 : 1} failed, 0 skipped\n`),
  );
  return isEnough;
}

function printCount(threshold: number): void {
  const { noticed, outOfTime, planted, percent } = soFar();
  const percentage = planted === 0 ? 'unknown' : `${percent.toFixed(1)} %`;
  process.stdout.write(
    `${noticed} of ${planted} planted mistakes noticed, ${outOfTime} as the tests ran out of time: ${percentage}, ${threshold} % asked for, in ${process.uptime().toFixed(0)} s.\n`,
  );
}
