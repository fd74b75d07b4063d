import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { placeOf, WINDOW_MS } from '../../../src/engine/counting.ts';
import type { BanRule } from '../../../src/model/plan.ts';
import { WINDOWS } from '../../../src/model/values.ts';
import { DECIDE_LUA, Numbers } from '../../../src/stores/redis/decision-call.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { IN_FLIGHT } from '../../../src/stores/redis/ledger.ts';
import type { StoredRule } from '../../../src/stores/redis/shell/decision-script.ts';
import type { StoredUsage } from '../../../src/stores/redis/shell/reconcile-script.ts';
import type { StoredBudget } from '../../../src/stores/redis/shell/stored-account.ts';
import { windowFields } from '../../../src/stores/redis/shell/window-fields.ts';
import { RECONCILE } from '../../../src/stores/redis/usage-reconciler.ts';
import { type ExecutedDecision, RedisModel } from '../../../tools/chaos/simulated/redis-model.ts';
import { accountIn, additionIn, decisionParts } from '../../../tools/chaos/simulated/script-arguments.ts';
import { Chance } from '../../../tools/kit/chance.ts';
import { eventually } from '../../support/conditions.ts';
import { testRedis } from '../../support/redis.ts';
import { ROOM } from '../../support/room.ts';
import { SEED, tries } from '../../support/sample.ts';

/** Far in the future: Redis expires keys by its own clock, not by the one that the test moves. */
const T0 = 4_000_000_000_000;
const CLOCK_LINE = /local time=redis\.call\(['"]TIME['"]\)/;
const MOVED = "local ms = redis.call('GET', 'tg:test:model')\nlocal time = { math.floor(ms / 1000), ms % 1000 * 1000 }";
const withClock = (lua: string) => {
  expect(lua.split(CLOCK_LINE)).toHaveLength(2);
  return lua.replace(CLOCK_LINE, MOVED);
};

let redis: Redis;
beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
});
afterAll(() => redis.disconnect());

const PAUSES_MS = [0, 1, 300, 999, 1_000, 20_000, 60_000, 3_600_000];

type StoredLimit = StoredBudget['limits'][number];

function limitOf(index: number, slices: number, limit: number, instants?: readonly number[]): StoredLimit {
  const window = WINDOWS[index - 1]!;
  const lengthMs = WINDOW_MS[window];
  return {
    window,
    lengthMs,
    limit,
    ...(slices === 0 ? {} : { slices }),
    ...(instants === undefined ? {} : { instants }),
  };
}

/** Two windows of any kind. */
function limitsOf(chance: Chance, nowMs: number): StoredLimit[] {
  const first = 1 + chance.below(3);
  return [first, first + 1].map((index) => {
    const kind = chance.below(3);
    const instants = kind === 2 ? [nowMs - 90_000, nowMs - 1, nowMs + chance.below(2_000), nowMs + 90_000] : undefined;
    const slices = kind === 1 ? chance.of([4, 7, 30]) : 0;
    return limitOf(index, slices, chance.below(10), instants);
  });
}

const budgetOf = (
  name: string,
  limits: StoredLimit[],
  more: { inFlight?: number; unit?: string } = {},
): StoredBudget => ({
  ...{ name, limits, ...more },
  fields: windowFields(limits.map(({ window }) => window)),
});

/** A rule with these budgets behind the own one. Each may bound the requests in flight; the last may count a unit. */
function ruleOf(
  chance: Chance,
  nowMs: number,
  { histories = 0, bansIn = 0, names = [''], holder = '' } = {},
): StoredRule {
  const bans = chance.share() < 0.3 ? {} : { bans: bansOf(1 + chance.below(4)) };
  const isAlone = names.length === 1;
  const bounds = names.map(() => (isAlone || chance.share() < 0.5 ? undefined : 1 + chance.below(6)));
  const units = isAlone || chance.below(2) === 0 ? [] : ['unit'];
  const budgets = bounds.map((inFlight, i) => {
    const ofUnit = i === names.length - 1 && units.length > 0 ? { unit: 'unit' } : {};
    return budgetOf(names[i]!, limitsOf(chance, nowMs), { ...(inFlight === undefined ? {} : { inFlight }), ...ofUnit });
  });
  const isBounded = bounds.some((bound) => bound !== undefined);
  return { budgets, bansIn, ...bans, ...(isBounded ? { isBounded, holder } : {}), histories, units };
}

function bansOf(after: number): BanRule {
  return { after, withinMs: 60_000, firstMs: 1_500, factor: 2, longestMs: 60_000, forgetMs: 60_000 };
}

/** What the script replies to a call. */
async function repliedTo(lua: string, names: readonly string[], args: readonly string[]): Promise<number[]> {
  const numbers = new Numbers((await redis.callBuffer('eval', lua, names.length, ...names, ...args)) as Buffer);
  return Array.from({ length: numbers.size }, () => numbers.next());
}

