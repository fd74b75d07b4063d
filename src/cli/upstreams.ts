import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { UpstreamTls } from '../forward/dial.ts';
import { HealthChecks } from '../forward/health.ts';
import { Upstream } from '../forward/upstream.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { UpstreamState } from '../telemetry/metrics.ts';

type UpstreamSettings = Settings['upstreams'] extends ReadonlyMap<string, infer U> ? U : never;

interface Open {
  readonly settings: UpstreamSettings;
  readonly upstream: Upstream;
  readonly checks: readonly HealthChecks[];
}

/** The services behind the gateway, as the settings in force have them. */
export class Upstreams {
  readonly #log: GatewayLog;
  readonly #onUnasked: (upstream: string) => void;
  #open = new Map<string, Open>();
  /** Those of earlier settings, while they finish what runs. */
  readonly #retired = new Set<Upstream>();

  /**
   * @param onUnasked an upstream has sent bytes that answer no request
   * @throws Failure `bad_settings` where a file of a certificate cannot be read
   */
  constructor(settings: Settings['upstreams'], log: GatewayLog, onUnasked: (upstream: string) => void) {
    this.#log = log;
    this.#onUnasked = onUnasked;
    this.use(settings);
  }

  get byName(): ReadonlyMap<string, Upstream> {
    return new Map([...this.#open].map(([name, { upstream }]) => [name, upstream]));
  }

  /** For the metrics. */
  states(): UpstreamState[] {
    return [...this.#open].map(([name, { upstream }]) => stateOf(name, upstream));
  }

  /**
   * Opens what is new or has changed, keeps what is as it was with its connections, and retires the rest.
   * @throws Failure `bad_settings`; then all is as it was before
   */
  use(settings: Settings['upstreams']): void {
    const open = new Map<string, Open>();
    for (const [name, one] of settings) {
      const before = this.#open.get(name);
      const isSame = before !== undefined && isDeepStrictEqual(before.settings, one);
      open.set(name, isSame ? before : this.#opened(name, one));
    }
    const before = this.#open;
    this.#open = open;
    for (const [name, one] of before) if (open.get(name) !== one) this.#retire(one);
  }

  close(): void {
    for (const { checks, upstream } of this.#open.values()) {
      for (const check of checks) check.close();
      upstream.close();
    }
    for (const upstream of this.#retired) upstream.close();
  }

  #opened(name: string, settings: UpstreamSettings): Open {
    const { health, ...options } = settings;
    const tls = readTls(options);
    const { logger } = this.#log;
    const onTarget = (target: string, usable: boolean, cause: string) =>
      logger[usable ? 'info' : 'error']({ upstream: name, target, cause }, usable ? 'let back in' : 'left out');
    const onUnasked = (target: string, begins: boolean) => {
      this.#onUnasked(name);
      const cause = 'the target sent bytes that answer no request';
      if (begins) logger.error({ upstream: name, target, cause }, 'connections are not reused for a minute');
    };
    const upstream = new Upstream({ ...options, tls, onTarget, onUnasked, monotonicMs: () => performance.now() });
    const checks =
      health === null
        ? []
        : upstream.targets.map((target) => new HealthChecks(target, { ...health, tls }, { onChange: onTarget }));
    return { settings, upstream, checks };
  }

  #retire({ upstream, checks }: Open): void {
    for (const check of checks) check.close();
    upstream.retire();
    for (const one of this.#retired) if (one.inFlight === 0) this.#retired.delete(one);
    this.#retired.add(upstream);
  }
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
