import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { barChart } from '../../../../tools/bench/report/chart.ts';
import { writeReport } from '../../../../tools/bench/report/report.ts';
import { tables } from '../../../../tools/bench/report/table.ts';
import { targetsOf } from '../../../../tools/bench/report/targets.ts';
import type { Entry, Results, ScenarioResult } from '../../../../tools/bench/results.ts';
import type { Measurement } from '../../../../tools/bench/round.ts';
import { type ContestantName, SCENARIOS } from '../../../../tools/bench/scenarios.ts';

function measurement(cpuUs: number, faults: readonly string[] = []): Measurement {
  const redis = { redisCpuUs: 3, scripts: 0.1, commands: 0.4 };
  return {
    requests: 1000,
    perSecond: 1e6 / cpuUs,
    cpuUs,
    togetherUs: cpuUs + redis.redisCpuUs,
    p50Us: 500,
    p99Us: 50 * cpuUs,
    rssBytes: 1e8,
    loaderCpuUs: 10,
    lateP99Us: 100,
    ...redis,
    faults,
  };
}

function entry(name: ContestantName, cpuUs: readonly number[], differs: Partial<Entry> = {}): Entry {
  const open = cpuUs.map((us) => measurement(us));
  const about = { name, title: `<${name}>`, version: '1.2', idleRssBytes: 1e8, redisBytes: null, faults: [] };
  return { ...about, open, fixed: open, beside: [], ...differs };
}

function resultsWith(...scenarios: ScenarioResult[]): Results {
  const about = { date: '2026-01-02', machine: 'a machine', versions: new Map([['Tollgate', '1.2']]) };
  return { ...about, rounds: 3, seconds: 1, scenarios, start: null, complete: true };
}

function scenarioResult(
  name: string,
  entries: readonly Entry[],
  differs: Partial<ScenarioResult> = {},
): ScenarioResult {
  const scenario = SCENARIOS.find((known) => known.name === name)!;
  return { scenario, entries, missing: [], ratePerSecond: null, redisBytesPerKey: null, ...differs };
}

const ADMITTED = scenarioResult(
  'admitted',
  [entry('tollgate', [40, 42, 44]), entry('nginx-lua', [40, 40, 40]), entry('fastify', [120, 120, 120])],
  { ratePerSecond: 4000, missing: [{ name: 'caddy', title: 'caddy', reason: 'it is not there' }] },
);

describe('the targets', () => {
  test('are met or missed by the median of the rounds', () => {
    const found = targetsOf(resultsWith(ADMITTED));
    expect(found.filter(({ met }) => met !== 'not measured')).toEqual([
      expect.objectContaining({ met: 'missed', found: '1.05 × (1.00 × to 1.10 ×)' }),
      expect.objectContaining({ met: 'missed', found: '1.05 × (1.00 × to 1.10 ×)' }),
      expect.objectContaining({ met: 'met', found: '0.35 × (0.33 × to 0.37 ×)' }),
      expect.objectContaining({ met: 'met', found: '100 MB', wanted: 'at most 200 MB' }),
      expect.objectContaining({ met: 'met', found: '100 MB', wanted: 'at most 110 MB' }),
    ]);
  });

  test('leave out a round in which something failed, of either', () => {
    const open = [measurement(40), measurement(1, ['1 read errors']), measurement(44)];
    const [bar] = [entry('nginx-lua', [40, 40, 40])];
    const [first] = targetsOf(resultsWith(scenarioResult('admitted', [entry('tollgate', [], { open }), bar!])));
    expect(first).toMatchObject({ found: '1.05 × (1.00 × to 1.10 ×)' });
  });

  test('compare what differs with what was measured beside it', () => {
    const beside = [measurement(40), measurement(40)];
    const ours = entry('tollgate', [44, 44], { beside });
    const found = targetsOf(resultsWith(scenarioResult('connections-512', [ours])));
    expect(found.filter(({ met }) => met !== 'not measured')).toEqual([
      expect.objectContaining({ found: '1.10 ×', met: 'missed' }),
    ]);
  });

  test('of many callers count the CPU of Redis, and waiting at both kinds of load', () => {
    const ours = entry('tollgate', [44, 44], { fixed: [measurement(60), measurement(60)] });
    const callers = scenarioResult('callers-50000', [ours, entry('nginx-lua', [40, 40])], { redisBytesPerKey: 120 });
    const fourth = targetsOf(resultsWith(callers)).filter(({ met }) => met !== 'not measured');
    expect(fourth.map(({ found, met }) => [found, met])).toEqual([
      ['1.09 ×', 'met'],
      ['1.10 ×', 'met'],
      ['1.50 ×', 'missed'],
      ['100 MB', 'met'],
      ['120 B', 'met'],
    ]);
  });
});

