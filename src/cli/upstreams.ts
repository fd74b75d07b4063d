import { readFileSync } from 'node:fs';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { UpstreamTls } from '../forward/dial.ts';
import { HealthChecks } from '../forward/health.ts';
import { Upstream } from '../forward/upstream.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { UpstreamState } from '../telemetry/metrics.ts';

type UpstreamSettings = Settings['upstreams'] extends ReadonlyMap<string, infer U> ? U : never;

export interface OpenUpstreams {
  readonly byName: ReadonlyMap<string, Upstream>;
  /** For the metrics. */
  readonly states: () => UpstreamState[];
  close(): void;
}

/**
 * Opens the services behind the gateway, and begins to check how they are where the settings say so.
 * @throws Failure `bad_settings` where a file of a certificate cannot be read
 */
export function openUpstreams(settings: Settings['upstreams'], { logger }: GatewayLog): OpenUpstreams {
  const byName = new Map<string, Upstream>();
  const checks: HealthChecks[] = [];
  for (const [name, { health, ...options }] of settings) {
    const tls = readTls(options);
    const onTarget = (target: string, usable: boolean, cause: string) =>
      logger[usable ? 'info' : 'error']({ upstream: name, target, cause }, usable ? 'let back in' : 'left out');
    const upstream = new Upstream({ ...options, tls, onTarget, monotonicMs: () => performance.now() });
    byName.set(name, upstream);
    if (health === null) continue;
    for (const target of upstream.targets) {
      checks.push(new HealthChecks(target, { ...health, tls }, { onChange: onTarget }));
    }
  }
  return {
    byName,
    states: () => [...byName].map(([name, upstream]) => stateOf(name, upstream)),
    close: () => {
      for (const check of checks) check.close();
      for (const upstream of byName.values()) upstream.close();
    },
  };
}

function stateOf(name: string, { inFlight, targets, deadlines }: Upstream): UpstreamState {
  const nowMs = deadlines.nowMs();
  return { name, inFlight, targets: targets.map((target) => ({ name: target.name, usable: !target.rests(nowMs) })) };
}

function readTls({ name, tls }: Pick<UpstreamSettings, 'name' | 'tls'>): UpstreamTls | null {
  if (tls === null) return null;
  const read = (part: 'ca' | 'cert' | 'key') => {
    const path = tls[part];
    if (path === null) return null;
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new Failure('bad_settings', `upstreams.${name}.tls.${part}: ${path} cannot be read (${code}).`, error);
    }
  };
  return { ...tls, ca: read('ca'), cert: read('cert'), key: read('key') };
}
