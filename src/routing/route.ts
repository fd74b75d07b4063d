import type { Allowance } from '../admit/allowance.ts';
import type { ErrorFormName } from '../errors/forms.ts';
import type { CompressionRules } from '../http1/content-coding.ts';
import type { FieldCondition } from '../http1/field-conditions.ts';
import type { FieldRules } from '../http1/field-rules.ts';
import type { Announcement } from '../http1/own-fields.ts';
import type { Charge } from '../meter/charge.ts';
import type { Brownout } from './brownouts.ts';
import type { PathTemplate } from './path-template.ts';

/** A form of odd paths that a route may pass as they were sent (odd-path.ts). */
export type PassedForm = 'encodedSlashes' | 'dotSegments' | 'emptySegments';

/** One entry of `routes` in gateway.yaml. */
export interface Route {
  /** The hosts that it serves, in lower case: names, and `*.example.com` for all names below one; null: those that no route names. */
  readonly hosts: readonly string[] | null;
  /** The pattern: `/v1/pets/{petId}`, `/static/**`. */
  readonly path: string;
  /** What the fields of its requests must be, all of it; null if that does not matter. */
  readonly when: readonly FieldCondition[] | null;
  /** Upper-case methods; HEAD is among them wherever GET is. */
  readonly methods: readonly string[];
  /** Name of the upstream that serves it; empty if there is none, with `reply`. */
  readonly upstream: string;
  /** For how many requests one request counts, at least 1. */
  readonly cost: number;
  /** What it charges in units of their own; null if in none. */
  readonly charges: readonly Charge[] | null;
  /** Whether methods that usually carry no body (GET, HEAD, DELETE, OPTIONS) may carry one here. */
  readonly allowsBody: boolean;
  /**
   * The protocols to which a client may upgrade its connection, in lower case.
   *
   * Attack: over a connection that has switched to HTTP/2 in clear text (`h2c`), or to any protocol that carries HTTP or
   * hides what it carries, a client sends any number of requests to the upstream that the gateway neither identifies nor
   * counts. So only what the operator has named is allowed.
   */
  readonly upgrades: readonly string[];
  /** The allowance of one client address on a route without keys; null if the route needs a key. */
  readonly perAddress: { readonly id: string; readonly allowance: Allowance } | null;
  readonly deprecated: Deprecation | null;
  /** What all its responses say of it; null if nothing. */
  readonly announcement: Announcement | null;
  /** The forms of odd paths that it passes; null for none. Its pattern then ends in `/**`. */
  readonly passes: readonly PassedForm[] | null;
  /** How the path is written for the service; null if it is forwarded as it was sent. */
  readonly rewrite: PathTemplate | null;
  /** How many segments of the path the service does not get (`rewrite.stripPrefix`). */
  readonly strips: number;
  /** What stands before the path at the service in their place, if Location and cookies are rewritten; null if they are not. */
  readonly returns: string | null;
  /** Whether the service gets the client's Authorization; null if that depends on where keys are read. */
  readonly authorization: 'pass' | 'drop' | null;
  /** What is done to the fields that the service gets, and to those of its responses: its upstream's rules, then its own. */
  readonly requestHeaders: FieldRules | null;
  readonly responseHeaders: FieldRules | null;
  /** The route's own deadlines for the service; null for those of its upstream. */
  readonly timeouts: { readonly responseTimeoutMs: number; readonly bodyTimeoutMs: number } | null;
  /** When a failed attempt is followed by another one (`RetryRules` of forwarding); null if never. */
  readonly retries: {
    readonly attempts: number;
    readonly onConnection: boolean;
    readonly onStatus: readonly number[];
    readonly attemptTimeoutMs: number | null;
  } | null;
  /** How long the client may take to send a whole request; null for the time of the listener. */
  readonly requestTimeoutMs: number | null;
  /** How long its WebSockets may go without a byte; null for the time of `websockets`. */
  readonly idleTimeoutMs: number | null;
  /** The largest request body; null for that of the listener. */
  readonly maxBodyBytes: number | null;
  /** The OpenAPI description that requests are checked against, by its file; null if they are not checked. */
  readonly description: string | null;
  /** The policies that decide about its requests, by their names in gateway.yaml and in order; null if there are none. */
  readonly policies: readonly string[] | null;
  /** How the gateway compresses what the service sends plain; null if it does not. */
  readonly compression: CompressionRules | null;
  /** How responses to GET are kept in memory; null if they are not. */
  readonly cache: CachedRoute | null;
  /** The form of the gateway's own errors; null for that of the other routes. */
  readonly errorForm: ErrorFormName | null;
  /** The response that the gateway gives itself; null if the service gives it. */
  readonly reply: RouteReply | null;
  /** The scopes that a caller must have, all of them; null if it needs none. */
  readonly scopes: readonly string[] | null;
  /** The addresses and networks from which it may be called; null if from all. */
  readonly addresses: readonly string[] | null;
}

