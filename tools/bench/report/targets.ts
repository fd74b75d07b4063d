import { ratioOf, type Spread } from '../../kit/statistics.ts';
import { PLAIN_GET } from '../features.ts';
import { type Entry, entryOf, type Figure, figureOf, type Results, ratioBetween, valuesOf } from '../results.ts';
import { type ContestantName, FEATURES_NAME } from '../scenarios.ts';

/** One promise about the cost of a request, and what a run says of it. */
export interface Target {
  readonly name: string;
  readonly wanted: string;
  readonly found: string;
  readonly met: 'met' | 'missed' | 'not measured';
}

type Of = (scenario: string, name: ContestantName) => Entry | undefined;

/** The targets of the performance issue, in its order. */
export function targetsOf(results: Results): Target[] {
  const of: Of = (scenario, name) =>
    entryOf(
      results.scenarios.find((result) => result.scenario.name === scenario),
      name,
    );
  return [
    ...admitted(of),
    ...refused(of),
    ...memory(of),
    ...scripts(of),
    ...manyCallers(results, of),
    ...sizes(of),
    ...start(results),
    ...features(of),
  ];
}

function features(of: Of): Target[] {
  const against = (name: ContestantName, plain: ContestantName) =>
    ratioBetween(of(FEATURES_NAME, name), of(FEATURES_NAME, plain), 'cpuUs');
  return [
    atMost('8. A table of 1,000 hosts: CPU against none', against('with-hosts', PLAIN_GET), 1.02),
    atMost('8. A hit of the cache: CPU against a refusal', against('with-cache', 'plain-refused'), 1.2),
  ];
}

function admitted(of: Of): Target[] {
  const [ours, bar, fastify] = (['tollgate', 'nginx-lua', 'fastify'] as const).map((name) => of('admitted', name));
  return [
    atMost('1. Admitted GET: CPU against nginx + Lua + Redis', ratioBetween(ours, bar, 'cpuUs'), 1),
    atMost(
      '1. Admitted GET: p99 at the fixed rate against nginx + Lua + Redis',
      ratioBetween(ours, bar, 'p99Us', 'fixed'),
      1,
    ),
    atMost('1. Admitted GET: CPU against the Fastify stack', ratioBetween(ours, fastify, 'cpuUs'), 0.4),
    atMost('1. Admitted GET: CPU against --against', ratioBetween(ours, of('admitted', 'tollgate-before'), 'cpuUs'), 1),
  ];
}

function refused(of: Of): Target[] {
  const against = (scenario: string, what: string, most: number) =>
    atMost(
      `2. ${what}: CPU against a bare node:http answer`,
      ratioBetween(of(scenario, 'tollgate'), of(scenario, 'bare-node'), 'cpuUs'),
      most,
    );
  const patience = (scenario: string, what: string) =>
    atMost(
      `2. ${what}: p99 at 128 connections against a bare node:http answer`,
      ratioBetween(of(scenario, 'tollgate'), of(scenario, 'bare-node'), 'p99Us'),
      3,
    );
  const commands = (scenario: string, what: string) =>
    atMost(`2. ${what}: Redis commands per refusal`, medianOf(of(scenario, 'tollgate'), 'commands'), 0.01, 'x');
  return [
    against('banned', 'Banned key', 1.2),
    against('spent', 'Spent key, plan without bans', 1.2),
    patience('banned-128', 'Banned key'),
    patience('spent-128', 'Spent key'),
    commands('banned', 'Banned key'),
    commands('spent', 'Spent key, plan without bans'),
    against('made-up-key', 'Made-up keys', 1.6),
    against('unknown-key', 'Unknown keys with the right checksum', 1.6),
    patience('unknown-key-128', 'Unknown keys'),
    ...['made-up-key', 'unknown-key'].map((scenario) =>
      atMost(`2. ${scenario}: memory from the first round to the last`, growth(of(scenario, 'tollgate')), 1.1),
    ),
  ];
}

function memory(of: Of): Target[] {
  return ['admitted', 'banned', 'spent', 'unknown-key'].flatMap((scenario) => {
    const ours = of(scenario, 'tollgate');
    return [
      atMost(`2. ${scenario}: memory after load`, scaled(medianOf(ours, 'rssBytes'), 1e-6), 200, 'MB'),
      atMost(`2. ${scenario}: memory before it`, ours === undefined ? null : same(ours.idleRssBytes / 1e6), 110, 'MB'),
    ];
  });
}

function scripts(of: Of): Target[] {
  const name = (keys: string) => `3. Script calls per admitted request, 64 connections, ${keys}`;
  return [
    atMost(name('one key'), medianOf(of('callers-1', 'tollgate'), 'scripts'), 0.15, 'x'),
    atMost(name('1,000 keys'), medianOf(of('callers-1000', 'tollgate'), 'scripts'), 0.5, 'x'),
  ];
}

