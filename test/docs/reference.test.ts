import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { windowLimit } from '../../src/admit/windows.ts';
import type { Exchange } from '../../src/gateway/exchange.ts';
import { OPERATIONS } from '../../src/operations/catalogue/all.ts';
import { RECORDED_ACTIONS } from '../../src/operations/catalogue/recorded-operations.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { QUOTED } from '../../tools/docs/errors.ts';
import { performancePage } from '../../tools/docs/measured.ts';
import { LABELS } from '../../tools/docs/metrics.ts';
import { generatedPages } from '../../tools/docs/pages.ts';
import { unknownCitations } from '../../tools/docs/reliability.ts';
import { metrics } from '../../tools/docs/sources.ts';
import { countedWindowsOf } from '../support/counted-windows.ts';
import { ROOT } from '../support/processes.ts';

const pages = await generatedPages();
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const source = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => read(join('src', file)))
  .join('\n');

describe('a generated page is what `npm run docs:generate` writes', () => {
  test.each([...pages.keys()])('%s', (path) => {
    expect(read(path)).toBe(pages.get(path));
  });
});

test('each option of a command has a whole sentence, also where the help wraps it', () => {
  const rows = pages.get('docs/reference/commands.md')!.match(/^\| `-.*$/gm)!;
  expect(rows.length).toBeGreaterThan(150);
  expect(rows.filter((row) => !/[.)] \|$/.test(row))).toEqual([]);
});

test('every number that a test cites is a row of docs/reliability.md', () => {
  expect(unknownCitations(read('docs/reliability.md'))).toEqual([]);
});

// A merge that takes the lines of both sides has doubled rows before.
test('each row of docs/reliability.md has a number of its own', () => {
  const numbers = [...read('docs/reliability.md').matchAll(/<a id="(\d+)">/g)].map(([, number]) => number);
  expect(numbers.filter((number, i) => numbers.indexOf(number) !== i)).toEqual([]);
});

test('every section that a comment cites is one of docs/contract.md', () => {
  const sections = new Set([...read('docs/contract.md').matchAll(/^## (\d)\. /gm)].map(([, number]) => number));
  const cited = [...source.matchAll(/contract\s(?:\* )?sections? (\d)(?: and (\d))?/g)].flatMap(
    ([, ...numbers]) => numbers,
  );
  expect(cited.length).toBeGreaterThan(50);
  expect(cited.filter((number) => number !== undefined && !sections.has(number))).toEqual([]);
});

test('every action of the record of changes is named where operators look it up', () => {
  const unnamed = (page: string, actions: readonly string[]) =>
    actions.filter((action) => !read(page).includes(`\`${action}\``));
  expect(unnamed('docs/operate/audit.md', RECORDED_ACTIONS)).toEqual([]);
  const logged = OPERATIONS.flatMap(({ action = [] }) => action);
  expect(logged.length).toBeGreaterThan(5);
  expect(unnamed('docs/reference/log.md', logged)).toEqual([]);
});

test('every label of a metric is explained, and no other', () => {
  const used = metrics()
    .filter(({ name }) => name.startsWith('tollgate_'))
    .flatMap(({ name, labelNames }) => labelNames.map((label) => (label in LABELS ? label : `${name} ${label}`)));
  expect(Object.keys(LABELS).sort()).toEqual([...new Set(used)].sort());
});

test('the message that an example of an error quotes stands in the source', () => {
  expect(source.includes(QUOTED)).toBe(true);
});

describe('docs/reference/headers-and-errors.md', () => {
  test('names every field that the source writes', () => {
    const page = read('docs/reference/headers-and-errors.md').toLowerCase();
    const names = [...source.matchAll(/'((?:[A-Z][A-Za-z]*-)+[A-Z][A-Za-z]*)'/g)].map(([, name]) => name!);
    // Of every answer there is, and of the health checks that the gateway sends.
    const common = ['Content-Type', 'Content-Length', 'Cache-Control', 'User-Agent'];
    expect([...new Set(names)].filter((name) => !common.includes(name) && !page.includes(name.toLowerCase()))).toEqual(
      [],
    );
  });
});

