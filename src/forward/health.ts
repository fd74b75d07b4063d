import { request as requestPlain } from 'node:http';
import { request as requestEncrypted } from 'node:https';
import type { DialOptions } from './dial.ts';
import { tlsOptions } from './dial.ts';
import type { Target } from './target.ts';

export interface HealthOptions extends Pick<DialOptions, 'tls'> {
  /** Asked for with GET; 200 to 399 is healthy. */
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Failed checks in a row until a target is left out. */
  readonly unhealthyAfter: number;
  /** Good checks in a row until it is let back in. */
  readonly healthyAfter: number;
}

export interface HealthEvents {
  /** A target is left out or let back in. @param cause what its last check found */
  readonly onChange: (target: string, healthy: boolean, cause: string) => void;
}

/**
 * Asks a target regularly how it is, each time on a connection of its own: that is what the next request may need. It
 * counts as healthy until checks say otherwise, so that a start does not wait for them.
 */
export class HealthChecks {
  readonly #target: Target;
  readonly #options: HealthOptions;
  readonly #events: HealthEvents;
  #healthy = true;
  /** Checks in a row that say otherwise. */
  #against = 0;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(target: Target, options: HealthOptions, events: HealthEvents) {
    this.#target = target;
    this.#options = options;
    this.#events = events;
    this.#check();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #check(): void {
    check(this.#target, this.#options, (fault) => {
      if (this.#closed) return;
      this.#judge(fault);
      this.#timer = setTimeout(() => this.#check(), this.#options.intervalMs);
      this.#timer.unref();
    });
  }

  #judge(fault: string | null): void {
    const { unhealthyAfter, healthyAfter } = this.#options;
    if ((fault === null) === this.#healthy) {
      this.#against = 0;
      return;
    }
    this.#against++;
    if (this.#against < (this.#healthy ? unhealthyAfter : healthyAfter)) return;
    this.#against = 0;
    this.#healthy = !this.#healthy;
    this.#target.checked(this.#healthy);
    this.#events.onChange(this.#target.name, this.#healthy, fault ?? 'answers as it should');
  }
}

/** One check. @param done called once, with what is wrong or null */
function check(
  { address }: Target,
  { path, timeoutMs, tls }: HealthOptions,
  done: (fault: string | null) => void,
): void {
  const where = address.kind === 'unix' ? { socketPath: address.path } : { host: address.host, port: address.port };
  const to = { ...where, path, agent: false, headers: { Host: address.authority, 'User-Agent': 'tollgate-health' } };
  const request =
    address.kind === 'https' ? requestEncrypted({ ...to, ...tlsOptions(address.host, tls) }) : requestPlain(to);
  let told = false;
  const tell = (fault: string | null) => {
    if (told) return;
    told = true;
    clearTimeout(timer);
    request.destroy();
    done(fault);
  };
  const timer = setTimeout(() => tell(`no answer within ${timeoutMs} ms`), timeoutMs);
  timer.unref();
  request.once('response', ({ statusCode = 0 }) => {
    tell(statusCode >= 200 && statusCode < 400 ? null : `answered ${statusCode}`);
  });
  request.on('error', (error: NodeJS.ErrnoException) => tell(error.code ?? error.message));
  request.end();
}
