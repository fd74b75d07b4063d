import { Counter, Gauge, type Registry } from 'prom-client';

/** What is counted of the settings and plans. */
export interface SettingsMetrics {
  /** The files have changed: they came into force, or what they hold cannot be used. */
  settingsRead(outcome: 'loaded' | 'refused'): void;
}

/** The versions of gateway.yaml and plans.yaml that are in force. */
export interface Versions {
  readonly settings: string;
  readonly plans: string;
}

/** @param versions null where nothing is known of them */
export function settingsMetrics(registry: Registry, versions: () => Versions | null = () => null): SettingsMetrics {
  const reloads = new Counter({
    name: 'tollgate_reloads_total',
    help: 'Changes of gateway.yaml and plans.yaml: loaded, or refused because they have faults.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  // A series that begins with its first count shows no increase of it.
  for (const outcome of ['loaded', 'refused']) reloads.inc({ outcome }, 0);
  new Gauge({
    name: 'tollgate_settings_info',
    help: 'Always 1; the labels are the versions of gateway.yaml and plans.yaml that are in force.',
    labelNames: ['settings', 'plans'],
    registers: [registry],
    collect() {
      this.reset();
      const inForce = versions();
      if (inForce !== null) this.set({ ...inForce }, 1);
    },
  });
  return { settingsRead: (outcome) => reloads.inc({ outcome }) };
}
