import { describe, expect, test } from 'vitest';
import { AccountCache } from '../../src/admit/account-cache.ts';
import { decideLocally, type OnFailure } from '../../src/admit/decide-locally.ts';
import { InFlightCounts } from '../../src/admit/in-flight.ts';
import type { UsageBacklog } from '../../src/admit/usage-backlog.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const plan = allowance({ minute: 2 }, { after: 9 });

/** Decides about three requests of `a`. */
function decided(onFailure: OnFailure, { state = UNSEEN, n = 3, isUncounted = true, hasBacklog = true } = {}) {
  const counts: string[] = [];
  const deferred: number[] = [];
  const accounts = new AccountCache({ remembered: 9, monotonicMs: () => 0, wallMs: () => T0 });
  accounts.rememberLocal(['a'], [state], { nowMs: T0, isOwnClock: false });
  const backlog = { defer: (_: unknown, { admitted }: { admitted: number }) => deferred.push(admitted) };
  const admissionOf = decideLocally(
    { consumerId: 'a', allowance: plan, cost: 1, n, isUncounted },
    {
      onFailure,
      accounts,
      inFlight: new InFlightCounts({
        reports: { reportInFlight: async () => {} },
        monotonicMs: () => 0,
        isBeingDecided: () => false,
      }),
      backlog: hasBacklog ? (backlog as unknown as UsageBacklog) : null,
      onLocalDecision: (count, requests) => counts.push(`${count} ${requests}`),
    },
  );
  const kinds = Array.from({ length: n }, (_, i) => {
    const result = admissionOf(i);
    return result.kind === 'decided' ? result.verdict.kind : result.kind;
  });
  return { kinds, counts, deferred, used: accounts.known(['a']).accounts[0]!.windows.minute?.used ?? 0 };
}

const bannedUntil = (untilMs: number): AccountState => ({ ...UNSEEN, ban: { number: 1, untilMs, window: 'minute' } });
const ADMITTED = ['admitted', 'admitted', 'admitted'];

describe('without the store', () => {
  test('`local` counts, and what it admits is owed', () => {
    expect(decided('local')).toEqual({
      kinds: ['admitted', 'admitted', 'refused'],
      counts: ['owed 2', 'uncounted 1'],
      deferred: [2],
      used: 2,
    });
    expect(decided('local', { n: 2 }).counts).toEqual(['owed 2']);
    const full = { ...UNSEEN, windows: { minute: { used: 2, endsAtMs: T0 + 60_000 } } };
    expect(decided('local', { state: full }).counts).toEqual(['uncounted 3']);
  });

  test('what may have been counted by the store, or has no store to go to, is not owed', () => {
    expect(decided('local', { isUncounted: false })).toMatchObject({ counts: ['sent 2', 'uncounted 1'], deferred: [] });
    expect(decided('local', { hasBacklog: false })).toMatchObject({ counts: ['sent 2', 'uncounted 1'], deferred: [] });
  });

  test('`open` admits everybody and counts nothing, but for a ban in force', () => {
    expect(decided('open')).toEqual({ kinds: ADMITTED, counts: ['uncounted 3'], deferred: [], used: 0 });
    expect(decided('open', { state: bannedUntil(T0) }).kinds).toEqual(ADMITTED);
    expect(decided('open', { state: bannedUntil(T0 + 1) })).toMatchObject({
      kinds: ['banned', 'banned', 'banned'],
      counts: ['uncounted 3'],
    });
  });

  test('`closed` admits nobody and counts nothing', () => {
    expect(decided('closed')).toEqual({
      kinds: ['unavailable', 'unavailable', 'unavailable'],
      counts: [],
      deferred: [],
      used: 0,
    });
  });
});
