import { describe, expect, test } from 'vitest';
import type { Allowance } from '../../../src/admit/allowance.ts';
import { percentile } from '../../../tools/kit/statistics.ts';
import type { Exchange, Subject, ToldFields } from '../../../tools/load/exchange.ts';
import { historyOf, type Sending, subjectOf } from '../../../tools/load/fake-gateway.ts';
import { harmOf, judgeHarm } from '../../../tools/load/judge/harm.ts';
import { judge } from '../../../tools/load/judge/judge.ts';
import { type Check, Notes } from '../../../tools/load/judge/notes.ts';
import { allowance, withOwn } from '../../support/allowance.ts';

const LADDER = { after: 4, withinMs: 10_000, firstMs: 1_000, factor: 2, longestMs: 4_000 };
const CALM = allowance({ second: 5, minute: 60 }, null);
const STRICT = allowance({ second: 5, minute: 600 }, LADDER);
const SLIDING = allowance({ second: 5, minute: 60 }, null, { second: { slices: 4 }, minute: { slices: 12 } });
const CALENDAR = allowance({ hour: 20, month: 100 }, null, {
  hour: { calendar: { unit: 'hour', zone: 'UTC', anchor: 1 } },
});
/** So many, so many milliseconds apart. */
const every = (stepMs: number, count: number): Sending => ({
  atMs: Array.from({ length: count }, (_, i) => i * stepMs),
});

/** What the judge says of a client of `plan` to which the gateway was as `told` says. */
function judged(plan: Allowance, told: readonly Exchange[], differences: Partial<Subject> = {}): Notes {
  const notes = new Notes();
  judge([{ subject: subjectOf(plan, differences), exchanges: told }], notes);
  return notes;
}

function checks(notes: Notes): Check[] {
  return [...new Set(notes.findings.map(({ check }) => check))];
}

/** The same answers with other fields. */
function retold(
  exchanges: readonly Exchange[],
  change: (fields: ToldFields, exchange: Exchange) => Partial<ToldFields>,
) {
  return exchanges.map((it) => ({ ...it, fields: { ...it.fields, ...change(it.fields, it) } }));
}

/** A plan as `plan`, of which one window has another limit. */
function withLimit(plan: Allowance, window: string, limit: number): Allowance {
  const limits = plan.limits.map((it) => (it.window === window ? { ...it, limit } : it));
  return withOwn(plan, { limits });
}

/** Tells the limits of `plan`, and of the first window so many requests more than remain. */
function asIfBy(plan: Allowance, exchanges: readonly Exchange[], more: number): Exchange[] {
  const limitOf = (window: string) => plan.limits.find((it) => it.window === window)!.limit;
  return retold(exchanges, ({ windows, policy, limit, remaining }) => ({
    limit: limit === 5 + -more ? 5 : limit,
    remaining: limit === 5 + -more ? Math.max(remaining! + more, 0) : remaining,
    windows: windows!.map((it) =>
      it.window === 'second' ? { ...it, remaining: Math.max(it.remaining + more, 0) } : it,
    ),
    policy: policy!.map((it) => ({ ...it, limit: limitOf(it.window) })),
  }));
}

