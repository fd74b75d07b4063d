import type { CacheKey, Fetch, ResponseCache } from '../forward/cache/response-cache.ts';
import { type CacheableRequest, type Rules, StoredResponse } from '../forward/cache/stored-response.ts';
import type { ForwardResult } from '../forward/faults.ts';
import type { AnswerBodyReader, ForwardHooks } from '../forward/forward.ts';
import type { ClientRequest, ResponseBody } from '../http1/client.ts';
import { fieldValues } from '../http1/fields.ts';
import type { ResponseHead } from '../http1/response-head.ts';

/*
 * The response of a service on its way to the client and into the cache, and a stored response as a client gets it.
 */

/** A request that the cache may serve. */
export interface CacheLookUp {
  readonly cache: ResponseCache;
  readonly key: CacheKey;
  readonly request: CacheableRequest;
  readonly rules: Rules;
}

const NOT_MODIFIED = 304;
const NO_CONTENT = 204;
const CACHE_STATUS = 'Cache-Status';
/** The name of this cache in Cache-Status. */
const CACHE_NAME = 'Tollgate';

/** Passes the response of the service on, and keeps a copy of it if it may be stored. */
export class Fetching implements ForwardHooks, AnswerBodyReader {
  readonly record: ForwardHooks['record'];
  readonly time: ForwardHooks['time'];
  readonly sent: ForwardHooks['sent'];
  readonly writeTimeoutMs: number;
  readonly timeouts: ForwardHooks['timeouts'];
  readonly retries: ForwardHooks['retries'];
  readonly reader = this;
  readonly #lookUp: CacheLookUp;
  readonly #hooks: ForwardHooks;
  /** Why the service is asked, as Cache-Status has it (RFC 9211 section 2.2). */
  readonly #why: 'uri-miss' | 'request' | 'stale';
  readonly #validated: StoredResponse | null;
  /** For others to wait for; null if they do not. */
  readonly #fetch: Fetch | null;
  /** The response as it will be stored, without its body; null if it will not be. */
  #kept: StoredResponse | null = null;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /**
   * @param stored what does not serve the request as it is; null if there is nothing
   * @param isValidation whether the service is asked to confirm that
   */
  constructor(lookUp: CacheLookUp, hooks: ForwardHooks, stored: StoredResponse | null, isValidation: boolean) {
    this.record = hooks.record;
    this.time = hooks.time;
    this.sent = hooks.sent;
    this.writeTimeoutMs = hooks.writeTimeoutMs;
    this.timeouts = hooks.timeouts;
    this.retries = hooks.retries;
    this.#lookUp = lookUp;
    this.#hooks = hooks;
    this.#why = stored === null ? 'uri-miss' : stored.freshFor > 0 ? 'request' : 'stale';
    this.#validated = isValidation ? stored : null;
    this.#fetch = lookUp.cache.begin(lookUp.key);
  }

  head(head: ResponseHead): Buffer | null {
    const { request, rules } = this.#lookUp;
    if (this.#validated !== null && head.status === NOT_MODIFIED) return this.#confirmed(this.#validated, head);
    // A body that ends with the connection may have been cut off.
    this.#kept = head.framing === 'close' ? null : StoredResponse.of(head, request, rules);
    if (this.#kept === null) this.#fetch?.end('not_stored');
    const status = `fwd=${this.#why}; fwd-status=${head.status}${this.#kept === null ? '' : '; stored'}`;
    this.#hooks.head({
      status: head.status,
      fields: [...head.fields, CACHE_STATUS, `${CACHE_NAME}; ${status}`],
      values: (name) => head.values(name),
      lines: null,
      framing: head.framing,
      length: head.length,
      keepsAlive: head.keepsAlive,
      keepAlive: head.keepAlive,
    });
    return null;
  }

  /** The service has confirmed what is stored: the client gets that. */
  #confirmed(validated: StoredResponse, head: ResponseHead): Buffer | null {
    const { cache, key, request, rules } = this.#lookUp;
    const confirmed = validated.confirmedBy(head, request, rules);
    if (confirmed !== null) cache.keep(key, request, confirmed);
    this.#fetch?.end(confirmed === null ? 'not_stored' : 'stored');
    const answered = headOf(confirmed ?? validated, request, `fwd=${this.#why}; fwd-status=304`);
    this.#hooks.head(answered);
    return answered.framing === 'none' ? null : validated.body;
  }

  chunk(bytes: Buffer): void {
    this.#hooks.reader?.chunk(bytes);
    if (this.#kept === null) return;
    this.#bytes += bytes.length;
    if (this.#bytes <= this.#lookUp.cache.maxBodyBytes) {
      this.#pieces.push(Buffer.from(bytes));
      return;
    }
    this.#kept = null;
    this.#pieces = [];
    this.#fetch?.end('not_stored');
  }

  get isBehind(): boolean {
    return this.#hooks.reader?.isBehind === true;
  }

  whenCaughtUp(next: () => void): void {
    this.#hooks.reader?.whenCaughtUp(next);
  }

  information(status: number, fields: readonly string[]): boolean {
    return this.#hooks.information(status, fields);
  }

  done(result: ForwardResult): void {
    const { cache, key, request } = this.#lookUp;
    const isStored = result.kind === 'answered' && this.#kept !== null;
    if (isStored) cache.keep(key, request, this.#kept!.withBody(Buffer.concat(this.#pieces)));
    this.#fetch?.end(isStored ? 'stored' : 'failed');
    this.#hooks.done(result);
  }
}

/** The hooks of a request that no client waits for. */
export function inBackground(passing: ForwardHooks, done: () => void): ForwardHooks {
  const { time, writeTimeoutMs, timeouts, retries } = passing;
  return {
    ...{ time, writeTimeoutMs, timeouts, retries, done },
    record: { target: null, attempts: 1, isOverRetryBudget: false, bytesOut: 0 },
    head: () => null,
    information: () => false,
    sent: null,
    reader: null,
  };
}

/** In place of a client: it takes everything at once. */
export class NoClient implements ResponseBody {
  readonly req: ClientRequest;
  readonly headersSent = true;
  readonly destroyed = false;
  readonly socket = null;
  readonly isTaken = true;

  constructor(req: ClientRequest) {
    this.req = req;
  }

  flushHeaders(): void {}

  write(): true {
    return true;
  }

  end(): void {}

  destroy(): void {}

  once(): void {}

  removeListener(): void {}
}

/** The head of a stored response for a client; a 304 if the client has the response already. @param status for Cache-Status (RFC 9211) */
export function headOf(stored: StoredResponse, request: CacheableRequest, status: string): ResponseHead {
  const isKnown = stored.status === 200 && stored.isKnownTo(request);
  const { length } = stored.body;
  const hasLength = !isKnown && stored.status !== NO_CONTENT;
  const fields = [
    ...(isKnown ? stored.fieldsWithoutBody : stored.fields),
    ...(hasLength ? ['Content-Length', String(length)] : []),
    ...['Age', String(stored.age), CACHE_STATUS, `${CACHE_NAME}; ${status}`],
  ];
  return {
    status: isKnown ? NOT_MODIFIED : stored.status,
    fields,
    values: fieldValues(fields).values,
    lines: null,
    framing: isKnown || length === 0 ? 'none' : 'length',
    length: isKnown ? 0 : length,
    keepsAlive: true,
    keepAlive: [],
  };
}
