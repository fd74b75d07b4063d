import { beforeEach, describe, expect, test } from 'vitest';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import { type DecisionRequest, DURABLE, type Ledger, type LedgerView, topUpIdOf } from '../../src/admit/ledger.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { Decision } from '../../src/engine/types.ts';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { type BanRule, MAX_LIMIT, type WindowForm } from '../../src/model/plan.ts';
import type { WindowName } from '../../src/model/values.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { LATE_MS } from '../support/room.ts';

export interface LedgerUnderTest {
  /** As the gateway has it. */
  readonly ledger: Ledger;
  /** The same store as a command has it, on a connection of its own. */
  readonly view: LedgerView;
  /** The changes by operators of which the gateway was told so far. */
  readonly told: readonly StoreChange[];
}

/** Lifts, ends of bans and snapshots are to be seen within this (contract section 1). */
const SOON = { withinMs: 1_000 };

/** Two strikes make a ban that outlasts the test. */
const strict = allowance({ minute: 2 }, { after: 2 });
/** Two strikes make a ban that ends while the test looks on. */
const brief = allowance({ minute: 2 }, { after: 2, firstMs: 40, longestMs: 100 });

/** What every Ledger promises. `open` gives an empty store. */
export function ledgerContract(open: () => Promise<LedgerUnderTest>): void {
  let store: LedgerUnderTest;
  let ledger: Ledger;
  let view: LedgerView;
  beforeEach(async () => {
    store = await open();
    ({ ledger, view } = store);
  });
  const decideOne = async (consumerId: string, plan: Allowance, n: number, cost = 1): Promise<Decision> => {
    const [decision] = await ledger.decide([{ consumerId, allowance: plan, cost, n }]);
    return decision!;
  };
  const ban = async (consumerId: string, plan: Allowance) => {
    const [state] = (await decideOne(consumerId, plan, 4)).accounts;
    expect(state.ban).toBeDefined();
    return state.ban!;
  };

  decisions(() => ledger, decideOne);
  severalBudgets(() => ledger);

  test('no more are in flight than a customer may have if several of its keys ask in one call', async () => {
    const plan = alsoCharging(allowance({ day: 100 }), [budgetOf({ scope: 'customer', limits: [], inFlight: 3 })]);
    const ask = (key: string, n: number, cost = 1): DecisionRequest => {
      return { consumerId: `cus_1/key_${key}`, allowance: plan, cost, n, inFlight: [0, 0] };
    };
    const decisions = await ledger.decide([ask('a', 2), ask('b', 2), ask('a', 1, 2)]);
    expect(decisions.map((decision) => decision!.admitted)).toEqual([2, 1, 0]);
    expect(decisions.map((decision) => decision!.inFlight)).toEqual([
      [-1, 2],
      [-1, 3],
      [-1, 3],
    ]);
    const [next] = await ledger.decide([{ ...ask('b', 2), inFlight: [1, 2] }]);
    expect(next).toMatchObject({ admitted: 1, inFlight: [-1, 3] });
  });

  test('a consumer that is forgotten begins anew, its ban over, and others keep theirs', async () => {
    await ban('a', strict);
    await ban('b', strict);
    await ledger.forget('a');
    await ledger.forget('unseen');
    expect((await decideOne('a', strict, 0)).accounts[0]).toEqual(UNSEEN);
    expect((await ledger.bans()).map(({ consumerId }) => consumerId)).toEqual(['b']);
    await eventually(async () => expect((await view.bans()).map(({ consumerId }) => consumerId)).toEqual(['b']), SOON);
    await view.forget('b');
    expect(await view.bans()).toEqual([]);
  });

  test('nothing is settled of a consumer that was forgotten, and all of one that has only no account (reliability 425)', async () => {
    const { limits } = allowance({ day: 100 });
    const charged = alsoCharging(allowance({}), [budgetOf({ unit: 'tokens', limits })]);
    const plan: Allowance = { ...charged, history: 'admitted', inUnits: ['tokens'] };
    const settle = async (id: string, delta: number, isRecorded: boolean) => {
      const [of] = limits;
      const windows = [{ of: of!, placeMs: 0 }];
      const hour = Math.floor(Date.now() / 3_600_000);
      await ledger.settle([
        { accountId: `${id}%tokens`, delta, windows, histories: [`${id}%tokens`], hour, isRecorded },
      ]);
      return (await ledger.present(id, plan))!.accounts[1]!.windows.day?.used;
    };
    await ledger.decide(
      ['a', 'b'].map((id) => ({ consumerId: id, allowance: plan, cost: 1, amounts: { tokens: 0 }, n: 1 })),
    );
    expect(await settle('b', 7, true)).toBe(7);
    expect(await settle('b', 7, true)).toBe(14);
    await ledger.forget('a', 'a%tokens');
    expect(await settle('a', 7, true)).toBeUndefined();
    // A gateway that decided alone: the store may not have its requests yet.
    expect(await settle('a', 7, false)).toBe(7);
  });

  describe('a ban that is carried to another account', () => {
    test('is in force there with its number, by the gateway and by a command, and stays where it was', async () => {
      const imposed = await ban('key_a', strict);
      await ledger.carryBan('key_a', 'cus_x/key_a');
      expect((await decideOne('cus_x/key_a', strict, 1)).accounts[0].ban).toEqual(imposed);
      expect((await decideOne('key_a', strict, 1)).accounts[0].ban).toEqual(imposed);
      await view.carryBan('cus_x/key_a', 'cus_y/key_a');
      await eventually(async () => {
        expect((await ledger.present('cus_y/key_a', strict))?.accounts[0].ban).toEqual(imposed);
      }, SOON);
      expect((await view.present('cus_y/key_a', strict))?.accounts[0].ban).toEqual(imposed);
      expect(store.told).toContainEqual({ kind: 'account', keyId: 'cus_x/key_a' });
      // Nothing else was carried: once it is lifted, the account is as new.
      await ledger.lift('cus_x/key_a');
      expect((await decideOne('cus_x/key_a', strict, 1)).admitted).toBe(1);
    });

    test('takes the place of no later one, and none is made of no ban or one that has ended', async () => {
      await ban('brief', brief);
      const later = await ban('strict', strict);
      await ledger.carryBan('brief', 'strict');
      expect((await ledger.present('strict', strict))?.accounts[0].ban).toEqual(later);
      await ledger.carryBan('unseen', 'new');
      await eventually(async () => expect(await ledger.bans()).toHaveLength(1));
      await ledger.carryBan('brief', 'new');
      await view.carryBan('brief', 'new');
      expect((await ledger.present('new', strict))?.accounts[0]).toEqual(UNSEEN);
    });
  });

  describe('a ban that a group of routes led to', () => {
    const grouped = (bans: Partial<BanRule>): Allowance => {
      const search = budgetOf({ group: 'search', limits: [windowLimit('minute', 1)] });
      return alsoCharging(allowance({ minute: 100 }, { after: 2, ...bans }), [search]);
    };

    test('is named by it in the list of bans, and where it is carried to', async () => {
      const imposed = await ban('a', grouped({}));
      expect(imposed).toMatchObject({ number: 1, window: 'minute', budget: 'search' });
      await ledger.carryBan('a', 'b');
      const all = ['a', 'b'].map((consumerId) => ({ consumerId, ban: imposed }));
      for (const one of [ledger, view]) {
        await eventually(async () => {
          expect((await one.bans()).toSorted((x, y) => (x.consumerId < y.consumerId ? -1 : 1))).toEqual(all);
        }, SOON);
      }
      expect((await decideOne('b', grouped({}), 1)).accounts[0].ban).toEqual(imposed);
    });

    test('gives its name to no later ban (reliability 330)', async () => {
      const short = { firstMs: 1, longestMs: 1, forgetMs: 1 };
      await ban('a', grouped(short));
      await eventually(async () => expect((await decideOne('a', grouped(short), 0)).accounts[0].ban).toBeUndefined());
      // The numbers of bans begin anew, and this one is by the key's own limit, under a plan without the group.
      const next = await ban('a', allowance({ minute: 2 }, { after: 2, forgetMs: 1 }));
      expect(next).toMatchObject({ number: 1, window: 'minute' });
      expect(next).not.toHaveProperty('budget');
      expect((await decideOne('a', grouped({}), 0)).accounts[0].ban).toEqual(next);
    });
  });

  describe('a lift', () => {
    test('of a consumer that is unknown or not banned does nothing, and nobody is told', async () => {
      await decideOne('struck', strict, 3);
      expect(await ledger.lift('struck')).toBeNull();
      expect(await ledger.lift('unseen')).toBeNull();
      expect((await decideOne('struck', strict, 0)).accounts[0].strikes?.count).toBe(1);
      expect((await decideOne('unseen', strict, 0)).accounts[0]).toEqual(UNSEEN);
      expect(store.told).toEqual([]);
    });

    test('of a ban that has ended does nothing: the ladder stands', async () => {
      await ban('a', brief);
      await eventually(async () => (await ledger.bans()).length === 0, SOON);
      expect(await ledger.lift('a')).toBeNull();
      expect((await ban('a', brief)).number).toBe(2);
    });

    test('ends the ban at once, clears the strikes, keeps what was counted, and is told', async () => {
      await ban('a', strict);
      expect(await ledger.lift('a')).toEqual(DURABLE);
      expect(store.told).toEqual([{ kind: 'account', keyId: 'a' }]);
      const [state] = (await decideOne('a', strict, 0)).accounts;
      expect(state).toMatchObject({ windows: { minute: { used: 2 } } });
      expect([state.ban, state.strikes]).toEqual([undefined, undefined]);
      expect(await ledger.lift('a')).toBeNull();
      expect(await decideOne('a', strict, 1)).toMatchObject({ admitted: 0, bannedFrom: 1 });
      expect(await decideOne('a', allowance({ minute: 3 }), 1)).toMatchObject({ admitted: 1 });
    });

    test('takes back the rung, the first one and a later one', async () => {
      await ban('a', strict);
      await ledger.lift('a');
      expect((await ban('a', brief)).number).toBe(1);
      await eventually(async () => (await ledger.bans()).length === 0, SOON);
      expect((await ban('a', strict)).number).toBe(2);
      await ledger.lift('a');
      expect((await ban('a', strict)).number).toBe(2);
    });

    test('by a command is obeyed within a second, and stays', async () => {
      await ban('a', strict);
      await eventually(async () => (await view.bans()).length === 1, SOON);
      expect(await view.lift('a')).toEqual(DURABLE);
      await eventually(async () => (await decideOne('a', strict, 0)).accounts[0].ban === undefined, SOON);
      await decideOne('a', strict, 1);
      await eventually(async () => (await view.present('a', strict))?.accounts[0].strikes?.count === 1, SOON);
      expect(await view.bans()).toEqual([]);
      expect((await decideOne('a', strict, 0)).accounts[0].ban).toBeUndefined();
    });
  });

  usageChanges(() => store, decideOne);

  describe('the list of bans', () => {
    test('has those in force, whole, and no other', async () => {
      const one = await ban('one', strict);
      await ban('ended', brief);
      await ban('lifted', strict);
      await ledger.lift('lifted');
      await decideOne('good', strict, 1);
      await decideOne('struck', strict, 3);
      const expected = [{ consumerId: 'one', ban: one }];
      await eventually(async () => expect(await ledger.bans()).toEqual(expected), SOON);
      await eventually(async () => expect(await view.bans()).toEqual(expected), SOON);
      expect(one).toMatchObject({ number: 1, window: 'minute' });
    });

    test('has every ban among many accounts, once', async () => {
      const banned = Array.from({ length: 1_500 }, (_, i) => `banned${i}`);
      const ask = (consumerId: string, n: number): DecisionRequest => ({ consumerId, allowance: strict, cost: 1, n });
      await ledger.decide([...banned.map((id) => ask(id, 4)), ...banned.map((id) => ask(`good${id}`, 1))]);
      const ids = (await ledger.bans()).map(({ consumerId }) => consumerId);
      expect(ids.toSorted()).toEqual(banned.toSorted());
    });
  });

  test('the present state is told to a command within a second, as the gateway sees it', async () => {
    await decideOne('a', strict, 3);
    await eventually(async () => {
      expect((await view.present('a', strict))?.accounts[0]).toEqual((await ledger.present('a', strict))?.accounts[0]);
    }, SOON);
    expect((await view.present('a', strict))?.accounts[0]).toMatchObject({ strikes: { count: 1 } });
    expect((await view.present('unseen', strict))?.accounts[0]).toEqual(UNSEEN);
  });
}

