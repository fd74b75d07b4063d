import { durationMs } from '../../src/config/setting-values.ts';
import { Usage } from '../kit/options.ts';
import { namesOfScenarios, readScenario, type Scenario } from './scenario.ts';
import type { Target } from './target-stand.ts';

export interface Options {
  readonly scenarios: readonly Scenario[];
  /** Null: the test starts gateways of its own, `gateways` of them. */
  readonly target: Target | null;
  readonly gateways: number;
  readonly reportFile: string;
  readonly json: boolean;
}

const usage = new Usage('load');

const OPTIONS = {
  scenario: { type: 'string', multiple: true },
  target: { type: 'string' },
  keys: { type: 'string' },
  duration: { type: 'string' },
  gateways: { type: 'string' },
  report: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** The text of `npm run load -- --help`. */
export function help(): string {
  return `Loads gateways with what clients do, good and bad, and judges what they answer.

Usage: npm run load -- [options]

Options:
  --scenario NAME|FILE  One of ${namesOfScenarios().join(', ')}, or a YAML file like them.
                        May be given more than once. All that come with the test, unless given.
  --target URL          Gateways that run already, on this machine or a private network. Unless given, the test
                        starts its own on 127.0.0.1, with a Redis where one can be found (TEST_REDIS chooses).
  --keys FILE           Keys for the target: JSON, [{"plan": "pro", "key": "tg_live_…", "limits": {"minute": 300, …}}, …].
                        Unless given, they are made, which takes the gateways' REDIS_URL and KEY_PEPPER (or the _FILE
                        variables) and TOLLGATE_PLANS.
  --duration 10s        How long each scenario takes, in place of its own duration.
  --gateways N          How many gateways to start: 2, unless given.
  --report FILE         Where the report goes: load-report.html, unless given.
  --json                Prints one JSON object in place of tables.
  --help                Shows this text.

Exit code: 0 when every promise held, 1 when not or when the test failed, 2 for wrong usage.
`;
}

/**
 * Reads the words after `npm run load --`.
 * @returns null where the help is asked for
 * @throws Failure `bad_usage`
 */
export function readOptions(args: readonly string[]): Options | null {
  const values = usage.parse(args, OPTIONS);
  if (values.help === true) return null;
  const { target, keys, duration, gateways, report = 'load-report.html', json = false } = values;
  if (keys !== undefined && target === undefined) throw usage.wrong('--keys goes with --target.');
  if (gateways !== undefined && target !== undefined)
    throw usage.wrong('--gateways starts gateways, and --target names some.');
  const names = values.scenario ?? namesOfScenarios();
  const scenarios = [...new Set(names)].map(readScenario);
  return {
    scenarios: duration === undefined ? scenarios : scenarios.map((it) => lasting(it, duration)),
    target: target === undefined ? null : { url: target, keysFile: keys ?? null },
    gateways: usage.wholeNumber('gateways', gateways, 2, 1, 9),
    reportFile: report,
    json,
  };
}

/** The comparison without abusers is shortened as well, never lengthened. */
function lasting(scenario: Scenario, text: string): Scenario {
  const duration = durationMs(text);
  if (!(duration >= 100 && duration <= 600_000)) {
    throw usage.wrong(`--duration is '${text}'; it must be a duration from 100ms to 10m, such as 10s.`);
  }
  const without = scenario.without === undefined ? undefined : Math.min(scenario.without, duration);
  return { ...scenario, duration, without };
}
