import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { CONNECTIONS_DROPPED, type Shortage } from './connection-metrics.ts';
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
  readonly #own = new Registry();
  readonly #dropped: Counter<string>;
  readonly #lost: Counter;
  readonly #stuck: Counter;
  readonly #auditFailures: Counter;
  readonly #changesLost: Counter;
  #ended: Promise<Snapshot> = Promise.resolve([]);

  constructor() {
    collectDefaultMetrics({ register: this.#own });
    const registers = [this.#own];
    this.#dropped = new Counter({ ...CONNECTIONS_DROPPED, registers });
    this.#lost = new Counter({ ...WORKERS_LOST, registers });
    this.#stuck = new Counter({ ...WORKERS_STUCK, registers });
    this.#auditFailures = new Counter({ ...AUDIT_FAILURES, registers });
    this.#changesLost = new Counter({ ...CHANGES_LOST, registers });
  }

  /** The supervisor closed a connection without a response: too many connections, also of one client address, or too few file descriptors left. */
  connectionDropped(reason: Exclude<Shortage, 'memory'>): void {
    this.#dropped.inc({ reason });
  }

  /** A worker stopped responding or ended unexpectedly. */
  workerLost(): void {
    this.#lost.inc();
  }

  /** A worker no longer turned, and is killed. */
  workerStuck(): void {
    this.#stuck.inc();
  }

  /** An operator's change was not recorded, or its outcome was not. */
  auditFailed(): void {
    this.#auditFailures.inc();
  }

  /** The store has lost acknowledged changes. */
  changesLost(): void {
    this.#changesLost.inc();
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
