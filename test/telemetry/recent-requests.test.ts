import { describe, expect, test } from 'vitest';
import { plainAllowance } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { Exchange } from '../../src/gateway/exchange.ts';
import type { TailFilter } from '../../src/model/refusal.ts';
import { STEP_MS, TRAFFIC_COLUMNS, type Traffic } from '../../src/operations/live/shapes.ts';
import { RecentRequests } from '../../src/telemetry/recent-requests.ts';
import { countedWindowsOf } from '../support/counted-windows.ts';

const NOTHING = { queries: [], tails: [] };
const EVERYTHING: TailFilter = { plan: null, key: null, route: null, verdict: null, status: null };
const LIMIT = windowLimit('minute', 100);

/** Two requests a minute, and a ban of a minute with the fourth refusal. */
const WITH_BANS = {
  ...plainAllowance('free', [windowLimit('minute', 2)]),
  bans: { after: 4, withinMs: 60_000, firstMs: 60_000, factor: 2, longestMs: 86_400_000, forgetMs: 86_400_000 },
};

function exchangeOf(members: Partial<Exchange> = {}, left: readonly number[] = [50]): Exchange {
  return {
    ...{ requestId: 'r', traceId: null, method: 'GET', path: '/v1/pets', route: '/v1/pets', clientAddress: '10.0.0.1' },
    ...{ consumerId: 'key_a', plan: 'free', cost: 1, limits: [LIMIT], judgement: 'admitted' },
    ...{ window: 'minute', imposedBan: null, source: 'store', decidedAtMs: 1, shadow: null, status: 200, code: null },
    ...{ cause: null, upstream: 'store', target: null, totalMs: 1, storeMs: 0, upstreamMs: 0, bytesIn: 0, bytesOut: 0 },
    windows: members.refusal?.windows ?? countedWindowsOf(members.limits ?? [LIMIT], left),
    ...members,
  } as Exchange;
}

/** Recent requests under a clock that the test sets. */
function recentAt(startMs = 1_000_000_000) {
  const clock = { nowMs: startMs };
  return { clock, recent: new RecentRequests(() => clock.nowMs) };
}

function columnOf({ counts }: Traffic, name: (typeof TRAFFIC_COLUMNS)[number]): number[] {
  const at = TRAFFIC_COLUMNS.indexOf(name);
  return [...counts].filter((_, i) => i % TRAFFIC_COLUMNS.length === at);
}

describe('traffic', () => {
  test('is counted in buckets of 5 s, those of the last 10 minutes', () => {
    const { clock, recent } = recentAt();
    for (let step = 0; step < 130; step++) {
      for (let i = 0; i <= step; i++) recent.note(exchangeOf());
      clock.nowMs += STEP_MS;
    }
    clock.nowMs -= STEP_MS;
    const { traffic } = recent.answer(NOTHING);
    expect(traffic.lastStep).toBe(clock.nowMs / STEP_MS);
    expect(columnOf(traffic, 'admitted')).toEqual(Array.from({ length: 120 }, (_, i) => i + 11));
  });

  test('buckets without requests are 0, also after a quiet hour and after the clock was set back', () => {
    const { clock, recent } = recentAt();
    recent.note(exchangeOf());
    clock.nowMs += 2 * STEP_MS;
    expect(columnOf(recent.answer(NOTHING).traffic, 'admitted').slice(-3)).toEqual([1, 0, 0]);
    clock.nowMs += 3_600_000;
    expect(columnOf(recent.answer(NOTHING).traffic, 'admitted').some(Boolean)).toBe(false);
    recent.note(exchangeOf());
    clock.nowMs -= STEP_MS;
    recent.note(exchangeOf());
    expect(columnOf(recent.answer(NOTHING).traffic, 'admitted').at(-1)).toBe(2);
    clock.nowMs -= 86_400_000;
    const { traffic } = recent.answer(NOTHING);
    expect([traffic.lastStep, columnOf(traffic, 'admitted').some(Boolean)]).toEqual([clock.nowMs / STEP_MS, false]);
  });

  test('a response of 500 and above is counted under its verdict and as failed', () => {
    const { recent } = recentAt();
    recent.note(exchangeOf({ status: 502, code: 'upstream_unavailable' }));
    recent.note(exchangeOf({ judgement: 'preflight', status: 204 }));
    const { traffic } = recent.answer(NOTHING);
    for (const name of ['admitted', 'failed', 'other'] as const) expect(columnOf(traffic, name).at(-1)).toBe(1);
  });
});

