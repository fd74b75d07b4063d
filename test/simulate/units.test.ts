import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { IN_ONE_READING, type Plans } from '../../src/model/plan.ts';
import { groupsOfRecorded } from '../../src/operations/plans/recorded-groups.ts';
import { RecordedRequests, simulate } from '../../src/operations/plans/simulation.ts';
import { type Replay, replay } from '../../src/simulate/replay.ts';
import { reportOf } from '../../src/simulate/report.ts';
import { type Caller, expectTheRecord, Gateway, plansIn, recordingUnder } from './model-gateway.ts';
import { lineOf, plansOf, recordingOf } from './recorded.ts';

const T = 1_790_000_000_000;
const SOURCES = { plans: 'new.yaml', fromPlans: 'old.yaml', logs: ['-'] };

const IN_FORCE = plansIn(`
plans:
  model:
    limits: { minute: 30 }
    units: { tokens: { minute: 1000, day: 6000 }, rows: { hour: { limit: 200, window: sliding } } }
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 9 }, units: { tokens: { minute: 500 } } }
      batch: { routes: [/v1/batch], limits: { minute: 4 }, instead: true }
    bans: { after: 4, first: 10s }
  team:
    limits: { minute: 40 }
    each-key: { minute: 20, units: { tokens: { minute: 700 } } }
    units: { tokens: { minute: 1200 } }
    bans: { after: 3, first: 5s, of: customer }
`);

const TEAM = { id: 'cus_a', limits: {} };
const CALLERS: readonly Caller[] = [
  { id: 'key_1', plan: 'model', own: {}, customer: null },
  // Its lines have limits in units alone.
  { id: 'key_2', plan: 'model', own: { minute: 'unlimited' }, customer: null },
  { id: 'key_3', plan: 'team', own: {}, customer: TEAM },
  { id: 'key_4', plan: 'team', own: {}, customer: TEAM },
];
const [ONE] = CALLERS as [Caller];

const steps = fc.array(
  fc.record({
    caller: fc.nat(CALLERS.length - 1),
    path: fc.constantFrom('/v1/pets', '/v1/search/a', '/v1/batch'),
    units: fc.subarray(['tokens', 'rows']),
    reserved: fc.constantFrom(0, 0, 50, 300, 1_500),
    used: fc.constantFrom(0, 20, 100, 400, 2_000),
    afterMs: fc.constantFrom(1, 1, 100, 3_000, 20_000),
  }),
  { minLength: 1, maxLength: 120 },
);

function verdictsUnder(lines: readonly string[], tried: Plans): Replay['totals']['simulated'] {
  return replay(recordingUnder(lines, tried, IN_FORCE), { plans: tried, before: IN_FORCE }).totals.simulated;
}

describe('a replay with the plans that were in force', () => {
  test('comes to every recorded verdict and ban of units that were settled before the next request', () => {
    fc.assert(
      fc.property(steps, fc.infiniteStream(fc.nat()), (all, random) => {
        const gateway = new Gateway(IN_FORCE);
        let atMs = T;
        for (const { caller, path, units, reserved, used, afterMs } of all) {
          atMs += afterMs;
          const each = (amount: number) => Object.fromEntries(units.map((unit) => [unit, amount]));
          gateway.request({ caller: CALLERS[caller]!, path, atMs, reserved: each(reserved), used: each(used) });
        }
        expectTheRecord(gateway, IN_FORCE, random);
      }),
      { numRuns: 300 },
    );
  });

  test('keeps the units of requests with them when several runs have the same millisecond', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 40; i++) {
      const amounts = i % 3 === 0 ? {} : { tokens: i, rows: 2 * i };
      gateway.request({ caller: CALLERS[2 * (i % 2)]!, path: '/v1/pets', atMs: T, reserved: amounts, used: amounts });
    }
    const came = replay(recordingUnder(gateway.lines, IN_FORCE, IN_FORCE), { plans: IN_FORCE, before: IN_FORCE });
    expect(came.totals.recorded.refused).toBeGreaterThan(0);
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
  });

  test('refuses from memory what would have taken too much, although another gateway had brought a ban about meanwhile', () => {
    const plans = plansIn(
      'plans: { model: { limits: { minute: 30 }, units: { tokens: { minute: 300 } }, bans: { after: 2 } } }',
    );
    const gateway = new Gateway(plans);
    const taking = (tokens: number) => ({ reserved: { tokens }, used: { tokens } });
    for (const [i, tokens] of [300, 200, 200, 200].entries()) {
      gateway.request({ caller: ONE, path: '/v1/pets', atMs: T + i, ...taking(tokens) });
    }
    const { limits, ...last } = JSON.parse(gateway.lines.at(-1)!);
    const units = { tokens: { reserved: 301, settled: 0 } };
    const remembered = { ...last, limits, units, judgement: 'refused', source: 'memory', decidedAtMs: T + 5, count: 3 };
    const lines = [...gateway.lines, `${JSON.stringify(remembered)}\n`];
    const came = replay(recordingUnder(lines, plans, plans), { plans, before: plans });
    expect(came.totals.recorded).toEqual({ admitted: 1, refused: 4, banned: 2, bans: 1 });
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
  });
});

