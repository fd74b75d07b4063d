import { request as requestPlain } from 'node:http';
import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2';
import { request as requestEncrypted } from 'node:https';
import { NAMES } from '../../io/resolver.ts';
import { Silence } from '../../io/silence.ts';
import { type DialOptions, tlsOptions, type UpstreamAddress } from './dial.ts';
import { openSession } from './http2-target.ts';
import type { UpstreamTarget } from './target.ts';

interface HealthOptions extends Pick<DialOptions, 'tls' | 'protocol'> {
  /** The path for GET, or that of gRPC's health service. A status from 200 to 399 is healthy. */
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

/** The method of gRPC's health service (grpc.health.v1). */
const GRPC_CHECK = '/grpc.health.v1.Health/Check';
/** The status of gRPC for a method that the service does not have. */
const UNIMPLEMENTED = '12';
const NO_HEALTH = 'has no grpc.health.v1.Health; leave `health` out, or give it another path';
/** A message of gRPC without a field: the state of the whole service is asked for. */
const EMPTY_MESSAGE = Buffer.alloc(5);
/** The message whose field `status` is SERVING. */
const SERVING = Buffer.of(0, 0, 0, 0, 2, 8, 1);

/** Runs one check. @param done called once, with the fault or null */
function check({ address }: UpstreamTarget, options: HealthOptions, done: (fault: string | null) => void): void {
  const { timeoutMs, protocol = 'http1' } = options;
  const isHttp2 = protocol !== 'http1';
  let isDone = false;
  const finish = (fault: string | null) => {
    if (isDone) return;
    isDone = true;
    clearInterval(timer);
    stop();
    done(fault);
  };
  // Time in which this process stood still, such as at its start on a busy machine, says nothing about the target.
  const everyMs = Math.ceil(timeoutMs / LOOKS);
  const silence = new Silence(everyMs);
  const look = () => silence.look(0, performance.now()) >= timeoutMs && finish(`no answer within ${timeoutMs} ms`);
  look();
  const timer = setInterval(look, everyMs);
  timer.unref();
  const stop = (isHttp2 ? askHttp2 : askHttp1)(address, options, finish);
}

const AGENT = 'tollgate-health';

/** @param finish called with the fault, or null if there is none @returns a function that ends the check */
type Ask = (address: UpstreamAddress, options: HealthOptions, finish: (fault: string | null) => void) => () => void;

const askHttp1: Ask = (address, { path, tls }, finish) => {
  const location =
    address.kind === 'unix'
      ? { socketPath: address.path }
      : { host: address.host, port: address.port, lookup: NAMES.lookup };
  const to = { ...location, path, agent: false, headers: { Host: address.authority, 'User-Agent': AGENT } };
  const request =
    address.kind === 'https' ? requestEncrypted({ ...to, ...tlsOptions(address.host, tls) }) : requestPlain(to);
  request.once('response', ({ statusCode = 0 }) => finish(faultOfStatus(statusCode)));
  request.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message));
  request.end();
  return () => request.destroy();
};

const askHttp2: Ask = (address, options, finish) => {
  const isGrpc = options.path === GRPC_CHECK;
  const fail = (error: Error) => finish('code' in error ? String(error.code) : error.message);
  const opened = (session: ClientHttp2Session) => {
    stop = () => session.destroy();
    const grpc = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };
    const scheme = address.kind === 'https' ? 'https' : 'http';
    const stream = session.request({
      ...{ ':path': options.path, ':scheme': scheme, ':authority': address.authority, 'user-agent': AGENT },
      ...(isGrpc ? grpc : {}),
    });
    stream.on('error', fail);
    stream.once('close', () => finish('the stream was closed'));
    const lacksMethod = (fields: IncomingHttpHeaders) => isGrpc && fields['grpc-status'] === UNIMPLEMENTED;
    stream.once('trailers', (trailers) => {
      if (lacksMethod(trailers)) finish(NO_HEALTH);
    });
    stream.once('response', (headers) => {
      const fault = lacksMethod(headers) ? NO_HEALTH : faultOfStatus(Number(headers[':status']));
      if (fault !== null || !isGrpc) finish(fault);
      else stream.on('data', (chunk: Buffer) => finish(chunk.equals(SERVING) ? null : 'is not SERVING'));
    });
    stream.once('end', () => finish('is not SERVING'));
    stream.end(isGrpc ? EMPTY_MESSAGE : undefined);
  };
  let stop = openSession(address, { ...options, connectTimeoutMs: options.timeoutMs }, opened, fail);
  return () => stop();
};

function faultOfStatus(status: number): string | null {
  return status >= 200 && status < 400 ? null : `answered ${status}`;
}