const ONE_BUDGET =
  'the model of Redis gives the same replies as Redis to every sequence of decisions and reconciled usage, seed %d';
test.each([SEED])(ONE_BUDGET, async (seed) => {
  const [decideLua, reconcileLua] = [withClock(DECIDE_LUA), withClock(RECONCILE.lua)];
  const chance = new Chance(seed);
  for (let run = 0; run < tries(60, 600); run++) {
    let nowMs = T0;
    const model = new RedisModel(() => nowMs);
    const id = `model${seed}-${run}`;
    const name = keyspace.account(id);
    for (let step = 0; step < 12; step++) {
      nowMs += chance.of(PAUSES_MS);
      void redis.set('tg:test:model', nowMs);
      const told = `run ${run}, step ${step}`;
      if (chance.share() < 0.6) {
        const args = [[2, chance.below(6), 1 + chance.below(3), 1], ruleOf(chance, nowMs)].map((one) =>
          JSON.stringify(one),
        );
        const reply = await repliedTo(decideLua, [name], args);
        expect(model.decide(decisionParts([name], args)).reply, told).toEqual(reply);
      } else {
        const ownNowMs = chance.of([0, nowMs - 5_000_000]);
        const index = 1 + chance.below(4);
        const endsAtMs = (ownNowMs || nowMs) + chance.of([-1, 0, 1, 500, 59_000, 4_000_000]);
        const kind = chance.below(3);
        const late = { window: WINDOWS[index - 1]!, ...(kind === 1 ? { slices: 4 } : {}), isCalendar: kind === 2 };
        const windows = [{ ...late, spent: 1 + chance.below(4), endsAtMs }];
        const usage = JSON.stringify({ ownNowMs, windows, hours: [] } satisfies StoredUsage);
        expect(model.reconcile(id, additionIn(usage)).reply, told).toEqual(
          await redis.eval(reconcileLua, 2, name, keyspace.history(id), usage),
        );
      }
    }
  }
});

// 393424792: a ban took the budget of one that was forgotten.
const SEVERAL = 'it does the same to several budgets of one decision, and to reports of requests in flight, seed %d';
test.each([393424792, SEED])(SEVERAL, async (seed) => {
  const [decideLua, inFlightLua] = [withClock(DECIDE_LUA), withClock(IN_FLIGHT.lua)];
  const chance = new Chance(seed);
  for (let run = 0; run < tries(60, 600); run++) {
    let nowMs = T0;
    const model = new RedisModel(() => nowMs);
    const accounts = ['a', 'b'].map((key) => {
      const customerId = `cus_${seed}_${run}`;
      return [`${customerId}/key_${key}`, customerId, `${customerId}#search`] as const;
    });
    for (let step = 0; step < 12; step++) {
      nowMs += chance.of(PAUSES_MS);
      void redis.set('tg:test:model', nowMs);
      const told = `run ${run}, step ${step}`;
      const ids = chance.of(accounts);
      const holder = chance.of(['one', 'two']);
      if (chance.share() < 0.7) {
        const names = ['', 'customer', 'customer-search'];
        const rules = [1, 2].map(() => ruleOf(chance, nowMs, { histories: 2, bansIn: chance.below(2), names, holder }));
        const parts = Array.from({ length: 1 + chance.below(2) }, () => chance.of(accounts));
        const keys = parts.flatMap(([own, customer, group], i) => {
          const counted =
            rules[i]!.units.length === 0 ? [own, customer] : [own, customer, `${own}%unit`, `${customer}%unit`];
          const histories = counted.map(keyspace.history);
          return [...[own, customer, group].map(keyspace.account), ...histories];
        });
        const runs = parts.flatMap((_, i) => {
          const held = rules[i]!.isBounded ? ids.map(() => chance.below(4)) : [];
          const amounts = rules[i]!.units.length === 0 ? [] : [chance.below(4)];
          return [2 + i, 1 + chance.below(5), 1 + chance.below(3), 1, ...held, ...amounts];
        });
        const args = [runs, ...rules].map((one) => JSON.stringify(one));
        const reply = await repliedTo(decideLua, keys, args);
        expect(model.decide(decisionParts(keys, args)).reply, told).toEqual(reply);
      } else {
        const [id, count] = [chance.of(ids), chance.below(4)];
        model.reportInFlight(id, holder, count);
        await redis.eval(inFlightLua, 1, keyspace.account(id), holder, count);
      }
    }
  }
});

const LENDING_PAUSES_MS = [0, 0, 0, 0, 1, 1, 1, 9, 9, 20, 100, 240, 250, 349, 1_000, 2_249, 2_251];

