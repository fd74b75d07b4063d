/** An entry of the catalogue: all texts about one error code. */
interface ErrorEntry {
  readonly status: number;
  /** Whether the gateway closes the connection after the response, even if it has read the whole request. */
  readonly closes: boolean;
  /** Its problem type of draft-ietf-httpapi-ratelimit-headers-11 section 6. */
  readonly problem?: 'quota-exceeded' | 'temporary-reduced-capacity' | 'abnormal-usage-detected';
  /**
   * The message of the response, for the developer of the client, without internals of the gateway. It is a function if
   * it depends on the request. A code with several causes may have further messages, in the files that find those causes.
   */
  readonly sentence: string | ((...facts: never[]) => string);
  /** The reference: what causes the error. */
  readonly when: string;
  /** The reference: what the caller should do. */
  readonly remedy: string;
  /** The reference: whether the request is counted. */
  readonly counted: string;
  /** What Explain shows support staff as the cause. Null if refusal-text.ts writes it from the counts of the request. */
  readonly explanation: string | null;
  /** What Explain recommends to support staff. Null if refusal-text.ts writes it from the counts of the request. */
  readonly advice: string | null;
}

/** What the sentence about a limit is made of. */
interface SpentLimit {
  /** Where the limit comes from, in words: `plan pro`. */
  readonly source: string;
  /** The limit in words: `300 per minute`. */
  readonly quota: string;
  /** How much must be left for the request. */
  readonly needed: number;
  /** What the limit counts; null for requests. */
  readonly unit: string | null;
  /** How much is left. */
  readonly remaining: number;
  /** Null if the request costs more than the limit, so that waiting does not help. */
  readonly retryAfterSeconds: number | null;
  /** Whether the plan bans callers that do not wait. */
  readonly mayBeBanned: boolean;
}

/**
 * Every error code of the gateway (contract section 4), with all texts about it. The responses (annotate/errors.ts),
 * Explain (operations/live/refusal-text.ts) and the reference (tools/docs/errors.ts) read it.
 */