describe('refusals', () => {
  const refused = (members: Partial<Exchange>) =>
    exchangeOf({ judgement: 'refused', status: 429, code: 'rate_limit_exceeded', ...members });
  const found = (recent: RecentRequests, id: string) =>
    recent.answer({ ...NOTHING, queries: [{ requestId: id }] }).found[0]!.refusals;

  test('of known callers 10,000 are kept, and a flood of others drops none of them', () => {
    const { recent } = recentAt();
    for (let i = 0; i < 10_001; i++) recent.note(refused({ requestId: `known-${i}` }));
    for (let i = 0; i < 20_000; i++) {
      const unknown = { consumerId: null, decidedAtMs: null, judgement: 'unauthenticated' as const };
      recent.note(refused({ ...unknown, code: 'invalid_api_key', status: 401, requestId: `other-${i}` }));
    }
    const kept = ['known-0', 'known-1', 'known-10000', 'other-18999', 'other-19000'].map(
      (id) => found(recent, id).length,
    );
    expect(kept).toEqual([0, 1, 1, 0, 1]);
  });

  test('requests that the service failed, and those whose client left before an answer, are kept with who ended them', () => {
    const { recent } = recentAt();
    const failed = { target: 'http://10.0.0.2', totalMs: 177.4 };
    recent.note(exchangeOf({ ...failed, requestId: 'service', status: 503 }));
    recent.note(exchangeOf({ ...failed, requestId: 'client', status: 499, cause: 'the client left' }));
    recent.note(exchangeOf({ ...failed, requestId: 'late', status: 504, code: 'upstream_timeout' }));
    recent.note(exchangeOf({ ...failed, requestId: 'down', status: 502, code: 'upstream_unavailable' }));
    recent.note(exchangeOf({ ...failed, requestId: 'stream', status: 499, bytesOut: 10 }));
    recent.note(exchangeOf({ ...failed, requestId: 'well' }));
    const ids = ['service', 'client', 'late', 'down', 'stream', 'well'];
    const kept = ids.map((id) => found(recent, id).flatMap(({ code, endedBy }) => [code, endedBy]));
    expect(kept).toEqual([
      ['', 'service'],
      ['', 'client'],
      ['upstream_timeout', 'gateway'],
      ['upstream_unavailable', 'service'],
      [],
      [],
    ]);
    const { route, upstream, target, totalMs, status } = found(recent, 'service')[0]!;
    const facts = { route: '/v1/pets', upstream: 'store', target: 'http://10.0.0.2', totalMs: 177, status: 503 };
    expect({ route, upstream, target, totalMs, status }).toEqual(facts);
  });

  test('a caller who lets the service fail without end, with all keys of a customer, pushes out no failure of others (reliability 498)', () => {
    const { clock, recent } = recentAt();
    recent.note(exchangeOf({ requestId: 'mine', status: 500 }));
    for (let i = 0; i < 5_000; i++) {
      const consumerId = `key_${i % 50}`;
      const of = { consumerId, accountId: `cus_c/${consumerId}` };
      recent.note(exchangeOf({ ...of, requestId: `flood-${i}`, status: i % 2 ? 500 : 499 }));
    }
    expect(['mine', 'flood-199', 'flood-200'].map((id) => found(recent, id).length)).toEqual([1, 1, 0]);
    clock.nowMs += 600_000;
    recent.note(exchangeOf({ consumerId: 'key_1', accountId: 'cus_c/key_1', requestId: 'later', status: 500 }));
    expect(found(recent, 'later')).toHaveLength(1);
  });

  test('with the same request id are found newest first, at most 10', () => {
    const { clock, recent } = recentAt();
    for (let i = 0; i < 12; i++) {
      recent.note(refused({ requestId: 'same', path: `/${i}` }));
      clock.nowMs += 10;
    }
    expect(found(recent, 'same').map(({ path }) => path)).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((i) => `/${i}`));
  });

  test('of one caller, or of the keys of one customer, are found newest first, at most 50', () => {
    const { clock, recent } = recentAt();
    for (let i = 0; i < 60; i++) {
      recent.note(refused({ requestId: `a${i}`, consumerId: 'key_a', accountId: 'cus_c/key_a' }));
      recent.note(refused({ requestId: `b${i}`, consumerId: 'key_b', accountId: 'cus_c/key_b' }));
      recent.note(refused({ requestId: `other${i}`, consumerId: 'key_other', accountId: 'key_other' }));
      clock.nowMs += 10;
    }
    const idsOf = (caller: string) => {
      const { refusals } = recent.answer({ ...NOTHING, queries: [{ caller }] }).found[0]!;
      return refusals.map(({ requestId }) => requestId);
    };
    expect(idsOf('key_a')).toEqual(Array.from({ length: 50 }, (_, i) => `a${59 - i}`));
    expect(idsOf('cus_c').slice(0, 4).sort()).toEqual(['a58', 'a59', 'b58', 'b59']);
    expect(idsOf('cus_c')).toHaveLength(50);
    expect(idsOf('key_none')).toEqual([]);
  });

  test('of a caller who is banned include what led to the ban, however often it asks during the ban', () => {
    const { clock, recent } = recentAt();
    const decision = decide([UNSEEN], WITH_BANS, clock.nowMs, 1, 1_000);
    for (let i = 2; i < 1_000; i++) {
      const verdict = verdictOf(decision, WITH_BANS, i) as NonNullable<Exchange['refusal']>;
      clock.nowMs += 10;
      recent.note(refused({ requestId: `r${i}`, accountId: 'key_a', judgement: verdict.kind, refusal: verdict }));
    }
    const { refusals } = recent.answer({ ...NOTHING, queries: [{ caller: 'key_a' }] }).found[0]!;
    // Two were admitted, three were refused, and the sixth began the ban.
    const expected = ['r999', 'r998', 'r997', 'r996', 'r995', 'r5', 'r4', 'r3', 'r2'];
    expect(refusals.map(({ requestId }) => requestId)).toEqual(expected);
  });

  test('of a caller whose service fails include its failures, at most 10, and hide no refusal', () => {
    const { clock, recent } = recentAt();
    for (let i = 0; i < 45; i++) {
      recent.note(refused({ requestId: `refused${i}` }));
      recent.note(exchangeOf({ requestId: `failed${i}`, status: 500 }));
      clock.nowMs += 10;
    }
    const { refusals } = recent.answer({ ...NOTHING, queries: [{ caller: 'key_a' }] }).found[0]!;
    const ids = refusals.map(({ requestId }) => requestId);
    expect(ids.filter((id) => id.startsWith('failed')).sort()).toEqual(
      Array.from({ length: 10 }, (_, i) => `failed${35 + i}`),
    );
    expect(ids).toHaveLength(50);
  });

  test('of a caller began when the first of them came that no admitted request has followed', () => {
    const { clock, recent } = recentAt();
    const callsOf = (caller: string) => recent.answer({ ...NOTHING, queries: [{ caller }] }).found[0]!.calls;
    const at = (ms: number) => new Date(1_000_000_000 + ms).toISOString();
    expect(callsOf('key_a')).toEqual({ last: null, admittedAt: null, refusedSince: null });
    const note = (atMs: number, members: Partial<Exchange>) => {
      clock.nowMs = 1_000_000_000 + atMs;
      recent.note(exchangeOf(members));
    };
    const banned: Partial<Exchange> = { judgement: 'banned', status: 429, code: 'banned' };
    note(0, { accountId: 'cus_c/key_a' });
    note(1, { ...banned, accountId: 'cus_c/key_a', clientAddress: '10.0.0.2' });
    note(2, { ...banned, accountId: 'cus_c/key_a', clientAddress: '10.0.0.3' });
    const last = { at: at(2), clientAddress: '10.0.0.3' };
    expect(callsOf('key_a')).toEqual({ last, admittedAt: at(0), refusedSince: at(1) });
    // Another key of the customer is admitted: nothing of the customer's is refused since then.
    note(3, { consumerId: 'key_b', accountId: 'cus_c/key_b' });
    expect(callsOf('cus_c')).toMatchObject({ admittedAt: at(3), refusedSince: null });
    note(4, { ...banned, accountId: 'cus_c/key_a' });
    expect(callsOf('cus_c')).toMatchObject({ admittedAt: at(3), refusedSince: at(3) });
    note(5, { accountId: 'cus_c/key_a' });
    expect(callsOf('key_a')).toMatchObject({ admittedAt: at(5), refusedSince: null });
    note(6, { accountId: 'cus_other/key_a' });
    expect([callsOf('cus_c')?.admittedAt, callsOf('cus_other')?.admittedAt]).toEqual([at(3), at(6)]);
  });

  test('have what an admitted request paid in units before it failed, and a tail has it of every request', () => {
    const { recent } = recentAt();
    const tail = { ...NOTHING, tails: [{ id: 't', filter: EVERYTHING }] };
    recent.answer(tail);
    const parts = [{ of: '/rows', amount: 0.5, times: 3, row: 'small' }];
    const units: Exchange['units'] = [
      { unit: 'tokens', reserved: 300, settled: 0, why: null },
      { unit: 'rows', reserved: 1, settled: 1, why: 'cut' },
      { unit: 'usd', reserved: 1, settled: 2, why: null, parts },
    ];
    recent.note(exchangeOf({ status: 502, code: 'upstream_unavailable', units }));
    const paid = {
      tokens: { reserved: 300, settled: 0 },
      rows: { reserved: 1, settled: 1, unknown: 'cut' },
      usd: { reserved: 1, settled: 2, parts },
    };
    expect(found(recent, 'r')[0]!.units).toEqual(paid);
    expect(recent.answer(tail).tails[0]!.requests[0]!.units).toEqual(paid);
  });

  test('have a path of at most 512 characters', () => {
    const { recent } = recentAt();
    recent.note(refused({ path: `/${'x'.repeat(16_000)}` }));
    expect(found(recent, 'r')[0]!.path).toHaveLength(512);
  });

  test('say which strike they were, also those that were decided together, and which one began the ban', () => {
    const { recent } = recentAt();
    const decision = decide([UNSEEN], WITH_BANS, 1_000_000_000, 1, 8);
    for (let i = 0; i < 8; i++) {
      const verdict = verdictOf(decision, WITH_BANS, i);
      if (verdict.kind !== 'refused' && verdict.kind !== 'banned') continue;
      const code = verdict.kind === 'banned' ? 'api_key_banned' : 'rate_limit_exceeded';
      recent.note(refused({ requestId: `r${i}`, code, window: 'minute', judgement: verdict.kind, refusal: verdict }));
    }
    const all = Array.from({ length: 6 }, (_, i) => found(recent, `r${i + 2}`)[0]!);
    expect(all.map(({ strike }) => strike?.number ?? null)).toEqual([1, 2, 3, 4, null, null]);
    expect(all.map(({ imposedBan }) => imposedBan)).toEqual([false, false, false, true, false, false]);
    expect(all[3]!.sentence).toBe(
      'The key kept sending requests after its limit of the minute was used up. This request was strike 4 and began ban 1.',
    );
    expect(all[5]!.advice).toMatch(/^Wait until the time shown below, or lift the ban\. /);
  });

  test('for which waiting cannot help have no retryAt and say so', () => {
    const allowance = plainAllowance('free', [windowLimit('minute', 2)]);
    const verdict = verdictOf(decide([UNSEEN], allowance, 1_000_000_000, 5, 1), allowance, 0) as Exchange['refusal'];
    const { recent } = recentAt();
    recent.note(refused({ cost: 5, refusal: verdict! }));
    const [refusal] = found(recent, 'r');
    expect([refusal!.retryAt, refusal!.strike]).toEqual([null, null]);
    expect(refusal!.sentence).toBe(
      'The request costs 5 and the key may use 2 a minute, so it is refused however long the client waits.',
    );
  });
});