test('the table for a terminal names what is missing and what is invalid', () => {
  const faulty = entry('nginx-lua', [40], { faults: ['2 read errors'] });
  const text = tables(resultsWith({ ...ADMITTED, entries: [entry('tollgate', [42]), faulty] }));
  expect(text).toContain('missing: caddy: it is not there');
  expect(text).toContain('INVALID ROUNDS of <nginx-lua>: 2 read errors');
  expect(text).toMatch(/<tollgate> +42\.0 +3\.0 +45\.0 +45\.0–45\.0 +1\.00 /);
  expect(text).not.toContain('not measured');
});

test('the report has a table and charts for each scenario', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const text = await readFile(await writeReport(resultsWith(ADMITTED), folder), 'utf8');
  expect(text).toContain('2026-01-02, a machine.');
  expect(text).toContain('| <tollgate> | 42.0 | 3.0 | 45.0 | 43.0–47.0 | 1.00 |');
  expect(text).toContain('- caddy is missing: it is not there');
  expect(text).toContain('`admitted`: 32 connections, fixed rate 4,000/s. At the fixed rate the loader took 10.0 µs');
  const charts = [...text.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, file]) => file!);
  expect(charts).toEqual(['charts/admitted-cpu.svg', 'charts/admitted-p99.svg']);
  for (const file of charts) expect(await readFile(join(folder, file), 'utf8')).toContain('&#60;tollgate&#62;');
});

describe('the table of features', () => {
  const features = (gzipUs: number) =>
    scenarioResult('features', [
      entry('plain-get', [50, 50, 50]),
      entry('plain-list', [100, 110, 100]),
      entry('with-gzip', [gzipUs, gzipUs, gzipUs]),
    ]);
  const folderOf = async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    return folder;
  };

  test('has the ratio to the same load without the feature, and to a plain GET', () => {
    const text = tables(resultsWith(features(200)));
    expect(text).toMatch(/× without +× plain GET/);
    expect(text).toMatch(/ <plain-list> +100\.0 +3\.0 +103\.0 +103\.0–113\.0 +– +1\.94 /);
    expect(text).toMatch(/ … <with-gzip> +200\.0 +3\.0 +203\.0 +203\.0–203\.0 +1\.97 +3\.83 /);
  });

  test('has no ratio to a row that was not measured', () => {
    const alone = scenarioResult('features', [entry('with-gzip', [200])]);
    expect(tables(resultsWith(alone))).toMatch(/ … <with-gzip> +200\.0 +3\.0 +203\.0 +203\.0–203\.0 +– +– /);
  });

  test('is replaced by a run of features alone, which leaves the rest of the report and its charts', async () => {
    const folder = await folderOf();
    await writeReport(resultsWith(ADMITTED), folder);
    await writeReport(resultsWith(features(200)), folder);
    const text = await readFile(await writeReport(resultsWith(features(300)), folder), 'utf8');
    expect(text).toContain('| <tollgate> | 42.0 |');
    expect(text).toContain('| … <with-gzip> | 300.0 |');
    expect(text).not.toContain('200.0');
    expect(text).not.toContain('Not measured');
    expect(await readFile(join(folder, 'charts/admitted-cpu.svg'), 'utf8')).toContain('&#60;tollgate&#62;');
  });

  test('stays when a run did not measure features', async () => {
    const folder = await folderOf();
    await writeReport(resultsWith(ADMITTED, features(200)), folder);
    const text = await readFile(await writeReport(resultsWith(ADMITTED), folder), 'utf8');
    expect(text.match(/\| … <with-gzip> \| 200\.0 \|/g)).toHaveLength(1);
  });

  test('tells how it is measured while it has not been', async () => {
    const text = await readFile(await writeReport(resultsWith(ADMITTED), await folderOf()), 'utf8');
    expect(text).toContain('Not measured: `npm run bench -- --scenario features');
  });
});

test('a chart draws each bar to scale', () => {
  const bar = (value: number) => ({ name: 'a & b', value, min: value, max: value, isOurs: false });
  const svg = barChart('"title"', 'µs', [bar(50), bar(100)]);
  const widths = [...svg.matchAll(/height="16" rx="2"/g)];
  expect(widths).toHaveLength(2);
  expect(svg).toContain('width="195.0"');
  expect(svg).toContain('width="390.0"');
  expect(svg).toContain('a &#38; b');
  expect(svg).toContain('&#34;title&#34;');
});
