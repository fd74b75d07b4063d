import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { allowanceOf } from '../../src/admit/allowance.ts';
import type { Plans } from '../../src/model/plan.ts';
import { type Replay, replay } from '../../src/simulate/replay.ts';
import { mostChanged, reportOf } from '../../src/simulate/report.ts';
import { allowance, BANS } from '../support/allowance.ts';
import { countedWindowsOf } from '../support/counted-windows.ts';
import { histories } from '../support/histories.ts';
import { type Call, lineOf, linesOf, plansOf, recordingOf } from './recorded.ts';

const T = 1_790_000_000_000;
const every = (ms: number, n: number): Call[] => Array.from({ length: n }, (_, i) => ({ atMs: T + i * ms }));

const under = (plans: Plans, name: string, own = {}) => {
  const allowed = allowanceOf(plans.plans.get(name)!, own);
  if ('missing' in allowed) throw new Error(`${name} wants limits of the key`);
  return allowed;
};

const keyOf = ({ keys }: Replay, id: string) => [...keys].find((key) => key.id === id)!;

describe('a replay with the plans that were in force', () => {
  test('comes to every recorded verdict and ban, in whatever order lines were written', () => {
    fc.assert(
      fc.property(fc.array(histories, { minLength: 1, maxLength: 4 }), fc.infiniteStream(fc.nat()), (all, random) => {
        const plans: Plans = { plans: new Map(), removed: [], failedAuthenticationPerMinute: 30 };
        const lines = all.flatMap((steps, i) => {
          // Each key stays with its first plan; what a clock set back does to the order is another matter.
          const { limits, bans } = steps[0]!.plan;
          const plan = `plan-${i}`;
          const told = Object.fromEntries(limits.map(({ window, limit }) => [window, limit]));
          const forms = limits.flatMap(({ window, slices, calendar }) => [
            ...(slices === undefined ? [] : [[window, { slices }] as const]),
            ...(calendar === undefined ? [] : [[window, { calendar: calendar.form }] as const]),
          ]);
          (plans.plans as Map<string, unknown>).set(plan, {
            name: plan,
            limits: told,
            forms: Object.fromEntries(forms),
            bans,
            enforce: true,
            shadow: {},
          });
          let atMs = T;
          const calls = steps.map(({ afterMs, cost, n }) => {
            atMs += Math.max(afterMs, 0);
            return { atMs, cost, n };
          });
          return linesOf(`key_${i}`, { ...steps[0]!.plan, plan }, calls);
        });
        fc.pre(lines.length > 0);
        const mixed = lines.map((line) => ({ line, at: random.next().value as number })).sort((a, b) => a.at - b.at);
        const came = replay(recordingOf(mixed.map(({ line }) => line)), { plans, before: plans });
        expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
        expect(came.totals.simulated).toEqual(came.totals.recorded);
      }),
      { seed: 20261121, numRuns: 300 },
    );
  });

  test('takes a summary for as many refusals as it says', () => {
    const plans = plansOf({ free: { minute: 1 } }, { bans: null });
    const limits = allowance({ minute: 1 }).limits;
    const refused = {
      limits,
      windows: countedWindowsOf(limits, [0]),
      judgement: 'refused',
      status: 429,
      source: 'memory',
    } as const;
    const lines = [
      ...linesOf('key_1', under(plans, 'free'), every(10, 2)),
      lineOf({ ...refused, decidedAtMs: T + 20 }, ',"count":500', 'refusals'),
    ];
    const came = replay(recordingOf(lines), { plans, before: plans });
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
    expect(came.totals).toMatchObject({ requests: 502, recorded: { refused: 501 }, simulated: { refused: 501 } });
  });

  test('refuses from memory what cost too much, although another gateway had brought a ban about meanwhile', () => {
    const plans = plansOf({ free: { minute: 1 } }, { bans: { ...BANS, after: 2 } });
    const { limits } = allowance({ minute: 1 });
    const refused = {
      limits,
      windows: countedWindowsOf(limits, [0]),
      judgement: 'refused',
      status: 429,
      source: 'memory',
      cost: 5,
    } as const;
    const lines = [
      ...linesOf('key_1', under(plans, 'free'), every(10, 4)),
      lineOf({ ...refused, decidedAtMs: T + 25 }),
      lineOf({ ...refused, decidedAtMs: T + 26 }, ',"count":3', 'refusals'),
    ];
    const came = replay(recordingOf(lines), { plans, before: plans });
    expect(came.totals.simulated).toEqual({ admitted: 1, refused: 5, banned: 2, bans: 1 });
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
    // Where it would not cost too much, the store would be asked.
    const generous = plansOf({ free: { minute: 5 } }, { bans: { ...BANS, after: 2 } });
    expect(replay(recordingOf(lines), { plans: generous, before: plans }).totals.simulated.bans).toBe(1);
  });

  test('counts a ban once of which several decisions of one millisecond tell', () => {
    const plans = plansOf({ free: { minute: 1 } }, { bans: { ...BANS, after: 2 } });
    const lines = linesOf(
      'key_1',
      under(plans, 'free'),
      [1, 1, 1, 1].map(() => ({ atMs: T })),
    );
    expect(lines.filter((line) => line.includes('"imposedBan":1'))).toHaveLength(1);
    const came = replay(recordingOf(lines), { plans, before: plans });
    expect(came.totals.recorded).toEqual({ admitted: 1, refused: 1, banned: 2, bans: 1 });
    expect(came.totals.simulated).toEqual(came.totals.recorded);
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
  });
});

