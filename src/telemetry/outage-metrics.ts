import { Counter, Gauge, type Registry } from 'prom-client';
import type { LocalCount } from '../admit/decide-locally.ts';
import type { WindowName } from '../admit/plan.ts';
import type { ReconcileOutcome } from '../admit/usage-backlog.ts';

/** Counts local decisions during an outage, and the reconciliation after it. */
export interface OutageMetrics {
  /** Requests were decided locally. */
  decidedAlone(count: LocalCount, requests: number): void;
  /** Part of the backlog was added to the store, or could not be. `spent` is the cost of its requests. */
  givenBack(window: WindowName, outcome: ReconcileOutcome, spent: number): void;
  /** Sets the function that reads how many consumers have a backlog. */
  backlogSizeFrom(read: () => number): void;
}

export function outageMetrics(registry: Registry): OutageMetrics {
  let backlogSize = () => 0;
  const help = 'Consumers with requests that were admitted without the store and not yet added to it.';
  new Gauge({
    name: 'tollgate_store_owing',
    help,
    registers: [registry],
    collect() {
      this.set(backlogSize());
    },
  });
  const alone = new Counter({
    name: 'tollgate_local_decisions_total',
    help: 'Requests decided without the store, by how the store counts them.',
    labelNames: ['count'],
    registers: [registry],
  });
  for (const count of ['owed', 'sent', 'uncounted'] satisfies LocalCount[]) alone.inc({ count }, 0);
  const back = new Counter({
    name: 'tollgate_given_back_total',
    help: 'Cost of requests admitted without the store, by window and by what became of it when the store was back.',
    labelNames: ['window', 'outcome'],
    registers: [registry],
  });
  for (const window of ['second', 'minute', 'hour', 'day'] satisfies WindowName[]) {
    for (const outcome of ['added', 'ended', 'lost'] satisfies ReconcileOutcome[]) back.inc({ window, outcome }, 0);
  }
  return {
    backlogSizeFrom: (read) => {
      backlogSize = read;
    },
    decidedAlone: (count, requests) => alone.inc({ count }, requests),
    givenBack: (window, outcome, spent) => back.inc({ window, outcome }, spent),
  };
}
