import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { runProgram } from '../kit/program.ts';
import { screenOf } from '../kit/screen.ts';
import { help, type Options, readOptions } from './options.ts';
import { watch } from './progress.ts';
import { reportHtml } from './report/report.ts';
import { run } from './run.ts';
import type { Stand } from './stand.ts';
import { summarise, summaryText } from './summary.ts';
import { targetStand } from './target-stand.ts';

await runProgram({ readOptions, help, run: load });

async function load(options: Options, signal: AbortSignal): Promise<0 | 1> {
  const { scenarios, json, reportFile } = options;
  const stand = await openStand(options);
  try {
    const watcher = watch(screenOf(process.stderr));
    const results = await run({ stand, scenarios, watcher, signal });
    const summary = summarise(stand.about, results);
    const report = resolve(reportFile);
    await writeFile(report, reportHtml(summary, results));
    if (json) process.stdout.write(`${JSON.stringify({ ...summary, report }, null, 2)}\n`);
    else process.stdout.write(`${summaryText(summary, process.stdout.isTTY === true)}Report: ${report}\n`);
    if (!signal.aborted) return summary.ok ? 0 : 1;
    process.stderr.write('Interrupted: what was seen until then is judged above.\n');
    return 1;
  } finally {
    await stand.close();
  }
}

/** What starts gateways belongs to the tests, and is not there where only gateways elsewhere are loaded. */
async function openStand({ target, gateways }: Options): Promise<Stand> {
  if (target !== null) return targetStand(target, process.env);
  const { ownStand } = await import('./own-stand.ts');
  return ownStand({ gateways });
}