/** Windows of every kind with limits that are large enough to lend, which stay the same in a run. */
function lendingLimits(chance: Chance): (nowMs: number) => StoredLimit[] {
  const first = 1 + chance.below(3);
  const windows = [first, first + 1].map((index) => {
    const kind = chance.below(3);
    return {
      index,
      slices: kind === 1 ? chance.of([4, 7, 30]) : 0,
      isCalendar: kind === 2,
      limit: 64 + chance.below(400),
    };
  });
  return (nowMs) =>
    windows.map(({ index, slices, isCalendar, limit }) => {
      const begunAtMs = nowMs - (nowMs % 40_000);
      const instants = isCalendar ? [-1, 0, 1, 2].map((period) => begunAtMs + period * 40_000) : undefined;
      return limitOf(index, slices, limit, instants);
    });
}

test.each([SEED])(
  'it lends, takes back, lets wait, calls back and records as Redis does, seed %d',
  async (seed) => {
    const decideLua = withClock(DECIDE_LUA);
    const chance = new Chance(seed);
    const seen = { lent: 0, returned: 0, waits: 0 };
    const recalled: string[] = [];
    const expected: string[] = [];
    const listener = redis.duplicate();
    await listener.subscribe(keyspace.recallsChannel);
    listener.on('message', (_channel, name: string) => {
      if (name.includes(`{cus_lend${seed}_`)) recalled.push(accountIn(name));
    });
    for (let run = 0; run < tries(125, 1_250); run++) {
      let nowMs = T0;
      const model = new RedisModel(() => nowMs);
      const customerId = `cus_lend${seed}_${run}`;
      const [own, shared] = [lendingLimits(chance), lendingLimits(chance)];
      const bans = chance.share() < 0.5 ? {} : { bans: bansOf(1 + chance.below(4)) };
      const bansIn = chance.below(2);
      const leases: { consumerId: string; id: number; units: number; places: readonly number[] }[] = [];
      for (let step = 0; step < 25; step++) {
        nowMs += chance.of(LENDING_PAUSES_MS);
        void redis.set('tg:test:model', nowMs);
        const lease = chance.share() < 0.5 ? chance.of(leases.slice(-3)) : undefined;
        const consumerId = lease?.consumerId ?? `${customerId}/key_${chance.below(2)}`;
        const unused = lease === undefined ? 0 : chance.below(lease.units + 2);
        const places = unused > 0 ? lease!.places : [];
        const n = lease !== undefined && chance.share() < 0.5 ? 0 : 1 + chance.below(chance.of([3, 20, 90, 200]));
        const borrows = chance.share() < 0.3 ? 0 : 1 + chance.below(60);
        const isFinal = chance.share() < 0.2 ? 1 : 0;
        const terms = [
          0,
          borrows,
          1_000 + step,
          chance.of([250, 1_000, 2_000]),
          isFinal,
          lease?.id ?? 0,
          unused,
          ...places,
        ];
        const budgets = [budgetOf('', own(nowMs)), budgetOf('customer', shared(nowMs))];
        const rule: StoredRule = { budgets, bansIn, ...bans, histories: 2, units: [] };
        const args = [[2, n, 1 + chance.below(3), ...terms], rule].map((one) => JSON.stringify(one));
        const ids = [consumerId, customerId];
        const names = [...ids.map(keyspace.account), ...ids.map(keyspace.history)];
        const reply = await repliedTo(decideLua, names, args);
        const { reply: modelled, executed } = model.decide(decisionParts(names, args));
        expect(modelled, `run ${run}, step ${step}`).toEqual(reply);
        const [done] = executed as ExecutedDecision[];
        expected.push(...done!.recalled);
        const { admitted, cost, lent, waitMs, accounts } = done!.decision;
        seen.waits += waitMs !== undefined ? 1 : 0;
        seen.returned += done!.recorded[0]!.cost < admitted * cost + (lent?.units ?? 0) ? 1 : 0;
        if (lent === undefined) continue;
        seen.lent++;
        const ends = accounts.flatMap(({ windows }) => Object.values(windows).map(placeOf));
        leases.push({ consumerId, id: 1_000 + step, units: lent.units, places: ends });
      }
      for (const [id, cost] of model.histories) {
        const bytes = await redis.getBuffer(keyspace.history(id));
        const hours = Array.from({ length: 48 }, (_, hour) => bytes?.readUIntBE(20 + 5 * hour, 5) ?? 0);
        expect(
          hours.reduce((sum, one) => sum + one, 0),
          id,
        ).toBe(cost);
      }
    }
    await eventually(() => expect(recalled).toEqual(expected));
    listener.disconnect();
    // The sequences reach what they are made for.
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(3);
  },
  60_000 * ROOM,
);
