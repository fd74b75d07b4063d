import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { type CountingWorker, countsOf } from '../../../src/serve/workers/joined-output.ts';
import { RequestTally } from '../../../src/telemetry/durations.ts';
import { JoinedMetrics, type Snapshot } from '../../../src/telemetry/joined-metrics.ts';

// Attack: a worker ends between the question for its metrics and the answer, as a busy one does that the kernel kills. A
// scrape that counts it twice is followed by one with less, which looks like a new start and adds everything up again.

async function served(requests: number): Promise<Snapshot> {
  const registry = new Registry();
  const tally = new RequestTally(registry, 'served', 'requests', ['plan']);
  for (let i = 0; i < requests; i++) tally.count('pro');
  return structuredClone((await registry.getMetricsAsJSON()) as Snapshot);
}

test('a worker that ends while metrics are asked for is counted once', async () => {
  const metrics = new JoinedMetrics();
  const running = new Set<CountingWorker>();
  const worker = (number: number, lastMetrics: Snapshot, ask: () => void): CountingWorker => {
    return { worker: number, lastMetrics, ask: async () => ask() };
  };
  const steady = worker(1, await served(3), () => {});
  const doomed = worker(2, await served(5), () => {
    running.delete(doomed);
    metrics.keep(doomed.lastMetrics);
  });
  running.add(steady).add(doomed);
  for (const scrape of ['while it ends', 'after it']) {
    const { text } = await countsOf(running, metrics, 1_000);
    expect(text, scrape).toContain('served{plan="pro"} 8');
  }
});
