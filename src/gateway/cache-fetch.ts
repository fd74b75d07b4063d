import type { Arriving, CacheKey, Fetch, ResponseCache } from '../forward/cache/response-cache.ts';
import { type CacheableRequest, type Rules, StoredResponse } from '../forward/cache/stored-response.ts';
import { ClientGoneError, type ForwardResult } from '../forward/faults.ts';
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

const NO_CONTENT = 204;
const PARTIAL_CONTENT = 206;
const NOT_MODIFIED = 304;
const NOT_SATISFIABLE = 416;
const NO_BODY = Buffer.alloc(0);
const CACHE_STATUS = 'Cache-Status';
/** The name of this cache in Cache-Status. */
const CACHE_NAME = 'Tollgate';

/**
 * How long others wait for the rest of a response once its head is there, milliseconds.
 *
 * Attack: a client that reads nothing asks first for what many want, and they wait as long as it likes.
 */
const WHOLE_WITHIN_MS = 1_000;

/** Passes the response of the service on, and keeps a copy of it if it may be stored. */
export class Fetching implements ForwardHooks, AnswerBodyReader, Arriving {
  readonly key: CacheKey;
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
  #slow: NodeJS.Timeout | null = null;
  /** The response as it will be stored, without its body; null if it will not be. */
  #kept: StoredResponse | null = null;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /**
   * @param stored what does not serve the request as it is; null if there is nothing
   * @param isValidation whether the service is asked to confirm that
   * @param fetch for others to wait for; null if they do not
   */
  constructor(
    lookUp: CacheLookUp,
    hooks: ForwardHooks,
    stored: StoredResponse | null,
    isValidation: boolean,
    fetch: Fetch | null,
  ) {
    this.key = lookUp.key;
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
    this.#fetch = fetch;
  }

