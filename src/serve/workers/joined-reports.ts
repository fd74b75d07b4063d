import type { Readiness } from '../../admin/listener.ts';
import type { JoinedMetrics, Snapshot } from '../../telemetry/joined-metrics.ts';

/** The state of one worker in the body of `/readyz`. */
export interface WorkerReport {
  /** From 1. */
  readonly worker: number;
  /** Null while the worker is being replaced. */
  readonly pid: number | null;
  readonly state: 'serving' | 'starting' | 'replaced' | 'silent';
  readonly connections: number;
}

/** From the worst state to the best. */
const STORE_STATES: readonly Readiness['store'][] = ['never_reached', 'away', 'present', 'embedded'];

/**
 * The readiness of a gateway of several workers. It is ready if at least one worker is, because only workers that serve get
 * connections. Its store is in the worst state that a worker reports.
 * @param answers from the workers that serve and have answered
 */
export function joinReadiness(
  answers: readonly Readiness[],
  workers: readonly WorkerReport[],
  draining: boolean,
): Readiness & { readonly workers: readonly WorkerReport[] } {
  const badness = ({ store }: Readiness) => STORE_STATES.indexOf(store);
  const [worst] = answers.toSorted((a, b) => badness(a) - badness(b));
  return {
    store: 'never_reached',
    ...worst,
    ...(answers.some(({ settings }) => settings === 'refused') ? { settings: 'refused' } : {}),
    ...(answers.some(({ pepper }) => pepper === 'mismatch') ? { pepper: 'mismatch' } : {}),
    ...(answers.some(({ memory }) => memory === 'short') ? { memory: 'short' } : {}),
    ready: !draining && answers.some(({ ready }) => ready),
    draining,
    workers,
  };
}

/** A worker, as the collection of metrics sees it. */
export interface CountingWorker {
  /** From 1. */
  readonly worker: number;
  /** The metrics that the worker sent last. */
  readonly lastMetrics: Snapshot;
  /** @returns null if the worker does not answer within `withinMs`, or has ended */
  ask(question: 'metrics', withinMs: number): Promise<unknown>;
}

/**
 * Asks each worker for its metrics and joins them. For a worker that does not answer within `withinMs`, the metrics that it
 * sent last are used.
 * @param running the live set of running workers. A worker that ends must leave it in the same turn in which `metrics` keeps
 *   its last counts.
 */
export async function countsOf(running: ReadonlySet<CountingWorker>, metrics: JoinedMetrics, withinMs: number) {
  await Promise.all([...running].map((worker) => worker.ask('metrics', withinMs)));
  // Read `running` again: `metrics` has kept the counts of a worker that has ended since. Counting it twice would make the
  // sums rise and then fall.
  return metrics.text([...running].map(({ worker, lastMetrics }) => ({ worker, metrics: lastMetrics })));
}
