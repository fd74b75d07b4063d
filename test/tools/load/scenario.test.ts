import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readOptions } from '../../../tools/load/options.ts';
import { ownPlans, readPlans } from '../../../tools/load/own-plans.ts';
import { namesOfScenarios, parseScenario, readScenario } from '../../../tools/load/scenario.ts';
import { ROOT } from '../../support/processes.ts';

describe('the scenarios that come with the test', () => {
  const scenarios = namesOfScenarios().map(readScenario);

  test('name plans that there are, and stand-ins of the plans that Tollgate comes with', () => {
    const stranger = readPlans(join(ROOT, 'plans.yaml')).plans;
    for (const { plan, standIn } of scenarios.flatMap(({ clients }) => clients)) {
      expect([...ownPlans().plans.keys()]).toContain(plan);
      expect([...stranger.keys()]).toContain(standIn);
    }
  });

  test('take less than 90 seconds together', () => {
    const inTurn = scenarios
      .filter(({ beside }) => !beside)
      .reduce((ms, it) => ms + it.duration + (it.without ?? 0), 0);
    expect(inTurn).toBeLessThan(75_000);
    for (const { beside, duration } of scenarios) if (beside) expect(duration).toBeLessThan(75_000);
  });

  test('compare good clients with themselves wherever there are abusers', () => {
    for (const { clients, without } of scenarios)
      expect(clients.some(({ abuser }) => abuser)).toBe(without !== undefined);
  });
});

describe('a scenario that is wrong', () => {
  const client = 'name: a, plan: brief, standIn: free, refused: wait';

  test.each([
    ['about: a\nduration: 1s\nclients: []', /clients/],
    [`about: a\nduration: soon\nclients: [{ ${client}, rate: 1 }]`, /duration/],
    [`about: a\nduration: 1s\nclients: [{ ${client} }]`, /one of rate, burst and inFlight/],
    [`about: a\nduration: 1s\nclients: [{ ${client}, rate: 1, inFlight: 1 }]`, /one of rate, burst and inFlight/],
    [`about: a\nduration: 1s\nclients: [{ ${client}, rate: 1, speed: 2 }]`, /speed/],
    [`about: a\nduration: 1s\nclients: [{ ${client}, rate: 1, address: 192.0.2.1 }]`, /address/],
    ['a: [', /faulty\.yaml/],
  ])('is refused with what is wrong: %s', (text, sentence) => {
    expect(() => parseScenario(text, 'faulty.yaml')).toThrow(sentence);
  });
});

describe('the command line', () => {
  test.each([
    [['--frob'], /Unknown option '--frob'/],
    [['--scenario', 'nope'], /no scenario 'nope'.*steady/],
    [['--duration', 'long'], /--duration is 'long'/],
    [['--gateways', '0'], /from 1 to 9/],
    [['--keys', 'keys.json'], /goes with --target/],
  ])('%s is refused with a sentence', (args, sentence) => {
    expect(() => readOptions(args)).toThrow(sentence);
  });

  test('a duration replaces that of each scenario, and is no longer than asked without abusers either', () => {
    const options = readOptions(['--scenario', 'abusers', '--duration', '2s'])!;
    expect(options.scenarios[0]).toMatchObject({ duration: 2_000, without: 2_000 });
  });

  test('nothing said means every scenario, on two gateways of its own', () => {
    const options = readOptions([])!;
    expect(options).toMatchObject({ target: null, gateways: 2, reportFile: 'load-report.html', json: false });
    expect(options.scenarios.map(({ name }) => name)).toEqual(namesOfScenarios());
  });
});