describe('a gateway that keeps its promises is found right', () => {
  test.each<[string, Allowance, Sending, Partial<Subject>]>([
    ['hammered without bans, across many windows', CALM, every(70, 120), {}],
    ['with its minute used up', CALM, every(150, 150), {}],
    ['hammered with bans', STRICT, every(25, 800), {}],
    ['by a client that waits', STRICT, { oneByOne: 60, patient: true }, { waits: true }],
    [
      'by one that waits out minutes',
      allowance({ minute: 5, day: 100 }),
      { oneByOne: 30, patient: true },
      { waits: true },
    ],
    ['all at once', CALM, { atMs: [...Array(12).fill(0), ...Array(12).fill(1_300)] }, {}],
    ['with sliding windows, hammered', SLIDING, every(70, 1_200), {}],
    ['with sliding windows, by a client that waits', SLIDING, { oneByOne: 120, patient: true }, { waits: true }],
    ['with sliding windows and bans', { ...SLIDING, bans: STRICT.bans }, every(25, 800), {}],
    ['with calendar windows', CALENDAR, every(1_000, 60), {}],
    ['with one limit', allowance({ hour: 20 }, { after: 100 }), every(100, 60), {}],
  ])('%s', (_name, plan, sending, differences) => {
    const notes = judged(plan, historyOf({ sending, allowance: plan }), differences);
    expect(notes.findings).toEqual([]);
    for (const check of ['limit', 'whole', 'remaining', 'fields', 'retryAfter'] as const) {
      expect({ check, looked: notes.lookedAt(check) > 0 }).toEqual({ check, looked: true });
    }
  });

  test('on a route that costs more than one', () => {
    const plan = allowance({ second: 20, minute: 600 }, null);
    const notes = judged(plan, historyOf({ sending: every(60, 90), allowance: plan, cost: 6 }), { cost: 6 });
    expect(notes.findings).toEqual([]);
    expect(notes.lookedAt('remaining')).toBeGreaterThan(10);
  });

  test('and what was counted before the test began, or in answers that were lost, is not held against it', () => {
    const all = historyOf({ sending: every(70, 60), allowance: CALM });
    expect(judged(CALM, all.slice(3), { fresh: false }).findings).toEqual([]);
    const lost = all.map((it, i) => (i === 2 ? { ...it, status: 0, fault: 'ECONNRESET' } : it));
    expect(checks(judged(CALM, lost))).toEqual(['statuses']);
  });
});

describe('admission', () => {
  test('one too many in a window is found', () => {
    const told = asIfBy(CALM, historyOf({ sending: every(70, 60), allowance: withLimit(CALM, 'second', 6) }), -1);
    expect(judged(CALM, told).findings).toContainEqual(
      expect.objectContaining({ check: 'limit', sentence: expect.stringContaining('admitted 6 of 5') }),
    );
  });

  test('a window that should slide and is fixed is found, and one that gives back too late', () => {
    // One request opens the window, four fill it at its end, and five more come at the beginning of the next.
    const sending = { atMs: [0, 900, 900, 900, 900, 1_010, 1_010, 1_010, 1_010, 1_010] };
    const [sliding, fixed] = [{ second: { slices: 4 } }, {}].map((form) => allowance({ second: 5 }, null, form)) as [
      Allowance,
      Allowance,
    ];
    expect(judged(sliding, historyOf({ sending, allowance: sliding })).findings).toEqual([]);
    expect(judged(sliding, historyOf({ sending, allowance: fixed })).findings).toContainEqual(
      expect.objectContaining({
        check: 'limit',
        sentence: expect.stringMatching(/^the second from .* admitted 9 of 5/),
      }),
    );
    const late = retold(historyOf({ sending, allowance: sliding }), ({ windows }, { sentAtMs }) => ({
      windows: windows!.map((it) => (sentAtMs % 1_000 === 370 ? { ...it, remaining: 3 } : it)),
    }));
    expect(judged(sliding, late).findings).toContainEqual(
      expect.objectContaining({ check: 'whole', sentence: expect.stringContaining('had 3 remaining, and 4 is right') }),
    );
  });

  test('one too few in a window is found', () => {
    const told = asIfBy(CALM, historyOf({ sending: every(70, 60), allowance: withLimit(CALM, 'second', 4) }), 1);
    expect(judged(CALM, told).findings).toContainEqual(
      expect.objectContaining({ check: 'whole', sentence: expect.stringContaining('after 4 that it admitted') }),
    );
  });

  test('one too many in a long window is found, whichever window the X- fields describe', () => {
    const plan = allowance({ second: 5, minute: 20 }, null);
    const told = historyOf({ sending: every(210, 60), allowance: withLimit(plan, 'minute', 21) });
    const corrected = retold(told, ({ windows, policy, limit, remaining }) => ({
      limit: limit === 21 ? 20 : limit,
      remaining: limit === 21 ? Math.max(remaining! - 1, 0) : remaining,
      windows: windows!.map((it) =>
        it.window === 'minute' ? { ...it, remaining: Math.max(it.remaining - 1, 0) } : it,
      ),
      policy: policy!.map((it) => (it.window === 'minute' ? { ...it, limit: 20 } : it)),
    }));
    expect(judged(plan, corrected).findings).toContainEqual(
      expect.objectContaining({ check: 'limit', sentence: expect.stringContaining('admitted 21 of 20') }),
    );
  });

  test('a refusal with quota left is found', () => {
    const told = historyOf({ sending: every(300, 12), allowance: CALM });
    const refused = told.map((it, i) => (i === 5 ? { ...it, status: 429 } : it));
    expect(checks(judged(CALM, refused))).toContain('whole');
  });

  test('two gateways that each count for themselves are found', () => {
    const one = historyOf({ sending: every(40, 40), allowance: CALM });
    const two = historyOf({ sending: every(41, 40), allowance: CALM });
    const found = judged(CALM, [...one, ...two]).findings;
    expect(found).toContainEqual(expect.objectContaining({ check: 'limit' }));
    expect(found).toContainEqual(
      expect.objectContaining({ check: 'remaining', sentence: expect.stringContaining('told twice') }),
    );
  });

  test('remaining that is off by one is found', () => {
    const told = historyOf({ sending: every(70, 60), allowance: CALM });
    const wrong = retold(told, ({ windows, remaining }, { status }) =>
      status === 429
        ? {}
        : { remaining: remaining! + 1, windows: windows!.map((it) => ({ ...it, remaining: it.remaining + 1 })) },
    );
    expect(checks(judged(CALM, wrong))).toContain('remaining');
  });
});

