import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Plans } from '../../src/model/plan.ts';
import { groupsOfRecorded } from '../../src/operations/plans/recorded-groups.ts';
import { RecordedRequests, simulate } from '../../src/operations/plans/simulation.ts';
import { logLineOf, type RecentRequest } from '../../src/simulate/recent-record.ts';
import { replay } from '../../src/simulate/replay.ts';
import { mostChanged, reportOf } from '../../src/simulate/report.ts';
import { type Caller, expectTheRecord, Gateway, plansIn, recordingUnder } from './model-gateway.ts';

const T = 1_790_000_000_000;
const PATHS = ['/v1/pets', '/v1/search/a', '/v1/%73earch/b', '/v1/reports'];

const IN_FORCE = plansIn(`
plans:
  team:
    limits: { minute: 12, hour: { limit: 60, window: sliding } }
    each-key: { minute: 7 }
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 4 } }
      reports: { routes: [/v1/reports], limits: { minute: 3, day: 9 }, instead: true }
    bans: { after: 3, of: customer }
    in-flight: 1
  solo:
    limits: { minute: 6 }
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 3 } }
      reports: { routes: [/v1/reports], limits: { minute: 2 }, instead: true }
    bans: { after: 4 }
`);

const TEAM = { id: 'cus_a', limits: {} };
const OWN_TEAM = { id: 'cus_b', limits: { minute: 9 } };
const CALLERS: readonly Caller[] = [
  { id: 'key_1', plan: 'team', own: {}, customer: TEAM },
  { id: 'key_2', plan: 'team', own: { minute: 5 }, customer: TEAM },
  { id: 'key_3', plan: 'team', own: {}, customer: OWN_TEAM },
  { id: 'key_4', plan: 'solo', own: {}, customer: null },
  { id: 'key_5', plan: 'solo', own: { minute: 4 }, customer: null },
  // The key that was moved to a customer has a new account.
  { id: 'key_4', plan: 'team', own: {}, customer: TEAM },
];

const steps = fc.array(
  fc.record({
    caller: fc.nat(CALLERS.length - 1),
    path: fc.constantFrom(...PATHS),
    cost: fc.constantFrom(1, 1, 1, 2),
    afterMs: fc.constantFrom(1, 1, 100, 3_000, 20_000),
  }),
  { minLength: 1, maxLength: 120 },
);

describe('a replay with the plans that were in force', () => {
  test('comes to every recorded verdict and ban of customers and groups, in whatever order the lines are', () => {
    fc.assert(
      fc.property(steps, fc.infiniteStream(fc.nat()), (all, random) => {
        const gateway = new Gateway(IN_FORCE);
        let atMs = T;
        for (const { caller, path, cost, afterMs } of all) {
          atMs += afterMs;
          gateway.request({ caller: CALLERS[caller]!, path, cost, atMs });
        }
        expectTheRecord(gateway, IN_FORCE, random);
      }),
      { numRuns: 300 },
    );
  });

  test('orders the decisions of one millisecond about a customer by what its keys share', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 16; i++) gateway.request({ caller: CALLERS[i % 2 === 0 ? 0 : 5]!, path: '/v1/pets', atMs: T });
    const recording = recordingUnder(gateway.lines.toReversed(), IN_FORCE, IN_FORCE);
    const came = replay(recording, { plans: IN_FORCE, before: IN_FORCE });
    expect(came.totals.recorded).toMatchObject({ admitted: 12, bans: 1 });
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
  });
});

