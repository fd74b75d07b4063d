import { describe, expect, test } from 'vitest';
import { AccountCache } from '../../src/admit/account-cache.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance } from '../support/allowance.ts';

// A refusal from memory must be one that the store would certainly give.

const T0 = 1_800_000_000_000;
const OWN_MS = T0 + 77;

/** A cache whose monotonic clock a test moves. */
function cacheAt() {
  const clock = { ms: 1_000 };
  const cache = new AccountCache({ remembered: 10, monotonicMs: () => clock.ms, wallMs: () => OWN_MS });
  const pass = (ms: number) => {
    clock.ms += ms;
  };
  /** The store decides about `n` requests at T0 and answers at once. */
  const decided = (plan: Allowance, cost: number, n: number, before: AccountState = UNSEEN) => {
    const decision = decide([before], plan, T0, cost, n);
    cache.rememberDecision(['a'], plan, decision, clock.ms, cache.generation);
    return decision;
  };
  return { cache, pass, decided, clock };
}

describe('of limits without bans', () => {
  const plan = allowance({ minute: 2, hour: 10 }, null);

  test('a request is refused until a millisecond before the window may have ended', () => {
    const { cache, pass, decided } = cacheAt();
    decided(plan, 1, 3);
    expect(cache.refusal('a', plan, 1)).toMatchObject({ kind: 'refused', retryAtMs: T0 + 60_000, nowMs: T0 });
    pass(59_998);
    expect(cache.refusal('a', plan, 1)).toMatchObject({ kind: 'refused', nowMs: T0 + 59_998 });
    pass(1);
    expect(cache.refusal('a', plan, 1)).toBeNull();
  });

  test('a request that fits is not, nor one of another consumer', () => {
    const { cache, decided } = cacheAt();
    decided(plan, 1, 1);
    expect(cache.refusal('a', plan, 1)).toBeNull();
    expect(cache.refusal('a', plan, 2)).toMatchObject({ kind: 'refused' });
    expect(cache.refusal('b', plan, 2)).toBeNull();
  });

  test('a window of which nothing is counted refuses nobody', () => {
    const { cache, decided } = cacheAt();
    decided(allowance({ hour: 10 }, null), 1, 1);
    expect(cache.refusal('a', plan, 2)).toBeNull();
  });

  test('one window that refuses is enough, and what it lasts longer than its length is not believed', () => {
    const { cache, decided } = cacheAt();
    decided(plan, 1, 2);
    expect(cache.refusal('a', allowance({ minute: 2, hour: 11 }, null), 1)).toMatchObject({ kind: 'refused' });
    const long: AccountState = { ...UNSEEN, windows: { second: { used: 5, endsAtMs: T0 + 60_000 } } };
    cache.rememberDecision(
      ['a'],
      plan,
      { ...decide([UNSEEN], plan, T0, 1, 0), accounts: [long] },
      1_000,
      cache.generation,
    );
    const seconds = allowance({ second: 5 }, null);
    expect(cache.refusal('a', seconds, 1)).toMatchObject({ kind: 'refused', retryAtMs: T0 + 1_000 });
  });

  test('of a sliding window the slices that have left count no more', () => {
    const sliding = allowance({ minute: 4 }, null, { minute: { slices: 4 } });
    const { cache, pass } = cacheAt();
    const first = accountsAfter([UNSEEN], decide([UNSEEN], sliding, T0 - 30_000, 1, 3), sliding);
    cache.rememberDecision(['a'], sliding, decide(first, sliding, T0, 1, 1), 1_000, cache.generation);
    expect(cache.refusal('a', sliding, 1)).toMatchObject({ kind: 'refused', retryAtMs: T0 + 45_000 });
    pass(45_000);
    expect(cache.refusal('a', sliding, 1)).toBeNull();
    expect(cache.refusal('a', sliding, 3)).toBeNull();
    expect(cache.refusal('a', sliding, 4)).toMatchObject({ kind: 'refused' });
  });

  test('nobody is refused after a reset of memory, nor by an answer that was asked for before it', () => {
    const { cache, decided } = cacheAt();
    const decision = decided(plan, 1, 3);
    const { generation } = cache;
    cache.forget();
    expect(cache.refusal('a', plan, 1)).toBeNull();
    cache.rememberDecision(['a'], plan, decision, 1_000, generation);
    expect(cache.refusal('a', plan, 1)).toBeNull();
    cache.rememberDecision(['a'], plan, decision, 1_000, cache.generation);
    expect(cache.refusal('a', plan, 1)).not.toBeNull();
    // A second reset is not the first one undone, and no state that was decided locally refuses.
    cache.rememberLocal(['a'], decision.accounts, { nowMs: T0, isOwnClock: false });
    expect(cache.refusal('a', plan, 1)).toBeNull();
  });

  test('a refusal that turned a count into slices the store does not keep refuses nobody', () => {
    const sliding = allowance({ minute: 2 }, null, { minute: { slices: 4 } });
    const { cache, decided } = cacheAt();
    const fixed: AccountState = { ...UNSEEN, windows: { minute: { used: 2, endsAtMs: T0 + 500 } } };
    expect(decided(sliding, 1, 1, fixed).admitted).toBe(0);
    expect(cache.refusal('a', sliding, 1)).toBeNull();
    // The same slice after an admission is the store's own.
    expect(decided(sliding, 1, 3).admitted).toBe(2);
    expect(cache.refusal('a', sliding, 1)).not.toBeNull();
  });
});

