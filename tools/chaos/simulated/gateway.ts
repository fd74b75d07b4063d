import { Admitter } from '../../../src/admit/admit.ts';
import { type Allowance, bitOfUnit, withBudgets } from '../../../src/admit/allowance.ts';
import {
  type DecisionRequest,
  type DeferredUsage,
  type Ledger,
  NothingDone,
  type UsageReconciler,
} from '../../../src/admit/ledger.ts';
import type { AdmissionResult } from '../../../src/admit/verdict.ts';
import { Circuit } from '../../../src/stores/redis/circuit.ts';
import type { RedisClient } from '../../../src/stores/redis/connection.ts';
import type { DurableWrites } from '../../../src/stores/redis/durable-writes.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { RedisUsageReconciler, trialOn } from '../../../src/stores/redis/usage-reconciler.ts';
import type { Step } from './history.ts';
import { type Judge, TIMEOUT_MS } from './judge.ts';
import { Link } from './link.ts';
import { UNIT } from './plans.ts';
import type { RedisServer } from './redis-server.ts';

type Asked = Pick<Extract<Step, { kind: 'ask' }>, 'waitedMs' | 'groups' | 'lastsMs' | 'amount' | 'used'>;

const FAILURES = 3;
const PROBE_EVERY_MS = 250;

/** One gateway's admission, from `Admitter` to the commands that it sends to Redis. */
export class SimulatedGateway {
  readonly link: Link;
  readonly #admitter: Admitter;
  readonly #circuit: Circuit;
  readonly #judge: Judge;
  readonly #charged = new Map<Allowance, Map<string, Allowance>>();
  #isKilled = false;
  /** `0` for the first process of gateway 0, `0b` for the next one. */
  readonly name: string;
  plan: Allowance;
  /** What its own clock is off by, milliseconds. */
  wallOffsetMs: number;

  constructor(name: string, server: RedisServer, judge: Judge, start: { plan: Allowance; wallOffsetMs: number }) {
    this.name = name;
    this.#judge = judge;
    this.plan = start.plan;
    this.wallOffsetMs = start.wallOffsetMs;
    this.link = new Link(name, server, judge);
    const { link } = this;
    const redis = link as unknown as RedisClient;
    this.#circuit = new Circuit({
      timeoutMs: TIMEOUT_MS,
      failures: FAILURES,
      probeEveryMs: PROBE_EVERY_MS,
      probe: () => link.ping(),
      ...trialOn(redis),
    });
    const ledger = new RedisLedger({
      redis,
      circuit: this.#circuit,
      publish: async () => {},
      // Only lifts use it, and the simulation lifts bans in the model itself.
      writes: null as unknown as DurableWrites,
    });
    this.#admitter = new Admitter({
      ledger: this.#watchedLedger(ledger),
      reconciler: this.#watchedReconciler(new RedisUsageReconciler({ redis, circuit: this.#circuit })),
      onFailure: 'local',
      timeoutMs: TIMEOUT_MS,
      monotonicMs: () => performance.now(),
      wallMs: () => Math.floor(performance.now() + this.wallOffsetMs),
      remembered: 1_000,
      recalls: link.recalls,
    });
  }

  get backlogSize(): number {
    return this.#admitter.backlogSize;
  }

  /** @param asked the groups of routes of the request, a bit for each; how long it is in flight; and what it takes of the unit */
  ask(consumerId: string, cost: number, asked: Asked): void {
    const { waitedMs, lastsMs = 0, amount = 0, used = 0 } = asked;
    const allowance = this.#allowanceOf(asked);
    const amounts = allowance.inUnits === undefined ? undefined : { [UNIT]: amount };
    const request = this.#judge.asked(this.name, consumerId, allowance, { cost, amounts }, waitedMs);
    const onResult = (result: AdmissionResult) => {
      const end = this.#judge.answered(request, result);
      if (result.kind === 'unavailable' || result.verdict.kind !== 'admitted') return;
      const { verdict } = result;
      if (!allowance.boundsInFlight && amounts === undefined) return;
      setTimeout(() => {
        if (this.#isKilled) return;
        if (allowance.boundsInFlight) this.#admitter.ended(consumerId, allowance);
        if (amounts !== undefined) this.#admitter.settle(consumerId, verdict, [{ unit: UNIT, settled: used }]);
        if (verdict.reservation !== null) this.#judge.settles(request, verdict.reservation, used);
        end();
      }, lastsMs);
    };
    const atOnce = this.#admitter.ask(consumerId, allowance, cost, waitedMs, { onResult }, amounts);
    if (atOnce !== null) onResult(atOnce);
  }

  /**
   * Requests of the same groups have the same allowance, as in the gateway (src/gateway/allowances.ts). But several budgets have one
   * for each deadline, so that the judge can tell requests apart that are asked about in different calls.
   */
  #allowanceOf({ groups = 0, amount, waitedMs }: Asked): Allowance {
    const { plan } = this;
    const isPlain = plan.budgets.length === 1 && plan.groups === undefined && plan.units === undefined;
    if (isPlain && !plan.boundsInFlight) return plan;
    const bits = groups | (amount === undefined || plan.units === undefined ? 0 : bitOfUnit(0));
    const variants = this.#charged.get(plan) ?? new Map<string, Allowance>();
    const charged = variants.get(`${bits} ${waitedMs}`) ?? withBudgets({ ...plan }, bits);
    this.#charged.set(plan, variants.set(`${bits} ${waitedMs}`, charged));
    return charged;
  }

  forget(): void {
    this.#admitter.forget();
  }

  /** The process is gone at once. What it had sent may still arrive. */
  kill(): void {
    this.#isKilled = true;
    this.#circuit.close();
    this.link.abandon();
  }

  #watchedReconciler(reconciler: UsageReconciler): UsageReconciler {
    const reconcile = (deferred: readonly DeferredUsage[]) => {
      const results = reconciler.reconcile(deferred);
      results.then(() => {
        for (const usage of deferred) this.#judge.reconciled(this.name, usage.consumerId);
      });
      return results;
    };
    return { reconcile };
  }

  #watchedLedger(ledger: Ledger): Ledger {
    const decide = (requests: readonly DecisionRequest[]) => {
      const ended = this.#judge.ledgerAsked(this.name, requests);
      const decisions = ledger.decide(requests);
      decisions.then(ended, (error) => {
        ended(error instanceof NothingDone ? requests.map((_, i) => error.decisions[i]) : null);
      });
      return decisions;
    };
    const reportInFlight = (counts: Parameters<Ledger['reportInFlight']>[0]) => {
      for (const { accountId, count } of counts) this.#judge.reported(this.name, accountId, count);
      const done = ledger.reportInFlight(counts);
      done.catch(() => {
        for (const { accountId } of counts) this.#judge.reportFailed(this.name, accountId);
      });
      return done;
    };
    const settle: Ledger['settle'] = async (settlements) => {
      const outcomes = await ledger.settle(settlements);
      if (outcomes.includes('lost')) this.#judge.settlementLost();
      return outcomes;
    };
    return { decide, reportInFlight, settle } as Ledger;
  }
}
