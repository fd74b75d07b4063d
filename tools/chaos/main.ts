import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { runProgram } from '../kit/program.ts';
import { LiveLines, screenOf } from '../kit/screen.ts';
import { help, type Options, readOptions } from './options.ts';
import { follow } from './progress.ts';
import { reportHtml } from './report/page.ts';
import { tableText } from './report/table.ts';
import { run } from './run.ts';
import { simulate } from './simulated/simulate.ts';

await runProgram({ readOptions, help, run: chaos });

async function chaos({ histories, ...options }: Options, signal: AbortSignal): Promise<0 | 1> {
  process.stderr.write(`Seed ${options.seed}.\n`);
  return histories === null ? breakReal(options, signal) : playSimulated(histories, options, signal);
}

async function playSimulated(
  histories: number,
  { seed, json }: Pick<Options, 'seed' | 'json'>,
  signal: AbortSignal,
): Promise<0 | 1> {
  const live = new LiveLines(screenOf(process.stderr));
  const onProgress = (played: number) => live.draw([`${played} of ${histories} histories`]);
  const { played, answers, broken } = await simulate({ seed, histories, onProgress, signal });
  live.erase();
  const ok = broken === null && played === histories;
  const { store, lease, memory, local } = answers;
  const summary = `${played} histories. Requests answered by the store ${store}, from leases ${lease}, from memory ${memory}, locally ${local}.\n`;
  if (json) process.stdout.write(`${JSON.stringify({ ok, seed, played, answers, broken }, null, 2)}\n`);
  else process.stdout.write(`${broken ?? ''}${summary}`);
  return ok ? 0 : 1;
}

async function breakReal(
  { reportFile, json, ...options }: Omit<Options, 'histories'>,
  signal: AbortSignal,
): Promise<0 | 1> {
  const progress = follow(screenOf(process.stderr));
  const results = await run({ ...options, progress, signal });
  const { rows } = results;
  const report = resolve(reportFile);
  await mkdir(dirname(report), { recursive: true });
  await writeFile(report, reportHtml(results, options.seed));
  const ok = rows.length > 0 && rows.every(({ broken }) => broken.length === 0);
  if (json) process.stdout.write(`${JSON.stringify({ ok, seed: options.seed, report, rows }, null, 2)}\n`);
  else process.stdout.write(`${tableText(rows)}Report: ${report}\n`);
  if (!signal.aborted) return ok ? 0 : 1;
  process.stderr.write('Interrupted: what was played until then is judged above.\n');
  return 1;
}
