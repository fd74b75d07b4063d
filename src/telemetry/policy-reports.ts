import type { Logger } from 'pino';
import type { PolicyObserver, Ruling } from '../policies/chain.ts';
import type { GatewayMetrics } from './metrics.ts';

/** A policy gets at most one line of failures in this time. */
const SECOND_MS = 1_000;

/** The failures of a policy in the second after a line that have no line yet. */
interface Held {
  count: number;
  reason: string;
  error: unknown;
}

/**
 * Counts what policies do, and logs their failures.
 *
 * Attack: a caller finds a request at which a policy fails, and sends it ten thousand times a second, so that the disk is full of
 * exceptions. So a policy has one line a second, with the number of failures since the line before.
 */
export class PolicyReports implements PolicyObserver {
  readonly #logger: Pick<Logger, 'error'>;
  readonly #metrics: Pick<GatewayMetrics, 'policyRan'>;
  /** By policy, during the second after a line. */
  readonly #held = new Map<string, Held>();
  readonly #timers = new Map<string, NodeJS.Timeout>();

  constructor(logger: Pick<Logger, 'error'>, metrics: Pick<GatewayMetrics, 'policyRan'>) {
    this.#logger = logger;
    this.#metrics = metrics;
  }

  ran(policy: string, outcome: Ruling['kind'], ms: number): void {
    this.#metrics.policyRan(policy, outcome, ms);
  }

  failed(policy: string, reason: string, error: unknown): void {
    const held = this.#held.get(policy);
    if (held === undefined) this.#write(policy, { count: 1, reason, error });
    else this.#held.set(policy, { count: held.count + 1, reason, error });
  }

  /** Writes the lines that are held. */
  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    for (const [policy, held] of this.#held) if (held.count > 0) this.#line(policy, held);
    this.#held.clear();
  }

  #write(policy: string, failures: Held): void {
    this.#line(policy, failures);
    this.#held.set(policy, { count: 0, reason: '', error: undefined });
    this.#timers.set(policy, setTimeout(() => this.#secondIsOver(policy), SECOND_MS).unref());
  }

  #secondIsOver(policy: string): void {
    const held = this.#held.get(policy)!;
    this.#held.delete(policy);
    this.#timers.delete(policy);
    if (held.count > 0) this.#write(policy, held);
  }

  #line(policy: string, { count, reason, error }: Held): void {
    const err = error === undefined ? {} : { err: error };
    this.#logger.error({ policy, reason, count, ...err }, 'a policy failed');
  }
}
