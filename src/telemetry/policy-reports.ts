import type { Logger } from 'pino';
import type { PolicyDecision, PolicyObserver } from '../policies/chain.ts';
import type { GatewayMetrics } from './metrics.ts';

/** A policy gets at most one line of a message in this time. */
const SECOND_MS = 1_000;

type Log = Pick<Logger, 'error' | 'warn'>;
type Metrics = Pick<GatewayMetrics, 'policyRan' | 'policyStrayed'>;

/** A message about a policy. */
interface Report {
  readonly level: keyof Log;
  readonly message: string;
  readonly members: { readonly policy: string; readonly [member: string]: unknown };
}

/** The second after a line: what has been reported since, and has no line yet. */
interface Second {
  count: number;
  /** The last of these reports; null if there has been no other. */
  latest: Report | null;
  readonly timer: NodeJS.Timeout;
}

/**
 * Counts what policies do, and logs their failures.
 *
 * Attack: a caller finds a request at which a policy fails, and sends it ten thousand times a second, so that the disk is full of
 * exceptions. So a policy has one line of each message a second, with the number of failures since the line before.
 */
export class PolicyReports implements PolicyObserver {
  readonly #log: Log;
  readonly #metrics: Metrics;
  /** By message and policy. */
  readonly #seconds = new Map<string, Second>();

  constructor(log: Log, metrics: Metrics) {
    this.#log = log;
    this.#metrics = metrics;
  }

  ran(policy: string, outcome: PolicyDecision['kind'], ms: number): void {
    this.#metrics.policyRan(policy, outcome, ms);
  }

  failed(policy: string, reason: string, error: unknown): void {
    const members = { policy, reason, ...(error === undefined ? {} : { err: error }) };
    this.#add({ level: 'error', message: 'a policy failed', members });
  }

  wasSlow(policy: string, ms: number): void {
    this.#add({ level: 'warn', message: 'a policy keeps the thread', members: { policy, ms: Math.round(ms) } });
  }

  /** Counts and logs an uncaught error in what a policy has begun and no request waits for. */
  strayed(policy: string, error: unknown): void {
    this.#metrics.policyStrayed(policy);
    this.#add({ level: 'error', message: 'a policy failed outside of its requests', members: { policy, err: error } });
  }

  /** Writes the lines that are held. */
  close(): void {
    for (const { count, latest, timer } of this.#seconds.values()) {
      clearTimeout(timer);
      if (latest !== null) this.#line(latest, count);
    }
    this.#seconds.clear();
  }

  #add(report: Report): void {
    const key = `${report.message} ${report.members.policy}`;
    const second = this.#seconds.get(key);
    if (second === undefined) this.#write(key, report, 1);
    else {
      second.count++;
      second.latest = report;
    }
  }

  #write(key: string, report: Report, count: number): void {
    const timer = setTimeout(() => this.#secondIsOver(key), SECOND_MS).unref();
    this.#seconds.set(key, { count: 0, latest: null, timer });
    this.#line(report, count);
  }

  #secondIsOver(key: string): void {
    const { count, latest } = this.#seconds.get(key)!;
    this.#seconds.delete(key);
    if (latest !== null) this.#write(key, latest, count);
  }

  #line({ level, message, members }: Report, count: number): void {
    this.#log[level]({ ...members, count }, message);
  }
}
