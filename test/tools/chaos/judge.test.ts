import { describe, expect, test } from 'vitest';
import { Tally } from '../../../tools/chaos/answers.ts';
import { IN_FLIGHT } from '../../../tools/chaos/callers.ts';
import { type Facts, judge, type Seen } from '../../../tools/chaos/judge.ts';
import { flatness } from '../../../tools/chaos/scenarios/soak.ts';

type Given = readonly [lane: string, status: number, code?: string | undefined];

/** What a round shows where all is well, with three gateways. */
function facts(changes: Partial<Facts> = {}, answers: readonly Given[] = []) {
  const tally = new Tally();
  const all: readonly Given[] = [
    ['steady', 200],
    ['fast', 200],
    ['fast', 429, 'rate_limit_exceeded'],
    ['banned', 429, 'api_key_banned'],
    ['revoked', 401, 'invalid_api_key'],
    ...answers,
  ];
  for (const [lane, status, code = null] of all) {
    tally.add({ lane, keyId: lane, gateway: 0, sentAtMs: 0, latencyMs: 5, status, code, resetAtS: 100 });
  }
  const usual: Facts = {
    allowed: { normalWithinMs: 1_000 },
    disturbed: false,
    deciders: 3,
    tally,
    seen: [seen()],
    longestWaitMs: 5,
    waitAllowedMs: 250,
    normalAfterMs: 10,
    revokedPassed: 0,
    leftovers: [],
    held: [],
    deaths: [],
  };
  return { ...usual, ...changes };
}

function seen(changes: Partial<Seen> = {}): Seen {
  const usual = {
    key: 'fast',
    limit: 200,
    admitted: 200,
    unanswered: 0,
    exhausted: true,
    counted: 200,
    settled: false,
  };
  return { ...usual, ...changes };
}

const broken = (...given: Parameters<typeof facts>) => judge(facts(...given)).broken;
const ALONE = { alone: true, normalWithinMs: 1_000 };
const FORGETS = { forgets: true, normalWithinMs: 1_000 };

test('a round in which all is well breaks nothing', () => {
  expect(judge(facts())).toMatchObject({ bans: 'kept', broken: [] });
});

describe('admission', () => {
  test('is exact where the store is well: one too many or too few is told', () => {
    expect(broken({ seen: [seen({ admitted: 201, counted: 201 })] })).toEqual([expect.stringContaining('at most 200')]);
    expect(broken({ seen: [seen({ admitted: 199, counted: 199 })] })).toEqual([expect.stringContaining('only 199')]);
  });

  test('is bounded by gateways times limit where they are alone, and by the limit for a key that all know as spent', () => {
    const most = { admitted: 600, counted: 600 };
    expect(broken({ allowed: ALONE, seen: [seen(most)] })).toEqual([]);
    expect(broken({ allowed: ALONE, seen: [seen({ admitted: 601, counted: 601 })] })).toHaveLength(1);
    expect(broken({ allowed: ALONE, seen: [seen({ ...most, settled: true })] })).toHaveLength(1);
  });

  test('may fall short by what got no answer, and by no more', () => {
    const allowed = { lost: true, normalWithinMs: 1_000 };
    const short = { admitted: 197, counted: 200 };
    expect(broken({ allowed, seen: [seen({ ...short, unanswered: 3 })] })).toEqual([]);
    expect(broken({ allowed, seen: [seen({ ...short, unanswered: 2 })] })).not.toEqual([]);
  });

  test('may fall short by the lease of each process that was killed or cut off, and by no more', () => {
    const killed = { killed: 1, normalWithinMs: 1_000 };
    const short = (units: number) => ({ seen: [seen({ admitted: 200 - units, counted: 200 })] });
    expect(broken({ allowed: killed, ...short(12) })).toEqual([]);
    expect(broken({ allowed: killed, ...short(13) })).toHaveLength(2);
    expect(broken({ allowed: ALONE, ...short(36) })).toEqual([]);
    expect(broken({ allowed: ALONE, ...short(37) })).toHaveLength(1);
    const settled = { seen: [seen({ admitted: 199, counted: 200, settled: true })] };
    expect(broken({ allowed: killed, ...settled })).toHaveLength(2);
  });

  test('is bounded as in an outage on a machine that is too busy for the deadline of the store', () => {
    const more = { seen: [seen({ admitted: 201, counted: 201 })] };
    expect(broken({ ...more, disturbed: true })).toEqual([]);
    expect(broken({ seen: [seen({ admitted: 601, counted: 601 })], disturbed: true })).toHaveLength(1);
  });

  test('is given once more by a store that forgets', () => {
    expect(broken({ allowed: FORGETS, seen: [seen({ admitted: 400, counted: 7 })] })).toEqual([]);
    expect(broken({ allowed: FORGETS, seen: [seen({ admitted: 401, counted: 7 })] })).toHaveLength(1);
  });

  test('is what Redis has counted, but for one call of each gateway and outage', () => {
    const off = 3 * IN_FLIGHT;
    expect(broken({ seen: [seen({ counted: 199 })] })).toHaveLength(1);
    expect(broken({ allowed: ALONE, seen: [seen({ admitted: 300, counted: 300 - off })] })).toEqual([]);
    expect(broken({ allowed: ALONE, seen: [seen({ admitted: 300, counted: 299 - off })] })).toHaveLength(1);
  });
});

