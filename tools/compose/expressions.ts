import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const CONFIG = join(import.meta.dirname, '..', '..', 'config');

/** One question to Prometheus, and where it stands. */
export interface Expression {
  readonly where: string;
  readonly promql: string;
}

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}

export interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition: string }[] };
}

export function readDashboard(): Dashboard {
  return JSON.parse(readFileSync(join(CONFIG, 'grafana', 'dashboards', 'tollgate.json'), 'utf8')) as Dashboard;
}

export function readAlerts(): readonly Alert[] {
  const file = parse(readFileSync(join(CONFIG, 'prometheus', 'alerts.yml'), 'utf8')) as {
    groups: { name: string; rules: Alert[] }[];
  };
  return file.groups.flatMap(({ rules }) => rules);
}

/** What the dashboard asks, with Grafana's variables replaced as Grafana would. */
export function dashboardExpressions({ panels }: Dashboard): readonly Expression[] {
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, refId }) => ({
      where: `${title} (${refId})`,
      promql: expr.replaceAll('$__rate_interval', '1m').replaceAll('$plan', '.*'),
    })),
  );
}
