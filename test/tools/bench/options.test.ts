import { describe, expect, test } from 'vitest';
import { CONTESTANTS } from '../../../tools/bench/contestants/all.ts';
import { expectedS, longestS } from '../../../tools/bench/duration.ts';
import { help, readOptions } from '../../../tools/bench/options.ts';
import { SCENARIOS } from '../../../tools/bench/scenarios.ts';

describe('the options', () => {
  test('unless given are all there is, seven rounds of three seconds', () => {
    const options = readOptions([]);
    expect(options).toMatchObject({ start: true, only: null, rounds: 7, seconds: 3, report: false });
    expect(options?.scenarios).toEqual(SCENARIOS);
  });

  test('choose scenarios and contestants', () => {
    const options = readOptions(['--scenario', 'banned,admitted', '--only', 'nginx', '--only', 'tollgate']);
    expect(options?.scenarios.map(({ name }) => name)).toEqual(['admitted', 'banned']);
    expect(options).toMatchObject({ start: false, only: ['nginx', 'tollgate'] });
  });

  test('choose all scenarios of callers by one word', () => {
    const chosen = readOptions(['--scenario', 'callers'])?.scenarios.map(({ keys, draw }) => `${keys} ${draw}`);
    expect(chosen).toEqual(expect.arrayContaining(['1 turns', '1000 turns', '5000 zipf', '50000 turns', '50000 zipf']));
  });

  test.each([
    [['--scenario', 'all'], "--scenario is 'all'; it can be admitted-8,"],
    [['--only', 'kong'], "--only is 'kong'; it can be tollgate,"],
    [['--rounds', '0'], "--rounds is '0'; it must be a whole number from 1 to"],
    [['--seconds', '1.5'], "--seconds is '1.5'; it must be a whole number from 1 to"],
    [['--against', '/nowhere'], "--against is '/nowhere'; there is no bin/tollgate.js."],
    [['--against', '.', '--report'], '--against compares two versions'],
    [['--fast'], "Unknown option '--fast'."],
  ])('%j are refused with a sentence', (args, sentence) => {
    expect(() => readOptions(args)).toThrow(sentence);
  });

  test('are all in the help', () => {
    expect(readOptions(['--help'])).toBeNull();
    for (const { name } of SCENARIOS) expect(help()).toContain(name);
  });
});

test('every contestant that a scenario names is there', () => {
  for (const { contestants } of SCENARIOS)
    expect([...CONTESTANTS.keys()]).toEqual(expect.arrayContaining([...contestants]));
});

test('a run is bounded, and longer with more rounds', () => {
  const [few, many] = [readOptions(['--rounds', '1'])!, readOptions([])!];
  expect(expectedS(few)).toBeLessThan(expectedS(many));
  expect(expectedS(many)).toBeLessThan(longestS(many));
  expect(longestS(many)).toBeLessThan(4 * 3600);
});
