import { AggregatorRegistry, collectDefaultMetrics, type Registry } from 'prom-client';
import { CONNECTIONS_DROPPED } from './connection-metrics.ts';
import { MetricRegistry } from './metric-registry.ts';
import { AUDIT_FAILURES, CHANGES_LOST, WORKERS_LOST, WORKERS_STUCK } from './metrics.ts';

/** All metrics of one process at one moment, as plain data. */
export type Snapshot = readonly object[];

interface PlainMetric {
  readonly name: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly { readonly labels: Readonly<Record<string, string | number>> }[];
}

/** Metrics of a single process, such as its memory and event loop. A sum of them would be meaningless. */
const PER_PROCESS = /^(process|nodejs)_/;
/** Metrics that are not counts, and how they are joined: for what is up, expires, mismatches or is a part, the worst value counts. */
const NOT_SUMMED: readonly (readonly [RegExp, string])[] = [
  [/_up$/, 'min'],
  [/_timestamp_seconds$/, 'min'],
  [/_info$/, 'max'],
  [/_settings_refused$/, 'max'],
  [/_mismatch$/, 'max'],
  [/_difference_seconds$/, 'max'],
  [/_away$/, 'max'],
  [/_largest_part$/, 'max'],
];

/**
 * Joins the metrics of several processes into those of one gateway. Counts of requests, connections and the like are added
 * up; metrics of a process itself get the label `worker`. The counts of a process that has ended are kept, because
 * Prometheus reads a falling counter as a restart and would count everything again.
 */
export class JoinedMetrics {
  readonly #own = new MetricRegistry();
  /** The supervisor closed a connection without a response: too many connections, also of one client address, or too few file descriptors left. */
  readonly connectionDropped = this.#own.counted(...CONNECTIONS_DROPPED, ['connections', 'address', 'descriptors']);
  /** A worker stopped responding or ended unexpectedly. */
  readonly workerLost = this.#own.events(...WORKERS_LOST);
  /** A worker no longer turned, and is killed. */
  readonly workerStuck = this.#own.events(...WORKERS_STUCK);
  /** An operator's change was not recorded, or its outcome was not. */
  readonly auditFailed = this.#own.events(...AUDIT_FAILURES);
  /** The store has lost acknowledged changes. */
  readonly changesLost = this.#own.events(...CHANGES_LOST);
  #ended: Promise<Snapshot> = Promise.resolve([]);

  constructor() {
    collectDefaultMetrics({ register: this.#own });
  }

  /** Keeps the last counts of a process that has ended. */
  keep(last: Snapshot): void {
    const counts = (last as readonly PlainMetric[]).filter(
      ({ name, type }) => type !== 'gauge' && !PER_PROCESS.test(name),
    );
    // Each aggregation waits for the previous one, because two processes may end at the same time.
    this.#ended = this.#ended.then((before) => plain(AggregatorRegistry.aggregate([before, counts] as object[])));
  }

  /** The joined metrics in the text format of Prometheus. @param workers the running workers by number */
  async text(
    workers: readonly { readonly worker: number; readonly metrics: Snapshot }[],
  ): Promise<{ readonly text: string; readonly contentType: string }> {
    const all = [
      ...workers.map(({ worker, metrics }) => withWorker(metrics, String(worker))),
      await this.#ended,
      withWorker(await plain(this.#own), 'supervisor'),
    ];
    const registry = AggregatorRegistry.aggregate(all as object[]);
    return { text: await registry.metrics(), contentType: registry.contentType };
  }
}

function withWorker(metrics: Snapshot, worker: string): Snapshot {
  return (metrics as readonly PlainMetric[]).map((metric) => {
    if (PER_PROCESS.test(metric.name)) {
      const values = metric.values.map((value) => ({ ...value, labels: { ...value.labels, worker } }));
      // Each series now belongs to one process, so `first` keeps all of them as they are.
      return { ...metric, values, aggregator: 'first' };
    }
    const rule = NOT_SUMMED.find(([names]) => names.test(metric.name));
    return rule === undefined ? metric : { ...metric, aggregator: rule[1] };
  });
}

async function plain(registry: Registry): Promise<Snapshot> {
  return (await registry.getMetricsAsJSON()) as unknown as Snapshot;
}