describe('a replay with other plans', () => {
  test('charges the customer and the groups of those plans, and keeps the own limits of customers and keys', () => {
    const gateway = new Gateway(IN_FORCE);
    // Ten of the first customer, of which four search; three of the second one.
    for (let i = 0; i < 10; i++) {
      const path = i < 4 ? '/v1/search/a' : '/v1/pets';
      gateway.request({ caller: CALLERS[i % 2]!, path, atMs: T + i });
    }
    for (let i = 0; i < 3; i++) gateway.request({ caller: CALLERS[2]!, path: '/v1/pets', atMs: T + 100 + i });
    const refusedUnder = (text: string) => {
      const tried = plansIn(`plans: { team: ${text} }`);
      const came = replay(recordingUnder(gateway.lines, tried, IN_FORCE), { plans: tried, before: IN_FORCE });
      return [...came.keys].map(({ id, customerId, ownLimits, counts }) => [
        `${customerId} ${id} ${JSON.stringify(ownLimits)} ${counts.requests}`,
        counts.simulated.refused,
      ]);
    };
    const [one, two, three] = ['cus_a key_1 {} 5', 'cus_a key_2 {"minute":5} 5', 'cus_b key_3 {} 3'];
    expect(refusedUnder('{ limits: { minute: 6 }, bans: off }')).toEqual([
      [one, 2],
      [two, 2],
      [three, 0],
    ]);
    // The second customer has its own 9 a minute, and the second key its own 5.
    expect(refusedUnder('{ limits: { minute: 2 }, each-key: { minute: 1 }, bans: off }')).toEqual([
      [one, 4],
      [two, 4],
      [three, 2],
    ]);
    expect(
      refusedUnder(
        '{ limits: { minute: 90 }, bans: off, groups: { s: { routes: [/v1/search/**], limits: { day: 1 } } } }',
      ),
    ).toEqual([
      [one, 1],
      [two, 2],
      [three, 0],
    ]);
    expect(
      refusedUnder(
        '{ limits: { minute: 0 }, bans: off, groups: { s: { routes: [/v1/search/**], limits: { day: 3 }, instead: true } } }',
      ),
    ).toEqual([
      [one, 3],
      [two, 4],
      [three, 0],
    ]);
  });

  test('finds the limits in force in the log, also of requests that lack them because of a group', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 3; i++) gateway.request({ caller: CALLERS[0]!, path: '/v1/reports', atMs: T + i });
    for (let i = 3; i < 9; i++) gateway.request({ caller: CALLERS[0]!, path: '/v1/pets', atMs: T + i });
    const tried = plansIn('plans: { team: { limits: { minute: 600 }, bans: off } }');
    const came = replay(recordingUnder(gateway.lines, tried, null), { plans: tried, before: null });
    expect(came.inForce.get('team')).toMatchObject({ limits: { minute: 12, hour: 60 }, eachKey: { minute: 7 } });
    expect(came.totals).toMatchObject({ requests: 9, newlyRefused: 0 });
  });

  test('counts a request to a group that a policy chose, as long as the plan has the group, and not one whose routes it left', () => {
    const gateway = new Gateway(IN_FORCE);
    for (let i = 0; i < 5; i++) gateway.request({ caller: CALLERS[0]!, path: '/v1/pets', atMs: T + i, ofPolicy: 1 });
    gateway.request({ caller: CALLERS[2]!, path: '/v1/search/a', atMs: T + 100 });
    const verdicts = (tried: Plans) => {
      const came = replay(recordingUnder(gateway.lines, tried, IN_FORCE), { plans: tried, before: IN_FORCE });
      return [came.differs.verdicts, ...[...came.keys].map(({ counts }) => counts.simulated.refused)];
    };
    expect(verdicts(IN_FORCE)).toEqual([0, 1, 0]);
    const withGroup = (routes: string) =>
      plansIn(
        `plans: { team: { limits: { minute: 90 }, bans: off, groups: { search: { routes: [${routes}], limits: { minute: 0 } } } } }`,
      );
    expect(verdicts(withGroup('/v1/search/**'))).toEqual([5, 5, 1]);
    expect(verdicts(withGroup('/v1/other'))).toEqual([4, 5, 0]);
    expect(verdicts(plansIn('plans: { team: { limits: { minute: 90 }, bans: off } }'))).toEqual([1, 0, 0]);
  });

  test('comes to a net: a customer is one caller with all its keys, and what only changes places is told apart', () => {
    const plan = (minute: number) =>
      plansIn(`plans: { team: { limits: { minute: ${minute} }, bans: { after: 2, of: customer } } }`);
    const [before, tried] = [plan(3), plan(4)];
    const gateway = new Gateway(before);
    // Two keys of one customer in turn, a request a second; the ban of a minute begins at the fifth, and would at the sixth.
    for (let i = 0; i < 70; i++) gateway.request({ caller: CALLERS[i % 2]!, path: '/v1/pets', atMs: T + i * 1_000 });
    gateway.request({ caller: CALLERS[2]!, path: '/v1/pets', atMs: T });
    const came = replay(recordingUnder(gateway.lines, tried, before), { plans: tried, before });
    const { headline, moved, net } = reportOf(came, tried, { plans: 'new', fromPlans: 'old', logs: ['log'] });
    // Those of the seconds 3, 67 and 68 are admitted, that of 64 is in the ban which begins a second later.
    expect(headline).toBe('2 fewer refused (64 → 62), 1 fewer ban; better for 1 customer (2 keys), worse for 0.');
    expect(moved).toMatch(/^1 request would be refused in place of as many others of the same caller/);
    expect(net).toEqual({
      refused: { recorded: 64, simulated: 62 },
      bans: { recorded: 2, simulated: 1 },
      better: { customers: 1, keysOfCustomers: 2, ownKeys: 0 },
      worse: { customers: 0, keysOfCustomers: 0, ownKeys: 0 },
      moved: 1,
    });
    expect(mostChanged(came.callers, 9).map(({ id, keys, counts }) => [id, keys, counts.requests])).toEqual([
      ['cus_a', 2, 70],
    ]);
  });

  test('says that requests in flight are not replayed', () => {
    const gateway = new Gateway(IN_FORCE);
    gateway.request({ caller: CALLERS[0]!, path: '/v1/pets', atMs: T });
    const came = replay(recordingUnder(gateway.lines, IN_FORCE, null), { plans: IN_FORCE, before: null });
    const { notes } = reportOf(came, IN_FORCE, { plans: 'new.yaml', fromPlans: null, logs: ['log'] });
    expect(notes[0]).toBe(
      'The plan team bounds requests in flight, which are not replayed: these limits refuse nothing here.',
    );
  });
});