  head(head: ResponseHead): Buffer | null {
    const { cache, request, rules } = this.#lookUp;
    if (this.#validated !== null && head.status === NOT_MODIFIED) return this.#confirmed(this.#validated, head);
    const { status, fields } = head;
    // A body that ends with the connection may have been cut off.
    const mayBeWhole = head.framing !== 'close';
    this.#kept = mayBeWhole
      ? StoredResponse.of({ status, fields, servedBy: this.record.target }, request, rules)
      : null;
    if (this.#kept === null) this.#fetch?.end('not_stored');
    else {
      cache.arrives(this);
      if (this.#fetch !== null) this.#slow = setTimeout(() => this.#fetch?.end('not_stored'), WHOLE_WITHIN_MS);
    }
    const said = `fwd=${this.#why}; fwd-status=${status}${this.#kept === null ? '' : '; stored'}`;
    this.#hooks.head({
      status,
      fields: [...fields, CACHE_STATUS, `${CACHE_NAME}; ${said}`],
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
    const confirmed = validated.confirmedBy(head, request, rules, this.record.target);
    const isStored = confirmed !== null && cache.keep(key, request, confirmed);
    this.#fetch?.end(isStored ? 'stored' : 'not_stored');
    const { head: answered, body } = answerOf(confirmed ?? validated, request, `fwd=${this.#why}; fwd-status=304`);
    this.#hooks.head(answered);
    return body;
  }

  chunk(bytes: Buffer): void {
    this.#hooks.reader?.chunk(bytes);
    if (this.#kept === null) return;
    const { cache } = this.#lookUp;
    if (this.#bytes + bytes.length > cache.maxBodyBytes || !cache.hold(bytes.length)) {
      this.abandon();
      return;
    }
    this.#bytes += bytes.length;
    this.#pieces.push(Buffer.from(bytes));
  }

  abandon(): void {
    this.#forget();
    this.#fetch?.end('not_stored');
  }

  #forget(): void {
    this.#kept = null;
    this.#pieces = [];
    this.#lookUp.cache.release(this.#bytes);
    this.#bytes = 0;
    this.#lookUp.cache.left(this);
    if (this.#slow !== null) clearTimeout(this.#slow);
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
    const kept = result.kind === 'answered' ? this.#kept : null;
    const response = kept === null ? null : kept.withBody(Buffer.concat(this.#pieces));
    this.#forget();
    const isStored = response !== null && cache.keep(key, request, response);
    if (response !== null) this.#fetch?.end(isStored ? 'stored' : 'not_stored');
    else this.#fetch?.end(result.kind === 'client_gone' ? 'left' : 'failed');
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

/** What a client gets of a stored response. */
interface StoredAnswer {
  readonly head: ResponseHead;
  /** Null if it gets none. */
  readonly body: Buffer | null;
}

/**
 * A stored response for a client: a 304 if the client has it already, and a 206 or a 416 if the client asks for a part of it.
 * @param said for Cache-Status (RFC 9211)
 */
export function answerOf(stored: StoredResponse, request: CacheableRequest, said: string): StoredAnswer {
  const isKnown = stored.status === 200 && stored.isKnownTo(request);
  const part = isKnown ? null : stored.partFor(request);
  const age = ['Age', String(stored.age), CACHE_STATUS, `${CACHE_NAME}; ${said}`];
  if (isKnown) return answerWith(NOT_MODIFIED, [...stored.fieldsWithoutBody, ...age], null);
  const { length } = stored.body;
  if (part === 'beyond') return answerWith(NOT_SATISFIABLE, ['Content-Range', `bytes */${length}`, ...age], NO_BODY);
  if (part === null) return answerWith(stored.status, [...stored.fields, ...age], stored.body);
  const range = ['Content-Range', `bytes ${part.from}-${part.to - 1}/${length}`];
  const body = stored.body.subarray(part.from, part.to);
  return answerWith(PARTIAL_CONTENT, [...stored.fieldsOfPart, ...range, ...age], body);
}

/** @param body null for a response that has no Content-Length either */
function answerWith(status: number, fields: readonly string[], body: Buffer | null): StoredAnswer {
  const length = body?.length ?? 0;
  const hasLength = body !== null && status !== NO_CONTENT;
  const all = hasLength ? [...fields, 'Content-Length', String(length)] : fields;
  const framing = length === 0 ? 'none' : 'length';
  const head = { status, fields: all, values: fieldValues(all).values, lines: null, framing, length } as const;
  return { head: { ...head, keepsAlive: true, keepAlive: [] }, body: length === 0 ? null : body };
}

/** A stored body up to this size is written at once. */
const AT_ONCE_BYTES = 256 * 1024;
const JOINED_BYTES = 16 * 1024;

/**
 * Writes a stored body no faster than the client reads it.
 *
 * Attack: clients ask for large stored responses and read nothing, and over TLS each of them is held encrypted.
 */
export class StoredBody {
  readonly #response: ResponseBody;
  readonly #body: Buffer;
  readonly #timeoutMs: number;
  readonly #done: (result: ForwardResult) => void;
  #written = 0;
  #timer: NodeJS.Timeout | null = null;
  #hasEnded = false;

  /** @param timeoutMs how long the client may read nothing @param done called once */
  constructor(response: ResponseBody, body: Buffer, timeoutMs: number, done: (result: ForwardResult) => void) {
    this.#response = response;
    this.#body = body;
    this.#timeoutMs = timeoutMs;
    this.#done = done;
    response.once('close', this.#onClose);
  }

  readonly write = (): void => {
    if (this.#timer !== null) clearTimeout(this.#timer);
    while (this.#body.length - this.#written > AT_ONCE_BYTES) {
      const from = this.#written;
      this.#written += AT_ONCE_BYTES;
      if (this.#response.write(this.#body.subarray(from, this.#written))) continue;
      this.#timer = setTimeout(() => this.breakOff(new ClientGoneError('the client does not read')), this.#timeoutMs);
      this.#response.once('drain', this.write);
      return;
    }
    const last = this.#body.subarray(this.#written);
    // Node joins a head and a text into a single write. With bytes it would make two writes.
    if (last.length <= JOINED_BYTES) this.#response.end(last.toString('latin1'), 'latin1');
    else this.#response.end(last);
    this.#end({ kind: 'answered' });
  };

  readonly #onClose = (): void => this.breakOff(new ClientGoneError('the client left'));

  breakOff({ message }: Error): void {
    if (this.#hasEnded) return;
    this.#end({ kind: 'client_gone', cause: message });
    this.#response.destroy();
  }

  #end(result: ForwardResult): void {
    this.#hasEnded = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#response.removeListener('close', this.#onClose);
    this.#response.removeListener('drain', this.write);
    this.#done(result);
  }
}
