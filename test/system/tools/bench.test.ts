import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runWrk } from '../../../tools/bench/loaders/wrk.ts';
import { requestOf } from '../../../tools/bench/request.ts';
import type { Entry } from '../../../tools/bench/results.ts';
import { runScenario } from '../../../tools/bench/run.ts';
import { SCENARIOS } from '../../../tools/bench/scenarios.ts';
import { findTool } from '../../../tools/bench/tools/debian.ts';
import { CACHE } from '../../../tools/bench/world.ts';

const WRK = { program: 'wrk', inPackage: 'usr/bin/wrk', packages: ['wrk'] };
const GET = requestOf({ method: 'GET', path: '/v1/pets', bodyBytes: 0 });

/** A scenario with the gateway alone and few keys, as briefly as it can be. */
async function measuredBriefly(name: string, signal: AbortSignal): Promise<Entry> {
  const scenario = SCENARIOS.find((known) => known.name === name)!;
  const brief = { ...scenario, keys: Math.min(20, scenario.keys), warmUpS: 1 };
  const plan = {
    rounds: 1,
    seconds: 1,
    only: ['tollgate'] as const,
    against: null,
    bare: false,
    say: () => {},
    signal,
  };
  const { entries, missing } = await runScenario(brief, { ...plan, wrk: await findTool(WRK, CACHE) });
  expect(missing).toEqual([]);
  expect(entries.flatMap(({ faults }) => faults)).toEqual([]);
  return entries[0]!;
}

test('a scenario of many callers measures CPU of gateway and Redis, memory, and latency at both kinds of load', async ({
  signal,
}) => {
  const { idleRssBytes, open, fixed } = await measuredBriefly('callers-1000-zipf', signal);
  expect(idleRssBytes).toBeGreaterThan(1e7);
  for (const measured of [open[0]!, fixed[0]!]) {
    for (const figure of ['requests', 'p50Us', 'p99Us', 'rssBytes', 'loaderCpuUs'] as const)
      expect(measured[figure], figure).toBeGreaterThan(0);
    expect(measured.togetherUs).toBe(measured.cpuUs + measured.redisCpuUs!);
  }
});

test.each(['upload-200k', 'download-200k-http2'])('%s measures large bodies', async (name) => {
  const { open } = await measuredBriefly(name, AbortSignal.timeout(120_000));
  expect(open[0]!.requests).toBeGreaterThan(0);
  expect(open[0]!.p50Us).toBeGreaterThan(0);
});

test('at an even rate, all requests are late that were due while a server has stopped', async ({ signal }) => {
  let stopsAt = 0;
  const server = createServer((_request, response) => {
    stopsAt ||= Date.now() + 400;
    const goesOnAt = stopsAt + 1_000;
    const waitMs = Date.now() >= stopsAt ? Math.max(0, goesOnAt - Date.now()) : 0;
    setTimeout(() => response.end(), waitMs);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close().closeAllConnections());
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const tokensFile = join(folder, 'tokens');
  await writeFile(tokensFile, 'one\ntwo\n');
  const { port } = server.address() as AddressInfo;
  const load = { port, connections: 4, seconds: 2, request: GET, expects: null, tokensFile, taken: 0 };
  const report = await runWrk(await findTool(WRK, CACHE), { ...load, ratePerSecond: 200 }, signal);
  // Four answers take a second. A loader that counts from when it sends would find 1 % of all slow, and not most of them.
  expect(report).toMatchObject({ status: 0, connect: 0, read: 0, timeout: 0 });
  expect(report.p50Us).toBeGreaterThan(100_000);
});