describe('consumers near a limit', () => {
  const near = (recent: RecentRequests) => recent.answer(NOTHING).near.map(({ id, share }) => [id, share]);

  test('are those with half of a window left, or less than such a request costs', () => {
    const { recent } = recentAt();
    for (const [consumerId, remaining, cost] of [
      ['a', 51, 1],
      ['b', 50, 1],
      ['c', 60, 61],
      ['d', 0, 1],
    ] as const) {
      recent.note(exchangeOf({ consumerId, cost }, [remaining]));
    }
    recent.note(exchangeOf({ consumerId: 'e', judgement: 'refused', code: 'x' }, [0]));
    expect(near(recent)).toEqual([
      ['d', 0],
      ['b', 0.5],
      ['c', 0.6],
    ]);
  });

  test('are at most 4,000, and forgotten when their window has ended', () => {
    const { clock, recent } = recentAt();
    for (let i = 0; i < 4_001; i++) recent.note(exchangeOf({ consumerId: `key_${i}` }, [0]));
    expect(near(recent).length).toBe(4_000);
    recent.note(exchangeOf({ consumerId: 'half' }));
    expect(near(recent).some(([id]) => id === 'half')).toBe(false);
    clock.nowMs += 120_001;
    expect(near(recent)).toEqual([]);
  });

  test('are kept as long as the longest window that they are near to', () => {
    const { clock, recent } = recentAt();
    const limits = [LIMIT, windowLimit('month', 12)];
    recent.note(exchangeOf({ consumerId: 'both', limits }, [0, 0]));
    recent.note(exchangeOf({ consumerId: 'minute', limits }, [0, 7]));
    clock.nowMs += 120_001;
    expect(near(recent)).toEqual([['both', 0]]);
  });
});