function decisions(
  ledger: () => Ledger,
  decideOne: (consumerId: string, plan: Allowance, n: number, cost?: number) => Promise<Decision>,
): void {
  describe('a call', () => {
    test('decides each ask by itself and answers in order', async () => {
      const asks = [3, 0, 1, 5].map((n, i) => ({ consumerId: `c${i}`, allowance: strict, cost: 1, n }));
      const decisions = await ledger().decide(asks);
      expect(decisions.map((decision) => decision?.admitted)).toEqual([2, 0, 1, 2]);
      expect(decisions.map((decision) => decision?.bannedFrom)).toEqual([3, 0, 1, 3]);
      expect(decisions.map((decision) => decision?.n)).toEqual([3, 0, 1, 5]);
    });

    test('with one consumer twice, at different costs, decides the second after the first', async () => {
      const plan = allowance({ minute: 10, day: 12 });
      const ask = (cost: number, n: number) => ({ consumerId: 'a', allowance: plan, cost, n });
      const decisions = await ledger().decide([ask(4, 2), ask(1, 5), ask(2, 1)]);
      expect(decisions.map((decision) => decision?.admitted)).toEqual([2, 2, 0]);
      expect(decisions[2]?.accounts[0].windows).toMatchObject({ minute: { used: 10 }, day: { used: 10 } });
      expect(decisions[2]?.accounts[0].strikes?.count).toBe(4);
    });

    test('with no asks has no outcomes', async () => {
      expect(await ledger().decide([])).toEqual([]);
    });

    test('that asks for none reads and changes nothing', async () => {
      const reading = await decideOne('a', strict, 0);
      expect(reading).toMatchObject({ admitted: 0, bannedFrom: 0, accounts: [UNSEEN] });
      await decideOne('a', strict, 3);
      const before = await decideOne('a', strict, 0);
      expect((await decideOne('a', strict, 0, 1_000)).accounts[0]).toEqual(before.accounts[0]);
      expect((await ledger().present('a', strict))?.accounts[0]).toEqual(before.accounts[0]);
      expect(before.accounts[0]).toMatchObject({ strikes: { count: 1 }, windows: { minute: { used: 2 } } });
    });

    test('counts in every window or in none (reliability 129)', async () => {
      const plan = allowance({ second: 100, minute: 3, day: 100 });
      const { admitted, accounts } = await decideOne('a', plan, 8);
      expect(admitted).toBe(3);
      expect(Object.values(accounts[0].windows).map(({ used }) => used)).toEqual([3, 3, 3]);
    });

    test('keeps what a window has counted while a plan without it is in force', async () => {
      await decideOne('a', allowance({ minute: 2, day: 5 }), 2);
      await decideOne('a', allowance({ hour: 5 }), 1);
      expect((await decideOne('a', allowance({ day: 5 }), 0)).accounts[0].windows.day?.used).toBe(2);
    });
  });

  test('of many calls at once exactly the limit is admitted (reliability 128)', async () => {
    const plan = allowance({ minute: 25 }, null);
    const calls = Array.from({ length: 60 }, () => decideOne('a', plan, 1));
    const admitted = (await Promise.all(calls)).map((decision) => decision.admitted);
    expect(admitted.reduce((sum, one) => sum + one)).toBe(25);
  });

  test('the ban that many calls at once make is one, at the strike that the rule says (reliability 134, 135)', async () => {
    const plan = allowance({ minute: 3 }, { after: 7 });
    const decisions = await Promise.all(Array.from({ length: 30 }, () => decideOne('a', plan, 1)));
    const banned = decisions.filter(({ bannedFrom }) => bannedFrom === 0);
    // 3 admitted, 6 refused, and from the 7th refusal on the ban.
    expect(banned).toHaveLength(30 - 3 - 6);
    expect(new Set(banned.map(({ accounts: [state] }) => state.ban?.number))).toEqual(new Set([1]));
    expect(new Set(banned.map(({ accounts: [state] }) => state.ban?.untilMs)).size).toBe(1);
  });
}

