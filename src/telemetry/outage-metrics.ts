import { Counter, Gauge, type Registry } from 'prom-client';
import type { AloneCount } from '../admit/alone.ts';
import type { ReturnOutcome } from '../admit/debts.ts';
import type { WindowName } from '../admit/plan.ts';

/** What is counted while the store is away, and when it is back. */
export interface OutageMetrics {
  /** Requests were decided without the store. */
  decidedAlone(count: AloneCount, requests: number): void;
  /** What was counted here alone has been brought to the store, or not. */
  givenBack(window: WindowName, outcome: ReturnOutcome, spent: number): void;
  /** Where to read how many consumers have still to be settled with the store. */
  owingFrom(read: () => number): void;
}

export function outageMetrics(registry: Registry): OutageMetrics {
  let owing = () => 0;
  const help = 'Keys of which requests admitted without the store have still to be added to it.';
  new Gauge({
    name: 'tollgate_store_owing',
    help,
    registers: [registry],
    collect() {
      this.set(owing());
    },
  });
  const alone = new Counter({
    name: 'tollgate_local_decisions_total',
    help: 'Requests decided without the store, by how they are counted in it.',
    labelNames: ['count'],
    registers: [registry],
  });
  for (const count of ['owed', 'sent', 'uncounted'] satisfies AloneCount[]) alone.inc({ count }, 0);
  const back = new Counter({
    name: 'tollgate_given_back_total',
    help: 'Cost admitted without the store that was brought to it when it was back, by window and what became of it.',
    labelNames: ['window', 'outcome'],
    registers: [registry],
  });
  for (const window of ['second', 'minute', 'hour', 'day'] satisfies WindowName[]) {
    for (const outcome of ['added', 'ended', 'lost'] satisfies ReturnOutcome[]) back.inc({ window, outcome }, 0);
  }
  return {
    owingFrom: (read) => {
      owing = read;
    },
    decidedAlone: (count, requests) => alone.inc({ count }, requests),
    givenBack: (window, outcome, spent) => back.inc({ window, outcome }, spent),
  };
}