describe('a tail', () => {
  const take = (recent: RecentRequests, filter = EVERYTHING) =>
    recent.answer({ ...NOTHING, tails: [{ id: 't', filter }] }).tails;

  test('holds at most 50 requests, counts the others, and begins anew when they are fetched', () => {
    const { recent } = recentAt();
    recent.note(exchangeOf());
    expect(take(recent)).toEqual([{ id: 't', requests: [], skipped: 0 }]);
    for (let i = 0; i < 70; i++) recent.note(exchangeOf());
    expect(take(recent)).toMatchObject([{ requests: { length: 50 }, skipped: 20 }]);
    expect(take(recent)).toEqual([{ id: 't', requests: [], skipped: 0 }]);
  });

  test.each([
    [{ plan: 'free' }, 1],
    [{ plan: 'pro' }, 0],
    [{ key: 'key_a', route: '/v1/pets', verdict: 'admitted', status: '200' }, 1],
    [{ key: 'key_b' }, 0],
    [{ route: '/v2' }, 0],
    [{ verdict: 'refused' }, 0],
    [{ status: '2xx' }, 1],
    [{ status: '4xx' }, 0],
    [{ status: '201' }, 0],
  ])('with the filter %j shows %i of a request', (filter, shown) => {
    const { recent } = recentAt();
    take(recent, { ...EVERYTHING, ...filter });
    recent.note(exchangeOf());
    expect(take(recent)[0]!.requests).toHaveLength(shown);
  });

  test('that nobody fetches for 5 s ends, and another begins empty', () => {
    const { clock, recent } = recentAt();
    take(recent);
    clock.nowMs += 5_001;
    recent.answer(NOTHING);
    recent.note(exchangeOf());
    expect(take(recent)).toEqual([{ id: 't', requests: [], skipped: 0 }]);
  });
});

