import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { parsePlans } from '../src/config/plans.ts';
import type { Exchange } from '../src/gateway/exchange.ts';
import { openLog } from '../src/telemetry/log.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { ROOT, runTollgate, startProcess, startTollgate, temporaryFolder } from './support/processes.ts';

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

const EXCHANGE: Exchange = {
  requestId: 'r',
  traceId: null,
  method: 'GET',
  path: '/v1/pets',
  route: '/v1/pets',
  clientAddress: '127.0.0.1',
  consumerId: 'key_1',
  plan: 'free',
  cost: 1,
  limits: [],
  remaining: [],
  judgement: 'admitted',
  window: null,
  imposedBan: null,
  source: 'store',
  decidedAtMs: 0,
  shadow: null,
  status: 200,
  code: null,
  cause: null,
  upstream: 'store',
  target: 'http://127.0.0.1:9000',
  totalMs: 1,
  storeMs: 0,
  upstreamMs: 1,
  bytesIn: 0,
  bytesOut: 0,
};

/** The rows of the table that follows a heading, cells without their backquotes. */
function tableUnder(heading: string): string[][] {
  const section = README.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

test('the two commands of the README are scripts of package.json', () => {
  expect(README).toContain('npm ci && npm start');
  expect(README).toContain('npm ci && npm test');
  expect(manifest.scripts).toMatchObject({ start: expect.any(String), test: expect.any(String) });
});

test('the alias of the README takes the paths of its caller, also those that are not given', async () => {
  const [, alias] = /alias tollgate='([^']*)'/.exec(README)!;
  const cwd = await temporaryFolder();
  writeFileSync(join(cwd, 'plans.yaml'), 'plans: { ours: { limits: { minute: 5 } } }\n');
  writeFileSync(join(cwd, 'broken.yaml'), 'plans: { ours: { limits: { minut: 5 } } }\n');
  const check = async (...words: string[]) => {
    const command = `${alias!.replace('/path/to/clone', '"$CLONE"')} plans check "$@"`;
    const running = startProcess('sh', ['-c', command, 'sh', ...words], { cwd, env: { CLONE: ROOT } });
    const { code } = await running.exit;
    return { code, output: running.stdout + running.stderr };
  };
  expect(await check()).toEqual({ code: 0, output: expect.stringContaining('plans.yaml: 1 plan (ours)') });
  expect(await check('broken.yaml')).toEqual({
    code: 1,
    output: expect.stringMatching(/^broken\.yaml:1:\d+: .*minut/m),
  });
}, 30_000);

test('the plans.yaml of the README is accepted', () => {
  const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(README)!;
  expect(parsePlans(yaml!, 'README.md')).not.toHaveProperty('faults');
});

test('the first request of the README works when pasted, and its answer has the fields shown', async () => {
  const running = await startTollgate(['start'], { env: { PORT: '0', ADMIN_PORT: '0', PETS_PORT: '0' } });
  const [, curl] = await running.until(/^ {2}(curl .*)$/m);
  const { stdout } = await promisify(execFile)('sh', ['-c', curl!]);
  const [, shown] = /HTTP\/1\.1 200 OK\n([\s\S]*?)\n\n/.exec(README)!;
  for (const line of shown!.split('\n')) expect(stdout).toMatch(new RegExp(`^${line.split(':')[0]}: `, 'm'));
  expect(stdout).toContain('X-RateLimit-Remaining: 59');
  expect(stdout).toContain('RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400');
  expect((await running.stop()).code).toBe(0);
});

test('the error codes of the README are the codes of the gateway, with their status', () => {
  const told = tableUnder('What callers see').flatMap(([statuses, codes]) =>
    [...codes!.matchAll(/`([a-z_]+)`/g)].map(([, code]) => ({ code: code!, statuses: statuses! })),
  );
  const source = readFileSync(join(ROOT, 'src/annotate/error.ts'), 'utf8');
  const [, table] = /const STATUS = \{([\s\S]*?)\}/.exec(source)!;
  const known = [...table!.matchAll(/(\w+): (\d+)/g)];
  expect(told.map(({ code }) => code).sort()).toEqual(known.map(([, code]) => code).sort());
  for (const [, code, status] of known) {
    expect(told.find((row) => row.code === code)?.statuses.split(', ')).toContain(status);
  }
});

test('every command of the README has a help text', async () => {
  const names = tableUnder('Commands').flatMap(([cell]) => {
    const [first, ...others] = [...cell!.matchAll(/`(?:tollgate )?([^`]+)`/g)].map(([, words]) => words!);
    const command = first!.replace(/ [A-Z_]+$/, '');
    return [command, ...others.map((word) => `${command.split(' ')[0]} ${word}`)];
  });
  expect(names.length).toBeGreaterThan(12);
  const finished = await Promise.all(names.map((name) => runTollgate([...name.split(' '), '--help'])));
  for (const [i, { code, stdout }] of finished.entries()) {
    expect({ name: names[i], code }).toEqual({ name: names[i], code: 0 });
    expect(stdout).toContain(`Usage: tollgate ${names[i]}`);
  }
}, 60_000);

test('the libraries of the README are the dependencies, each with its reason', () => {
  const told = tableUnder('Libraries').flatMap(([names]) => names!.split(', '));
  expect(told.filter((name) => name !== 'node:http').sort()).toEqual(Object.keys(manifest.dependencies).sort());
});

test('the metrics of the README are those that the gateway has', async () => {
  const told = tableUnder('Metrics').map(([name, labels]) => `${name!.replaceAll('`', '')}: ${labels}`);
  const { registry } = createMetrics({ connections: () => 0, inFlight: () => 0, upstreams: () => [], store: () => 1 });
  const known = registry.getMetricsAsArray() as unknown as { name: string; labelNames: string[] }[];
  const ours = known.filter(({ name }) => name.startsWith('tollgate_'));
  expect(told.filter((row) => row.startsWith('tollgate_')).sort()).toEqual(
    ours.map(({ name, labelNames }) => `${name}: ${labelNames.join(', ')}`).sort(),
  );
});

test('the fields of the log in the README are those of an access line', () => {
  const told = tableUnder('Log').flatMap(([names]) => names!.replaceAll('`', '').split(', '));
  const lines: string[] = [];
  const log = openLog({
    level: 'info',
    sample2xx: () => 0.5,
    nowMs: () => 0,
    monotonicMs: () => 0,
    random: () => 0,
    onDrop: () => {},
    stream: { write: (line) => lines.push(line) },
  });
  log.access(EXCHANGE);
  log.access({ ...EXCHANGE, status: 429, source: 'memory' });
  log.access({ ...EXCHANGE, status: 401, consumerId: null, judgement: 'unauthenticated' });
  log.close();
  expect(lines).toHaveLength(3);
  const written = new Set(lines.flatMap((line) => Object.keys(JSON.parse(line) as object)));
  expect([...written].sort()).toEqual(told.sort());
});

test('the folders of the source map are there', () => {
  for (const [folder] of tableUnder('Source map')) {
    expect(existsSync(join(ROOT, folder!.replaceAll('`', '')))).toBe(true);
  }
});
