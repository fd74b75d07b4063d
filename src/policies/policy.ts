// The form of a policy (`policies` of a route): what it is given, and what it may answer. These types are public: src/library.ts
// exports them, and docs/guides/policies.md shows their use.

/**
 * What an operator decides about a request in code. It runs once the caller is known, before the request is counted.
 * An exception, a promise without a result after `policies.timeout` (50 ms by default), or a result of another form fails the
 * request with 500 `policy_failed`, which is not counted.
 */
export type Policy = (
  request: PolicyRequest,
  caller: PolicyCaller,
) => PolicyResult | undefined | Promise<PolicyResult | undefined>;

/** The head of a request. It has no secret: no Authorization, no cookie, no API key. Frozen. */
export interface PolicyRequest {
  /** The id that log, response and service have (X-Request-Id). */
  readonly id: string;
  readonly method: string;
  /** As it was sent. `route.names` has its segments decoded. */
  readonly path: string;
  /** As the client sent it, without its `?` and without API keys; empty without a query. For `new URLSearchParams(query)`. */
  readonly query: string;
  /**
   * The header fields, by name in lower case; those that were sent several times are joined with `, `. Those of the
   * gateway (X-Consumer-…, X-Forwarded-…, X-Request-Id and others) are missing, also when the caller sent them, and so are those that are not
   * forwarded to the service, apart from `host` and `content-length`.
   */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The client's address, behind trusted proxies. */
  readonly clientAddress: string;
  readonly route: PolicyRoute;
}

/** The route that the request has matched. */
export interface PolicyRoute {
  /** Its pattern, as in gateway.yaml: `/v1/tenants/{tenant}/pets`. */
  readonly path: string;
  /** The segments that its names matched, percent-decoded: `{ tenant: 'acme' }`. */
  readonly names: Readonly<Record<string, string | undefined>>;
  /** What its last `/**` matched, percent-decoded and without the slash before it; null if it has none. */
  readonly rest: string | null;
}

/** Who calls. Frozen. */
export interface PolicyCaller {
  /** The id of the key, or of the holder of a token; null on a route with `auth: none`. */
  readonly id: string | null;
  /** The name of the key; null if it has none. */
  readonly name: string | null;
  /** The owner of the key; null if it has none. */
  readonly owner: string | null;
  /** The name of the plan; that of the customer, if the caller has one; `public` on a route with `auth: none`. */
  readonly plan: string;
  /** Whose caller it is; null for one of its own. */
  readonly customer: PolicyCustomer | null;
  /** What the caller may do: the scopes of its key, or of its token. */
  readonly scopes: readonly string[];
  /** The metadata of its key. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The verified claims of the JSON Web Token that the caller sent; null if it sent none. */
  readonly claims: Readonly<Record<string, unknown>> | null;
}

/** The customer of a caller. */
export interface PolicyCustomer {
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
}

/** What a policy answers: a refusal, or what is particular about the request that it allows. `undefined` and `{}` allow it. */
export type PolicyResult = PolicyRefusal | PolicyAllowance;

export interface PolicyRefusal {
  /** Refuses the request. It is not counted and is no strike. */
  readonly refuse: {
    /** From 400 to 599, except 405, 407 and 426, which need a field of their own. */
    readonly status: number;
    /** Lower-case letters, digits and `_`, such as `wrong_tenant`; none of the gateway's own codes. */
    readonly code: string;
    /** A sentence for the developer of the client: 1 to 1000 characters. */
    readonly message: string;
  };
  readonly cost?: undefined;
  readonly scopes?: undefined;
  readonly metadata?: undefined;
  readonly budgets?: undefined;
  readonly headers?: undefined;
}

export interface PolicyAllowance {
  readonly refuse?: undefined;
  /** For how many requests this one counts, from 1 to 1000000000, in place of the `cost` of the route. */
  readonly cost?: number | undefined;
  /** What the caller may do with this request, in place of its own scopes (`scopes` of a route). At most 32. */
  readonly scopes?: readonly string[] | undefined;
  /** For `{consumer.meta.NAME}` in rules of header fields, beside the metadata of the key or in place of it. At most 16 pairs. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /**
   * The groups of routes of the caller's plan by whose limits this request is counted as well, by name, beside those that its
   * path belongs to. A text that is no group of the plan has no effect, so one policy can serve several plans. At most 16.
   */
  readonly budgets?: { readonly groups: readonly string[] } | undefined;
  /**
   * Header fields that the service gets, in place of those of the same name that the client or `headers` of the route set.
   * Values are visible ASCII with blanks inside; `encodeURIComponent` makes other texts fit. The same names as in `headers`
   * of a route are not allowed.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}