describe('the callers that were refused most', () => {
  const refuse = (recent: RecentRequests, consumerId: string, members: Partial<Exchange> = {}) =>
    recent.note(exchangeOf({ consumerId, judgement: 'refused', status: 429, code: 'x', source: 'memory', ...members }));
  const refused = (recent: RecentRequests) => recent.answer(NOTHING).refused;

  test('are counted to the last request of a flood, apart by refusals and bans', () => {
    const { recent } = recentAt();
    for (let i = 0; i < 30_000; i++) refuse(recent, 'key_flood', i < 10 ? {} : { judgement: 'banned' });
    refuse(recent, 'key_b', { plan: 'pro' });
    recent.note(exchangeOf({ judgement: 'shed', code: 'too_many_in_flight', status: 429 }));
    expect(refused(recent)).toEqual({
      callers: 2,
      most: [
        { id: 'key_flood', plan: 'free', refused: 10, banned: 29_990 },
        { id: 'key_b', plan: 'pro', refused: 1, banned: 0 },
      ],
    });
  });

  test('are forgotten minute by minute, after ten', () => {
    const { clock, recent } = recentAt(60_000_000);
    refuse(recent, 'key_a');
    clock.nowMs += 9 * 60_000;
    refuse(recent, 'key_a');
    const counts = () => refused(recent).most.map((one) => one.refused);
    expect(counts()).toEqual([2]);
    clock.nowMs += 60_000;
    expect(counts()).toEqual([1]);
    clock.nowMs += 9 * 60_000;
    expect(refused(recent)).toEqual({ callers: 0, most: [] });
  });

  test('are at most 10,000, and those refused lately stay', () => {
    const { recent } = recentAt();
    for (let i = 0; i < 10_050; i++) {
      refuse(recent, 'key_steady');
      refuse(recent, `key_${i}`);
    }
    const { callers, most } = refused(recent);
    expect([callers, most.length, most[0]]).toMatchObject([10_000, 100, { id: 'key_steady', refused: 10_050 }]);
  });
});

