import { Admitter } from '../../../src/admit/admit.ts';
import type { DecisionRequest, DeferredUsage, Ledger, UsageReconciler } from '../../../src/admit/ledger.ts';
import type { Allowance } from '../../../src/admit/plan.ts';
import type { Admission } from '../../../src/admit/verdict.ts';
import { Circuit } from '../../../src/stores/redis/circuit.ts';
import type { RedisClient } from '../../../src/stores/redis/connection.ts';
import type { DurableWrites } from '../../../src/stores/redis/durable-writes.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { RedisUsageReconciler } from '../../../src/stores/redis/usage-reconciler.ts';
import { type Judge, TIMEOUT_MS } from './judge.ts';
import { Link } from './link.ts';
import type { RedisServer } from './redis-server.ts';

const FAILURES = 3;
const PROBE_EVERY_MS = 250;

/** One gateway's admission, from `Admitter` to the commands that it sends to Redis. */
export class SimulatedGateway {
  readonly link: Link;
  readonly #admitter: Admitter;
  readonly #circuit: Circuit;
  readonly #judge: Judge;
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
      trial: () => link.tollgateTrial(),
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
    });
  }

  get backlogSize(): number {
    return this.#admitter.backlogSize;
  }

  ask(consumerId: string, cost: number, waitedMs: number): void {
    const request = this.#judge.asked(this.name, consumerId, this.plan, cost, waitedMs);
    const onAdmission = (admission: Admission) => this.#judge.answered(request, admission);
    const atOnce = this.#admitter.ask(consumerId, this.plan, cost, waitedMs, { onAdmission });
    if (atOnce !== null) onAdmission(atOnce);
  }

  forget(): void {
    this.#admitter.forget();
  }

  /** The process is gone at once. What it had sent may still arrive. */
  kill(): void {
    this.#circuit.close();
    this.link.abandon();
  }

  #watchedReconciler(reconciler: UsageReconciler): UsageReconciler {
    const reconcile = (deferred: readonly DeferredUsage[]) => {
      const results = reconciler.reconcile(deferred);
      results.then(() => {
        for (const { consumerId } of deferred) this.#judge.reconciled(this.name, consumerId);
      });
      return results;
    };
    return { reconcile };
  }

  #watchedLedger(ledger: Ledger): Ledger {
    const decide = (requests: readonly DecisionRequest[]) => {
      const ended = this.#judge.ledgerAsked(this.name, requests);
      const outcomes = ledger.decide(requests);
      outcomes.then(ended, ended);
      return outcomes;
    };
    return { decide } as Ledger;
  }
}
