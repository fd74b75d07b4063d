import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toppedUp } from '../../src/admit/account-changes.ts';
import { accountIdOf, accountIdsOf } from '../../src/admit/account-id.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import type { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { type SharedStep, sharedHistories } from '../support/histories.ts';
import { testRedis } from '../support/redis.ts';
import { ROOM } from '../support/room.ts';
import { SEED, tries } from '../support/sample.ts';
import { setClock, T0, twinLedger } from './twin-ledger.ts';

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
});

afterAll(() => redis.disconnect());

/** How long a request counts as in flight after its process has reported it (engine/special.ts). */
const TICKET_MS = 10_000;

test(
  'the engine decides in Redis as it does in TypeScript, with one to eight budgets in two scopes, and with requests in flight',
  async () => {
    const ledgers = [twinLedger(redis), twinLedger(redis)];
    let run = 0;
    await fc.assert(
      fc.asyncProperty(sharedHistories, async (steps) => {
        const history = new SharedHistory(redis, ledgers, run++);
        for (const [i, step] of steps.entries()) await history.expectSame(step, i);
        for (const account of history.accounts.keys()) {
          if ((await redis.exists(keyspace.account(account))) === 0) continue;
          expect(await redis.pttl(keyspace.account(account))).toBeGreaterThan(0);
        }
      }),
      { seed: SEED, numRuns: tries(100, 6_000) },
    );
  },
  120_000 * ROOM,
);

/** What one process has reported to have in flight in an account. */
interface Reported {
  readonly count: number;
  readonly untilMs: number;
}

/** One customer with two consumers, in Redis and beside it. */
class SharedHistory {
  readonly accounts = new Map<string, AccountState>();
  readonly #reported = new Map<string, Reported>();
  readonly #redis: Redis;
  readonly #ledgers: readonly RedisLedger[];
  readonly #run: number;
  #nowMs = T0;

  constructor(redis: Redis, ledgers: readonly RedisLedger[], run: number) {
    this.#redis = redis;
    this.#ledgers = ledgers;
    this.#run = run;
  }

  /** Does a step in both, and keeps the accounts as the embedded store does. */
  async expectSame(step: SharedStep, i: number): Promise<void> {
    const { afterMs, plan, consumer, process, cost, n, inFlight: begun, topUp, amounts } = step;
    this.#nowMs += afterMs;
    setClock(this.#redis, this.#nowMs);
    const isOfCustomer = plan.budgets[1]?.scope === 'customer';
    const consumerId = accountIdOf(`key_${this.#run}_${consumer}`, isOfCustomer ? `cus_${this.#run}` : null);
    const ids = accountIdsOf(consumerId, plan);
    const ledger = this.#ledgers[process]!;
    if (topUp !== undefined) await this.#topUp(ledger, plan, ids, topUp, String(i));
    const before = ids.map((id) => this.accounts.get(id) ?? UNSEEN);
    const hasUnits = plan.budgets.some(({ unit }) => unit !== undefined);
    const of = hasUnits ? { amounts } : {};
    const own = ids.map((_, at) => begun[at] ?? 0);
    const inFlight = ids.map((id, at) => own[at]! + this.#othersIn(id, 1 - process));
    const expected = decide(before, plan, this.#nowMs, cost, n, inFlight, of.amounts);
    const [told] = await ledger.decide([
      { consumerId, allowance: plan, cost, n, ...of, ...(plan.boundsInFlight ? { inFlight: own } : {}) },
    ]);
    expect(told).toEqual(expected);
    if (n === 0) return;
    const after = accountsAfter(before, expected, plan);
    for (const [at, id] of ids.entries()) {
      // Redis keeps top-ups that have ended, and never reads them.
      const topUps = this.accounts.get(id)?.topUps;
      this.accounts.set(id, { ...after[at]!, ...(topUps === undefined ? {} : { topUps }) });
      if ((expected.inFlight?.[at] ?? -1) < 0) continue;
      const untilMs = this.#nowMs + TICKET_MS;
      this.#reported.set(`${process} ${id}`, { count: own[at]! + expected.admitted, untilMs });
      // The clock may be set back: what has ended stays so.
      const other = this.#reported.get(`${1 - process} ${id}`) ?? { count: 0, untilMs: 0 };
      const kept = { count: this.#othersIn(id, 1 - process), untilMs: Math.min(other.untilMs, untilMs) };
      this.#reported.set(`${1 - process} ${id}`, kept);
    }
  }

  #othersIn(id: string, other: number): number {
    const { count, untilMs } = this.#reported.get(`${other} ${id}`) ?? { count: 0, untilMs: 0 };
    return untilMs > this.#nowMs ? count : 0;
  }

  async #topUp(ledger: RedisLedger, plan: Allowance, ids: readonly string[], amount: number, id: string) {
    for (const [at, { limits }] of plan.budgets.entries()) {
      const account = ids[at]!;
      const of = limits[0];
      if (of === undefined) continue;
      const { topUp, state } = toppedUp(this.accounts.get(account) ?? UNSEEN, of, amount, this.#nowMs);
      this.accounts.set(account, state);
      expect(await ledger.topUp(account, of, amount, id)).toMatchObject({ kind: 'made', value: topUp });
    }
  }
}