describe('the record for simulations', () => {
  test('has the last 50,000 decided requests of known callers, oldest first', () => {
    const { recent } = recentAt();
    for (let i = 0; i < 50_003; i++) recent.note(exchangeOf({ decidedAtMs: i, cost: 2 }));
    recent.note(exchangeOf({ decidedAtMs: null }));
    recent.note(exchangeOf({ consumerId: null }));
    const columns = recent.decidedColumns();
    expect([...columns.atMs]).toEqual(Array.from({ length: 50_000 }, (_, i) => i + 3));
    const { limitSets, units, ...others } = columns;
    expect(units).toBeNull();
    expect(Object.values(others).map(({ length }) => length)).toEqual(Array(12).fill(50_000));
    expect([columns.costs[0], columns.consumerIds[0], columns.plans[0]]).toEqual([2, 'key_a', 'free']);
    expect(limitSets).toHaveLength(1);
  });

  test('has the customer of a request, and what is left of a window that the keys of the customer share', () => {
    const { recent } = recentAt();
    const shared = { ...windowLimit('minute', 90), name: 'customer-minute' } as const;
    recent.note(exchangeOf({ accountId: 'cus_1/key_a', limits: [LIMIT, shared] }, [50, 12]));
    recent.note(exchangeOf({ accountId: 'key_a' }));
    const { customerIds, remaining, limitSets } = recent.decidedColumns();
    expect([customerIds, [...remaining]]).toEqual([
      ['cus_1', null],
      [12, 50],
    ]);
    expect(limitSets[0]).toEqual({ minute: 100, 'customer-minute': 90 });
  });

  test('has what a request charged in units, once one did', () => {
    const { recent } = recentAt();
    const units = (reserved: number) => [{ unit: 'tokens', reserved, settled: 1, why: null }];
    recent.note(exchangeOf({}));
    recent.note(exchangeOf({ units: units(7) }));
    recent.note(exchangeOf({}));
    expect(recent.decidedColumns().units).toEqual([null, { tokens: { reserved: 7, settled: 1 } }, null]);
    for (let i = 0; i < 50_000; i++) recent.note(exchangeOf({ units: i === 49_999 ? units(8) : null }));
    expect(
      recent.decidedColumns().units!.flatMap((one, i) => (one === null ? [] : [[i, one.tokens!.reserved]])),
    ).toEqual([[49_999, 8]]);
  });

  test('has the path of a request whose plan has groups, and of one whose route has a single path; long ones are not kept', () => {
    const { recent } = recentAt();
    const route = '/v1/pets/{id}';
    const pathOf = (members: Partial<Exchange>) => {
      recent.note(exchangeOf({ route, path: '/v1/pets/7', ...members }));
      return recent.decidedColumns().paths.at(-1);
    };
    expect(pathOf({})).toBeNull();
    expect(pathOf({ hasGroups: true })).toBe('/v1/pets/7');
    expect(pathOf({ hasGroups: true, path: `/${'a'.repeat(16_000)}` })).toBeNull();
    expect(pathOf({ route: '/v1/**' })).toBeNull();
    expect(pathOf({ route: null })).toBeNull();
    expect(pathOf({ route: '/v1/pets', path: '/v1/pets' })).toBe('/v1/pets');
    recent.note(exchangeOf({ method: 'A-METHOD-OF-16-CHARACTERS' }));
    expect(recent.decidedColumns().methods).toEqual([...Array(6).fill('GET'), '']);
  });
});