describe('a replay with other plans', () => {
  const model = (units: string) => plansIn(`plans: { model: { limits: { minute: 30 }, units: ${units}, bans: off } }`);
  const admittedUnder = (lines: readonly string[], units: string) => verdictsUnder(lines, model(units)).admitted;

  test.each([
    ['{ tokens: { minute: 1000, day: 6000 } }', 5],
    ['{ tokens: { minute: 200 } }', 1],
    ['{ tokens: { minute: 299 } }', 1],
    // The second takes the last 100, and costs 100 more than are left.
    ['{ tokens: { minute: 300 } }', 2],
    ['{ tokens: { minute: 99 } }', 0],
    ['{ tokens: { minute: unlimited } }', 8],
    ['{ rows: { minute: 5 } }', 8],
  ])('%s admits %i of requests that take 100 and cost 200', (units, admitted) => {
    const gateway = new Gateway(model('{ tokens: { minute: 1000 } }'));
    for (let i = 0; i < 8; i++) {
      gateway.request({ caller: ONE, path: '/v1/pets', atMs: T + i, reserved: { tokens: 100 }, used: { tokens: 200 } });
    }
    expect(gateway.lines.filter((line) => line.includes('"judgement":"admitted"'))).toHaveLength(5);
    expect(admittedUnder(gateway.lines, units)).toBe(admitted);
  });

  test('gives back at once what was not used, and lets a request that was refused pay what it would have taken', () => {
    const gateway = new Gateway(model('{ tokens: { minute: 300 } }'));
    const request = (reserved: number, used: number, atMs: number) =>
      gateway.request({ caller: ONE, path: '/v1/pets', atMs, reserved: { tokens: reserved }, used: { tokens: used } });
    expect([request(300, 10, T), request(290, 290, T + 1), request(200, 7, T + 2), request(50, 7, T + 3)]).toEqual([
      ...['admitted', 'admitted', 'refused', 'refused'],
    ]);
    expect(gateway.lines[2]).toContain('"units":{"tokens":{"reserved":200,"settled":0}}');
    for (const [limit, admitted] of [
      [300, 2],
      [349, 2],
      [350, 3],
      [500, 3],
      [549, 3],
      [550, 4],
    ] as const) {
      expect(admittedUnder(gateway.lines, `{ tokens: { minute: ${limit} } }`), String(limit)).toBe(admitted);
    }
  });

  test('counts by the units of its groups and of each key', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 6; i++) {
      const amounts = { reserved: { tokens: 100 }, used: { tokens: 100 } };
      gateway.request({ caller: ONE, path: '/v1/pets', atMs: T + i, ...amounts });
      gateway.request({ caller: CALLERS[2 + (i % 2)]!, path: '/v1/search/a', atMs: T + 100 + i, ...amounts });
    }
    const tried = plansIn(`
plans:
  model: { limits: { minute: 30 }, groups: { g: { routes: [/v1/pets], limits: { minute: 30 }, units: { tokens: { minute: 250 } } } } }
  team: { limits: { minute: 30 }, each-key: { units: { tokens: { minute: 100 } } } }
bans: off
`);
    expect(verdictsUnder(gateway.lines, tried)).toMatchObject({ admitted: 4, refused: 8 });
    const came = replay(recordingUnder(gateway.lines, tried, IN_FORCE), { plans: tried, before: IN_FORCE });
    const { byPlan, notes } = reportOf(came, tried, SOURCES);
    expect(byPlan.map(({ limits }) => limits)).toEqual([
      'minute 30; g: minute 30, tokens-minute 250 on /v1/pets',
      'minute 30; each key of a customer: tokens-minute 100',
    ]);
    expect(notes).toEqual([]);
  });

  test('lets a key keep that it has no limits on requests, although its lines have limits in units alone', () => {
    const gateway = new Gateway(IN_FORCE);
    const amounts = { reserved: { tokens: 1 }, used: { tokens: 1 } };
    for (let i = 0; i < 5; i++) {
      for (const caller of [ONE, CALLERS[1]!]) gateway.request({ caller, path: '/v1/pets', atMs: T + i, ...amounts });
    }
    const tried = plansIn('plans: { model: { limits: { minute: 2 }, units: { tokens: { minute: 4 } }, bans: off } }');
    const came = replay(recordingUnder(gateway.lines, tried, IN_FORCE), { plans: tried, before: IN_FORCE });
    expect([...came.keys].map(({ id, counts }) => [id, counts.simulated.admitted])).toEqual([
      ['key_1', 2],
      ['key_2', 4],
    ]);
  });

  test('says that no request charges a unit that only the new plans have; a log of an earlier version has none', () => {
    const tried = model('{ rows: { minute: 1 }, tokens: { minute: 1 } }');
    const before = plansOf({ model: { minute: 30 } });
    const lines = [lineOf({ plan: 'model' }), lineOf({ plan: 'model', decidedAtMs: T + 1 })];
    const came = replay(recordingOf(lines), { plans: tried, before });
    expect(came.totals.simulated).toMatchObject({ admitted: 2 });
    expect(reportOf(came, tried, SOURCES).notes.slice(0, 2)).toEqual([
      expect.stringMatching(/^The plan model limits rows, which no recorded request of it charges: /),
      expect.stringMatching(/^The plan model limits tokens, which no recorded request of it charges: /),
    ]);
  });

  test('takes a group in the place of the plan by its own bits, whatever units are charged', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 6; i++) {
      const amounts = { reserved: { rows: 1 }, used: { rows: 1 } };
      gateway.request({ caller: ONE, path: '/v1/batch', atMs: T + i, ...amounts });
    }
    expect(IN_ONE_READING).toBe(1 << 15);
    expect(verdictsUnder(gateway.lines, IN_FORCE)).toMatchObject({ admitted: 4 });
    const came = replay(recordingUnder(gateway.lines, IN_FORCE, null), { plans: IN_FORCE, before: null });
    expect(came.totals.simulated).toMatchObject({ admitted: 4 });
  });
});

test('what gateways remember is replayed with its units', () => {
  const recorded = new RecordedRequests(groupsOfRecorded(IN_FORCE, IN_FORCE));
  const common = { consumerId: 'key_1', plan: 'team', cost: 1, imposedBan: 0, source: 'store' } as const;
  const limits = { minute: 40, 'tokens-minute': 1_200 };
  const units = { tokens: { reserved: 400, settled: 600 } };
  const taken = { tokens: { reserved: 400, settled: 0 } };
  recorded.add([
    { ...common, atMs: T, judgement: 'admitted', limits, remaining: 39, units },
    { ...common, atMs: T + 1, judgement: 'admitted', limits, remaining: 38, units },
    { ...common, atMs: T + 2, judgement: 'refused', limits, remaining: 38, units: taken },
  ]);
  const after = plansIn('plans: { team: { limits: { minute: 40 }, units: { tokens: { minute: 500 } } } }');
  const simulation = simulate(recorded, { before: IN_FORCE, after }, SOURCES);
  if ('fault' in simulation) throw new Error(simulation.fault);
  expect(simulation.baseline.verdicts).toBe(0);
  expect(simulation.report.totals).toMatchObject({ requests: 3, newlyRefused: 1, simulated: { admitted: 1 } });
});
