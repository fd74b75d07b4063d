import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { UpstreamTls } from '../forward/upstream/dial.ts';
import { HealthChecks } from '../forward/upstream/health.ts';
import type { RetryOutcome } from '../forward/upstream/retry-budget.ts';
import { Upstream } from '../forward/upstream/upstream.ts';
import { CLOCKS } from '../io/clocks.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { UpstreamState } from '../telemetry/metrics.ts';

type UpstreamSettings = Settings['upstreams'] extends ReadonlyMap<string, infer U> ? U : never;

interface OpenUpstream {
  readonly settings: UpstreamSettings;
  readonly upstream: Upstream;
  readonly checks: readonly HealthChecks[];
}

type OpenByName = ReadonlyMap<string, OpenUpstream>;

/** Upstreams that are open and not in force yet. */
interface OpenedUpstreams {
  readonly byName: ReadonlyMap<string, Upstream>;
  /** Brings them into force, and retires the earlier ones that are not among them. */
  readonly use: () => void;
}

/** What the metrics count of upstreams, each by its name. */
interface UpstreamEvents {
  /** An upstream has sent bytes that answer no request. */
  readonly onUnasked: (upstream: string) => void;
  /** A retry has ended, or was not made. */
  readonly onRetry: (upstream: string, outcome: RetryOutcome) => void;
}

/** The services behind the gateway, as the settings in force have them. */
export class Upstreams {
  readonly #log: GatewayLog;
  readonly #events: UpstreamEvents;
  #inForce: OpenByName = new Map();
  /** Upstreams of earlier settings, which finish their running requests. */
  readonly #retired = new Set<Upstream>();

  constructor(log: GatewayLog, events: UpstreamEvents) {
    this.#log = log;
    this.#events = events;
  }

  /** The state of each upstream, for the metrics. */
  states(): UpstreamState[] {
    return [...this.#inForce].map(([name, { upstream }]) => upstreamStateOf(name, upstream));
  }

  /**
   * Opens the upstreams that are new or have changed. An unchanged upstream is kept with its connections. The new ones come into
   * force with `use`.
   * @throws Failure `bad_settings` if a file of a certificate cannot be read; then it has closed what it had opened
   */
  open(settings: Settings['upstreams']): OpenedUpstreams {
    const open = new Map<string, OpenUpstream>();
    try {
      for (const [name, one] of settings) {
        const before = this.#inForce.get(name);
        const isSame = before !== undefined && isDeepStrictEqual(before.settings, one);
        open.set(name, isSame ? before : this.#openOne(name, one));
      }
    } catch (error) {
      for (const [name, one] of open) if (this.#inForce.get(name) !== one) closeOpen(one);
      throw error;
    }
    const byName = new Map([...open].map(([name, { upstream }]) => [name, upstream]));
    return { byName, use: () => this.#use(open) };
  }

  close(): void {
    for (const one of this.#inForce.values()) closeOpen(one);
    for (const upstream of this.#retired) upstream.close();
  }

  #use(open: OpenByName): void {
    for (const one of this.#retired) if (one.inFlight === 0) this.#retired.delete(one);
    const before = this.#inForce;
    this.#inForce = open;
    for (const [name, one] of before) if (open.get(name) !== one) this.#retire(one);
  }

  #openOne(name: string, settings: UpstreamSettings): OpenUpstream {
    const { health, ...options } = settings;
    const tls = readUpstreamTls(options);
    const { logger } = this.#log;
    const onTarget = (target: string, usable: boolean, cause: string) =>
      logger[usable ? 'info' : 'error']({ upstream: name, target, cause }, usable ? 'let back in' : 'left out');
    const onUnasked = (target: string, begins: boolean) => {
      this.#events.onUnasked(name);
      const cause = 'the target sent bytes that answer no request';
      if (begins) logger.error({ upstream: name, target, cause }, 'connections are not reused for a minute');
    };
    const onRetry = (outcome: RetryOutcome) => this.#events.onRetry(name, outcome);
    const { monotonicMs } = CLOCKS;
    const upstream = new Upstream({ ...options, tls, onTarget, onUnasked, onRetry, monotonicMs });
    const checks =
      health === null
        ? []
        : upstream.targets.map(
            (target) =>
              new HealthChecks(target, { ...health, tls, protocol: settings.protocol }, { onChange: onTarget }),
          );
    return { settings, upstream, checks };
  }

  #retire({ upstream, checks }: OpenUpstream): void {
    for (const check of checks) check.close();
    upstream.retire();
    this.#retired.add(upstream);
  }
}

function closeOpen({ checks, upstream }: OpenUpstream): void {
  for (const check of checks) check.close();
  upstream.close();
}

function upstreamStateOf(name: string, { inFlight, targets, deadlines }: Upstream): UpstreamState {
  const nowMs = deadlines.nowMs();
  return {
    name,
    inFlight,
    targets: targets.map((target) => ({ name: target.name, usable: !target.isEjected(nowMs), weight: target.weight })),
  };
}

/** @throws Failure `bad_settings` if a file cannot be read */
export function readUpstreamTls({ name, tls }: Pick<UpstreamSettings, 'name' | 'tls'>): UpstreamTls | null {
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
