import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resetUsage, toppedUp, undoTopUp } from '../../src/admit/account-changes.ts';
import { accountIdOf, accountIdsOf, historiesOf } from '../../src/admit/account-id.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { ALL_UNSEEN, accountsAfter, decide } from '../../src/admit/decision.ts';
import { placeOf } from '../../src/engine/counting.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Decision, Lease, LeaseTerms } from '../../src/engine/types.ts';
import type { WindowName } from '../../src/model/values.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import type { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { type LendingStep, lendingHistories } from '../support/histories.ts';
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
  'the engine lends, takes back, waits and refuses in Redis as it does in TypeScript (reliability 300)',
  async () => {
    const ledger = twinLedger(redis);
    const seen = { lent: 0, waited: 0, takenBack: 0 };
    let run = 0;
    await fc.assert(
      fc.asyncProperty(lendingHistories, async (steps) => {
        const history = new LendingHistory(redis, ledger, run++, seen);
        for (const [i, step] of steps.entries()) await history.expectSame(step, i);
        await history.expectSameHistories();
      }),
      { seed: SEED, numRuns: tries(400, 6_000) },
    );
    // The histories reach what they are made for.
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(25);
  },
  120_000 * ROOM,
);

test('a reset calls back what is lent, waits for it, and takes nothing back that returns later (reliability 302)', async () => {
  // On the test's clock, so that a lease ends only when the test lets it.
  const ledger = twinLedger(redis);
  setClock(redis, T0);
  const lending = allowance({ day: 1_000 });
  const asks = { consumerId: 'lent', allowance: lending, cost: 1 };
  const used = async () => (await ledger.present('lent', lending))?.accounts[0].windows.day?.used;
  const [decision] = await ledger.decide([
    { ...asks, n: 10, leaseTerms: { borrows: { id: 7, units: 50, forMs: 250 } } },
  ]);
  expect(decision?.lent).toEqual({ units: 50, forMs: 250 });
  const recalls: string[] = [];
  const hearer = redis.duplicate();
  atEnd(() => hearer.disconnect());
  hearer.on('message', (_channel: string, message: string) => recalls.push(message));
  await hearer.subscribe('tg:changes:recalls');
  const places = [[decision!.accounts[0].windows.day!.endsAtMs]];
  const reset = ledger.resetUsage('lent', ['day'], 'one');
  await eventually(() => expect(recalls).toContain('tg:a:{lent}'));
  expect(await used()).toBe(60);
  // Nothing new is lent meanwhile.
  const [more] = await ledger.decide([{ ...asks, n: 1, leaseTerms: { borrows: { id: 8, units: 50, forMs: 250 } } }]);
  expect(more).not.toHaveProperty('lent');
  const returned = { id: 7, unused: 20, places };
  await ledger.decide([{ ...asks, n: 0, leaseTerms: { returned } }]);
  expect(await reset).toMatchObject({ kind: 'made', value: { used: { day: 41 } } });
  await ledger.decide([{ ...asks, n: 5 }]);
  await ledger.decide([{ ...asks, n: 0, leaseTerms: { returned } }]);
  expect(await used()).toBe(5);
});

test('of an account at most 64 leases are known at a time', async () => {
  const ledger = twinLedger(redis);
  setClock(redis, T0);
  const plan = allowance({ day: 1_000_000 });
  const lent = { expected: 0, told: 0 };
  let accounts = ALL_UNSEEN;
  for (let id = 1; id <= 66; id++) {
    const leaseTerms = { borrows: { id, units: 4, forMs: 250 } };
    const expected = decide(accounts, plan, T0, 1, 1, undefined, undefined, leaseTerms);
    accounts = accountsAfter(accounts, expected, plan);
    const [told] = await ledger.decide([{ consumerId: 'many', allowance: plan, cost: 1, n: 1, leaseTerms }]);
    if (expected.lent !== undefined) lent.expected++;
    if (told?.lent !== undefined) lent.told++;
  }
  expect(lent).toEqual({ expected: 64, told: 64 });
});

interface Borrowed extends Lease {
  readonly consumerId: string;
  readonly plan: Allowance;
  readonly places: readonly (readonly number[])[];
}

/** Two consumers, by themselves or of one customer, in Redis and beside it. */
class LendingHistory {
  readonly #accounts = new Map<string, AccountState>();
  /** What the history of each account has in total. */
  readonly #recorded = new Map<string, number>();
  readonly #leases: Borrowed[] = [];
  readonly #redis: Redis;
  readonly #ledger: RedisLedger;
  readonly #run: number;
  readonly #seen: { lent: number; waited: number; takenBack: number };
  #nowMs = T0;
  #hasMovedBack = false;

  constructor(
    redis: Redis,
    ledger: RedisLedger,
    run: number,
    seen: { lent: number; waited: number; takenBack: number },
  ) {
    this.#redis = redis;
    this.#ledger = ledger;
    this.#run = run;
    this.#seen = seen;
  }

