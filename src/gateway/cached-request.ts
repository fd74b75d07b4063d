import {
  type CacheKey,
  type Fetch,
  type FetchOutcome,
  type Found,
  targetKey,
} from '../forward/cache/response-cache.ts';
import {
  type CacheableRequest,
  fieldsByName,
  isOneRange,
  type StoredResponse,
} from '../forward/cache/stored-response.ts';
import { ClientGoneError, faultOf } from '../forward/faults.ts';
import { type ForwardHooks, forward } from '../forward/forward.ts';
import type { ForwardRequest } from '../forward/request-body.ts';
import type { ConsumerShare } from '../forward/upstream/upstream.ts';
import type { ClientAddress, ClientRequest, ClientResponse } from '../http1/client.ts';
import { fieldsWithout, linesOf } from '../http1/fields.ts';
import type { Head } from '../http1/request-head.ts';
import type { CachedRoute } from '../routing/route.ts';
import type { Match } from '../routing/router.ts';
import { answerOf, type CacheLookUp, Fetching, inBackground, NoClient, StoredBody } from './cache-fetch.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import {
  type AdmittedRequest,
  FORWARDED,
  type Passage,
  passingOf,
  requestFieldsOf,
  targetFor,
  upstreamOf,
} from './proxy-request.ts';
import type { Refusal } from './refusals.ts';
import { attemptInTurn } from './resume.ts';

/*
 * An admitted GET on a route with `cache`: answered from memory, or forwarded so that its response is kept (RFC 9111).
 */

/** Fields of a request that set a condition on a change: only the service knows the answer. */
const FOR_THE_SERVICE = ['if-match', 'if-unmodified-since'];
/** Fields by which a client asks for less than the whole response. */
const FOR_LESS: ReadonlySet<string> = new Set(['if-none-match', 'if-modified-since', 'range', 'if-range']);

/** The passage of a request on a route with `cache`. */
export class CachedRequest implements Passage {
  readonly #head: Head;
  readonly #origin: ClientAddress;
  /** Null if the request goes to the service in any case. */
  #lookUp: CacheLookUp | null = null;
  /** What the cache had when the request took its place. */
  #found: Found | null = null;

  constructor(head: Head, origin: ClientAddress) {
    this.#head = head;
    this.#origin = origin;
  }

  /** A request that the cache answers needs no place at the upstream, which may be full or slow. */
  takePlace(deps: GatewayDeps, match: Match, caller: Caller): ConsumerShare | null | 'used_up' {
    if (!isKnownLate(match)) this.#look(deps, match, caller, null, null);
    return this.#isAnswered ? null : FORWARDED.takePlace(deps, match, caller);
  }

  full(deps: GatewayDeps, match: Match, caller: Caller, share: ConsumerShare | null): Refusal | null {
    return FORWARDED.full(deps, match, caller, share);
  }

  start(
    deps: GatewayDeps,
    share: ConsumerShare | null,
    request: ClientRequest,
    response: ClientResponse,
    admitted: AdmittedRequest,
  ): ReturnType<Passage['start']> {
    const { match, caller, fieldsOfPolicies, acceptEncoding } = admitted;
    if (isKnownLate(match)) this.#look(deps, match, caller, fieldsOfPolicies, acceptEncoding);
    const lookUp = this.#lookUp;
    const turn = new CacheTurn(deps, share, request, response, admitted);
    if (lookUp !== null && this.#isAnswered) return turn.answer(lookUp, this.#found!);
    if (lookUp === null || this.#head.method === 'HEAD') {
      return FORWARDED.start(deps, share, request, response, admitted);
    }
    turn.look(lookUp);
    return turn;
  }

  get #isAnswered(): boolean {
    return this.#found !== null && this.#found.use !== 'validate';
  }

