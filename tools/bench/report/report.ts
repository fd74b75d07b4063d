import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Spread } from '../../kit/statistics.ts';
import { type Entry, figureOf, type Results, type ScenarioResult } from '../results.ts';
import { FEATURES_NAME } from '../scenarios.ts';
import { type Bar, barChart } from './chart.ts';
import { featuresBlock, isFeaturesAlone, withBlock } from './features.ts';
import { markdown } from './markdown.ts';

const FOLDER = join(import.meta.dirname, '..');
const CHARTS = 'charts';

interface Chart {
  readonly file: string;
  readonly svg: string;
}

/**
 * Writes the report and its charts in place of those before. A run of features alone replaces their table and nothing
 * else, and a run without them keeps that table.
 * @returns the path of the report
 */
export async function writeReport(results: Results, folder = FOLDER): Promise<string> {
  const report = join(folder, 'REPORT.md');
  const before = await readFile(report, 'utf8').catch(ifMissing);
  const block = featuresBlock(results, before);
  const rest =
    before !== null && isFeaturesAlone(results) ? before : markdown(results, await writeCharts(results, folder));
  await writeFile(report, withBlock(rest, block));
  return report;
}

function ifMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

/** @returns the files of each scenario, by its name */
async function writeCharts({ scenarios }: Results, folder: string): Promise<Map<string, string[]>> {
  await rm(join(folder, CHARTS), { recursive: true, force: true });
  await mkdir(join(folder, CHARTS), { recursive: true });
  const files = new Map<string, string[]>();
  for (const result of scenarios) {
    // Loads differ from feature to feature, so bars beside each other would say nothing.
    if (result.scenario.name === FEATURES_NAME) continue;
    const charts = chartsOf(result);
    for (const { file, svg } of charts) await writeFile(join(folder, file), svg);
    files.set(
      result.scenario.name,
      charts.map(({ file }) => file),
    );
  }
  return files;
}

function chartsOf(result: ScenarioResult): Chart[] {
  const { name, title } = result.scenario;
  const chart = (what: string, heading: string, unit: string, bars: readonly Bar[]): Chart[] =>
    bars.length === 0
      ? []
      : [{ file: `${CHARTS}/${name}-${what}.svg`, svg: barChart(`${title}: ${heading}`, unit, bars) }];
  const rate = result.ratePerSecond?.toLocaleString('en');
  return [
    ...chart(
      'cpu',
      'CPU of one request',
      'µs',
      barsOf(result, (entry) => figureOf(entry.open, 'cpuUs'), 1),
    ),
    ...chart(
      'p99',
      `p99 at ${rate}/s`,
      'ms',
      barsOf(result, (entry) => figureOf(entry.fixed, 'p99Us'), 1e-3),
    ),
  ];
}

function barsOf({ entries }: ScenarioResult, figure: (entry: Entry) => Spread | null, scale: number): Bar[] {
  return entries
    .flatMap((entry) => {
      const spread = figure(entry);
      if (spread === null) return [];
      const [value, min, max] = [spread.median * scale, spread.min * scale, spread.max * scale];
      return [{ name: entry.title, value, min, max, isOurs: entry.name.startsWith('tollgate') }];
    })
    .sort((a, b) => a.value - b.value);
}
