import type { Metric, Registry } from 'prom-client';

/** For how long the durations of an upstream or target that the settings no longer name are still told. */
const KEPT_MS = 10 * 60_000;
/** The label of a request that was not forwarded, or for which no target was taken. */
const NONE = 'none';

/** The upstreams and targets of the settings in force. */
export type NamedUpstreams = Iterable<{ readonly name: string; readonly targets: Iterable<{ readonly name: string }> }>;

export interface DurationsOptions<Part extends string> {
  readonly name: string;
  readonly help: string;
  /** Upper ends of the buckets in seconds, rising. */
  readonly bounds: readonly number[];
  /** What the label `part` says: the parts of a request's time. */
  readonly parts: readonly Part[];
  readonly upstreams: () => NamedUpstreams;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
}

/** The durations of the requests that one target served. */
interface Served<Part extends string> {
  readonly parts: Readonly<Record<Part, Buckets>>;
  /** Since when the settings are known not to name the target; null while they do. */
  goneSinceMs: number | null;
}

/**
 * A histogram that is added to for every request, by part, upstream and target: prom-client's makes a text of its labels
 * each time. It is registered with prom-client, which writes it out when somebody asks.
 *
 * The series are bounded by the settings. Those of a target that a reload took away stay for ten minutes, so that
 * Prometheus reads what was counted last, and are dropped then: a program that writes gateway.yaml with new addresses every
 * minute would fill the memory. It is looked for them where the metrics are read and where series are added.
 */
export class Durations<Part extends string> {
  readonly #options: DurationsOptions<Part>;
  readonly #byUpstream = new Map<string, Map<string, Served<Part>>>();

  constructor(registry: Registry, options: DurationsOptions<Part>) {
    this.#options = options;
    const { name, help } = options;
    const metric = {
      name,
      help,
      labelNames: ['part', 'upstream', 'target'],
      ...SHAPE,
      get: async () => ({ name, help, ...SHAPE, values: this.#values() }),
      reset: () => {},
    };
    registry.registerMetric(metric as unknown as Metric);
  }

  /**
   * What the durations of one request are added to, by part.
   * @param upstream null where the request was not forwarded
   * @param target null where none was taken
   */
  of(upstream: string | null, target: string | null): Readonly<Record<Part, Buckets>> {
    const served = this.#byUpstream.get(upstream ?? NONE)?.get(target ?? NONE);
    return served === undefined ? this.#added(upstream ?? NONE, target ?? NONE) : served.parts;
  }

  #added(upstream: string, target: string): Readonly<Record<Part, Buckets>> {
    const { bounds, parts: names } = this.#options;
    const parts = Object.fromEntries(names.map((part) => [part, new Buckets(bounds)])) as Record<Part, Buckets>;
    const ofUpstream = this.#byUpstream.get(upstream) ?? new Map<string, Served<Part>>();
    this.#byUpstream.set(upstream, ofUpstream.set(target, { parts, goneSinceMs: null }));
    this.#dropGone();
    return parts;
  }

  #dropGone(): void {
    const nowMs = this.#options.monotonicMs();
    const named = new Map([[NONE, new Set([NONE])]]);
    for (const { name, targets } of this.#options.upstreams()) {
      named.set(name, new Set([NONE, ...[...targets].map((target) => target.name)]));
    }
    for (const [upstream, byTarget] of this.#byUpstream) {
      for (const [target, served] of byTarget) {
        if (named.get(upstream)?.has(target)) served.goneSinceMs = null;
        else served.goneSinceMs ??= nowMs;
        if (served.goneSinceMs !== null && nowMs - served.goneSinceMs >= KEPT_MS) byTarget.delete(target);
      }
      if (byTarget.size === 0) this.#byUpstream.delete(upstream);
    }
  }

  #values() {
    this.#dropGone();
    const { name, parts } = this.#options;
    return [...this.#byUpstream].flatMap(([upstream, byTarget]) =>
      [...byTarget].flatMap(([target, served]) =>
        parts.flatMap((part) => served.parts[part].values(name, { part, upstream, target })),
      ),
    );
  }
}

const SHAPE = { type: 'histogram', aggregator: 'sum' } as const;

class Buckets {
  readonly #bounds: readonly number[];
  /** By bucket, the last one for all that is above the highest bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(seconds: number): void {
    let i = 0;
    while (i < this.#bounds.length && seconds > this.#bounds[i]!) i++;
    this.#counts[i]!++;
    this.#sum += seconds;
  }

  /** As prom-client writes them; none where nothing was added. */
  values(name: string, labels: Readonly<Record<string, string>>) {
    let below = 0;
    const buckets = this.#counts.map((count, i) => {
      below += count;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[i] ?? '+Inf', ...labels }, value: below };
    });
    if (below === 0) return [];
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: below },
    ];
  }
}