function manyCallers({ scenarios }: Results, of: Of): Target[] {
  const bytes = scenarios.find(({ scenario }) => scenario.name === 'callers-50000')?.redisBytesPerKey ?? null;
  const memoryWith = (callers: string, most: number) =>
    atMost(`4. ${callers}: memory after load`, scaled(medianOf(of(callers, 'tollgate'), 'rssBytes'), 1e-6), most, 'MB');
  return [
    ...againstTheBar(of, 'callers-1000', 0.9),
    ...againstTheBar(of, 'callers-5000', 0.9),
    ...againstTheBar(of, 'callers-50000', 1.2),
    memoryWith('callers-1000', 160),
    memoryWith('callers-50000', 220),
    atMost('4. Redis bytes per active key', bytes === null ? null : same(bytes), 200, 'B'),
    atMost(
      '4. Memory with 1,000,000 callers from the first round to the last',
      growth(of('callers-1000000', 'tollgate')),
      1.1,
    ),
  ];
}

function againstTheBar(of: Of, scenario: string, most: number): Target[] {
  const [ours, bar] = [of(scenario, 'tollgate'), of(scenario, 'nginx-lua')];
  const against = 'against nginx + Lua + Redis';
  return [
    atMost(`4. ${scenario}: CPU of gateway and Redis ${against}`, ratioBetween(ours, bar, 'togetherUs'), most),
    atMost(`4. ${scenario}: p99 ${against}`, ratioBetween(ours, bar, 'p99Us'), 1.2),
    atMost(`4. ${scenario}: p99 at the fixed rate ${against}`, ratioBetween(ours, bar, 'p99Us', 'fixed'), 1.2),
  ];
}

function sizes(of: Of): Target[] {
  const large = ratioBetween(of('large-answer', 'tollgate'), of('large-answer', 'nginx'), 'cpuUs');
  const bodies = ['download-200k', 'download-5m', 'upload-200k', 'upload-5m'].flatMap((name) => [
    name,
    `${name}-http2`,
  ]);
  const [one, two] = [of('workers-2', 'tollgate'), of('workers-2', 'tollgate-2-workers')];
  return [
    atMost('5. 100 KiB answers: CPU against nginx, proxy alone', large, 1.5),
    ...bodies.map((name) =>
      atMost(
        `5. ${name}: CPU against nginx, proxy alone`,
        ratioBetween(of(name, 'tollgate'), of(name, 'nginx'), 'cpuUs'),
        1.3,
      ),
    ),
    // Two runs of the same thing differ by some percent.
    atMost('5. CPU with 512 connections against 64', againstBeside(of('connections-512', 'tollgate')), 1.05),
    // 1.7 times the throughput for twice the cores: a request may cost 2 / 1.7 of what it costs with one worker.
    atMost('6. Two workers: CPU against one', ratioBetween(two, one, 'cpuUs'), 2 / 1.7),
  ];
}

function start({ start }: Results): Target[] {
  return [
    atMost('7. Ready to serve', start?.readyMs ?? null, 500, 'ms'),
    atMost('7. Idle memory', scaled(start?.idleRssBytes ?? null, 1e-6), 110, 'MB'),
  ];
}

function atMost(name: string, spread: Spread | null, most: number, unit = '×'): Target {
  const text = (value: number) =>
    unit === '×' ? `${value.toFixed(2)} ×` : unit === 'x' ? value.toFixed(4) : `${value.toFixed(0)} ${unit}`;
  const wanted = `at most ${unit === 'x' ? most : text(most)}`;
  if (spread === null) return { name, wanted, found: '–', met: 'not measured' };
  const { median, min, max } = spread;
  const range = min === max ? '' : ` (${text(min)} to ${text(max)})`;
  return { name, wanted, found: `${text(median)}${range}`, met: median <= most ? 'met' : 'missed' };
}

function medianOf(entry: Entry | undefined, figure: Figure): Spread | null {
  return entry === undefined ? null : figureOf(entry.open, figure);
}

/** What the one thing that is different costs. */
function againstBeside(entry: Entry | undefined): Spread | null {
  return entry === undefined ? null : ratioOf(valuesOf(entry.open, 'cpuUs'), valuesOf(entry.beside, 'cpuUs'));
}

/** Memory of the last valid round in terms of the first. */
function growth(entry: Entry | undefined): Spread | null {
  const held = (entry?.open ?? []).filter((round) => round !== null).map(({ rssBytes }) => rssBytes);
  return held.length < 2 ? null : same(held.at(-1)! / held[0]!);
}

function same(value: number): Spread {
  return { median: value, min: value, max: value };
}

function scaled(spread: Spread | null, by: number): Spread | null {
  return spread && { median: spread.median * by, min: spread.min * by, max: spread.max * by };
}
