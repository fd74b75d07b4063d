import CachePolicy from 'http-cache-semantics';
import { fieldsWithout } from '../../http1/fields.ts';
import type { ResponseHead } from '../../http1/response-head.ts';

/** Header fields by their names in lower case. Values of one name are joined with `, `. An object without a prototype. */
type FieldsByName = Readonly<Record<string, string>>;

/** A GET as the service gets it, for the rules of RFC 9111. */
export interface CacheableRequest {
  /** Path and query. */
  readonly target: string;
  readonly fields: FieldsByName;
}

/** The head of a response, as far as a cache keeps it. */
interface CacheableHead {
  readonly status: number;
  /** The target that has sent it, as in gateway.yaml. */
  readonly servedBy: string | null;
  /** Names and values alternating. */
  readonly fields: readonly string[];
}

/**
 * How a stored response serves a request (RFC 9111 section 4): as it is; as it is, while it is validated (RFC 5861 section 3); or only
 * once the service has confirmed it.
 */
export type Use = 'fresh' | 'stale_while_revalidating' | 'validate';

const NO_BODY = Buffer.alloc(0);

/** What the memory of a response is taken for beyond its texts and its body, bytes. */
const OVERHEAD_BYTES = 2_048;

/** The fields that a 304 has to a client (RFC 9110 section 15.4.5) are all but these, which describe the body. */
const OF_BODY: ReadonlySet<string> = new Set(['content-length', 'content-encoding', 'content-type', 'content-range']);

/** What describes the bytes of one message (RFC 9530 section 2), which a part does not have. */
const OF_MESSAGE: ReadonlySet<string> = new Set(['content-digest', 'content-md5']);

/** One range of bytes (RFC 9110 section 14.1.2): its first and last position, or how many at the end. */
const RANGE = /^bytes=(?:(\d+)-(\d*)|-(\d+))$/i;
/** How much older than its Date a Last-Modified is that no other response has (RFC 9110 section 8.8.2.2), milliseconds. */
const STRONG_AFTER_MS = 1_000;

/** A part of a body: the position of its first byte, and that behind its last one. */
interface Part {
  readonly from: number;
  readonly to: number;
}

/** @param range the value of Range @returns whether a stored response can answer it; several ranges and other units are for the service */
export function isOneRange(range: string): boolean {
  return RANGE.test(range);
}

/** Written anew for each client: how long the response has been here, and how its body is framed. */
const RECEIVED: ReadonlySet<string> = new Set(['age', 'content-length', 'transfer-encoding']);
/** A response that depends on all fields, or on one that no two requests share, serves no other request. */
const UNIQUE: ReadonlySet<string> = new Set(['*', 'x-request-id', 'traceparent', 'tracestate']);

/** The rules of RFC 9111 on a clock of ours. */
export type Policies = new (...of: ConstructorParameters<typeof CachePolicy>) => CachePolicy;

/** @param wallMs Unix milliseconds */
export function policiesBy(wallMs: () => number): Policies {
  return class extends CachePolicy {
    /** The library asks it for the time. */
    now(): number {
      return wallMs();
    }
  };
}

/** The rules for one response. */
interface ResponseRules {
  readonly strict: CachePolicy;
  /**
   * Those while the response is fresh. The library lets `must-revalidate` refuse fresh responses too; by RFC 9111 section 5.2.2.2 it refuses
   * stale ones.
   */
  readonly whileFresh: CachePolicy;
  /** The request fields that Vary names, with their values. */
  readonly varies: readonly (readonly [name: string, value: string | undefined])[];
}

/** One response in the cache. Never changed: a validation makes another one of it. */
export class StoredResponse implements CacheableHead {
  readonly status: number;
  readonly servedBy: string | null;
  readonly fields: readonly string[];
  readonly body: Buffer;
  readonly #rules: ResponseRules;

  private constructor({ status, servedBy, fields }: CacheableHead, body: Buffer, rules: ResponseRules) {
    this.status = status;
    this.servedBy = servedBy;
    this.fields = fields;
    this.body = body;
    this.#rules = rules;
  }

  /**
   * A response whose head has just arrived. Its age begins now.
   * @returns null if it may not be stored, or could never be used
   */
  static of(head: CacheableHead, request: CacheableRequest, rules: Rules): StoredResponse | null {
    const byName = fieldsByName(head.fields);
    const varies = variesOf(byName);
    if (byName['set-cookie'] !== undefined || varies.some((name) => UNIQUE.has(name))) return null;
    const policies = policiesOf(request, head.status, byName, rules);
    const isValidatable = byName.etag !== undefined || byName['last-modified'] !== undefined;
    if (!policies.strict.storable() || (policies.strict.timeToLive() <= 0 && !isValidatable)) return null;
    const kept = { status: head.status, servedBy: head.servedBy, fields: fieldsWithout(head.fields, RECEIVED) };
    return new StoredResponse(kept, NO_BODY, {
      ...policies,
      varies: varies.map((name) => [name, request.fields[name]]),
    });
  }