/**
 * The members by which a route bounds none of its callers: how the service is reached and how its response is written. The router compares the
 * method with that of the request, and the check of the settings with those of the other route. Each other member has its rule in `bounds.ts`.
 */
export type Unbounding =
  | 'hosts'
  | 'path'
  | 'when'
  | 'methods'
  | 'upstream'
  | 'announcement'
  | 'passes'
  | 'rewrite'
  | 'strips'
  | 'returns'
  | 'authorization'
  | 'timeouts'
  | 'requestTimeoutMs'
  | 'idleTimeoutMs'
  | 'retries'
  | 'compression'
  | 'errorForm'
  | 'cache';

/** `GET /usage` (contract section 4): the gateway answers this route itself, without an upstream. */
export const USAGE: Route = Object.freeze({
  hosts: null,
  path: '/usage',
  when: null,
  methods: Object.freeze(['GET', 'HEAD']),
  upstream: '',
  cost: 1,
  charges: null,
  allowsBody: false,
  upgrades: Object.freeze([]),
  perAddress: null,
  deprecated: null,
  announcement: null,
  passes: null,
  rewrite: null,
  strips: 0,
  returns: null,
  authorization: null,
  requestHeaders: null,
  responseHeaders: null,
  timeouts: null,
  retries: null,
  requestTimeoutMs: null,
  idleTimeoutMs: null,
  maxBodyBytes: null,
  description: null,
  policies: null,
  compression: null,
  cache: null,
  errorForm: null,
  reply: null,
  scopes: null,
  addresses: null,
});

/** `cache` of a route. */
export interface CachedRoute {
  /** Whether all callers get the same response. */
  readonly isShared: boolean;
  /** The fields of the request that a response depends on, whether it says so or not; in lower case. */
  readonly fields: readonly string[];
  /** For how long a response is fresh that says nothing of it; 0 if it is not stored. */
  readonly ttlSeconds: number;
}

/** A response without a service. */
export type RouteReply =
  /** Location is `origin`, which is empty for a path alone, the path and the client's query. */
  | { readonly kind: 'redirect'; readonly status: number; readonly origin: string; readonly path: PathTemplate }
  | {
      readonly kind: 'respond';
      readonly status: number;
      /** Empty for no body. */
      readonly body: string;
      readonly contentType: string;
      readonly headers: FieldRules | null;
    };

/** When a route was deprecated and what follows it (RFC 9745, RFC 8594). Times are Unix milliseconds. */
export interface Deprecation {
  /**
   * The name under which the store counts the calls: the pattern, with the methods, and the first of its hosts, before it, and what its fields must be
   * after it, if other deprecated routes have the same pattern.
   */
  readonly countedAs: string;
  readonly sinceMs: number;
  readonly sunsetMs: number | null;
  /** URI reference of what replaces the route. */
  readonly successor: string | null;
  /** URI reference of a page about the deprecation. */
  readonly link: string | null;
  /** Announced short refusals before the sunset. */
  readonly brownouts: readonly Brownout[];
}
