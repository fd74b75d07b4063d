import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resetUsage, toppedUp, undoTopUp } from '../../src/admit/account-changes.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { topUpIdOf } from '../../src/admit/ledger.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { histories, historiesWithChanges } from '../support/histories.ts';
import { testRedis } from '../support/redis.ts';
import { ROOM } from '../support/room.ts';
import { SEED, tries } from '../support/sample.ts';
import { setClock, T0, twinLedger } from './twin-ledger.ts';

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
});

afterAll(() => redis.disconnect());

test(
  'one call decides what is asked of many consumers, under several plans, as so many calls would (reliability 112)',
  async () => {
    const ledger = twinLedger(redis);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(histories, fc.integer({ min: 1, max: 4 }), async (steps, consumers) => {
        run++;
        setClock(redis, T0);
        await redis.set(keyspace.account(`foreign${run}`), 'not a hash');
        const names = ['foreign', ...Array.from({ length: consumers }, (_, i) => `one${i}`)];
        const asks = steps.map(({ plan, cost, n }, i) => {
          return { consumerId: `${names[i % names.length]}${run}`, allowance: plan, cost, n };
        });
        const states = new Map<string, AccountState>();
        const expected = asks.map(({ consumerId, allowance, cost, n }) => {
          if (consumerId.startsWith('foreign')) return null;
          const state = states.get(consumerId) ?? UNSEEN;
          const decision = decide([state], allowance, T0, cost, n);
          if (n > 0) states.set(consumerId, afterwards(state, allowance, decision));
          return decision;
        });
        expect(await ledger.decide(asks)).toEqual(expected);
      }),
      { seed: SEED, numRuns: tries(100, 2_000) },
    );
  },
  120_000 * ROOM,
);

test(
  'top-ups with ends and reasons, their undoing, and resets between decisions do the same in both',
  async () => {
    const ledger = twinLedger(redis);
    const seen = new Set<string>();
    let run = 0;
    await fc.assert(
      fc.asyncProperty(historiesWithChanges, async (steps) => {
        const consumerId = `changed${run++}`;
        let nowMs = T0;
        let state: AccountState = UNSEEN;
        for (const [i, { afterMs, plan, cost, n, change }] of steps.entries()) {
          nowMs += afterMs;
          setClock(redis, nowMs);
          if (change?.kind === 'top-up') {
            const { amount, gridMs } = change;
            const reason = `step ${i}, 100 %`;
            const terms = gridMs === null ? { reason } : { reason, untilMs: Math.ceil((nowMs + 1) / gridMs) * gridMs };
            for (const of of plan.limits.slice(0, 2)) {
              const id = `${i} ${of.window}`;
              const expected = outcomeOf(() => toppedUp(state, of, amount, nowMs, { ...terms, id: topUpIdOf(id) }));
              const told = await ledger.topUp(consumerId, of, amount, id, terms).catch(messageOf);
              if (typeof expected !== 'string') state = expected.state;
              seen.add(typeof expected === 'string' ? 'refused' : 'made');
              if (typeof expected === 'string') expect(told).toBe(expected);
              else expect(told).toMatchObject({ kind: 'made', value: expected.topUp });
            }
          } else if (change?.kind === 'undo-top-up') {
            for (const { window } of plan.limits.slice(0, 2)) {
              const topUpId = change.at === null ? null : (state.topUpNotes?.[change.at]?.id ?? 'top_none');
              const expected = outcomeOf(() => undoTopUp(state, window, topUpId, nowMs));
              const told = await ledger.undoTopUp(consumerId, window, topUpId, `${i} ${window}`).catch(messageOf);
              if (typeof expected !== 'string') state = expected.state;
              seen.add(typeof expected === 'string' ? 'not there' : topUpId === null ? 'all undone' : 'one undone');
              if (typeof expected === 'string') expect(told).toBe(expected);
              else expect(told).toMatchObject({ kind: 'made', value: expected.undone });
            }
          } else if (change?.kind === 'reset') {
            const { reset, state: next } = resetUsage(state, change.windows, nowMs);
            state = next;
            const told = await ledger.resetUsage(consumerId, change.windows, String(i));
            expect(told).toMatchObject({ kind: 'made', value: reset });
          }
          const [told] = await ledger.decide([{ consumerId, allowance: plan, cost, n }]);
          const expected = decide([state], plan, nowMs, cost, n);
          expect(told).toEqual(expected);
          if (n > 0) state = afterwards(state, plan, expected);
          const inForce = ({ untilMs }: { readonly untilMs: number }) => nowMs < untilMs;
          expect((await ledger.topUpNotes(consumerId)).filter(inForce)).toEqual(
            (state.topUpNotes ?? []).filter(inForce),
          );
        }
        if ((await redis.exists(keyspace.account(consumerId))) === 1) {
          expect(await redis.pttl(keyspace.account(consumerId))).toBeGreaterThan(0);
        }
      }),
      { seed: SEED, numRuns: tries(120, 2_000) },
    );
    expect([...seen].sort()).toEqual(['all undone', 'made', 'not there', 'one undone', 'refused']);
  },
  120_000 * ROOM,
);

/** What a change gives, or the message with which it is refused. */
function outcomeOf<T>(change: () => T): T | string {
  try {
    return change();
  } catch (error) {
    return messageOf(error as Error);
  }
}

function messageOf({ message }: Error): string {
  return message;
}

/** Redis keeps top-ups that have ended, and never reads them. */
function afterwards(before: AccountState, plan: Allowance, decision: Decision): AccountState {
  const { topUps, topUpNotes } = before;
  const kept = { ...(topUps === undefined ? {} : { topUps }), ...(topUpNotes === undefined ? {} : { topUpNotes }) };
  return { ...accountsAfter([before], decision, plan)[0], ...kept };
}
