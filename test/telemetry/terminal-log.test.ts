import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { PLAIN } from '../../src/io/terminal-text.ts';
import { TerminalLog, type TerminalLogOptions } from '../../src/telemetry/terminal-log.ts';
import { lineOf } from '../simulate/recorded.ts';
import { atEnd } from '../support/endings.ts';
import { LATE_MS } from '../support/room.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const OK = lineOf({});
const REFUSED = lineOf({ status: 429, code: 'rate_limit_exceeded', judgement: 'refused', window: 'minute' });
const refusals = (count: number) =>
  lineOf({ status: 429, code: 'rate_limit_exceeded' }, `,"count":${count}`, 'refusals');
const BANNED = lineOf({ status: 429, code: 'api_key_banned', judgement: 'banned', imposedBan: 1 });
const EVENT = `${JSON.stringify({ level: 30, time: '2026-11-22T10:00:00.000Z', msg: 'serving' })}\n`;

/** A terminal of 80 × 24, its rows, and a clock that moves by whole seconds. */
async function terminal(options: Partial<TerminalLogOptions> = {}) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const file = join(await temporaryFolder(), 'terminal');
  const fd = openSync(file, 'a');
  atEnd(() => closeSync(fd));
  const clock = { nowMs: 0 };
  const log = new TerminalLog({
    fd,
    size: () => ({ columns: 80, rows: 24 }),
    style: PLAIN,
    hasAllRequests: true,
    monotonicMs: () => clock.nowMs,
    ...options,
  });
  const pass = (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      clock.nowMs += 1_000;
      vi.advanceTimersByTime(1_000);
    }
  };
  const write = (line: string, times = 1) => {
    for (let i = 0; i < times; i++) log.write(line);
  };
  const rows = async () => {
    await log.close();
    return readFileSync(file, 'utf8').split('\n').slice(0, -1);
  };
  return { log, pass, write, rows };
}

test('half a screen of requests is printed in a second, the others are summed up, and every request is counted', async () => {
  const { log, pass, write, rows } = await terminal();
  write(OK, 1_000);
  write(refusals(224));
  write(lineOf({ status: 404 }), 3);
  write(lineOf({ status: 502, code: 'upstream_unavailable' }), 2);
  pass(1);
  write(OK);
  pass(2);
  await log.end();
  const printed = await rows();
  expect(printed.filter((row) => row.includes(' 200 '))).toHaveLength(13);
  // The first of each status is printed, also beyond the half screen.
  for (const status of [429, 404, 502]) expect(printed.filter((row) => row.includes(` ${status} `))).toHaveLength(1);
  expect(printed.slice(15, 17)).toEqual([
    '         … 991 more requests in this second: 988 ok, 2 refused by the service,',
    '           1 failed',
  ]);
  expect(printed.slice(-2)).toEqual([
    'Stopped after 3 s, 1,230 requests: 1,001 ok, 224 refused, 3 refused by the',
    'service, 2 failed.',
  ]);
});

test('other records are printed besides, and bounded as well', async () => {
  const { pass, write, rows } = await terminal();
  write(OK, 100);
  write(EVENT, 100);
  write('{"msg":"not whole\n');
  pass(1);
  const printed = await rows();
  expect(printed.filter((row) => row.endsWith('serving'))).toHaveLength(12);
  expect(printed.at(-1)).toBe('         … 88 more requests in this second: 88 ok; 89 more lines of the log');
});

test('a sampled log stands for more requests, and a log without requests makes no sum', async () => {
  const sampled = await terminal();
  sampled.write(lineOf({}, ',"sample":0.01'), 3);
  await sampled.log.end();
  expect((await sampled.rows()).at(-1)).toBe('Stopped after 0 s, about 300 requests: 300 ok.');
  const warnings = await terminal({ hasAllRequests: false });
  await warnings.log.end();
  expect(await warnings.rows()).toEqual(['Stopped after 0 s.']);
});

test('a path cannot pass itself off as the status, the count or the message of its line', async () => {
  const { log, write, rows } = await terminal();
  write(lineOf({ path: '/","status":500,"count":9,"sample":0.1,"msg":"request"}' }));
  await log.end();
  expect((await rows()).at(-1)).toBe('Stopped after 0 s, 1 request: 1 ok.');
});

test('rows that are kept in sight come again when one row more would have moved them off the screen', async () => {
  const { log, pass, write, rows } = await terminal();
  log.keepInSight(() => ['Demo keys', '  free  tg_live_1', '  pro   tg_live_2']);
  write(OK, 10);
  pass(2);
  write(OK, 10);
  // With the cursor's own row the screen is full now.
  pass(2);
  log.print('x\n');
  write(OK);
  pass(2);
  expect((await rows()).indexOf('Demo keys')).toBe(22);
});

test('rows that have left the screen come again in the first quiet second, and every five seconds at most before it', async () => {
  const { log, pass, write, rows } = await terminal();
  log.keepInSight(() => ['Demo keys', '  free  tg_live_1']);
  for (let second = 0; second < 12; second++) {
    write(OK, 100);
    pass(1);
  }
  pass(3);
  const printed = await rows();
  const at = printed.flatMap((row, i) => (row === 'Demo keys' ? [i] : []));
  // 13 rows a second: after the fifth second, after the tenth, and when it is quiet.
  expect(at).toEqual([5 * 13, 10 * 13 + 2, 12 * 13 + 4]);
  expect(printed[at[0]! + 1]).toBe('  free  tg_live_1');
});

test('a hint is printed once for each id, below the row that it is about, also in a flood', async () => {
  const hintFor: TerminalLogOptions['hintFor'] = ({ code, imposedBan }) =>
    code === null
      ? null
      : { id: imposedBan === null ? 'quota' : 'ban', text: `hint of ${code}`, command: 'tollgate now' };
  const { pass, write, rows } = await terminal({ hintFor });
  write(OK, 500);
  write(REFUSED, 50);
  write(BANNED, 50);
  pass(1);
  write(REFUSED);
  pass(1);
  const printed = await rows();
  const hint = printed.indexOf('         hint of rate_limit_exceeded');
  expect(printed[hint - 1]).toContain(' 429 ');
  expect(printed[hint + 1]).toBe('           tollgate now');
  expect(printed.filter((row) => row.includes('hint of'))).toHaveLength(2);
});

test('there is a timer only while there is something to print', async () => {
  const { pass, write } = await terminal();
  expect(vi.getTimerCount()).toBe(0);
  write(OK);
  expect(vi.getTimerCount()).toBe(1);
  pass(2);
  expect(vi.getTimerCount()).toBe(0);
});

test('a terminal that takes nothing holds up no request and a bounded amount of memory, and the lost rows are counted', async () => {
  const path = join(await temporaryFolder(), 'stalled');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  atEnd(() => closeSync(reader));
  atEnd(() => closeSync(fd));
  const { log, pass, write } = await terminal({ fd });
  const before = process.memoryUsage().arrayBuffers;
  for (let second = 0; second < 2_000; second++) {
    write(OK, 100);
    pass(1);
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 * 1024 * 1024);
  const beganAtMs = performance.now();
  await log.end();
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  expect(readSync(reader, Buffer.alloc(1024 * 1024))).toBeLessThanOrEqual(256 * 1024);
});