export const ERRORS = {
  invalid_request: {
    status: 400,
    closes: true,
    sentence: 'The body of the request is malformed.',
    when: 'The request is malformed, ambiguous or in a form that the gateway refuses: two lengths, two `Authorization` fields, two keys, a body on GET, a path with dot segments or encoded slashes, plain HTTP to the port of HTTPS.',
    remedy: 'Correct the request. Sending it again as it is does not help.',
    counted: 'no',
    explanation: 'The form of the request is not valid, so the gateway could not be sure what it asks for.',
    advice: 'Ask for the request as it was sent: its line, its header fields and its length.',
  },
  request_invalid: {
    status: 400,
    closes: false,
    sentence: (where: string, rule: string) =>
      `The request does not fit the description of this service. ${where} ${rule}`,
    when: 'The route has `validate`, and the request does not fit its OpenAPI description: a parameter, the media type, a body of JSON (also one with `Content-Encoding`), or a path or method that is not described. Or the route charges by one of `tables`, and the request does not name a row of it in one way that can be read. `details` has where (`in`: `path`, `query`, `header` or `body`), the name of a parameter or field, the JSON Pointer to what is wrong and the rule. No value of the request is repeated.',
    remedy: 'Correct the request. Sending it again as it is does not help.',
    counted: 'yes',
    explanation:
      'The request does not fit the description of the API, or does not name what it costs by, so it was not forwarded.',
    advice:
      'The client must send what the description asks for: `details` of its response name the place and the rule. If the service takes such a request, change the description (`validate`), or add the name to the table (`tables`) that the rule is about.',
  },
  missing_api_key: {
    status: 401,
    closes: false,
    sentence: (places: string, unread: string | null) =>
      unread === null
        ? `No API key was sent. Send one as ${places}.`
        : `${unread} is not read here; send the key as ${places}.`,
    when: 'The request has no credentials, or credentials of another scheme than Bearer. If it has a key where other gateways read one, the message names that place: `X-API-Key` is not read here; send the key as … The places are `X-API-Key`, `X-ApiKey`, `API-Key`, `ApiKey`, `X-Auth-Token`, `X-Access-Token`, `?api_key=`, `?api-key=`, `?apikey=`, `?access_token=` and `Authorization` without `Bearer`.',
    remedy: 'Send the key as `Authorization: Bearer <API_KEY>`, or in a place that `keys.from` of gateway.yaml names.',
    counted: 'no; it costs one failed authentication of the address',
    explanation: 'The request came without an API key in a place that the gateway reads.',
    advice: 'The client must send the key as `Authorization: Bearer <API_KEY>`.',
  },
  invalid_api_key: {
    status: 401,
    closes: false,
    sentence: 'This API key is not valid. Check that it is complete and has not been revoked.',
    when: 'The key is unknown, revoked, deleted or mistyped, or the JSON Web Token is not accepted. `WWW-Authenticate` and the message say what is wrong with a token.',
    remedy: 'Check that the key is complete. Ask the operator for a new one.',
    counted: 'no; it costs one failed authentication of the address',
    explanation: 'The API key or token of the request is not valid here: it is incomplete, unknown or revoked.',
    advice:
      'Find the key by its last four characters. If it is revoked, make another one; otherwise ask the client to send the whole key.',
  },
  expired_api_key: {
    status: 401,
    closes: false,
    sentence: 'This API key has expired. Ask for a new one.',
    when: 'The key has reached its end.',
    remedy: 'Ask the operator for a new key.',
    counted: 'no; it costs one failed authentication of the address',
    explanation: 'The API key of the request has expired.',
    advice: 'Give the key a later expiry, or make another one.',
  },
  suspended: {
    status: 403,
    closes: false,
    sentence: 'This API key is suspended. Ask its operator.',
    when: 'An operator has suspended the key, or its customer, until a moment or until it is resumed. The caller does not learn by whom or why: `tollgate audit --key ID` shows it, with the id of the key or of the customer that is suspended.',
    remedy: 'Ask the operator. The same key works again once it, or its customer, is resumed.',
    counted: 'no; it is no strike and no failed authentication',
    explanation: 'An operator has suspended the API key of the request, or its customer. This request was not counted.',
    advice:
      'Look at the key, and at its customer if it has one, for the end and the reason of the suspension, and resume it if the caller may call again.',
  },
  address_not_allowed: {
    status: 403,
    closes: false,
    sentence: 'This request is not allowed from your address.',
    when: 'The key (`--address`) or the route (`addresses` in gateway.yaml) may be used from certain addresses alone, and the client has another one. The response does not say which are allowed.',
    remedy: 'Call from an address that the operator has allowed.',
    counted: 'no; it costs one failed authentication of the address',
    explanation: 'The key, or the route, may not be used from the address of the client.',
    advice:
      'Compare the address in the log with the addresses of the key and of the route. If it is that of a proxy, `listen.trustedProxies` lacks the proxy.',
  },
  origin_not_allowed: {
    status: 403,
    closes: false,
    sentence: 'This key is for certain web pages, and this request does not come from one of them.',
    when: 'The key may be used by the pages of certain origins alone (`--origin`), and the request has another `Origin`, or none; GET and HEAD without `Origin` may have the `Referer` of such a page. The response does not say which are allowed.',
    remedy: 'Call from a page of the owner of the key. For a program, ask the operator for another key.',
    counted: 'no; it costs one failed authentication of the address',
    explanation: 'The key may be used by certain web pages alone, and the request does not come from one of them.',
    advice:
      'If the page should have the key, add its origin (`tollgate keys update KEY_ID --origin`, which names all origins of the key). For a program, make a key without origins.',
  },
  insufficient_scope: {
    status: 403,
    closes: false,
    sentence: (scopes: string) =>
      `This request needs the scope ${scopes}, and your key or token does not have all of it.`,
    when: 'The route requires scopes (`scopes` in gateway.yaml), and the key or token lacks one of them. `WWW-Authenticate` names those that the route requires.',
    remedy: 'Ask the operator for a key with these scopes, or the issuer for a token with them.',
    counted: 'yes',
    explanation: 'The key or token of the request lacks a scope that the route requires.',
    advice:
      'If the caller should be able to do this, give its key the scope (`tollgate keys update KEY_ID --scope`, which names all scopes of the key), or let the issuer put it into its tokens.',
  },
  route_not_found: {
    status: 404,
    closes: false,
    sentence: (path: string) => `There is no route for ${path}.`,
    when: 'The key is good and no route has this path.',
    ...sameAdvice('Check the path. Paths are compared with their case and a trailing slash.'),
    counted: 'yes',
    explanation: 'No route of the gateway has this path.',
  },
  no_usage_history: {
    status: 404,
    closes: false,
    sentence: 'This gateway keeps no history of usage. GET /usage shows what is left of each window.',
    when: '`GET /usage?history`, and gateway.yaml has `usage: { history: off }`.',
    ...sameAdvice('Use `GET /usage` without `history`.'),
    counted: 'no',
    explanation: 'This gateway keeps no history of usage.',
  },
  method_not_allowed: {
    status: 405,
    closes: false,
    sentence: (allow: string) => `This route allows ${allow}.`,
    when: 'The route does not serve this method. `Allow` lists the methods that it serves.',
    ...sameAdvice('Use one of the methods in `Allow`.'),
    counted: 'yes',
    explanation: 'The route does not take this method.',
  },
  request_timeout: {
    status: 408,
    closes: true,
    sentence: 'The request did not arrive in time.',
    when: 'The head did not arrive within `listen.headersTimeout`, or the request not within `listen.requestTimeout` or `requestTimeout` of its route.',
    remedy: 'Send the request again on a new connection.',
    counted: 'no if the head is late, yes if the body is late',
    explanation: 'The request did not arrive in time: its head or its body was too slow.',
    advice: 'Look at the network of the client, or send less at a time.',
  },
  endpoint_removed: {
    status: 410,
    closes: false,
    sentence: (successor: string | null, untilMs: number | null) => {
      const instead = successor === null ? '' : ` Use ${successor} instead.`;
      return untilMs === null
        ? `This endpoint has been removed.${instead}`
        : `This endpoint will be removed soon. As announced, it is switched off until ${new Date(untilMs).toISOString()}.${instead}`;
    },
    when: 'The route is past its sunset, or in a brownout. `Link` names the successor, and in a brownout `Retry-After` its end.',
    remedy: 'Use the successor.',
    counted: 'yes',
    explanation: 'This route was removed, or is switched off for a while before its removal.',
    advice: 'Move the client to the route that replaces it (GET /admin/deprecations names it).',
  },
  payload_too_large: {
    status: 413,
    closes: true,
    ...sameSentence('The body of the request is too large.'),
    when: 'The body is larger than `maxBodyBytes` of its route, or than `listen.maxBodyBytes` without that, or it is cut into too many chunks.',
    remedy: 'Send less, or in parts. Send chunks of at least 64 bytes.',
    counted: 'no if the declared length is too large, yes if the body turns out to be too large',
    advice: 'Send less, or raise maxBodyBytes of the route.',
  },
  uri_too_long: {
    status: 414,
    closes: true,
    sentence: (maxBytes: number) => `The request target is longer than ${maxBytes} bytes.`,
    when: 'The request target is longer than `listen.maxUrlBytes`.',
    ...sameAdvice('Shorten the path or the query.'),
    counted: 'no',
    explanation: 'The address of the request is too long.',
  },
  expectation_failed: {
    status: 417,
    closes: false,
    sentence: 'The only expectation that can be met is 100-continue.',
    when: '`Expect` asks for something other than `100-continue`.',
    ...sameAdvice('Leave `Expect` out.'),
    counted: 'no',
    explanation: 'The request expects something that the gateway cannot do.',
  },
  misdirected_request: {
    status: 421,
    closes: false,
    sentence: 'This connection was opened for another host. Send the request on a connection of its own.',
    when: 'The listener has several certificates, and the request is for a host of another one than the client got for the host that it named in the TLS handshake.',
    remedy: 'Send the request again on a new connection that names this host in its handshake.',
    counted: 'no',
    explanation: 'The client sent the request on a connection that it had opened for a host with another certificate.',
    advice: 'Look for a client, or a proxy in front of the gateway, that uses one TLS connection for several hosts.',
  },
  rate_limit_exceeded: {
    status: 429,
    closes: false,
    problem: 'quota-exceeded',
    sentence: ({ source, quota, needed, unit, remaining, retryAfterSeconds, mayBeBanned }: SpentLimit) => {
      const takes = unit === null ? `costs ${needed}` : `takes ${needed} ${unit} in advance`;
      if (retryAfterSeconds === null)
        return `This request ${takes} and ${source} allows ${quota}: waiting will not help. Ask for ${unit === null ? '' : `fewer ${unit}, or for `}a higher limit.`;
      const isSpent =
        remaining === 0
          ? 'is used up'
          : `has less left than the ${needed} that this request ${unit === null ? 'costs' : 'takes in advance'}`;
      return `The quota of ${source}, ${quota}, ${isSpent}. Retry after ${retryAfterSeconds} s${mayBeBanned ? '; requests before then count towards a ban' : ''}.`;
    },
    when: "A window of the key, or of its customer, is used up. The answer is a strike. `details` has the refusing window that has to be waited for longest, or if the request needs more than a limit, the smallest such window; and its `name` in the header fields, its `unit` if it does not count requests, and its `scope` (`key` or `customer`) if the request charges a budget other than the key's own budget of requests.",
    remedy:
      'Wait as long as `Retry-After` says. Requests before then count towards a ban. Without `Retry-After` waiting will not help, because the request needs more than the limit: ask for less, or for a higher limit.',
    counted: 'no',
    explanation: null,
    advice: null,
  },
  api_key_banned: {
    status: 429,
    closes: false,
    problem: 'abnormal-usage-detected',
    sentence: (retryAfterSeconds: number, scope: 'key' | 'customer') =>
      `${scope === 'key' ? 'This API key is banned because it kept sending requests after a 429.' : 'All API keys of this customer are banned because requests with some of them kept coming after a 429.'} Retry after ${retryAfterSeconds} s; each further ban lasts longer.`,
    when: 'The caller kept sending requests after a 429 and is banned. `details` has the end of the ban and which ban it is, and its `scope` under the same condition as `rate_limit_exceeded`.',
    remedy:
      'Wait as long as `Retry-After` says. Requests during the ban do not lengthen it; each further ban lasts longer.',
    counted: 'no',
    explanation: null,
    advice: null,
  },
  too_many_failed_attempts: {
    status: 429,
    closes: false,
    problem: 'quota-exceeded',
    sentence: (retryAfterSeconds: number) =>
      `Too many requests without a valid API key came from this address. Retry after ${retryAfterSeconds} s, with a valid key.`,
    when: 'The address has used up `failed-authentication`. A good key from the same address still passes, and so does a good token that was verified recently.',
    remedy: 'Send a valid key, or wait as long as `Retry-After` says.',
    counted: 'no',
    explanation: 'Too many requests without a valid key came from this address within a minute.',
    advice: 'Wait a minute, and send a valid key from then on.',
  },
  too_many_in_flight: {
    status: 429,
    closes: false,
    problem: 'temporary-reduced-capacity',
    sentence:
      'Too many requests of this caller are in flight. Wait for answers before sending more. This request was not counted.',
    when: 'The caller has as many requests in flight as its fair share of the upstream allows (`upstreams.NAME.fairShare`), or its requests had to wait too long because it used more than its share of the serving thread. It is not a strike.',
    remedy: 'Wait for answers before sending more.',
    counted: 'no',
    explanation:
      'The caller had as many requests in flight as its fair share of the service or of the gateway allows. This request was not counted.',
    advice: 'The client must wait for responses before it sends more; the service may also be slow.',
  },
  in_flight_limit_exceeded: {
    status: 429,
    closes: false,
    problem: 'quota-exceeded',
    sentence: (limit: number, scope: 'key' | 'customer') =>
      `At most ${limit} requests of this ${scope === 'key' ? 'API key' : 'customer'} may be in flight at a time. Wait for answers before sending more. This request was not counted.`,
    when: 'The caller, or its customer, has as many requests in flight over all gateways as its plan allows (`in-flight`). It is not a strike.',
    remedy: 'Wait for answers before sending more.',
    counted: 'no',
    explanation:
      'The caller had as many requests in flight over all gateways as its plan allows. This request was not counted.',
    advice:
      'The client must wait for responses before it sends more. Streams and WebSockets count as long as they are open.',
  },
  headers_too_large: {
    status: 431,
    closes: true,
    sentence: 'The trailers of the request are too large.',
    when: 'The head, or the trailers, are larger than `listen.maxHeaderBytes`.',
    ...sameAdvice('Send fewer or shorter fields.'),
    counted: 'no',
    explanation: 'The header fields of the request are too large.',
  },
  internal_error: {
    status: 500,
    closes: false,
    sentence: 'Something in the gateway broke. Send the request id to its operator.',
    when: 'The gateway has a defect, plans.yaml no longer has the plan of the key, or the record of the key or its customer cannot be read.',
    remedy: 'Report the request id to the operator, who finds the cause in the log.',
    counted: 'yes if it occurred after admission',
    explanation: 'Something in the gateway broke.',
    advice: 'Look for this request id in the log of the gateway, and report the line.',
  },
  policy_failed: {
    status: 500,
    closes: false,
    sentence: 'The gateway could not decide whether this request is allowed. Send the request id to its operator.',
    when: 'The route has `policies`, and one of them threw an exception, did not answer within `policies.timeout`, or returned something other than a result of a policy. The log names the policy and the reason.',
    remedy: 'Report the request id to the operator, who finds the cause in the log.',
    counted: 'no',
    explanation: 'A policy of this route failed, so the request was neither counted nor forwarded.',
    advice: 'Correct the policy: the log of the gateway has its name and its exception.',
  },
  not_implemented: {
    status: 501,
    closes: false,
    sentence: 'The only transfer coding that is understood is chunked.',
    when: 'The gateway does not forward the method or the transfer coding of the request, such as CONNECT or `Transfer-Encoding: gzip`.',
    ...sameAdvice('Use another method, or send the body without the coding.'),
    counted: 'no',
    explanation: 'The request asks for something that the gateway does not do.',
  },
  upstream_unavailable: {
    status: 502,
    closes: false,
    sentence: 'The service behind the gateway cannot be reached, or its response was invalid.',
    when: 'The service behind the gateway cannot be reached, closed the connection, or sent an invalid response.',
    remedy: 'Try again later. The service may have received the request.',
    counted: 'yes',
    explanation: 'The service behind the gateway could not be reached, or its response was invalid.',
    advice: 'Look at the targets of the route, and at the log of the service at this time.',
  },
  store_unavailable: {
    status: 503,
    closes: false,
    sentence: 'The request cannot be decided at the moment. Retry shortly.',
    when: 'The store does not answer, and the request cannot be decided without it: the key is not known to this gateway, or `redis.onFailure` is `closed`.',
    remedy: 'Try again as `Retry-After` says, with the same key.',
    counted: 'no',
    explanation:
      'The store did not answer, and the gateway refuses what it cannot decide without it: a key that it has not seen before, and every request if `redis.onFailure` is `closed`.',
    advice: 'Look at the state of the store. The request can be repeated once it is back.',
  },
  identity_unavailable: {
    status: 503,
    closes: false,
    sentence: 'The token cannot be checked at the moment. Retry shortly, with the same token.',
    when: "The gateway has no keys of the tokens' issuer.",
    remedy: 'Try again as `Retry-After` says, with the same token.',
    counted: 'no',
    explanation: 'The token could not be checked, because the keys of its issuer were not available.',
    advice: 'Look at the issuer (jwt.jwks). The request can be repeated with the same token.',
  },
  overloaded: {
    status: 503,
    closes: false,
    problem: 'temporary-reduced-capacity',
    sentence: 'Too many requests are waiting for the service behind the gateway. Retry shortly.',
    when: 'The connections and the queue of the upstream are full, the maximum number of WebSockets is open, or too many bodies wait to be checked (`validate`).',
    remedy: 'Try again as `Retry-After` says.',
    counted: 'no if every place was taken when the request came, else yes',
    explanation: 'Too many requests were waiting for the service behind the gateway.',
    advice: 'Find out why the service is slow, or raise maxConnections of the upstream.',
  },
  no_upstream: {
    status: 503,
    closes: false,
    sentence: 'The service behind the gateway is away. Retry shortly.',
    when: 'Every target of the upstream is left out.',
    remedy: 'Try again as `Retry-After` says.',
    counted: 'yes',
    explanation: 'No target of the service behind the gateway was usable.',
    advice: 'Look at the targets of the route. The request can be repeated once one is back.',
  },
  upstream_timeout: {
    status: 504,
    closes: false,
    ...sameSentence('The service behind the gateway did not answer in time.'),
    when: 'The service did not accept a connection within `connectTimeout`, or did not begin its answer within `responseTimeout`.',
    remedy: 'Try again later. The service may have done what the request asked for.',
    counted: 'yes',
    advice: 'Look at the log of the service at this time, or raise the timeout of the upstream.',
  },
  http_version_not_supported: {
    status: 505,
    closes: true,
    sentence: 'Only HTTP/1.1 and HTTP/1.0 are spoken here.',
    when: 'The request line names another version than HTTP/1.1 or HTTP/1.0.',
    ...sameAdvice('Use HTTP/1.1, or HTTP/2 over TLS.'),
    counted: 'no',
    explanation: 'The request has a version of HTTP that is not served.',
  },
  loop_detected: {
    status: 508,
    closes: false,
    ...sameSentence('This request has come through this gateway before.'),
    when: 'The request has come through this gateway before: `Via` has its name.',
    remedy: 'This is a fault of the setup: the upstream sends the request back to the gateway.',
    counted: 'no',
    advice: 'A target of the route leads back to the gateway.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

/** The response and Explain have the same sentence. */
function sameSentence(text: string): { readonly sentence: string; readonly explanation: string } {
  return { sentence: text, explanation: text };
}

/** Only the client can act, so the advice of Explain is the remedy of the reference. */
function sameAdvice(text: string): { readonly remedy: string; readonly advice: string } {
  return { remedy: text, advice: text };
}

export type ErrorCode = keyof typeof ERRORS;

export const ERROR_CODES = Object.keys(ERRORS) as readonly ErrorCode[];

/** Whether this is an error code of the gateway. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}
