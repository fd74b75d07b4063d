import { cpus, release, totalmem } from 'node:os';
import { Failure } from '../../src/failure.ts';
import { runProgram } from '../kit/program.ts';
import { expectedS, longestS } from './duration.ts';
import { featureOf } from './features.ts';
import { compared, readCosts, writeCosts } from './guard/costs.ts';
import { measureCosts } from './guard/guard.ts';
import { help, type Options, readOptions } from './options.ts';
import { tables } from './report/table.ts';
import type { Results, ScenarioResult } from './results.ts';
import { type Plan, runScenario } from './run.ts';
import { measureStart } from './start-up.ts';
import { findTool } from './tools/debian.ts';
import { CACHE } from './world.ts';

await runProgram({ readOptions, help, run: bench });

async function bench(options: Options, interrupted: AbortSignal): Promise<0 | 1> {
  if (options.guard !== null) return guard(options.guard, interrupted);
  const minutes = (seconds: number) => Math.ceil(seconds / 60);
  say(`about ${minutes(expectedS(options))} minutes, ${minutes(longestS(options))} at most; ${options.rounds} rounds`);
  const signal = AbortSignal.any([interrupted, AbortSignal.timeout(Math.ceil(longestS(options) * 1_000))]);
  signal.addEventListener('abort', () => say('Interrupted: ending what was started …'));
  const wrk = await findTool({ program: 'wrk', inPackage: 'usr/bin/wrk', packages: ['wrk'] }, CACHE).catch(
    (error: Error) => {
      throw new Failure('refused', `Without wrk there is no load: ${error.message}`, error);
    },
  );
  const plan: Plan = { ...options, wrk, signal, say };
  const scenarios: ScenarioResult[] = [];
  for (const scenario of options.scenarios) {
    if (!signal.aborted) scenarios.push(await runScenario(scenario, plan));
  }
  const start = options.start && !signal.aborted ? await measureStart(plan) : null;
  const results = resultsOf(options, scenarios, start, !signal.aborted);
  process.stdout.write(tables(results));
  if (signal.aborted) return 1;
  if (options.report) {
    const { writeReport } = await import('./report/report.ts');
    say(`Report: ${await writeReport(results)}`);
  }
  return 0;
}

async function guard(what: 'show' | 'write', signal: AbortSignal): Promise<0 | 1> {
  const costs = await measureCosts({ signal, say });
  const rows = compared(costs, await readCosts());
  for (const { text } of rows) process.stdout.write(`${text}\n`);
  if (what === 'write') await writeCosts(costs);
  return what === 'write' || rows.every(({ isWithin }) => isWithin) ? 0 : 1;
}

function resultsOf(
  { rounds, seconds }: Options,
  scenarios: ScenarioResult[],
  start: Results['start'],
  complete: boolean,
): Results {
  const [cpu] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  // A gateway with a feature is the gateway of this checkout.
  const entries = scenarios.flatMap(({ entries }) => entries).filter(({ name }) => featureOf(name) === undefined);
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} × ${cpu?.model.trim() ?? 'an unknown CPU'}, ${memory}, Linux ${release()}`,
    versions: new Map(entries.map(({ title, version }) => [title, version])),
    rounds,
    seconds,
    scenarios,
    start,
    complete,
  };
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
