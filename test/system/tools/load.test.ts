import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { atEnd } from '../../support/endings.ts';
import { startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { ROOT, startProcess, temporaryFolder } from '../../support/processes.ts';
import { testRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

const SCENARIO = `
about: More than a second allows.
duration: 1500ms
clients: [{ name: eager, plan: fast, standIn: fast, keys: 2, rate: 20, refused: ignore }]
`;
const PLANS = 'plans: { fast: { limits: { second: 10, minute: 1000 }, bans: off } }';

async function load(args: readonly string[], env: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  const report = join(folder, 'report.html');
  const running = startProcess(
    process.execPath,
    [join(ROOT, 'tools', 'load', 'main.ts'), '--json', '--report', report, ...args],
    { env, cwd: folder },
  );
  const { code } = await running.exit;
  if (running.stdout === '') throw new Error(running.stderr);
  return { code, ...JSON.parse(running.stdout), report: await readFile(report, 'utf8') };
}

/** Between clients and gateways: changes one field of every answer, as a faulty gateway would. */
async function liar(port: number, name: string, change: (value: string) => string): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
      const told = answer.headers[name];
      outgoing.writeHead(answer.statusCode!, {
        ...answer.headers,
        ...(typeof told === 'string' && { [name]: change(told) }),
      });
      answer.pipe(outgoing);
    }).end();
  });
  atEnd(() => server.close().closeAllConnections());
  return (await listen(server)).origin;
}

test('the load test starts its own gateways, finds them right, and writes a report that needs nothing but itself', async () => {
  const { url } = await testRedis();
  const run = await load(['--scenario', 'burst', '--duration', '2s'], { TEST_REDIS: url });
  expect(run).toMatchObject({ code: 0, ok: true, findings: [] });
  const looked = Object.fromEntries(run.checks.map((it: { check: string; looked: number }) => [it.check, it.looked]));
  for (const check of ['limit', 'whole', 'remaining', 'fields', 'retryAfter', 'statuses']) {
    expect(looked[check]).toBeGreaterThan(0);
  }
  expect(run.report.match(/<svg/g)).toHaveLength(3);
  expect(run.report).not.toMatch(/<script|<link|src=|url\(|https?:/);
});

test('the load test finds a limit that is told wrong by gateways elsewhere, with keys of a file, and exits with 1', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin, plans: PLANS });
  const limits = { second: 10, minute: 1000 };
  const keys = [await gateway.createKey('fast'), await gateway.createKey('fast')];
  const folder = await temporaryFolder();
  const [keysFile, scenario] = [join(folder, 'keys.json'), join(folder, 'eager.yaml')];
  await writeFile(keysFile, JSON.stringify(keys.map(({ key }) => ({ plan: 'fast', key, limits }))));
  await writeFile(scenario, SCENARIO);
  const against = (target: string) =>
    load(['--target', target, '--keys', keysFile, '--scenario', scenario], {
      TOLLGATE_PLANS: gateway.env.TOLLGATE_PLANS!,
    });
  expect(await against(gateway.origin)).toMatchObject({ code: 0, ok: true });
  const lying = await liar(gateway.port, 'x-ratelimit-remaining', (value) => String(Number(value) + 1));
  const found = await against(lying);
  expect(found).toMatchObject({ code: 1, ok: false });
  expect(found.findings).toContainEqual(
    expect.objectContaining({ check: 'fields', sentence: expect.stringContaining('what binds') }),
  );
  expect(found.report).toContain('faults were found');
});