test.each([
  ['an error for a good key', 'steady', 503, 'store_unavailable'],
  ['a refusal below the limit', 'steady', 429, 'rate_limit_exceeded'],
  ['401 for a key that is only not known yet', 'fresh', 401, 'invalid_api_key'],
  ['no answer', 'fast', 0, 'ECONNRESET'],
  ['a banned key that passes', 'banned', 200, undefined],
] as const)('%s is told', (_what, lane, status, code) => {
  expect(broken({ allowed: ALONE }, [[lane, status, code]])).toHaveLength(1);
});

test.each<[string, Partial<Facts>]>([
  ['a wait beyond what is allowed', { longestWaitMs: 251 }],
  ['a store that is never there again', { normalAfterMs: null }],
  ['a store that takes too long', { normalAfterMs: 1_001 }],
  ['a revoked key that passes', { revokedPassed: 1 }],
  ['an entry without an expiry', { leftovers: ['tg:a:{x}'] }],
  ['what a gateway still holds', { held: ['gateway 1 holds 3 descriptors, 2 before.'] }],
  ['a gateway that died', { deaths: ['gateway 1 ended: SIGSEGV.'] }],
])('%s is told', (_what, changes) => {
  expect(broken(changes)).toHaveLength(1);
});

test('gateways that tell different ends of one window are told', () => {
  const given = facts();
  given.tally.add({
    lane: 'steady',
    keyId: 'steady',
    gateway: 1,
    sentAtMs: 0,
    latencyMs: 1,
    status: 200,
    code: null,
    resetAtS: 18_100,
  });
  expect(judge(given).broken).toEqual([expect.stringContaining('18000 s')]);
});

test('memory and handles that grow from the second quarter to the last are told, those that only rose at first are not', () => {
  const looks = (rssMib: (i: number) => number, files: (i: number) => number) =>
    Array.from({ length: 400 }, (_, i) => ({ atMs: i * 1_000, rssMib: rssMib(i), files: files(i) }));
  expect(
    flatness(
      looks(
        (i) => Math.min(200 + i, 290),
        () => 60,
      ),
    ).broken,
  ).toEqual([]);
  expect(
    flatness(
      looks(
        (i) => 200 + i,
        () => 60,
      ),
    ).broken,
  ).toHaveLength(1);
  expect(
    flatness(
      looks(
        () => 200,
        (i) => 60 + i / 5,
      ),
    ).broken,
  ).toHaveLength(1);
});
