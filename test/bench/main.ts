import { cpus, release, totalmem } from 'node:os';
import { Failure } from '../../src/failure.ts';
import { expectedS, longestS } from './duration.ts';
import { help, type Options, readOptions } from './options.ts';
import { tables } from './report/table.ts';
import type { Results, ScenarioResult } from './results.ts';
import { type Plan, runScenario } from './run.ts';
import { measureStart } from './start-up.ts';
import { findTool } from './tools/debian.ts';
import { CACHE } from './world.ts';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // The second one is meant: what was started ends with this process in any case.
    if (interrupted.signal.aborted) process.exit(1);
    say('Interrupted: ending what was started …');
    interrupted.abort();
  });
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options === null) process.stdout.write(help());
  else await bench(options);
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  say(error.message);
  process.exitCode = error.code === 'bad_usage' ? 2 : 1;
}

async function bench(options: Options): Promise<void> {
  const minutes = (seconds: number) => Math.ceil(seconds / 60);
  say(`about ${minutes(expectedS(options))} minutes, ${minutes(longestS(options))} at most; ${options.rounds} rounds`);
  const late = setTimeout(() => interrupted.abort(), longestS(options) * 1_000);
  late.unref();
  const wrk = await findTool({ program: 'wrk', inPackage: 'usr/bin/wrk', packages: ['wrk'] }, CACHE).catch(
    (error: Error) => {
      throw new Failure('refused', `Without wrk there is no load: ${error.message}`, error);
    },
  );
  const plan: Plan = { ...options, wrk, signal: interrupted.signal, say };
  const scenarios: ScenarioResult[] = [];
  for (const scenario of options.scenarios) {
    if (!interrupted.signal.aborted) scenarios.push(await runScenario(scenario, plan));
  }
  const start = options.start && !interrupted.signal.aborted ? await measureStart(plan) : null;
  const results = resultsOf(options, scenarios, start);
  process.stdout.write(tables(results));
  if (interrupted.signal.aborted) process.exitCode = 1;
  else if (options.report) {
    const { writeReport } = await import('./report/report.ts');
    say(`Report: ${await writeReport(results)}`);
  }
}

function resultsOf({ rounds, seconds }: Options, scenarios: ScenarioResult[], start: Results['start']): Results {
  const [cpu] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const entries = scenarios.flatMap((scenario) => scenario.entries);
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} × ${cpu?.model.trim() ?? 'an unknown CPU'}, ${memory}, Linux ${release()}`,
    versions: new Map(entries.map(({ title, version }) => [title, version])),
    rounds,
    seconds,
    scenarios,
    start,
    complete: !interrupted.signal.aborted,
  };
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