describe('of limits with bans', () => {
  const plan = allowance({ minute: 1 }, { after: 2, firstMs: 30_000 });

  test('a refusal that would be a strike is left to the store', () => {
    const { cache, decided } = cacheAt();
    decided(plan, 1, 2);
    expect(cache.refusal('a', plan, 1)).toBeNull();
  });

  test('a ban refuses until a millisecond before its end', () => {
    const { cache, pass, decided } = cacheAt();
    decided(plan, 1, 3);
    expect(cache.refusal('a', plan, 1)).toMatchObject({ kind: 'banned', untilMs: T0 + 30_000 });
    // Also where the plan has bans no longer: the ban itself stays.
    expect(cache.refusal('a', { ...plan, bans: null }, 1)).toMatchObject({ kind: 'banned' });
    pass(29_998);
    expect(cache.refusal('a', plan, 1)).toMatchObject({ kind: 'banned' });
    pass(1);
    expect(cache.refusal('a', plan, 1)).toBeNull();
  });

  test('a ban that is longer than the present rule allows is left to the store, which shortens it', () => {
    const { cache, decided } = cacheAt();
    decided(plan, 1, 3);
    expect(cache.refusal('a', allowance({ minute: 1 }, { firstMs: 30_000 }), 1)).not.toBeNull();
    expect(cache.refusal('a', allowance({ minute: 1 }, { firstMs: 29_999 }), 1)).toBeNull();
  });

  test('a cost above the limit is refused for a second, if no cheaper request could lead to a ban', () => {
    const none = allowance({ minute: 0 });
    const { cache, pass, decided } = cacheAt();
    decided(none, 1, 1);
    expect(cache.refusal('a', none, 1)).toMatchObject({ kind: 'refused', retryAtMs: null });
    pass(998);
    expect(cache.refusal('a', none, 1)).not.toBeNull();
    pass(1);
    expect(cache.refusal('a', none, 1)).toBeNull();
  });

  test('a cost above the limit is left to the store if a cheaper request fits, unless there are no bans', () => {
    const { cache, decided } = cacheAt();
    decided(plan, 2, 1);
    expect(cache.refusal('a', plan, 2)).toBeNull();
    expect(cache.refusal('a', { ...plan, bans: null }, 2)).toMatchObject({ retryAtMs: null });
  });
});

describe('what is known', () => {
  test('of nobody, before the store has answered, is the own clock', () => {
    expect(cacheAt().cache.known(['x'])).toEqual({ accounts: [UNSEEN], nowMs: OWN_MS, isOwnClock: true });
  });

  test('of a new consumer is the store’s clock as soon as it is known, in whole milliseconds', () => {
    const { cache, pass, decided } = cacheAt();
    decided(allowance({ minute: 1 }, null), 1, 1);
    pass(10.7);
    expect(cache.known(['x'])).toEqual({ accounts: [UNSEEN], nowMs: T0 + 10, isOwnClock: false });
    expect(cache.known(['a'])).toMatchObject({
      nowMs: T0 + 10,
      isOwnClock: false,
      accounts: [{ windows: { minute: { used: 1 } } }],
    });
  });

  test('of a consumer that was decided about locally is that state, by the clock that it was decided by', () => {
    const { cache, pass } = cacheAt();
    cache.rememberLocal(['a'], [UNSEEN], { nowMs: 500, isOwnClock: true });
    pass(5);
    expect(cache.known(['a'])).toEqual({ accounts: [UNSEEN], nowMs: 505, isOwnClock: true });
  });
});