describe('a replay with other plans', () => {
  const before = plansOf({ free: { minute: 10, day: 1000 }, custom: { minute: 'custom' } });

  test('tells by plan and by key who would be refused and banned', () => {
    const lines = [
      ...linesOf('key_busy', under(before, 'free'), every(100, 12)),
      ...linesOf('key_calm', under(before, 'free'), every(20_000, 12)),
    ];
    const plans = plansOf({ free: { minute: 4, day: 1000 } }, { bans: { ...BANS, after: 3 } });
    const came = replay(recordingOf(lines), { plans, before });
    expect(keyOf(came, 'key_busy')).toMatchObject({
      plan: 'free',
      bannedAtMs: T + 600,
      counts: {
        recorded: { admitted: 10, refused: 2, banned: 0, bans: 0 },
        simulated: { admitted: 4, refused: 2, banned: 6, bans: 1 },
        newlyRefused: 6,
        newlyAdmitted: 0,
      },
    });
    expect(keyOf(came, 'key_calm').counts).toMatchObject({ newlyRefused: 0, simulated: { admitted: 12, bans: 0 } });
    expect(came.plans).toMatchObject([
      { plan: 'free', keys: 2, keysNewlyRefused: 1, keysBannedThen: 0, keysBannedNow: 1 },
    ]);
    expect(mostChanged(came.keys, 1).map(({ id }) => id)).toEqual(['key_busy']);
  });

  test('slides or follows the calendar as those plans do, and names the kind', () => {
    // 8 requests half a minute after the first two: the fixed window admits again after 60 s, the sliding one does not.
    const calls = [
      ...every(1, 2),
      ...every(1, 8).map(({ atMs }) => ({ atMs: atMs + 59_000 })),
      { atMs: T + 60_500, n: 5 },
    ];
    const fixed = plansOf({ free: { minute: 10 } }, { bans: null });
    const lines = linesOf('key_1', under(fixed, 'free'), calls);
    const sliding = plansOf({ free: { minute: 10 } }, { bans: null, forms: { minute: { slices: 12 } } });
    const came = replay(recordingOf(lines), { plans: sliding, before: fixed });
    expect(came.totals).toMatchObject({ recorded: { admitted: 15 }, simulated: { admitted: 10 }, newlyRefused: 5 });
    const { byPlan } = reportOf(came, sliding, { plans: 'new.yaml', fromPlans: 'old.yaml', logs: ['-'] });
    expect(byPlan).toMatchObject([{ plan: 'free', limits: 'minute 10 (sliding, 12 slices)' }]);
    // T is at 14:13:20 UTC, the next hour begins 46 min 40 s later.
    const hour = { calendar: { unit: 'hour', zone: 'UTC', anchor: 1 } } as const;
    const calendar = plansOf({ free: { hour: 4 } }, { bans: null, forms: { hour } });
    const later = linesOf('key_1', under(calendar, 'free'), [
      { atMs: T, n: 5 },
      { atMs: T + 2_799_999 },
      { atMs: T + 2_800_000, n: 5 },
    ]);
    const again = replay(recordingOf(later), { plans: calendar, before: calendar });
    expect(again).toMatchObject({
      differs: { verdicts: 0, bans: 0 },
      totals: { simulated: { admitted: 8, refused: 3 } },
    });
  });

  test('lets a key keep the limits that were its own, window by window', () => {
    const own = linesOf('key_own', under(before, 'free', { minute: 11 }), every(100, 12));
    const custom = linesOf('key_custom', under(before, 'custom', { minute: 7 }), every(100, 9));
    const endless = linesOf('key_endless', under(before, 'free', { minute: 'unlimited' }), every(100, 12));
    const plans = plansOf({ free: { minute: 4, day: 6 }, custom: { minute: 'custom', day: 5 } }, { bans: null });
    const came = replay(recordingOf([...own, ...custom, ...endless]), { plans, before });
    // The day is the plan's, and binds first.
    for (const [id, admitted] of [
      ['key_own', 6],
      ['key_custom', 5],
      ['key_endless', 6],
    ] as const) {
      expect(keyOf(came, id).counts.simulated.admitted, id).toBe(admitted);
    }
    const generous = plansOf({ free: { minute: 4, day: 1000 }, custom: { minute: 1 } }, { bans: null });
    const again = replay(recordingOf([...own, ...custom, ...endless]), { plans: generous, before });
    for (const [id, admitted] of [
      ['key_own', 11],
      ['key_custom', 7],
      ['key_endless', 12],
    ] as const) {
      expect(keyOf(again, id).counts.simulated.admitted, id).toBe(admitted);
    }
  });

  test('reads off the log what most keys of a plan had where nobody says which plans were in force', () => {
    const lines = [
      ...[1, 2, 3].flatMap((i) => linesOf(`key_${i}`, under(before, 'free'), every(100, 9))),
      ...linesOf('key_own', under(before, 'free', { minute: 20 }), every(100, 19)),
      ...linesOf('key_custom', under(before, 'custom', { minute: 30 }), every(100, 19)),
    ];
    const plans = plansOf({ free: { minute: 4, day: 1000 }, custom: { minute: 'custom' } }, { bans: null });
    const came = replay(recordingOf(lines), { plans, before: null });
    expect(came.inForce.get('free')).toMatchObject({
      limits: { minute: 10, day: 1000 },
      isInferred: true,
      ownShare: 0.25,
    });
    const admitted = (id: string) => keyOf(came, id).counts.simulated.admitted;
    expect(['key_1', 'key_2', 'key_3', 'key_own', 'key_custom'].map(admitted)).toEqual([4, 4, 4, 19, 19]);
  });

  test('tells requests apart that no plan of the file has room for', () => {
    const lines = [
      ...linesOf('key_1', under(before, 'free'), every(100, 3)),
      ...linesOf('key_2', under(before, 'custom', { minute: 9 }), every(100, 2)),
    ];
    const plans = plansOf({ custom: { minute: 'custom', day: 'custom' } });
    const came = replay(recordingOf(lines), { plans, before });
    expect(came.totals).toMatchObject({ requests: 5, unserved: 5, simulated: { admitted: 0 }, newlyRefused: 0 });
    const { notes } = reportOf(came, plans, { plans: 'new.yaml', fromPlans: 'old.yaml', logs: ['-'] });
    expect(notes).toEqual([
      '2 requests could not be served at all: the plan custom wants limits of each key, and these have none.',
      '3 requests could not be served at all: the plan free is not in new.yaml.',
    ]);
  });

  test('refuses nobody under a plan that is not enforced, and takes one that was not for telling of no limits', () => {
    const lines = linesOf('key_1', under(before, 'free'), every(100, 12));
    const watched = plansOf({ free: { minute: 2 } }, { enforce: false });
    const came = replay(recordingOf(lines), { plans: watched, before });
    expect(came.totals.simulated).toEqual({ admitted: 12, refused: 0, banned: 0, bans: 0 });
    const served = every(100, 5).map(({ atMs }) => lineOf({ decidedAtMs: atMs, source: null }));
    const enforced = plansOf({ free: { minute: 2 } });
    expect(replay(recordingOf(served), { plans: enforced, before: watched }).totals).toMatchObject({
      recorded: { admitted: 5 },
      simulated: { admitted: 2, refused: 3 },
    });
  });
});

