import { request as requestPlain } from 'node:http';
import { request as requestEncrypted } from 'node:https';
import { NAMES } from '../../io/resolver.ts';
import { Silence } from '../../io/silence.ts';
import { type DialOptions, tlsOptions } from './dial.ts';
import type { UpstreamTarget } from './target.ts';

interface HealthOptions extends Pick<DialOptions, 'tls'> {
  /** The path for GET. A status from 200 to 399 is healthy. */
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Failed checks in a row until a target is left out. */
  readonly unhealthyAfter: number;
  /** Successful checks in a row until it is used again. */
  readonly healthyAfter: number;
}

interface HealthEvents {
  /** A target is left out or used again. @param cause the result of its last check */
  readonly onChange: (target: string, healthy: boolean, cause: string) => void;
}

/**
 * Checks a target's health regularly, each time on a new connection, because the next request may need a new one too. A
 * target counts as healthy until checks have failed, so that the gateway does not wait for them at startup.
 */
export class HealthChecks {
  readonly #target: UpstreamTarget;
  readonly #options: HealthOptions;
  readonly #events: HealthEvents;
  #healthy = true;
  /** Checks in a row that contradict `#healthy`. */
  #contrary = 0;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(target: UpstreamTarget, options: HealthOptions, events: HealthEvents) {
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
      this.#record(fault);
      this.#timer = setTimeout(() => this.#check(), this.#options.intervalMs);
      this.#timer.unref();
    });
  }

  #record(fault: string | null): void {
    const { unhealthyAfter, healthyAfter } = this.#options;
    if ((fault === null) === this.#healthy) {
      this.#contrary = 0;
      return;
    }
    this.#contrary++;
    if (this.#contrary < (this.#healthy ? unhealthyAfter : healthyAfter)) return;
    this.#contrary = 0;
    this.#healthy = !this.#healthy;
    this.#target.checked(this.#healthy);
    this.#events.onChange(this.#target.name, this.#healthy, fault ?? 'answers as it should');
  }
}

/** How often within its timeout a check looks whether it is over. */
const LOOKS = 10;

/** Runs one check. @param done called once, with the fault or null */
function check(
  { address }: UpstreamTarget,
  { path, timeoutMs, tls }: HealthOptions,
  done: (fault: string | null) => void,
): void {
  const location =
    address.kind === 'unix'
      ? { socketPath: address.path }
      : { host: address.host, port: address.port, lookup: NAMES.lookup };
  const to = { ...location, path, agent: false, headers: { Host: address.authority, 'User-Agent': 'tollgate-health' } };
  const request =
    address.kind === 'https' ? requestEncrypted({ ...to, ...tlsOptions(address.host, tls) }) : requestPlain(to);
  let isDone = false;
  const finish = (fault: string | null) => {
    if (isDone) return;
    isDone = true;
    clearInterval(timer);
    request.destroy();
    done(fault);
  };
  // Time in which this process stood still, such as at its start on a busy machine, says nothing about the target.
  const everyMs = Math.ceil(timeoutMs / LOOKS);
  const silence = new Silence(everyMs);
  const look = () => silence.look(0, performance.now()) >= timeoutMs && finish(`no answer within ${timeoutMs} ms`);
  look();
  const timer = setInterval(look, everyMs);
  timer.unref();
  request.once('response', ({ statusCode = 0 }) => {
    finish(statusCode >= 200 && statusCode < 400 ? null : `answered ${statusCode}`);
  });
  request.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message));
  request.end();
}