  async expectSame(step: LendingStep, i: number): Promise<void> {
    const { afterMs, plan, consumer, cost, n, borrows, returned, isFinal, topUp } = step;
    this.#nowMs += afterMs;
    if (afterMs < 0 || afterMs > 3_600_000) this.#hasMovedBack = true;
    setClock(this.#redis, this.#nowMs);
    const consumerId = this.#consumerId(consumer, plan);
    if (topUp !== undefined) await this.#change(consumerId, plan, topUp, String(i));
    const lease = returned && this.#leases.at(-1 - returned.lease);
    const back = lease && { id: lease.id, unused: returned.unused, places: lease.places };
    const isOfLease = lease?.consumerId === consumerId && lease.plan === plan;
    if (lease !== undefined && !isOfLease) {
      await this.#expectOne(lease.consumerId, lease.plan, { cost: 1, n: 0 }, { returned: back! });
    }
    const terms: LeaseTerms = {
      ...(borrows === undefined ? {} : { borrows: { id: 1_000 + i, ...borrows } }),
      ...(isFinal ? { isFinal: true } : {}),
      ...(isOfLease ? { returned: back! } : {}),
    };
    const decision = await this.#expectOne(consumerId, plan, { cost, n }, terms);
    if (decision.waitMs !== undefined) this.#seen.waited++;
    if (decision.lent === undefined) return;
    this.#seen.lent++;
    const { units, forMs } = decision.lent;
    const places = plan.budgets.map(({ limits }, at) =>
      limits.map(({ window }) => placeOf(decision.accounts[at]!.windows[window]!)),
    );
    this.#leases.push({ id: 1_000 + i, units, endsAtMs: this.#nowMs + forMs, consumerId, plan, places });
  }

  async expectSameHistories(): Promise<void> {
    // A history that moves by more than an hour, or back, loses what it had.
    if (this.#hasMovedBack) return;
    for (const [id, recorded] of this.#recorded) {
      const bytes = await this.#redis.getBuffer(keyspace.history(id));
      if (bytes === null) continue;
      let total = 0;
      for (let hour = 0; hour < 48; hour++) total += bytes.readUIntBE(20 + 5 * hour, 5);
      expect(total).toBe(recorded);
    }
  }

  #consumerId(consumer: number, plan: Allowance): string {
    const isOfCustomer = plan.budgets.length > 1;
    return accountIdOf(`key_l${this.#run}_${consumer}`, isOfCustomer ? `cus_l${this.#run}` : null);
  }

  async #expectOne(
    consumerId: string,
    plan: Allowance,
    { cost, n }: { cost: number; n: number },
    leaseTerms: LeaseTerms,
  ): Promise<Decision> {
    const ids = accountIdsOf(consumerId, plan);
    const before = ids.map((id) => this.#accounts.get(id) ?? UNSEEN);
    const expected = decide(before, plan, this.#nowMs, cost, n, undefined, undefined, leaseTerms);
    const [told] = await this.#ledger.decide([{ consumerId, allowance: plan, cost, n, leaseTerms }]);
    // What the script does with these itself.
    const { recalls: _, tookBack: __, awaitsMove: ___, ...shown } = expected;
    expect(told).toEqual({ ...shown, accounts: shown.accounts.map(withoutLeases) });
    if (n === 0 && leaseTerms.returned === undefined) return expected;
    const after = accountsAfter(before, expected, plan);
    for (const [at, id] of ids.entries()) {
      const topUps = this.#accounts.get(id)?.topUps;
      this.#accounts.set(id, { ...after[at]!, ...(topUps === undefined ? {} : { topUps }) });
    }
    this.#record(consumerId, before, expected, leaseTerms);
    return expected;
  }

  #record(consumerId: string, before: readonly AccountState[], decision: Decision, { returned }: LeaseTerms): void {
    const known = before
      .flatMap(({ leases = [] }) => leases)
      .find(({ id, endsAtMs }) => {
        return id === returned?.id && this.#nowMs < endsAtMs + 2_000 && endsAtMs <= this.#nowMs + 5_250;
      });
    const back = known === undefined ? 0 : Math.min(returned!.unused, Math.abs(known.units));
    if (back > 0) this.#seen.takenBack++;
    const more = decision.admitted * decision.cost + (decision.lent?.units ?? 0) - back;
    if (decision.n === 0 && back === 0) return;
    for (const id of historiesOf(consumerId)) this.#recorded.set(id, (this.#recorded.get(id) ?? 0) + more);
  }

  async #change(consumerId: string, plan: Allowance, amount: number, id: string): Promise<void> {
    const of = plan.budgets[0].limits[0];
    if (of === undefined) return;
    const before = this.#accounts.get(consumerId) ?? UNSEEN;
    if (amount % 5 === 0) {
      if (lends(before, this.#nowMs)) return;
      const { reset, state } = resetUsage(before, [of.window], this.#nowMs);
      this.#accounts.set(consumerId, state);
      expect(await this.#ledger.resetUsage(consumerId, [of.window], id)).toMatchObject({ kind: 'made', value: reset });
      return;
    }
    if (amount % 5 === 1 && nowInForce(before, of.window, this.#nowMs)) {
      const { undone, state } = undoTopUp(before, of.window, null, this.#nowMs);
      this.#accounts.set(consumerId, state);
      expect(await this.#ledger.undoTopUp(consumerId, of.window, null, id)).toMatchObject({ value: undone });
      return;
    }
    const { topUp, state } = toppedUp(before, of, amount, this.#nowMs);
    this.#accounts.set(consumerId, state);
    expect(await this.#ledger.topUp(consumerId, of, amount, id)).toMatchObject({ kind: 'made', value: topUp });
  }
}

function nowInForce({ topUps }: AccountState, window: WindowName, nowMs: number): boolean {
  return nowMs < (topUps?.[window]?.untilMs ?? 0);
}

/** A reset waits for what is lent, as the test above says. */
function lends({ leases = [] }: AccountState, nowMs: number): boolean {
  return leases.some(({ units, endsAtMs }) => {
    return units !== 0 && endsAtMs <= nowMs + 5_250 && nowMs < Math.min(endsAtMs, nowMs + 250) + 100;
  });
}

function withoutLeases({ leases: _, ...state }: AccountState): AccountState {
  return state;
}
