import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Allowance } from '../../../src/admit/allowance.ts';
import { type Ledger, NothingDone } from '../../../src/admit/ledger.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';

/** What came of the asks for one consumer, over all gateways. */
export interface Tally {
  /** Requests that the store has answered as admitted. */
  admitted: number;
  /** Requests whose call failed: counted by the store or not. */
  givenUp: number;
  asked: number;
}

export interface SteadyAsks {
  readonly tallies: ReadonlyMap<string, Tally>;
  /** What these consumers together were admitted so far. */
  admittedOf(consumerIds: readonly string[]): number;
  /** The longest that any call was waited for, milliseconds. */
  longestMs(): number;
  /** Waits until each consumer was answered so often again. */
  answered(times: number): Promise<void>;
  stop(): Promise<void>;
  readonly plan: Allowance;
}

/** Gateways that ask for every consumer all the time, one request each, a batch after the other. */
export function askSteadily(ledgers: readonly Ledger[], consumerIds: readonly string[], plan: Allowance): SteadyAsks {
  const tallies = new Map(consumerIds.map((id) => [id, { admitted: 0, givenUp: 0, asked: 0 }]));
  let isStopped = false;
  let longestMs = 0;
  const run = async (ledger: Ledger) => {
    while (!isStopped) {
      const asks = consumerIds.map((consumerId) => ({ consumerId, allowance: plan, cost: 1, n: 1 }));
      const startedMs = performance.now();
      const decisions = await ledger
        .decide(asks)
        .catch((error) => (error instanceof NothingDone ? error.decisions : []));
      longestMs = Math.max(longestMs, performance.now() - startedMs);
      for (const [i, id] of consumerIds.entries()) {
        const tally = tallies.get(id)!;
        const decision = decisions[i] ?? null;
        tally.asked++;
        if (decision === null) tally.givenUp++;
        else tally.admitted += decision.admitted;
      }
      await delay(2);
    }
  };
  const runs = ledgers.map(run);
  const stop = async () => {
    isStopped = true;
    await Promise.all(runs);
  };
  atEnd(stop);
  return {
    tallies,
    plan,
    admittedOf: (ids) => ids.reduce((sum, id) => sum + tallies.get(id)!.admitted, 0),
    longestMs: () => longestMs,
    answered: async (times) => {
      const answeredOf = ({ asked, givenUp }: Tally) => asked - givenUp;
      const before = new Map([...tallies].map(([id, tally]) => [id, answeredOf(tally)]));
      while ([...tallies].some(([id, tally]) => answeredOf(tally) < before.get(id)! + times)) await delay(5);
    },
    stop,
  };
}

/** What the store has counted for a consumer today. */
export async function usedBy(ledger: Ledger, consumerId: string, plan: Allowance): Promise<number> {
  return (await ledger.present(consumerId, plan))?.accounts[0].windows.day?.used ?? 0;
}

/**
 * Asks on until every limit is used up, and holds what was admitted against it.
 * @param beyond how much a failover with asynchronous replication may have forgotten
 */
export async function expectExactness(asks: SteadyAsks, ledger: Ledger, limit: number, beyond = 0): Promise<void> {
  const isUsedUp = async () => {
    for (const id of asks.tallies.keys()) expect(await usedBy(ledger, id, asks.plan), id).toBe(limit);
  };
  await eventually(isUsedUp, { withinMs: 10_000, everyMs: 50 });
  await asks.stop();
  for (const [id, { admitted, givenUp }] of asks.tallies) {
    expect(admitted, `admitted for ${id}`).toBeLessThanOrEqual(limit + beyond);
    expect(admitted + givenUp, `admitted or given up for ${id}`).toBeGreaterThanOrEqual(limit);
  }
}
