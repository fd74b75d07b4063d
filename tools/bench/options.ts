import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Usage } from '../kit/options.ts';
import { CONTESTANTS } from './contestants/all.ts';
import { FEATURES, featureOf } from './features.ts';
import { type ContestantName, FAMILIES, SCENARIOS, type Scenario, START } from './scenarios.ts';

export interface Options {
  readonly scenarios: readonly Scenario[];
  /** Whether the start of the gateway is measured as well. */
  readonly start: boolean;
  readonly only: readonly ContestantName[] | null;
  readonly against: string | null;
  /** The gateway without what production switches on: no admin token, no scraper. */
  readonly bare: boolean;
  readonly rounds: number;
  readonly seconds: number;
  readonly report: boolean;
  /** Only counts bytes and system calls: `show`, or `write` them into guard/costs.json. */
  readonly guard: 'show' | 'write' | null;
}

const usage = new Usage('bench');

const OPTIONS = {
  scenario: { type: 'string', multiple: true },
  only: { type: 'string', multiple: true },
  against: { type: 'string' },
  bare: { type: 'boolean' },
  rounds: { type: 'string' },
  seconds: { type: 'string' },
  report: { type: 'boolean' },
  guard: { type: 'boolean' },
  write: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** What --scenario can be. */
const NAMES: readonly string[] = [...SCENARIOS.map(({ name }) => name), ...FAMILIES, START];

/** The text of `npm run bench -- --help`. */
export function help(): string {
  return `Compares what a request costs in Tollgate and in others, on this machine, on 127.0.0.1 alone.

Usage: npm run bench -- [options]

  npm run bench -- --scenario admitted,banned --only tollgate,bare-node --rounds 3   takes two minutes, all of it 127.

Options:
  --scenario NAME,…  ${NAMES.join(', ')}. All of them, unless given;
                     callers stands for all that begin so, bodies for the downloads and uploads.
  --only NAME,…      ${[...CONTESTANTS.keys()].filter((name) => featureOf(name) === undefined).join(', ')};
                     in the scenario features ${FEATURES.map(({ name }) => name).join(', ')}.
                     All of a scenario, unless given.
  --against FOLDER   Another checkout, its dependencies installed: its gateway is measured in turn with this one,
                     except in the scenario features.
  --bare             Without an admin token and without a scraper of metrics. Production has both, and so has the bench.
  --rounds N         How often each contestant has its turn: 7, unless given.
  --seconds S        How long a turn lasts: 3, unless given.
  --report           Writes tools/bench/REPORT.md and its charts. With the scenario features alone, only the table of
                     features in it.
  --guard            Measures nothing else: counts the bytes that the gateway allocates and the system calls that it makes for
                     a request, which do not depend on the machine, beside the counts of the last change.
  --write            With --guard: writes the counts into tools/bench/guard/costs.json.
  --help             Shows this text.

Tools and peers that are not installed are fetched from Debian's packages into node_modules/.cache; those that cannot be had are named.
`;
}

/**
 * Reads the words after `npm run bench --`.
 * @returns null where the help is asked for
 * @throws Failure `bad_usage`
 */
export function readOptions(args: readonly string[]): Options | null {
  const values = usage.parse(args, OPTIONS);
  if (values.help === true) return null;
  const names = listOf('scenario', values.scenario, NAMES);
  const only = listOf('only', values.only, [...CONTESTANTS.keys()]) as ContestantName[] | null;
  return {
    scenarios: SCENARIOS.filter(
      ({ name, family }) => names === null || names.includes(name) || (family !== undefined && names.includes(family)),
    ),
    start: names === null || names.includes(START),
    only,
    against: againstOf(values.against, values.report === true),
    bare: bareOf(values.bare === true, values.report === true),
    rounds: usage.wholeNumber('rounds', values.rounds, 7, 1, 1_000),
    seconds: usage.wholeNumber('seconds', values.seconds, 3, 1, 600),
    report: values.report === true,
    guard: guardOf(values.guard === true, values.write === true),
  };
}

function againstOf(folder: string | undefined, report: boolean): string | null {
  if (folder === undefined) return null;
  if (report) throw usage.wrong('--against compares two versions, and --report is about this one');
  if (!existsSync(join(folder, 'bin', 'tollgate.js')))
    throw usage.wrong(`--against is '${folder}'; there is no bin/tollgate.js`);
  return resolve(folder);
}

function bareOf(isBare: boolean, report: boolean): boolean {
  if (isBare && report)
    throw usage.wrong('--bare leaves out what production switches on, and --report is about production');
  return isBare;
}

function guardOf(isGuard: boolean, writes: boolean): Options['guard'] {
  if (writes && !isGuard) throw usage.wrong('--write belongs to --guard');
  return isGuard ? (writes ? 'write' : 'show') : null;
}

function listOf(option: string, given: readonly string[] | undefined, known: readonly string[]): string[] | null {
  if (given === undefined) return null;
  const names = given.flatMap((text) => text.split(',')).filter((name) => name !== '');
  const stranger = names.find((name) => !known.includes(name));
  if (stranger !== undefined) throw usage.wrong(`--${option} is '${stranger}'; it can be ${known.join(', ')}.`);
  return names;
}
