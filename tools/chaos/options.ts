import { Usage } from '../kit/options.ts';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios/all.ts';
import { SOAK } from './scenarios/soak.ts';

export interface Options {
  readonly scenarios: readonly Scenario[];
  readonly seed: number;
  /** How long the soak takes. */
  readonly minutes: number;
  /** How many keys are used once. */
  readonly keys: number;
  /** How many keys are revoked in the failovers of one scenario. */
  readonly tries: number;
  readonly reportFile: string;
  readonly json: boolean;
  /** How many histories of the simulated fleet are played in place of the scenarios; null: none. */
  readonly histories: number | null;
}

const usage = new Usage('chaos');

const OPTIONS = {
  only: { type: 'string', multiple: true },
  seed: { type: 'string' },
  soak: { type: 'boolean' },
  minutes: { type: 'string' },
  keys: { type: 'string' },
  tries: { type: 'string' },
  report: { type: 'string' },
  json: { type: 'boolean' },
  simulated: { type: 'boolean' },
  histories: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

const SEED = 20_260_701;
const MINUTES = 30;
const MILLION = 1_000_000;
const TRIES = 60;
const HISTORIES = 100_000;
const MAX_MINUTES = 24 * 60;
const REPORT = 'tools/chaos/report.html';

/** The text of `npm run chaos -- --help`. */
export function help(): string {
  const names = [...SCENARIOS, SOAK].map(({ name, about }) => `  ${name.padEnd(28)}${about}`).join('\n');
  return `Breaks what real gateways stand on, one thing after the other, and holds what clients see against the written bounds.

Usage: npm run chaos -- [options]

Options:
  --only NAME       One of the scenarios below, or the beginning of its name. May be given more than once.
                    All but the soak, unless given.
  --soak            The soak as well: faults at random for ${MINUTES} minutes.
  --minutes N       How long the soak takes, and that there is one.
  --keys N          How many keys are used once: ${MILLION}, unless given.
  --tries N         How many keys are revoked in the failovers of each of the durable ones: ${TRIES}, unless given.
  --simulated       Plays random histories of a fleet of gateways in one process, against a model of Redis and in virtual
                    time, in place of the scenarios. It needs no Redis. A history that breaks a bound is shrunk and printed.
  --histories N     How many of them: ${HISTORIES}, unless given. --seed is that of the first one, and the next have the next seeds.
  --seed N          Which gateway, which moment, which fault: ${SEED}, unless given.
  --report FILE     Where the report goes, or the folder for report.html: ${REPORT}, unless given.
  --json            Prints one JSON object in place of the table.
  --help            Shows this text.

It starts all that it needs on 127.0.0.1, with the redis-server or valkey-server of this machine.
Exit code: 0 when every bound held, 1 when one was broken or a scenario could not be played, 2 for wrong usage.

Scenarios:
${names}
`;
}

/**
 * Reads the words after `npm run chaos --`.
 * @returns null where the help is asked for
 * @throws Failure `bad_usage`
 */
export function readOptions(args: readonly string[]): Options | null {
  const values = usage.parse(args, OPTIONS);
  if (values.help === true) return null;
  const { only, soak = false, minutes, report = REPORT, json = false } = values;
  const { simulated = false, histories } = values;
  if (!simulated && histories !== undefined) throw usage.wrong('--histories needs --simulated.');
  const base = only === undefined ? [...SCENARIOS] : only.flatMap(namedBy);
  const wantsSoak = (soak || minutes !== undefined) && !base.includes(SOAK);
  return {
    scenarios: [...new Set(wantsSoak ? [...base, SOAK] : base)],
    seed: usage.wholeNumber('seed', values.seed, SEED, 0, 2_147_483_646),
    minutes: minutes === undefined ? MINUTES : fraction(minutes),
    keys: usage.wholeNumber('keys', values.keys, MILLION, 1, 10_000_000),
    tries: usage.wholeNumber('tries', values.tries, TRIES, 1, 1_000_000),
    reportFile: report.endsWith('.html') ? report : `${report.replace(/\/$/, '')}/report.html`,
    json,
    histories: simulated ? usage.wholeNumber('histories', histories, HISTORIES, 1, 1_000_000_000) : null,
  };
}

function namedBy(name: string): Scenario[] {
  const all = [...SCENARIOS, SOAK];
  const exact = all.filter((it) => it.name === name);
  const found = exact.length > 0 ? exact : all.filter((it) => it.name.startsWith(name));
  if (name !== '' && found.length > 0) return found;
  throw usage.wrong(`There is no scenario '${name}'.`);
}

function fraction(text: string): number {
  const minutes = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && minutes > 0 && minutes <= MAX_MINUTES) return minutes;
  throw usage.wrong(`--minutes is '${text}'; it must be a number up to ${MAX_MINUTES}.`);
}
