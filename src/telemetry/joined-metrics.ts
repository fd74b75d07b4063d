import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { CONNECTIONS_DROPPED, type Shortage } from './connection-metrics.ts';
import { AUDIT_FAILURES, WORKERS_LOST } from './metrics.ts';

/** All metrics of one process at one moment, as plain data. */
export type Snapshot = readonly object[];

interface PlainMetric {
  readonly name: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly { readonly labels: Readonly<Record<string, string | number>> }[];
}

/** What each process has for itself, and what no sum says anything about: its memory, its event loop. */
const OWN = /^(process|nodejs)_/;
/** What is no number of things: of what is up or expires the worker that is worst off is told. */
const JOINED_OTHERWISE: readonly (readonly [RegExp, string])[] = [
  [/_up$/, 'min'],
  [/_timestamp_seconds$/, 'min'],
  [/_info$/, 'max'],
  [/_mismatch$/, 'max'],
];

/**
 * The metrics of several processes as one gateway's. What counts requests, connections and the like is added up; what tells
 * of the process itself is told of each, with the label `worker`. A process that has ended is still counted: a sum that fell
 * would look like a restart, after which everything is counted a second time.
 */
export class JoinedMetrics {
  readonly #own = new Registry();
  readonly #dropped: Counter<string>;
  readonly #lost: Counter;
  readonly #auditFailures: Counter;
  #ended: Promise<Snapshot> = Promise.resolve([]);

  constructor() {
    collectDefaultMetrics({ register: this.#own });
    const registers = [this.#own];
    this.#dropped = new Counter({ ...CONNECTIONS_DROPPED, registers });
    this.#lost = new Counter({ ...WORKERS_LOST, registers });
    this.#auditFailures = new Counter({ ...AUDIT_FAILURES, registers });
  }

  /** A connection was closed unanswered before a worker had it: there were too many, or too few open files. */
  connectionDropped(reason: Extract<Shortage, 'connections' | 'descriptors'>): void {
    this.#dropped.inc({ reason });
  }

  /** A worker stopped or ended without being told to. */
  workerLost(): void {
    this.#lost.inc();
  }

  /** A change that an operator made is not recorded, or not as it ended. */
  auditFailed(): void {
    this.#auditFailures.inc();
  }

  /** Keeps what a process has counted that is no more. */
  keep(last: Snapshot): void {
    const counts = (last as readonly PlainMetric[]).filter(({ name, type }) => type !== 'gauge' && !OWN.test(name));
    // One after the other: two may end at once.
    this.#ended = this.#ended.then((before) => plain(AggregatorRegistry.aggregate([before, counts] as object[])));
  }

  /** @param workers each with its number */
  async text(
    workers: readonly { readonly worker: number; readonly metrics: Snapshot }[],
  ): Promise<{ readonly text: string; readonly contentType: string }> {
    const all = [
      ...workers.map(({ worker, metrics }) => named(metrics, String(worker))),
      await this.#ended,
      named(await plain(this.#own), 'supervisor'),
    ];
    const registry = AggregatorRegistry.aggregate(all as object[]);
    return { text: await registry.metrics(), contentType: registry.contentType };
  }
}

function named(metrics: Snapshot, worker: string): Snapshot {
  return (metrics as readonly PlainMetric[]).map((metric) => {
    if (OWN.test(metric.name)) {
      const values = metric.values.map((value) => ({ ...value, labels: { ...value.labels, worker } }));
      // Each series is one process's, so there is nothing to add up, and none to leave out for that.
      return { ...metric, values, aggregator: 'first' };
    }
    const otherwise = JOINED_OTHERWISE.find(([names]) => names.test(metric.name));
    return otherwise === undefined ? metric : { ...metric, aggregator: otherwise[1] };
  });
}

async function plain(registry: Registry): Promise<Snapshot> {
  return (await registry.getMetricsAsJSON()) as unknown as Snapshot;
}
