import { execFileSync, spawn } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { familyOf, type ProcessStat, parseStat, usageOf } from '../../../tools/bench/proc.ts';

const LINE =
  '4711 (nginx: worker) S 4700 4700 4700 0 -1 4194624 2183 0 0 0 120 45 3 2 20 0 1 0 5566 61440000 1500 18446744073709551615 1 1';

describe('a line of /proc/PID/stat', () => {
  test('tells parent, times with those of ended children, and memory', () => {
    expect(parseStat(LINE)).toEqual({ pid: 4711, parent: 4700, ticks: 120 + 45 + 3 + 2, rssPages: 1500 });
  });

  test('may have a name with parentheses and spaces', () => {
    expect(parseStat(LINE.replace('nginx: worker', 'a) S 1 (b'))).toMatchObject({ parent: 4700, rssPages: 1500 });
  });

  test.each(['', 'nothing', '12 (cut) S 1'])('that is none is null: %j', (text) => {
    expect(parseStat(text)).toBeNull();
  });
});

test('a family is a process and all that descend from it', () => {
  const stat = (pid: number, parent: number): ProcessStat => ({ pid, parent, ticks: 1, rssPages: 1 });
  const all = [stat(5, 3), stat(1, 0), stat(2, 1), stat(3, 2), stat(4, 1)];
  expect(familyOf(2, all).map(({ pid }) => pid)).toEqual([2, 3, 5]);
  expect(familyOf(9, all)).toEqual([]);
});

test.runIf(process.platform === 'linux')('the work of a child counts, while it runs and after', () => {
  const before = usageOf(process.pid);
  execFileSync(process.execPath, ['-e', 'while (process.cpuUsage().user < 100_000);']);
  expect(usageOf(process.pid).cpuMs - before.cpuMs).toBeGreaterThanOrEqual(50);
  const child = spawn('sleep', ['10']);
  expect(usageOf(process.pid).rssBytes).toBeGreaterThan(usageOf(child.pid!).rssBytes);
  child.kill();
});
