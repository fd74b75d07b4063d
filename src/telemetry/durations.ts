import type { Metric, Registry } from 'prom-client';

/** How long the durations of an upstream or target are kept after the settings no longer name it. */
const KEPT_MS = 10 * 60_000;
/** The label value of a request that was not forwarded, or for which no target was chosen. */
const NONE = 'none';

/** The upstreams and targets of the settings in force. */
type NamedUpstreams = Iterable<{ readonly name: string; readonly targets: Iterable<{ readonly name: string }> }>;

interface DurationsOptions<Part extends string> {
  readonly name: string;
  readonly help: string;
  /** Upper ends of the buckets in seconds, rising. */
  readonly bounds: readonly number[];
  /** The values of the label `part`: the parts of a request's time. */
  readonly parts: readonly Part[];
  readonly upstreams: () => NamedUpstreams;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
}

/** The durations of the requests that one target served. */
interface Served<Part extends string> {
  readonly parts: Readonly<Record<Part, Buckets>>;
  /** Since when the settings do not name the target, as monotonic milliseconds; null while they do. */
  goneSinceMs: number | null;
}

/**
 * A histogram by part, upstream and target. It replaces prom-client's histogram, which builds a string from its labels at
 * each observation. prom-client still writes it out at a scrape.
 *
 * The settings bound the number of series. The series of a target that a reload removed stay for ten minutes, so that
 * Prometheus reads the last counts, and are then dropped: a program that writes gateway.yaml with new addresses every minute
 * would otherwise fill the memory. Old series are dropped at each scrape and whenever a series is added.
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
   * The buckets of one upstream and target, by part.
   * @param upstream null if the request was not forwarded
   * @param target null if no target was chosen
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
  /** By bucket. The last one counts everything above the highest bound. */
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

  /** The series in the form of prom-client; empty if nothing was added. */
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

interface Child {
  readonly labels: Readonly<Record<string, string>>;
  count: number;
}

interface Branch {
  readonly branches: Map<string, Branch>;
  child: Child | null;
}

/**
 * A counter that is incremented for every request. prom-client's counter builds an object and a string from the labels each
 * time, and again at each scrape; this one keeps them. The values of the labels must be bounded.
 */
export class RequestTally {
  readonly #root: Branch = { branches: new Map(), child: null };
  readonly #children: Child[] = [];
  readonly #labelNames: readonly string[];

  constructor(registry: Registry, name: string, help: string, labelNames: readonly string[]) {
    this.#labelNames = labelNames;
    const values = () => this.#children.map(({ labels, count }) => ({ labels, value: count }));
    const get = async () => ({ name, help, type: 'counter', aggregator: 'sum', values: values() });
    const metric = { name, help, labelNames, type: 'counter', get, reset: () => {} };
    registry.registerMetric(metric as unknown as Metric);
  }

  /** Counts one request. @param values the values of the labels, in their order */
  count(...values: readonly string[]): void {
    this.#child(values).count++;
  }

  /** Adds what a request counts for. @param values the values of the labels, in their order */
  add(amount: number, ...values: readonly string[]): void {
    this.#child(values).count += amount;
  }

  #child(values: readonly string[]): Child {
    let branch = this.#root;
    for (let i = 0; i < values.length; i++) {
      let next = branch.branches.get(values[i]!);
      if (next === undefined) {
        next = { branches: new Map(), child: null };
        branch.branches.set(values[i]!, next);
      }
      branch = next;
    }
    branch.child ??= this.#newChild(values);
    return branch.child;
  }

  #newChild(values: readonly string[]): Child {
    const labels = Object.fromEntries(this.#labelNames.map((label, i) => [label, values[i]!]));
    const child = { labels, count: 0 };
    this.#children.push(child);
    return child;
  }
}
