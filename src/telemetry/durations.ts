import type { Metric, Registry } from 'prom-client';

/**
 * A histogram that is added to for every request: prom-client's makes a text of its labels each time. It is registered
 * with prom-client, which writes it out when somebody asks.
 */
export class Durations {
  readonly #bounds: readonly number[];
  readonly #parts = new Map<string, Part>();

  /** @param bounds upper ends of the buckets in seconds, rising */
  constructor(registry: Registry, name: string, help: string, bounds: readonly number[]) {
    this.#bounds = bounds;
    const metric = {
      name,
      help,
      labelNames: ['part'],
      ...SHAPE,
      get: async () => ({ name, help, ...SHAPE, values: this.#values(name) }),
      reset: () => {},
    };
    registry.registerMetric(metric as unknown as Metric);
  }

  /** What the label `part` says; made once, at the start. */
  part(name: string): Part {
    const part = new Part(this.#bounds);
    this.#parts.set(name, part);
    return part;
  }

  #values(name: string) {
    return [...this.#parts].flatMap(([part, { counts, sum }]) => {
      let below = 0;
      const buckets = counts.map((count, i) => {
        below += count;
        return { metricName: `${name}_bucket`, labels: { le: this.#bounds[i] ?? '+Inf', part }, value: below };
      });
      const labels = { part };
      if (below === 0) return [];
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: below },
      ];
    });
  }
}

const SHAPE = { type: 'histogram', aggregator: 'sum' } as const;

class Part {
  readonly #bounds: readonly number[];
  /** By bucket, the last one for all that is above the highest bound. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(seconds: number): void {
    let i = 0;
    while (i < this.#bounds.length && seconds > this.#bounds[i]!) i++;
    this.counts[i]!++;
    this.sum += seconds;
  }
}