describe('fields', () => {
  const told = historyOf({ sending: every(70, 60), allowance: CALM });

  test.each<[string, (fields: ToldFields, exchange: Exchange) => Partial<ToldFields>, RegExp]>([
    ['X-RateLimit-Reset a second late', ({ resetAtS }) => ({ resetAtS: resetAtS! + 2 }), /X-RateLimit-Reset is in/],
    ['X-RateLimit-Reset in the past', ({ resetAtS }) => ({ resetAtS: resetAtS! - 3 }), /in the past/],
    [
      'X-RateLimit-Remaining unlike RateLimit',
      ({ remaining }) => ({ remaining: remaining! + 1 }),
      /RateLimit that what binds/,
    ],
    ['more remaining than the limit', () => ({ remaining: 6 }), /6 remain of a limit of 5/],
    ['the window that does not bind', () => ({ limit: 60, remaining: 59 }), /what binds/],
    [
      'a limit that the plan has not',
      ({ policy }) => ({ policy: policy!.map((it) => ({ ...it, limit: 7 })) }),
      /RateLimit-Policy/,
    ],
    ['no X-RateLimit-Limit', () => ({ limit: null }), /X-RateLimit field is missing/],
    ['no RateLimit', () => ({ windows: null }), /RateLimit or RateLimit-Policy is missing/],
    ['no X-Request-Id', () => ({ requestId: null }), /X-Request-Id is missing/],
    ['no Retry-After', () => ({ retryAfterS: null }), /Retry-After is missing/],
  ])('%s is found', (_name, change, sentence) => {
    expect(judged(CALM, retold(told, change)).findings).toContainEqual(
      expect.objectContaining({ check: 'fields', sentence: expect.stringMatching(sentence) }),
    );
  });
});

describe('Retry-After', () => {
  test('shorter or longer than the windows of the same answer say is found', () => {
    const told = historyOf({ sending: every(20, 400), allowance: STRICT });
    const shorter = retold(told, ({ retryAfterS }) => ({ retryAfterS: retryAfterS && Math.max(retryAfterS - 1, 1) }));
    expect(checks(judged(STRICT, shorter))).toEqual(['retryAfter']);
    const longer = retold(told, ({ retryAfterS }) => ({ retryAfterS: retryAfterS && retryAfterS + 1 }));
    expect(checks(judged(STRICT, longer))).toEqual(['retryAfter']);
  });

  test('that is not enough is found by who waits for it, although all fields agree', () => {
    const plan = allowance({ minute: 5 }, null);
    const told = historyOf({ sending: every(8_000, 12), allowance: plan });
    const short = told.map((it) =>
      it.status === 429
        ? {
            ...it,
            fields: { ...it.fields, retryAfterS: 7, windows: [{ window: 'minute', remaining: 0, resetInS: 7 }] },
          }
        : it,
    );
    expect(checks(judged(plan, short))).toContain('waited');
  });
});

