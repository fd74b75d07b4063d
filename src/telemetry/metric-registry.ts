import { Counter, Gauge, Registry } from 'prom-client';
import { inSlices, type Steps } from '../io/steps.ts';

/** The values of the labels of one series. */
type Labels<L extends string> = Readonly<Record<L, string>>;

/** A registry that makes the kinds of metrics that a gateway has. */
export class MetricRegistry extends Registry {
  /**
   * The metrics in the text format of Prometheus, as prom-client writes them.
   *
   * Fault: prom-client writes them in one turn of the event loop. With 8,000 routes that took up to 52 ms.
   */
  override async metrics(): Promise<string> {
    return inSlices(textOf((await this.getMetricsAsJSON()) as unknown as readonly PlainMetric[]));
  }

  /** A counter without labels. @returns a function that counts an event */
  events(name: string, help: string): () => void {
    const counter = new Counter({ name, help, registers: [this] });
    return () => counter.inc();
  }

  /** A counter with labels. @param known the series that are zero from the start: else Prometheus sees no increase at the first count */
  counter<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    known: () => Iterable<Labels<L>> = () => [],
  ): Counter<L> {
    return new Counter({
      name,
      help,
      labelNames,
      registers: [this],
      collect() {
        for (const labels of known()) this.inc(labels, 0);
      },
    });
  }

  /** A counter of one label that has these values. @returns a function that counts events with one of them */
  counted<V extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly V[],
  ): (value: V, events?: number) => void {
    const counter = this.counter(name, help, [label], () => values.map((value) => ({ [label]: value })));
    return (value, events) => counter.inc({ [label]: value }, events);
  }

  /** A counter whose value is kept elsewhere. */
  total(name: string, help: string, read: () => number): void {
    new Counter({
      name,
      help,
      registers: [this],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** @param read null while there is no value */
  gauge(name: string, help: string, read: () => number | null): void {
    new Gauge({
      name,
      help,
      registers: [this],
      collect() {
        const value = read();
        if (value === null) this.remove();
        else this.set(value);
      },
    });
  }

  /**
   * A gauge with labels.
   * @param read all its series, each with its value. Others end: a target that a reload has removed while it was left out would
   *   otherwise show 0 for ever.
   */
  gauges<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: () => Iterable<readonly [Labels<L>, number]>,
  ): void {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this],
      collect() {
        this.reset();
        for (const [labels, value] of read()) this.set(labels, value);
      },
    });
  }
}

interface PlainMetric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly {
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
}

/** How many lines are a step. */
const LINES = 16;

function* textOf(metrics: readonly PlainMetric[]): Steps<string> {
  const texts: string[] = [];
  for (const { name, help, type, values } of metrics) {
    const lines = [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`];
    for (const { metricName = name, labels, value } of values) {
      const pairs = Object.entries(labels).map(
        ([label, of]) => `${label}="${typeof of === 'string' ? escaped(of).replaceAll('"', '\\"') : of}"`,
      );
      lines.push(`${metricName}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}`);
      if (lines.length % LINES === 0) yield;
    }
    texts.push(lines.join('\n'));
    yield;
  }
  return `${texts.join('\n\n')}\n`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'Nan';
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf';
}