  #look(
    deps: GatewayDeps,
    match: Match,
    caller: Caller,
    fieldsOfPolicies: AdmittedRequest['fieldsOfPolicies'],
    acceptEncoding: string | null,
  ): void {
    const { cache } = deps;
    const rules = match.route.cache;
    if (cache === null || rules === null || !isForCache(this.#head)) return;
    const [head, origin] = [this.#head, this.#origin];
    const known = { head, match, caller, origin, fieldsOfPolicies, acceptEncoding, checkedBody: null };
    const fields = requestFieldsOf(deps, { ...known, traceFields: null, record: { requestId: '' } });
    const request = { target: targetFor(deps, known), fields: fieldsByName(fields) };
    const key = keyOf(match, head, caller, request, rules);
    this.#found = cache.find(key, request);
    // A part is answered from a whole response. The part that the service answers with is not kept.
    if (request.fields.range !== undefined && !this.#isAnswered) return;
    this.#lookUp = { cache, key, request, rules: { policies: cache.policies, ttlSeconds: rules.ttlSeconds } };
  }
}

/**
 * Whether what the service gets is known only once the request is admitted: what policies set, and the Accept-Encoding by which the cost
 * in the answer can be read.
 */
function isKnownLate({ route }: Match): boolean {
  return route.policies !== null || route.charges !== null;
}

function isForCache({ method, body, fields }: Head): boolean {
  if ((method !== 'GET' && method !== 'HEAD') || body !== 'none') return false;
  const byName = fields.derived(fieldsByName);
  if (FOR_THE_SERVICE.some((name) => byName[name] !== undefined)) return false;
  return byName.range === undefined || (method === 'GET' && isOneRange(byName.range));
}

/** What a service may make links and sessions of, besides all X-Forwarded-* but the address. */
const TELLING = ['forwarded', 'cookie'];

/**
 * Attack: a request with an unusual Host, scheme or path makes a response that the cache then gives to others, also where a trusted proxy
 * says what they are. So everything by which the gateway itself tells requests apart is in the key, and the cookies, and everything else that
 * a shared response depends on is for the service to name in Vary, or for the operator in `cache.fields`.
 */
function keyOf(
  { route, name }: Match,
  { host }: Head,
  { id, shareId, consumer }: Caller,
  { target, fields }: CacheableRequest,
  rules: CachedRoute,
): CacheKey {
  const isTelling = (field: string) =>
    TELLING.includes(field) || (field.startsWith('x-forwarded-') && field !== 'x-forwarded-for');
  const chosen = route.when?.map(({ header }) => header) ?? [];
  const told = Object.entries(fields).filter(
    ([field]) => isTelling(field) || rules.fields.includes(field) || chosen.includes(field),
  );
  const caller = rules.isShared ? null : [id, consumer?.plan ?? null];
  const path = target.split('?', 1)[0]!;
  return {
    whole: JSON.stringify([name, host?.toLowerCase() ?? null, target, caller, told]),
    target: targetKey(route.upstream, target),
    route: route.path,
    path,
    owner: shareId,
  };
}

/** The turn of one request: it is answered, it waits for another one, or it goes to the service. */
class CacheTurn {
  readonly #deps: GatewayDeps;
  readonly #share: ConsumerShare | null;
  readonly #request: ClientRequest;
  readonly #response: ClientResponse;
  readonly #admitted: AdmittedRequest;
  /** Breaks off what it does at present. */
  #present: { breakOff(reason: Error): void } | null = null;
  /** Monotonic milliseconds; null until it waits. */
  #waitsUntilMs: number | null = null;

  constructor(
    deps: GatewayDeps,
    share: ConsumerShare | null,
    request: ClientRequest,
    response: ClientResponse,
    admitted: AdmittedRequest,
  ) {
    this.#deps = deps;
    this.#share = share;
    this.#request = request;
    this.#response = response;
    this.#admitted = admitted;
  }

  breakOff(reason: Error): void {
    this.#present?.breakOff(reason);
  }

  /** @param found to be used at once */
  answer(lookUp: CacheLookUp, { stored, use }: Found): ReturnType<Passage['start']> {
    const { record } = this.#admitted;
    const { passing, body } = passingOf(this.#deps, this.#request, this.#response, this.#admitted);
    record.answeredFromCache(use === 'fresh' ? 'hit' : 'stale');
    passing.sent?.();
    const answer = answerOf(stored, lookUp.request, `hit; ttl=${stored.freshFor}`);
    passing.head(answer.head, stored.servedBy);
    if (use === 'stale_while_revalidating') this.#revalidate(lookUp, stored, passing);
    if (answer.body === null || passing.method === 'HEAD') {
      body.end();
      passing.done({ kind: 'answered' });
      return null;
    }
    record.bytesOut = answer.body.length;
    // A part costs what the service says of the whole.
    passing.reader?.chunk(stored.body);
    const written = new StoredBody(body, answer.body, this.#deps.writeTimeoutMs, (result) => passing.done(result));
    written.write();
    return written;
  }

  /**
   * Looks once more, because another request may have brought the response meanwhile. Then it waits for such a request that is under way,
   * or goes to the service.
   */
  look(lookUp: CacheLookUp, mayWait = true): void {
    const { cache, key, request } = lookUp;
    const found = cache.find(key, request);
    if (found !== null && found.use !== 'validate') {
      this.#present = this.answer(lookUp, found);
      return;
    }
    // A client that asks for the answer of the service gets one of its own.
    const isForced = found !== null && found.stored.freshFor > 0;
    const fetch = mayWait && !isForced ? cache.fetchOf(key) : null;
    if (fetch === null) this.#forward(lookUp, found?.stored ?? null);
    else this.#waitFor(fetch, lookUp);
  }

  /** Waits for one response, in all no longer than for the service itself. Then it goes to the service alone. */
  #waitFor(fetch: Fetch, lookUp: CacheLookUp): void {
    const { flow, match, time } = this.#admitted;
    const nowMs = this.#deps.monotonicMs();
    const { responseTimeoutMs } = match.route.timeouts ?? upstreamOf(this.#deps, match).options;
    this.#waitsUntilMs ??= nowMs + responseTimeoutMs;
    const end = () => {
      stop();
      clearTimeout(timer);
      this.#response.removeListener('close', onClose);
      this.#present = null;
    };
    const breakOff = (reason: Error) => {
      end();
      const isGone = reason instanceof ClientGoneError;
      flow.forwarded(
        isGone ? { kind: 'client_gone', cause: reason.message } : { kind: 'failed', fault: faultOf(reason) },
      );
    };
    // In turns: thousands may have waited for one response. If its client has left, one of them takes its place and the others wait on.
    const proceed = (outcome: FetchOutcome) => {
      end();
      attemptInTurn(flow, this.#deps.thread, time, () => this.look(lookUp, outcome === 'left'));
    };
    const onClose = () => breakOff(new ClientGoneError('the client left'));
    const timer = setTimeout(() => proceed('failed'), Math.max(0, this.#waitsUntilMs - nowMs));
    const stop = fetch.wait(proceed);
    this.#response.once('close', onClose);
    this.#present = { breakOff };
  }

  /** @param stored to be validated; null: nothing */
  #forward(lookUp: CacheLookUp, stored: StoredResponse | null): void {
    const [deps, admitted] = [this.#deps, this.#admitted];
    const upstream = upstreamOf(deps, admitted.match);
    const { passing, body } = passingOf(deps, this.#request, this.#response, admitted);
    const conditions = stored?.conditions ?? [];
    const isValidation = conditions.length > 0;
    admitted.record.cache = isValidation ? 'validated' : 'miss';
    const asked = isValidation ? validating(deps, passing, admitted, conditions) : passing;
    const fetching = new Fetching(lookUp, passing, stored, isValidation, lookUp.cache.begin(lookUp.key));
    this.#present = forward(upstream, this.#share!, asked, body, fetching);
  }

  /** Asks the service in the background whether the response is still good. Nothing happens if the upstream has no room for that. */
  #revalidate(lookUp: CacheLookUp, stored: StoredResponse, passing: ForwardRequest & ForwardHooks): void {
    const [deps, admitted] = [this.#deps, this.#admitted];
    const upstream = upstreamOf(deps, admitted.match);
    const { cache, key, request } = lookUp;
    if (cache.fetchOf(key) !== null || cache.find(key, request)?.use === 'fresh') return;
    const share = upstream.takePlace(admitted.caller.shareId);
    if (share === null) return;
    const fetch = cache.begin(key);
    if (fetch === null) {
      share.release();
      return;
    }
    const hooks = inBackground(passing, () => share.release());
    const asked = validating(deps, passing, admitted, stored.conditions);
    forward(upstream, share, asked, new NoClient(this.#request), new Fetching(lookUp, hooks, stored, true, fetch));
  }
}

/** The request with conditions of the gateway in place of the client's. */
function validating(
  deps: GatewayDeps,
  { method, target, affinity, host, body }: ForwardRequest,
  admitted: AdmittedRequest,
  conditions: readonly string[],
): ForwardRequest {
  const kept = fieldsWithout(requestFieldsOf(deps, admitted), FOR_LESS);
  return {
    method,
    target,
    affinity: affinity ?? null,
    host: host ?? null,
    body,
    lines: linesOf([...kept, ...conditions]),
  };
}