const utc = (unit: 'day' | 'week'): WindowForm => ({ calendar: { unit, zone: 'UTC', anchor: 1 } });

/** One plan for each kind of window: its window, and when a window ends that opened at `ms`. */
const KINDS: readonly [string, WindowName, Allowance, (ms: number) => number][] = [
  ['fixed', 'day', allowance({ day: 5 }, { after: 9 }), (ms) => ms + 86_400_000],
  ['sliding', 'day', allowance({ day: 5 }, { after: 9 }, { day: { slices: 4 } }), (ms) => ms + 86_400_000],
  [
    'calendar',
    'week',
    allowance({ week: 5 }, { after: 9 }, { week: utc('week') }),
    (ms) => Math.floor((ms - 345_600_000) / 604_800_000 + 1) * 604_800_000 + 345_600_000,
  ],
];

/** Top-ups and resets: what operators add to windows and take from what was counted. */
function usageChanges(
  store: () => LedgerUnderTest,
  decideOne: (consumerId: string, plan: Allowance, n: number, cost?: number) => Promise<Decision>,
): void {
  describe.each(KINDS)('of a %s window', (kind, window, plan, endOf) => {
    const of = plan.limits[0]!;

    test('a top-up admits exactly so many more, is told to every gateway, and a second one adds to it', async () => {
      const { ledger, told } = store();
      const { nowMs } = await decideOne('a', plan, 7);
      const made = await ledger.topUp('a', of, 2, 'one');
      expect(made).toMatchObject({ kind: 'made', durability: DURABLE, value: { amount: 2 } });
      expect(told).toEqual([{ kind: 'account', keyId: 'a' }]);
      const decision = await decideOne('a', plan, 4);
      const [state] = decision.accounts;
      expect([decision.admitted, state.windows[window]?.used]).toEqual([2, 7]);
      const { untilMs } = state.topUps![window]!;
      if (kind === 'sliding') expect(Math.abs(untilMs - endOf(nowMs))).toBeLessThan(LATE_MS);
      else expect(untilMs).toBe(state.windows[window]!.endsAtMs);
      await ledger.topUp('a', of, 3, 'two');
      const after = await decideOne('a', plan, 9);
      expect([after.admitted, after.accounts[0].topUps?.[window]?.amount]).toEqual([3, 5]);
      expect(after.accounts[0].topUps?.[window]?.untilMs).toBeGreaterThanOrEqual(untilMs);
    });

    test('a top-up of a window that is not open has an end', async () => {
      const { ledger } = store();
      await ledger.topUp('a', of, 2, 'one');
      const decision = await decideOne('a', plan, 0);
      const [state] = decision.accounts;
      const { untilMs } = state.topUps![window]!;
      expect(Math.abs(untilMs - endOf(decision.nowMs))).toBeLessThan(LATE_MS);
      if (kind === 'sliding') expect(state.windows).toEqual({});
      else expect(state.windows).toEqual({ [window]: { used: 0, endsAtMs: untilMs } });
      expect((await decideOne('a', plan, 9)).admitted).toBe(7);
      expect((await decideOne('another', plan, 9)).admitted).toBe(5);
    });

    test('a reset gives the whole limit again, says what it took away, and leaves top-ups', async () => {
      const { ledger, told } = store();
      await ledger.topUp('a', of, 2, 'one');
      const before = await decideOne('a', plan, 9);
      expect(before).toMatchObject({ admitted: 7, accounts: [{ strikes: { count: 2 } }] });
      const made = await ledger.resetUsage('a', [window], 'two');
      expect(made).toEqual({ kind: 'made', durability: DURABLE, value: { used: { [window]: 7 }, strikes: 2 } });
      expect(told).toHaveLength(2);
      const [state] = (await decideOne('a', plan, 0)).accounts;
      expect([state.windows[window]?.used ?? 0, state.strikes?.count ?? 0]).toEqual([0, 0]);
      expect(state.topUps?.[window]?.amount).toBe(2);
      expect((await decideOne('a', plan, 9)).admitted).toBe(7);
    });

    test('both by a command are obeyed within a second, once each, and shown at once', async () => {
      const { view } = store();
      await decideOne('a', plan, 6);
      await eventually(async () => (await view.present('a', plan))?.accounts[0].windows[window]?.used === 5, SOON);
      await view.topUp('a', of, 2, 'one');
      expect((await view.present('a', plan))?.accounts[0].topUps?.[window]?.amount).toBe(2);
      await eventually(async () => (await decideOne('a', plan, 0)).accounts[0].topUps !== undefined, SOON);
      expect((await decideOne('a', plan, 3)).admitted).toBe(2);
      await eventually(async () => (await view.present('a', plan))?.accounts[0].windows[window]?.used === 7, SOON);
      expect((await view.present('a', plan))?.accounts[0].topUps?.[window]?.amount).toBe(2);
      expect(await view.resetUsage('a', [window], 'two')).toMatchObject({ value: { used: { [window]: 7 } } });
      expect((await view.present('a', plan))?.accounts[0].windows[window]?.used ?? 0).toBe(0);
      const isReset = async () => ((await decideOne('a', plan, 0)).accounts[0].windows[window]?.used ?? 0) === 0;
      await eventually(isReset, SOON);
      expect((await decideOne('a', plan, 8)).admitted).toBe(7);
    });
  });

  test('a top-up with an end of its own counts until then, also in the windows that begin meanwhile', async () => {
    const { ledger } = store();
    const plan = allowance({ second: 2 }, null);
    const { nowMs } = await decideOne('a', plan, 0);
    const untilMs = nowMs + 2_500;
    await ledger.topUp('a', plan.limits[0]!, 3, 'one', { untilMs, reason: 'two words, 100 %' });
    expect((await decideOne('a', plan, 9)).admitted).toBe(5);
    await eventually(async () => expect((await decideOne('a', plan, 0)).accounts[0].windows).toEqual({}), {
      withinMs: 3_000,
    });
    const second = await decideOne('a', plan, 9);
    if (second.nowMs < untilMs) expect(second.admitted).toBe(5);
    await eventually(async () => (await decideOne('a', plan, 0)).accounts[0].topUps === undefined, { withinMs: 5_000 });
  });

  test('a top-up that joins one with an end of its own keeps that end too, also when the first is undone', async () => {
    const { ledger } = store();
    const plan = allowance({ day: 5 }, null);
    const of = plan.limits[0]!;
    const [state] = (await decideOne('a', plan, 1)).accounts;
    const untilMs = state.windows.day!.endsAtMs;
    await ledger.topUp('a', of, 4, 'one', { untilMs });
    await ledger.topUp('a', of, 3, 'two');
    await ledger.undoTopUp('a', 'day', topUpIdOf('one'), 'three');
    expect(await ledger.topUpNotes('a')).toMatchObject([{ id: topUpIdOf('two'), untilMs, hasOwnEnd: true }]);
  });

  test('a top-up is noted with its reason, and undone by its id or with the others, at once for every gateway', async () => {
    const { ledger, view, told } = store();
    const plan = allowance({ day: 5 }, null);
    const of = plan.limits[0]!;
    const { nowMs } = await decideOne('a', plan, 6);
    const terms = { untilMs: nowMs + 900_000, reason: 'TICKET 12, 100 %' };
    await ledger.topUp('a', of, 4, 'one', terms);
    await ledger.topUp('a', of, 3, 'two', { untilMs: terms.untilMs });
    await expect(ledger.topUp('a', of, 3, 'three')).rejects.toMatchObject({ code: 'conflict' });
    await expect(view.topUp('a', of, 3, 'three', { untilMs: nowMs })).rejects.toMatchObject({ code: 'refused' });
    const note = { window: 'day', untilMs: terms.untilMs, hasOwnEnd: true, atMs: expect.any(Number) };
    const [first, second] = [topUpIdOf('one'), topUpIdOf('two')];
    expect(await ledger.topUpNotes('a')).toEqual([
      { ...note, id: first, amount: 4, reason: terms.reason },
      { ...note, id: second, amount: 3, reason: '' },
    ]);
    expect(await view.topUpNotes('a')).toEqual(await ledger.topUpNotes('a'));
    expect((await decideOne('a', plan, 2)).admitted).toBe(2);
    const heard = told.length;
    expect(await ledger.undoTopUp('a', 'day', first, 'undo one')).toMatchObject({
      ...{ kind: 'made', value: { amount: 4, left: 3, untilMs: terms.untilMs } },
    });
    expect(told.slice(heard)).toEqual([{ kind: 'account', keyId: 'a' }]);
    expect(await ledger.undoTopUp('a', 'day', first, 'undo one')).toMatchObject({ kind: 'repeated' });
    await expect(ledger.undoTopUp('a', 'day', first, 'again')).rejects.toMatchObject({ code: 'not_found' });
    const decision = await decideOne('a', plan, 9);
    const [state] = decision.accounts;
    expect([decision.admitted, state.windows.day?.used, state.topUps?.day?.amount]).toEqual([1, 8, 3]);
    expect(await view.undoTopUp('a', 'day', null, 'undo all')).toMatchObject({ value: { amount: 3, left: 0 } });
    expect(await view.topUpNotes('a')).toEqual([]);
    await eventually(async () => (await decideOne('a', plan, 0)).accounts[0].topUps === undefined, SOON);
    const after = await decideOne('a', plan, 1);
    expect([after.admitted, after.accounts[0].windows.day?.used]).toEqual([0, 8]);
    await expect(view.undoTopUp('a', 'day', null, 'undo more')).rejects.toMatchObject({ code: 'not_found' });
  });

  test('the same id changes once, also from another process, and another change under it is refused', async () => {
    const { ledger, view } = store();
    const plan = allowance({ day: 5 }, null);
    const of = plan.limits[0]!;
    expect((await ledger.topUp('a', of, 2, 'id')).kind).toBe('made');
    expect(await ledger.topUp('a', of, 2, 'id')).toEqual({ kind: 'repeated', durability: DURABLE });
    expect(await view.topUp('a', of, 2, 'id')).toEqual({ kind: 'repeated', durability: DURABLE });
    expect(await ledger.topUp('a', of, 3, 'id')).toEqual({ kind: 'reused' });
    expect(await view.resetUsage('a', ['day'], 'id')).toEqual({ kind: 'reused' });
    expect((await decideOne('a', plan, 9)).admitted).toBe(7);
    expect((await ledger.resetUsage('a', ['day'], 'reset')).kind).toBe('made');
    expect((await decideOne('a', plan, 9)).admitted).toBe(7);
    expect(await view.resetUsage('a', ['day'], 'reset')).toEqual({ kind: 'repeated', durability: DURABLE });
    expect(await ledger.resetUsage('a', ['day'], 'reset')).toEqual({ kind: 'repeated', durability: DURABLE });
    expect((await decideOne('a', plan, 9)).admitted).toBe(0);
    expect((await ledger.topUp('b', of, 2, 'id')).kind).toBe('made');
  });

  test('a top-up ends with its window, and the next window has the limit of the plan', async () => {
    const { ledger } = store();
    const plan = allowance({ second: 2 }, null);
    await ledger.topUp('a', plan.limits[0]!, 3, 'one');
    expect((await decideOne('a', plan, 9)).admitted).toBe(5);
    await eventually(async () => (await decideOne('a', plan, 0)).accounts[0].topUps === undefined, { withinMs: 3_000 });
    expect((await decideOne('a', plan, 9)).admitted).toBe(2);
    // The id is remembered longer than the window.
    expect((await ledger.topUp('a', plan.limits[0]!, 3, 'one')).kind).toBe('repeated');
  });

  test('a reset leaves the windows that it does not name, and a ban', async () => {
    const { ledger } = store();
    const plan = allowance({ minute: 2, day: 9 }, { after: 2 });
    const [before] = (await decideOne('a', plan, 4)).accounts;
    expect(before.ban).toBeDefined();
    expect(await ledger.resetUsage('a', ['minute', 'hour'], 'one')).toMatchObject({
      value: { used: { minute: 2, hour: 0 }, strikes: 0 },
    });
    const [state] = (await decideOne('a', plan, 0)).accounts;
    expect(state).toMatchObject({ ban: before.ban, windows: { minute: { used: 0 }, day: { used: 2 } } });
    expect(await ledger.resetUsage('unseen', ['minute'], 'one')).toMatchObject({
      value: { used: { minute: 0 }, strikes: 0 },
    });
  });

  test('a top-up above the largest limit is refused, and nothing is added', async () => {
    const { ledger, view } = store();
    const plan = allowance({ day: 5 });
    const of = plan.limits[0]!;
    await ledger.topUp('a', of, MAX_LIMIT - 7, 'one');
    for (const one of [ledger, view]) {
      await expect(one.topUp('a', of, 3, 'two')).rejects.toMatchObject({
        code: 'refused',
        message: expect.stringMatching(/Add at most 2\.$/),
      });
    }
    expect((await ledger.topUp('a', of, 2, 'two')).kind).toBe('made');
    expect((await decideOne('a', plan, 0)).accounts[0].topUps?.day?.amount).toBe(MAX_LIMIT - 5);
  });
}