  withBody(body: Buffer): StoredResponse {
    return new StoredResponse(this, body, this.#rules);
  }

  /**
   * Approximate bytes of memory.
   *
   * Attack: requests have 16 KiB of fields that Vary names, and small responses, so that what is kept of the requests fills the memory.
   */
  get bytes(): number {
    const texts = [...this.fields, ...this.#rules.varies.map(([, value = '']) => value)];
    return texts.reduce((sum, text) => sum + 2 * text.length, OVERHEAD_BYTES + this.body.length);
  }

  /** Whether the request has the fields that this response depends on (RFC 9111 section 4.1). */
  matches({ fields }: CacheableRequest): boolean {
    return this.#rules.varies.every(([name, value]) => fields[name] === value);
  }

  useFor(request: CacheableRequest): Use {
    const { strict, whileFresh } = this.#rules;
    const { response, revalidation } = (strict.stale() ? strict : whileFresh).evaluateRequest(asked(request));
    if (response === undefined) return 'validate';
    return revalidation === undefined ? 'fresh' : 'stale_while_revalidating';
  }

  /** Whole seconds since the service made it (RFC 9111 section 4.2.3). */
  get age(): number {
    return Math.max(0, Math.floor(this.#rules.strict.age()));
  }

  /** Whole seconds for which it is still fresh; negative if it is stale. */
  get freshFor(): number {
    const { strict } = this.#rules;
    return Math.ceil(strict.maxAge() - strict.age());
  }

  /** The fields that ask the service whether it has changed; empty if it has no validator. Names and values alternating. */
  get conditions(): readonly string[] {
    const { etag, 'last-modified': lastModified } = fieldsByName(this.fields);
    return [
      ...(etag === undefined ? [] : ['If-None-Match', etag]),
      ...(lastModified === undefined ? [] : ['If-Modified-Since', lastModified]),
    ];
  }

  /**
   * The response once the service has confirmed it: its fields in place of those of the same name (RFC 9111 section 3.2).
   * @param head of the 304
   * @returns null if that may not be stored, or if the service has confirmed another response
   */
  confirmedBy(
    head: Pick<ResponseHead, 'fields'>,
    request: CacheableRequest,
    rules: Rules,
    servedBy: string | null,
  ): StoredResponse | null {
    const [own, confirmedTag] = [fieldsByName(this.fields).etag, fieldsByName(head.fields).etag];
    if (own !== undefined && confirmedTag !== undefined && opaqueTag(own) !== opaqueTag(confirmedTag)) return null;
    const fresh = fieldsWithout(head.fields, OF_BODY);
    const replaced = new Set(Object.keys(fieldsByName(fresh)));
    const kept = fieldsWithout(this.fields, replaced);
    const confirmed = { status: this.status, servedBy, fields: [...kept, ...fresh] };
    return StoredResponse.of(confirmed, request, rules)?.withBody(this.body) ?? null;
  }

  /** Whether the client, which says what it has, needs no body (RFC 9110 section 13.2.2). */
  isKnownTo({ fields }: CacheableRequest): boolean {
    const { etag, 'last-modified': lastModified } = fieldsByName(this.fields);
    const known = fields['if-none-match'];
    if (known !== undefined) {
      if (known.trim() === '*') return true;
      return etag !== undefined && [...known.matchAll(ENTITY_TAG)].some(([, tag]) => tag === opaqueTag(etag));
    }
    const since = Date.parse(fields['if-modified-since'] ?? '');
    return lastModified !== undefined && Date.parse(lastModified) <= since;
  }

  /** The fields of a 304 in its place. */
  get fieldsWithoutBody(): readonly string[] {
    return fieldsWithout(this.fields, OF_BODY);
  }

  /** The fields of a 206 in its place, but for those that say which part it has. */
  get fieldsOfPart(): readonly string[] {
    return fieldsWithout(this.fields, OF_MESSAGE);
  }

  /**
   * The part of the body that a request asks for (RFC 9110 section 14.2).
   * @returns null if it gets the whole response; `beyond` if the body has no byte of the part
   */
  partFor({ fields }: CacheableRequest): Part | 'beyond' | null {
    const { length } = this.body;
    const asked = RANGE.exec(fields.range ?? '');
    if (asked === null || this.status !== 200 || length === 0 || !this.#isOneOf(fields['if-range'])) return null;
    const [, first = '', last = '', atEnd] = asked;
    if (last !== '' && Number(last) < Number(first)) return null;
    const from = atEnd === undefined ? Number(first) : Math.max(0, length - Number(atEnd));
    return from >= length ? 'beyond' : { from, to: last === '' ? length : Math.min(length, Number(last) + 1) };
  }

  /**
   * Attack: the client has a part of an earlier version, and would join the two. So a validator that other versions may share is no match
   * (RFC 9110 section 13.1.5).
   */
  #isOneOf(ifRange: string | undefined): boolean {
    if (ifRange === undefined) return true;
    const { etag, 'last-modified': lastModified, date } = fieldsByName(this.fields);
    if (ifRange.startsWith('"')) return ifRange === etag;
    return ifRange === lastModified && Date.parse(date ?? '') - Date.parse(lastModified) >= STRONG_AFTER_MS;
  }
}

/** What a route says of its responses in the cache. */
export interface Rules {
  readonly policies: Policies;
  /** For how long a response is fresh that says nothing of it; 0 if it is not stored. */
  readonly ttlSeconds: number;
}

/** Tags of If-None-Match, compared without their weakness (RFC 9110 section 8.8.3.2). */
const ENTITY_TAG = /(?:W\/)?("[^"]*")/g;

function opaqueTag(etag: string): string {
  return etag.replace(/^W\//, '');
}

/**
 * The names of the request fields that a response depends on, in lower case.
 *
 * Fault: a service compresses and does not name Accept-Encoding in Vary, and a client that reads no gzip gets it from the cache.
 */
function variesOf(fields: FieldsByName): readonly string[] {
  const named = (fields.vary ?? '').split(',').flatMap((name) => name.trim().toLowerCase() || []);
  return fields['content-encoding'] === undefined ? named : [...named, 'accept-encoding'];
}

/** @returns CDN-Cache-Control (RFC 9213), which replaces Cache-Control and Expires for a cache of ours; null without a valid one */
function targetedAtCaches({ 'cdn-cache-control': control }: FieldsByName): string | null {
  return control?.split(',').every((member) => DIRECTIVE.test(member.trim())) === true ? control : null;
}

/** A member of a dictionary (RFC 9651 section 3.2), without parameters; ages are numbers. */
const DIRECTIVE = /^(?!(?:s-)?max-?age=\D)[a-z*][a-z0-9_.*-]*(?:=(?:\d+|\?[01]|"[^"]*"|[A-Za-z*][\w.*:/-]*))?$/;

/** The three forms of a date (RFC 9110 section 5.6.7). */
const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

function policiesOf(
  request: CacheableRequest,
  status: number,
  fields: FieldsByName,
  { policies, ttlSeconds }: Rules,
): Omit<ResponseRules, 'varies'> {
  const { age, expires } = fields;
  const targeted = targetedAtCaches(fields);
  // The library reads both leniently: an invalid Age counts as absent (RFC 9111 section 5.1), an invalid Expires as past (section 5.3).
  const read = {
    ...only(ANSWERED, fields),
    ...(age !== undefined && !/^\d+(?:,|$)/.test(age) && { age: '0' }),
    ...(expires !== undefined && (targeted !== null || !HTTP_DATE.test(expires)) && { expires: '0' }),
  };
  const says = ['cache-control', 'expires', 'pragma'].some((name) => fields[name] !== undefined);
  const control = targeted ?? (says || ttlSeconds === 0 ? fields['cache-control'] : `max-age=${ttlSeconds}`);
  // Without what the service says, only the operator knows for how long a response is good: no guess by Last-Modified.
  const options = { shared: true, cacheHeuristic: 0 };
  const policyWith = (directives: string | undefined) => {
    const headers = directives === undefined ? read : { ...read, 'cache-control': directives };
    return new policies(asked(request), { status, headers }, options);
  };
  // What must not be used without a question is not used while one is under way either.
  const isStrict = /no-cache|(?:must|proxy)-revalidate/i.test(control ?? '');
  const directives = isStrict ? control?.toLowerCase().replaceAll('stale-while', 'no-stale') : control?.toLowerCase();
  const strict = policyWith(directives);
  if (directives?.includes('must-revalidate') !== true) return { strict, whileFresh: strict };
  return { strict, whileFresh: policyWith(directives.replaceAll('must-revalidate', '')) };
}

/**
 * The fields that the library looks at. It is given no others: it would keep those of requests, and it reads Vary and Connection with
 * expressions that take quadratic time.
 */
const ASKED = ['cache-control', 'pragma', 'authorization'];
const ANSWERED = ['cache-control', 'pragma', 'age', 'date', 'expires', 'etag', 'last-modified'];

function only(names: readonly string[], fields: FieldsByName): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));
}

/**
 * Attack: with `Cache-Control: max-stale` a client reads what the service gives only to those whom it lets in, with `no-cache` or
 * `max-age=0`, and which the library then gives without a question. So clients may ask for more than the service says, and not for less.
 */
const DIRECTIVES_OF_CLIENTS = /^\s*(?:no-cache|no-store|max-age=|min-fresh=)/;

function asked({ target, fields }: CacheableRequest): CachePolicy.HttpRequest {
  const headers = only(ASKED, fields);
  const control = headers['cache-control']?.toLowerCase().split(',') ?? [];
  headers['cache-control'] = control.filter((one) => DIRECTIVES_OF_CLIENTS.test(one)).join(',');
  return { method: 'GET', url: target, headers };
}

/** @param fields names and values alternating */
export function fieldsByName(fields: readonly string[]): FieldsByName {
  const byName: Record<string, string> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!.toLowerCase();
    const before = byName[name];
    byName[name] = before === undefined ? fields[i + 1]! : `${before}, ${fields[i + 1]!}`;
  }
  return byName;
}
