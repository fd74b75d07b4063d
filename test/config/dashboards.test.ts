import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { isErrorCode } from '../../src/errors/catalogue.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { dashboardExpressions, type Expression, readAlerts, readDashboard } from '../../tools/compose/expressions.ts';
import { ROOT } from '../support/processes.ts';

const dashboard = readDashboard();
const alerts = readAlerts();
const expressions: readonly Expression[] = [
  ...dashboardExpressions(dashboard),
  ...alerts.map(({ alert, expr }) => ({ where: `alert ${alert}`, promql: expr })),
];

/** Metrics of others, with the labels that are used of them. The compose smoke test asks a real Prometheus for each. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  up: [],
  haproxy_backend_active_servers: ['proxy'],
};
/** Prometheus adds them to everything it reads. */
const ADDED = ['job', 'instance'];

const known = await (async () => {
  const none = { connections: () => 0, inFlight: () => 0, upstreams: () => [], store: () => 1 };
  const { registry } = createMetrics(none);
  const ours = new Map<string, readonly string[]>(Object.entries(OTHERS));
  for (const metric of registry.getMetricsAsArray()) {
    const labels = (metric as unknown as { labelNames: readonly string[] }).labelNames;
    if (String(metric.type) !== 'histogram') ours.set(metric.name, labels);
    else for (const part of ['bucket', 'sum', 'count']) ours.set(`${metric.name}_${part}`, [...labels, 'le']);
  }
  return ours;
})();

const FUNCTIONS = ['sum', 'min', 'max', 'avg', 'rate', 'increase', 'topk', 'histogram_quantile', 'time', 'by'];

/** What an expression says of metrics: each name with the labels that are matched, and the labels grouped by. */
function read(promql: string) {
  const grouped = [...promql.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(',').map((it) => it.trim()),
  );
  const bare = promql.replaceAll(/\bby \([^)]*\)/g, ' ').replaceAll(/\[\w+\]/g, ' ');
  const selectors = [...bare.matchAll(/\b([a-z_][a-z0-9_]*)\b(?:\{([^}]*)\})?/g)]
    .map(([, name, matchers = '']) => ({
      name: name!,
      matched: [...matchers.matchAll(/(\w+)(=~|!=|!~|=)"([^"]*)"/g)].map(
        ([, label, , value]) => [label!, value!] as const,
      ),
    }))
    .filter(({ name }) => !FUNCTIONS.includes(name));
  return { selectors, grouped };
}

test('expressions are read as they are meant', () => {
  expect(read('sum by (a, le) (rate(x_total{b=~"c|d", e!="f"}[1m])) / sum(y) > 0.05')).toEqual({
    selectors: [
      {
        name: 'x_total',
        matched: [
          ['b', 'c|d'],
          ['e', 'f'],
        ],
      },
      { name: 'y', matched: [] },
    ],
    grouped: ['a', 'le'],
  });
});

describe.each(expressions.map(({ where, promql }) => [where, promql] as const))('%s', (_, promql) => {
  const { selectors, grouped } = read(promql);

  test('asks for metrics and labels that there are', () => {
    expect(selectors.length).toBeGreaterThan(0);
    for (const { name, matched } of selectors) {
      const labels = known.get(name);
      expect(labels, `there is no metric ${name}`).toBeDefined();
      for (const [label] of matched) expect([...labels!, ...ADDED], `${name} has no label ${label}`).toContain(label);
      for (const label of grouped) expect([...labels!, ...ADDED], `${name} has no label ${label}`).toContain(label);
    }
  });

  test('names error codes that the gateway has', () => {
    for (const code of selectors.flatMap(({ matched }) => matched).filter(([label]) => label === 'code')) {
      for (const one of code[1].split('|')) expect(one === 'none' || isErrorCode(one), one).toBe(true);
    }
  });
});

describe('the dashboard', () => {
  const drawn = dashboard.panels.filter(({ type }) => type !== 'row');

  test('says of each panel what it shows, by which metrics and from where', () => {
    expect(drawn.length).toBeGreaterThan(10);
    for (const { title, description, targets, datasource } of drawn) {
      expect({ title, described: Boolean(description) }).toEqual({ title, described: true });
      expect(targets?.length).toBeGreaterThan(0);
      expect(datasource?.uid).toBe('prometheus');
    }
  });

  test('has no two panels with one id or in one place', () => {
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x},${y}`), `${title} overlaps at ${x},${y}`).toBe(false);
          taken.add(`${x},${y}`);
        }
      }
    }
  });

  test('asks the data source that is provisioned', () => {
    const file = parse(readFileSync(join(ROOT, 'config/grafana/provisioning/datasources/prometheus.yaml'), 'utf8'));
    expect(file.datasources.map(({ uid }: { uid: string }) => uid)).toEqual(['prometheus']);
  });

  test('shows each metric of the gateway that is about requests, refusals, the store or the upstream', () => {
    const shown = new Set(expressions.flatMap(({ promql }) => read(promql).selectors.map(({ name }) => name)));
    const ours = [...known.keys()].filter((name) => name.startsWith('tollgate_') && !name.endsWith('_count'));
    expect(ours.filter((name) => !shown.has(name))).toEqual([]);
  });
});

describe('the alert', () => {
  const headings = readFileSync(join(ROOT, 'docs/operate/alerts.md'), 'utf8')
    .split('\n')
    .flatMap((line) => /^### (\w+)$/.exec(line)?.[1] ?? []);

  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    '%s says for whom, what, and what to do',
    (name, alert) => {
      expect(name).toMatch(/^Tollgate[A-Z]/);
      expect(alert.for).toMatch(/^\d+[sm]$/);
      expect(['critical', 'warning', 'info']).toContain(alert.labels.severity);
      expect(alert.annotations.summary).toMatch(/\.$/);
      expect(alert.annotations.description).toMatch(/\.$/);
      expect(alert.annotations.runbook_url).toBe(`docs/operate/alerts.md#${name.toLowerCase()}`);
    },
  );

  test('is explained on the page of alerts, and no other is', () => {
    expect(headings).toEqual([...new Set(headings)]);
    expect([...headings].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  });

  test('has a name of its own', () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
  });

  test('fills its texts with labels that its expression leaves', () => {
    for (const { alert, expr, annotations } of alerts) {
      const { grouped, selectors } = read(expr);
      const aggregates = /^(sum|histogram_quantile|min|max)\b/.test(expr);
      const left = aggregates ? grouped : [...ADDED, ...selectors.flatMap(({ name }) => known.get(name) ?? [])];
      for (const [, label] of Object.values(annotations)
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g)) {
        expect(left, `${alert} has no label ${label}`).toContain(label);
      }
    }
  });
});