describe('what cannot be exact is told', () => {
  const plans = plansOf({ free: { minute: 10 } });
  const limits = allowance({ minute: 10 }).limits;
  const line = (more: object, suffix = '') =>
    lineOf({ limits, windows: countedWindowsOf(limits, [9]), ...more }, suffix);
  const notesOf = (came: Replay) =>
    reportOf(came, plans, { plans: 'new.yaml', fromPlans: 'old.yaml', logs: ['-'] }).notes.join('\n');

  test('sampled 2xx answers stand for as many requests as their share says', () => {
    const lines = Array.from({ length: 30 }, (_, i) => line({ decidedAtMs: T + i * 60_000 }, ',"sample":0.3'));
    const came = replay(recordingOf(lines), { plans, before: plans });
    expect(came.totals.requests).toBe(100);
    expect(notesOf(came)).toContain('30 lines of sampled answers (log.sample2xx): all counts are estimates');
  });

  test('what gateways decided alone is counted apart', () => {
    const alone = { source: 'local', judgement: 'refused', status: 429 };
    const came = replay(recordingOf([line({}), line({ ...alone, decidedAtMs: T + 5 })]), { plans, before: plans });
    expect(came.totals).toMatchObject({ requests: 1, recorded: { refused: 0 } });
    expect(came.local).toMatchObject({ requests: 1, recorded: { refused: 1 }, simulated: { admitted: 1 } });
    expect(came.differs.verdicts).toBe(0);
    expect(notesOf(came)).toContain('1 request decided by gateways alone');
  });

  test('requests without a decision, and other plans than were named', () => {
    const lost = lineOf({ judgement: 'unauthenticated', source: null, decidedAtMs: null, status: 499 });
    const others = [1, 2].map((i) => line({ consumerId: `key_${i}`, windows: countedWindowsOf(limits, [3]) }));
    const old = plansOf({ free: { minute: 60 } });
    const notes = notesOf(replay(recordingOf([lost, ...others]), { plans, before: old }));
    expect(notes).toContain('1 request of known callers without a decision in the log');
    expect(notes).toContain('100 % of the keys of plan free had other limits than in old.yaml');
  });
});