describe('bans', () => {
  const hammered = every(25, 400);

  test.each<[string, Partial<NonNullable<Allowance['bans']>>, RegExp]>([
    ['a strike early', { after: 3 }, /came at strike 3, not 4/],
    ['a strike late', { after: 5 }, /refused 4 times before ban 1; strike 4 bans/],
    ['never', { after: 1_000 }, /and no ban came/],
    ['without growing', { factor: 1 }, /ban 2 lasted .* by the plan it lasts 2 s/],
    ['growing too fast', { factor: 3 }, /ban 2 began with Retry-After 3; by the plan it is 2/],
    ['longer than the longest', { longestMs: 60_000 }, /ban 4 lasted .* by the plan it lasts 4 s/],
  ])('that come %s are found', (_name, rule, sentence) => {
    const behaves = { ...STRICT, bans: { ...STRICT.bans!, ...rule } };
    const told = historyOf({ sending: every(25, 700), allowance: behaves });
    expect(judged(STRICT, told).findings).toContainEqual(
      expect.objectContaining({ check: 'bans', sentence: expect.stringMatching(sentence) }),
    );
  });

  test('of a client that waits, or under a plan without bans, are found', () => {
    const told = historyOf({ sending: hammered, allowance: STRICT });
    expect(judged(STRICT, told, { waits: true }).findings).toContainEqual(
      expect.objectContaining({ check: 'bans', sentence: expect.stringContaining('it waits for Retry-After') }),
    );
    expect(checks(judged({ ...STRICT, bans: null }, told))).toContain('bans');
  });

  test('that one gateway does not know of are found', () => {
    const told = historyOf({ sending: hammered, allowance: STRICT });
    const banned = told.filter(({ refusal }) => refusal.ban?.number === 3);
    const ignored = banned[5]!;
    const leaky = told.map((it) => (it === ignored ? { ...it, status: 200, refusal: told[0]!.refusal } : it));
    expect(judged(STRICT, leaky).findings).toContainEqual(
      expect.objectContaining({ check: 'bans', sentence: expect.stringContaining('although ban 3 lasts until') }),
    );
  });

  test('that go on after they were to end, or skip a rung, are found', () => {
    const told = historyOf({ sending: hammered, allowance: STRICT });
    const renumbered = (from: number, to: number) =>
      told.map((it) =>
        it.refusal.ban?.number === from
          ? { ...it, refusal: { ...it.refusal, ban: { number: to, untilS: it.refusal.ban.untilS } } }
          : it,
      );
    expect(checks(judged(STRICT, renumbered(3, 4)))).toContain('bans');
    const lingering = told.map((it) =>
      it.refusal.ban?.number === 2
        ? { ...it, refusal: { ...it.refusal, ban: { number: 2, untilS: it.refusal.ban.untilS - 2 } } }
        : it,
    );
    expect(checks(judged(STRICT, lingering))).toContain('bans');
  });
});

describe('statuses', () => {
  test('a 5xx, a 401 for a good key and a request without an answer are found', () => {
    const told = historyOf({ sending: every(300, 5), allowance: CALM });
    for (const wrong of [{ status: 502 }, { status: 401 }, { status: 0, fault: 'ECONNRESET' }]) {
      const found = judged(CALM, [...told.slice(0, 4), { ...told[4]!, ...wrong }]).findings;
      expect(found).toContainEqual(expect.objectContaining({ check: 'statuses', times: 1 }));
    }
  });
});

describe('harm', () => {
  const alone = { latenciesMs: Array.from({ length: 200 }, (_, i) => 1 + i / 20), errors: 0 };
  const judgedHarm = (beside: typeof alone) => {
    const notes = new Notes();
    const harm = harmOf(alone, beside);
    if (harm !== null) judgeHarm('abusers', harm, notes);
    return notes;
  };

  test('good clients three times or 25 ms slower are still served well enough, slower ones and failed ones are not', () => {
    const by = (more: number) => ({ latenciesMs: alone.latenciesMs.map((ms) => ms + more), errors: 0 });
    expect(judgedHarm(by(24)).findings).toEqual([]);
    expect(judgedHarm(by(26)).findings).toHaveLength(1);
    expect(judgedHarm({ ...alone, errors: 1 }).findings).toHaveLength(1);
  });

  test('too few answers say nothing', () => {
    expect(judgedHarm({ latenciesMs: [900], errors: 1 }).lookedAt('unharmed')).toBe(0);
  });

  test('percentiles are of the nearest rank', () => {
    expect([percentile([3, 1, 2, 4], 50), percentile([3, 1, 2, 4], 99), percentile([], 99)]).toEqual([2, 4, 0]);
  });
});