/** A customer with 5 a minute for all keys, 3 for each key and 2 for a group, and at most 4 requests in flight. */
const shared = alsoCharging(allowance({ minute: 3 }, null), [
  budgetOf({ scope: 'customer', limits: [windowLimit('minute', 5)], inFlight: 4 }),
  budgetOf({ scope: 'customer', group: 'search', limits: [windowLimit('minute', 2)] }),
]);

function severalBudgets(ledgerOf: () => Ledger): void {
  const ask = (key: string, n: number, held = 0): DecisionRequest => {
    return { consumerId: `cus_a/${key}`, allowance: shared, cost: 1, n, inFlight: [0, held, 0] };
  };
  const plain = alsoCharging(shared, shared.budgets.slice(1, 2));
  const usedIn = ({ accounts }: Decision) => accounts.map(({ windows }) => windows.minute?.used ?? 0);

  describe('a decision that charges several budgets', () => {
    test('counts in each of them or in none, and what keys of one customer share is one count', async () => {
      const ledger = ledgerOf();
      const [first] = await ledger.decide([{ ...ask('key_1', 2), allowance: plain, inFlight: [0, 0] }]);
      expect(usedIn(first!)).toEqual([2, 2]);
      const [second] = await ledger.decide([ask('key_2', 4)]);
      // The group admits two; nothing else is spent by the others.
      expect(second).toMatchObject({ admitted: 2 });
      expect(usedIn(second!)).toEqual([2, 4, 2]);
      const [third] = await ledger.decide([{ ...ask('key_3', 2), allowance: plain, inFlight: [0, 2] }]);
      expect(third).toMatchObject({ admitted: 1 });
      expect(usedIn(third!)).toEqual([1, 5]);
    });

    test('bounds what is in flight, also over several requests of one call, and a report frees it', async () => {
      const ledger = ledgerOf();
      const decisions = await ledger.decide([ask('key_1', 1), ask('key_1', 1), ask('key_2', 1, 2)]);
      expect(decisions.map((decision) => decision?.admitted)).toEqual([1, 1, 0]);
      expect(decisions.map((decision) => decision?.inFlight)).toEqual([
        [-1, 1, -1],
        [-1, 2, -1],
        [-1, 4, -1],
      ]);
      const [crowded] = await ledger.decide([{ ...ask('key_2', 1, 4), allowance: plain, inFlight: [0, 4] }]);
      expect(crowded).toMatchObject({ admitted: 0, isCrowded: true, bannedFrom: 1, inFlight: [-1, 4] });
      expect(usedIn(crowded!)).toEqual([0, 2]);
      await ledger.reportInFlight([{ accountId: 'cus_a', count: 1 }]);
      expect((await ledger.present('cus_a/key_1', shared))?.inFlight).toEqual([-1, 1, -1]);
      await ledger.reportInFlight([{ accountId: 'cus_a', count: 0 }]);
      expect((await ledger.present('cus_a/key_1', shared))?.inFlight).toEqual([-1, 0, -1]);
    });
  });
}