test('what gateways remember is replayed with its paths, and says how many requests have none', () => {
  const request = (path: string | null, n: number): RecentRequest => ({
    ...{ atMs: T + n, consumerId: 'key_1', customerId: 'cus_a', plan: 'team', cost: 1, judgement: 'admitted' },
    ...{ imposedBan: 0, source: 'store', limits: { minute: 7, 'customer-minute': 12 }, remaining: 11 - n },
    ...(path === null ? {} : { method: 'GET', path }),
  });
  const requests = ['/v1/search/a', '/v1/search/"\u{fc}', null].map(request);
  expect(JSON.parse(logLineOf(requests[2]!))).toMatchObject({
    customerId: 'cus_a',
    remaining: { 'customer-minute': 9 },
  });
  const before = plansIn('plans: { team: { limits: { minute: 12 }, each-key: { minute: 7 } } }');
  const after = plansIn(
    'plans: { team: { limits: { minute: 12 }, groups: { search: { routes: [/v1/search/**], limits: { minute: 1 } } } } }',
  );
  const recorded = new RecordedRequests(groupsOfRecorded(after, before));
  recorded.add(requests);
  const simulation = simulate(
    recorded,
    { before, after },
    { plans: 'plans.yaml', fromPlans: 'those in force', logs: ['recent'] },
  );
  if ('fault' in simulation) throw new Error(simulation.fault);
  const { report, baseline } = simulation;
  expect(baseline.verdicts).toBe(0);
  expect(report.totals).toMatchObject({ requests: 3, newlyRefused: 1 });
  expect(report.notes[0]).toMatch(/^1 request without a known path: replayed without the groups of routes/);
});