describe('docs/reference/log.md', () => {
  const page = read('docs/reference/log.md');
  const section = (heading: string) => page.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const firstCells = (text: string) => [...text.matchAll(/^\| (`.*?) \|/gm)].map(([, cell]) => cell!);

  test('has the fields of an access line, and its example has all that are always there', () => {
    const told = firstCells(section('request')).flatMap((cell) => cell.replaceAll('`', '').split(', '));
    const lines = accessLines();
    const written = new Set(lines.flatMap((line) => Object.keys(line)));
    expect([...written].sort()).toEqual(told.sort());
    const [, example] = /```json\n([\s\S]*?)```/.exec(section('request'))!;
    const always = [...written].filter((field) => lines.every((line) => field in line));
    expect(Object.keys(JSON.parse(example!) as object).sort()).toEqual(always.sort());
  });

  test('has every message that the gateway logs', () => {
    const messages = source.matchAll(
      /\b(?:logger|audit)\.(?:info|warn|error|fatal)\((?:\{[^}]*\}|\w+), (['"`])((?:(?!\1).)+)\1|\blogger\.(?:info|warn|error|fatal)\((['"`])((?:(?!\3).)+)\3\)/g,
    );
    const told = firstCells(section('Events')).map((cell) => cell.replace(/^`+ ?| ?`+$/g, ''));
    const logged = [...messages].map(([, , one, , other]) => one ?? other!);
    expect(logged.length).toBeGreaterThan(25);
    const isTold = (message: string) => {
      const fixed = message.split(/\$\{[^}]*\}/).at(-1)!;
      return told.some((text) => text === message || (fixed !== message && text.endsWith(fixed)));
    };
    expect(
      logged.filter((message) => !isTold(message) && message !== 'audit' && message !== 'websocket closed'),
    ).toEqual([]);
  });
});

/** One access line of each kind. */
function accessLines(): object[] {
  const lines: object[] = [];
  const log = openLog({
    level: 'info',
    sample2xx: () => 0.5,
    nowMs: () => 0,
    monotonicMs: () => 0,
    random: () => 0,
    onDrop: () => {},
    stream: { write: (line) => lines.push(JSON.parse(line) as object) },
  });
  log.access(EXCHANGE);
  log.access({ ...EXCHANGE, status: 429, source: 'memory' });
  log.access({ ...EXCHANGE, status: 401, consumerId: null, judgement: 'unauthenticated' });
  log.access({
    ...{ ...EXCHANGE, status: 404, attempts: 2, isOverRetryBudget: true, cache: 'miss' },
    ...{ policy: './policies/tenant.ts', accountId: 'cus_1/key_1' },
    units: [{ unit: 'tokens', reserved: 1_000, settled: 742, why: null }],
  });
  const minute = windowLimit('minute', 60);
  const [topped] = countedWindowsOf([{ ...minute, limit: 90 }], [89]);
  log.access({ ...EXCHANGE, status: 504, limits: [minute], windows: [topped!] });
  void log.close();
  expect(lines).toHaveLength(5);
  return lines;
}

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
  windows: [],
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

test('the README has the figures of the last report of the bench', () => {
  const [, row] = /^\| Tollgate \| (.*) \|$/m.exec(read('docs/internals/performance.md'))!;
  const [perSecond, p50, p99, , cpu] = row!.split(' | ').map((cell) => Number.parseFloat(cell.replace(',', '')));
  const said = read('README.md').replaceAll('\n', ' ');
  expect(said).toContain(`admits ${(Math.round(perSecond! / 100) * 100).toLocaleString('en')} requests a second`);
  expect(said).toContain(`median of ${p50!.toFixed(1)} ms and a p99 of ${p99!.toFixed(1)} ms`);
  expect(said).toContain(`costs ${cpu!.toFixed(0)} µs of CPU`);
});

test('a report without a figure of the table is an error that names it', () => {
  const [page, report] = [read('docs/internals/performance.md'), read('tools/bench/REPORT.md')];
  expect(performancePage(page, report)).toBe(page);
  expect(() => performancePage(page, report.replaceAll('| p99 ms |', '| p98 ms |'))).toThrow("no figure 'p99 ms'");
  expect(() => performancePage(page, report.replaceAll('bare node:http answer', 'bare answer'))).toThrow('no row');
});
