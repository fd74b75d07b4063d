import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Settings } from '../config/settings.ts';
import type { Steps } from '../config/steps.ts';
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

type OpenByName = ReadonlyMap<string, Open>;

/** Upstreams that stand ready. */
export interface Opening {
  readonly byName: ReadonlyMap<string, Upstream>;
  /** Brings them into force, and retires those before that are not among them. */
  readonly use: () => void;
  /** Instead of `use`: closes those that were opened. */
  readonly close: () => void;
}

/** The services behind the gateway, as the settings in force have them. */
export class Upstreams {
  readonly #log: GatewayLog;
  readonly #onUnasked: (upstream: string) => void;
  #open: OpenByName = new Map();
  /** Those of earlier settings, while they finish what runs. */
  readonly #retired = new Set<Upstream>();

  /** @param onUnasked an upstream has sent bytes that answer no request */
  constructor(log: GatewayLog, onUnasked: (upstream: string) => void) {
    this.#log = log;
    this.#onUnasked = onUnasked;
  }

  /** For the metrics. */
  states(): UpstreamState[] {
    return [...this.#open].map(([name, { upstream }]) => stateOf(name, upstream));
  }

  /**
   * Opens what is new or has changed, and takes what is as it was with its connections: a step for each upstream. None of it
   * is in force before `use`; work that is given up closes what it has opened.
   * @throws Failure `bad_settings` where a file of a certificate cannot be read
   */
  *opening(settings: Settings['upstreams']): Steps<Opening> {
    const open = new Map<string, Open>();
    let isWhole = false;
    const close = () => {
      for (const [name, one] of open) if (this.#open.get(name) !== one) closeOpen(one);
    };
    try {
      for (const [name, one] of settings) {
        const before = this.#open.get(name);
        const isSame = before !== undefined && isDeepStrictEqual(before.settings, one);
        open.set(name, isSame ? before : this.#opened(name, one));
        yield;
      }
      isWhole = true;
      const byName = new Map([...open].map(([name, { upstream }]) => [name, upstream]));
      return { byName, use: () => this.#use(open), close };
    } finally {
      if (!isWhole) close();
    }
  }

  close(): void {
    for (const one of this.#open.values()) closeOpen(one);
    for (const upstream of this.#retired) upstream.close();
  }

  #use(open: OpenByName): void {
    for (const one of this.#retired) if (one.inFlight === 0) this.#retired.delete(one);
    const before = this.#open;
    this.#open = open;
    for (const [name, one] of before) if (open.get(name) !== one) this.#retire(one);
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
    this.#retired.add(upstream);
  }
}

function closeOpen({ checks, upstream }: Open): void {
  for (const check of checks) check.close();
  upstream.close();
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
