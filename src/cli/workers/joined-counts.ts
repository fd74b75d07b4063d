import type { JoinedMetrics, Snapshot } from '../../telemetry/joined-metrics.ts';

/** What a worker is for its metrics. */
export interface CountingWorker {
  /** From 1. */
  readonly worker: number;
  /** What it counted, as it last told. */
  readonly lastMetrics: Snapshot;
  /** @returns null when it has not answered `withinMs`, or is gone */
  ask(question: 'metrics', withinMs: number): Promise<unknown>;
}

/**
 * The metrics of a gateway of several workers, each asked for its own; of one that does not answer `withinMs` what it told
 * last stands.
 * @param running those that run, at any moment: one that ends leaves it in the same step in which `metrics` keeps its counts
 */
export async function countsOf(running: ReadonlySet<CountingWorker>, metrics: JoinedMetrics, withinMs: number) {
  await Promise.all([...running].map((worker) => worker.ask('metrics', withinMs)));
  // Not those that were asked: one that has ended since would be counted twice, and a sum that was too high falls.
  return metrics.text([...running].map(({ worker, lastMetrics }) => ({ worker, metrics: lastMetrics })));
}
