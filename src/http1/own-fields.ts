import { FieldNames } from './field-names.ts';

// The response fields that the gateway sets itself. What is dropped of the service's response, what settings may not set, what pages of
// other origins may read, what a route announces, and the table of docs/reference/headers-and-errors.md are made of this list.

/** The announcements of a route in its responses, by its settings; null for each that it does not make. */
interface Announced {
  readonly deprecated: {
    /** Unix milliseconds. */
    readonly sinceMs: number;
    /** Unix milliseconds. */
    readonly sunsetMs: number | null;
    /** URI reference of the replacement. */
    readonly successor: string | null;
    /** URI reference of a page about the deprecation. */
    readonly link: string | null;
  } | null;
}

interface OwnField {
  readonly name: string;
  /** When it is there and what it says, for the reference. */
  readonly says: string;
  readonly example: string;
  /** Pages of other origins may read it where `cors` is set. */
  readonly isExposed?: true;
  /**
   * When the service's own field of this name is dropped: always, or where a setting is on, `cors` or one of the route. No setting may then set
   * the field. Left out, the service's own field is kept.
   */
  readonly replaces?: 'always' | 'cors' | keyof Announced;
  /** No setting may set it, although the service's own is kept. */
  readonly isReserved?: true;
  /** Its value in all responses of a route; null if they lack it. */
  readonly ofRoute?: (route: Announced) => string | null;
}

/** In the order of the reference. */
export const OWN_FIELDS: readonly OwnField[] = [
  {
    name: 'X-RateLimit-Limit',
    says:
      'The limit of the binding window: the one with the fewest requests left, of equals the one that resets last. On a 429 it is the window that refuses ' +
      'and resets last, under a ban the window whose refusal made the ban. For a caller that is not identified it is the failed-authentication budget of ' +
      'the address. `999999999999999` means no bound.',
    example: '60',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'X-RateLimit-Remaining',
    says:
      'The requests left in that window, from 0 to the limit. If several gateways serve a key, what the others have admitted in the last 250 ms, or 2 s for fewer than 40 requests a second, may ' +
      'not be subtracted yet.',
    example: '59',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'X-RateLimit-Reset',
    says:
      'When that window ends, in Unix seconds, rounded up. Of a sliding window: when the oldest part of what it counts leaves; on a 429 when the request ' +
      'fits.',
    example: '1795341660',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'RateLimit-Policy',
    says:
      'Every window that the request charges: name, limit (`q`) and length in seconds (`w`; of a month the longest, 2678400), as in ' +
      "draft-ietf-httpapi-ratelimit-headers. A name is the window, `minute`; of the caller's customer `customer-minute`; of the group of routes `search` " +
      '`search-minute`, or `customer-search-minute` for a caller of a customer. A window that counts a [unit](../guides/costs.md) has the unit in front, ' +
      '`tokens-minute` or `customer-tokens-month`, and `qu="tokens"`. A limit on requests in flight is `"in-flight"` or `"customer-in-flight"`, without ' +
      '`w` and with the unit `qu="concurrent-requests"`.',
    example: '"minute";q=60;w=60, "day";q=1000;w=86400',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'RateLimit',
    says:
      'Every window by the same name: requests, or amount of its unit, left (`r`) and seconds until its reset (`t`); of a limit on requests in flight only ' +
      '`r`.',
    example: '"minute";r=59;t=60, "day";r=999;t=86400',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'X-Request-Id',
    says: "The id of the request: the client's own if it matches `[A-Za-z0-9._-]{1,64}`, else 32 hexadecimal digits. The log has the same.",
    example: '9f86d081884c7d659a2feaa0c55ad015',
    isExposed: true,
    replaces: 'always',
  },
  {
    name: 'Retry-After',
    says:
      'With 429 (unless waiting will not help), 503 and a 410 in a brownout: whole seconds, at least 1. Waiting that long is enough, except after ' +
      '`too_many_in_flight` and `in_flight_limit_exceeded`, where it is always 1.',
    example: '42',
    isExposed: true,
    isReserved: true,
  },
  {
    name: 'X-Should-Retry',
    says:
      '`false` with a 429 that has a `Retry-After` of more than a minute, or none because waiting will not help. The official clients of OpenAI and ' +
      'Anthropic then report the error, and do not sleep.',
    example: 'false',
    isExposed: true,
    isReserved: true,
  },
  {
    name: 'WWW-Authenticate',
    says: 'With 401: the challenge of RFC 6750, with an error where a credential came.',
    example: 'Bearer realm="tollgate", error="invalid_token"',
    isExposed: true,
  },
  {
    name: 'Allow',
    says: 'With 405: the methods that the route serves.',
    example: 'GET, HEAD',
    isExposed: true,
  },
  {
    name: 'Location',
    says: 'On a route with `redirect`: where it leads.',
    example: '/v2/pets',
    isExposed: true,
  },
  {
    name: 'Deprecation',
    says: 'On a deprecated route: since when, as a date of a structured field (RFC 9745).',
    example: '@1764892800',
    isExposed: true,
    replaces: 'deprecated',
    // RFC 9745 section 2.
    ofRoute: ({ deprecated }) => deprecated && `@${Math.floor(deprecated.sinceMs / 1000)}`,
  },
  {
    name: 'Sunset',
    says: 'On a deprecated route with a sunset: when it will be removed (RFC 8594).',
    example: 'Thu, 05 Dec 2030 00:00:00 GMT',
    isExposed: true,
    replaces: 'deprecated',
    // RFC 8594 section 3.
    ofRoute: ({ deprecated }) =>
      deprecated === null || deprecated.sunsetMs === null ? null : new Date(deprecated.sunsetMs).toUTCString(),
  },
  {
    name: 'Link',
    says:
      "On a deprecated route: `successor-version`, `deprecation` and `sunset`, after the service's own Link. On an error of the gateway, with " +
      '`errors.docs`: `help`, the documentation of its code.',
    example: '</v2/pets>; rel="successor-version"',
    isExposed: true,
    ofRoute: ({ deprecated }) => deprecated && linksOf(deprecated),
  },
  {
    name: 'Access-Control-Allow-Origin',
    says: 'With `cors`, to an allowed origin: that origin, or `*`.',
    example: 'https://app.example.com',
    replaces: 'cors',
  },
  {
    name: 'Access-Control-Allow-Credentials',
    says: 'With `cors.credentials`, to an allowed origin.',
    example: 'true',
    replaces: 'cors',
  },
  {
    name: 'Access-Control-Expose-Headers',
    says: 'With `cors`, to an allowed origin: the fields that a page may read, those of the gateway and of `cors.expose`.',
    example: 'X-RateLimit-Limit, Retry-After',
    replaces: 'cors',
  },
  {
    name: 'Access-Control-Allow-Methods',
    says: 'With `cors`, in the answer to a preflight of an allowed origin: the methods of the route.',
    example: 'GET, HEAD',
    replaces: 'cors',
  },
  {
    name: 'Access-Control-Allow-Headers',
    says: 'Beside it: the fields that a page may send, `cors.headers`.',
    example: 'Authorization, Content-Type',
    replaces: 'cors',
  },
  {
    name: 'Access-Control-Max-Age',
    says: 'Beside it: for how many seconds the browser may remember this answer, `cors.maxAge`.',
    example: '600',
    replaces: 'cors',
  },
  {
    name: 'Content-Encoding',
    says: "With `compression`, if the gateway has compressed the service's response: `zstd`, `br` or `gzip`.",
    example: 'br',
    isReserved: true,
  },
  {
    name: 'Vary',
    says: 'With `cors`, `compression` and `errors.docs`: what the answer depends on.',
    example: 'Origin',
  },
  {
    name: 'Age',
    says: 'On a route with `cache`, on a response from memory: seconds since the service made it (RFC 9111).',
    example: '12',
    isReserved: true,
  },
  {
    name: 'Cache-Status',
    says:
      "On a route with `cache`, after the service's own: what the cache did (RFC 9211), `Tollgate; hit; ttl=18`, `Tollgate; fwd=uri-miss; fwd-status=200; stored` or " +
      '`Tollgate; fwd=stale; fwd-status=304`.',
    example: 'Tollgate; hit; ttl=18',
    isReserved: true,
  },
  {
    name: 'Sec-WebSocket-Version',
    says: 'With 400 to a WebSocket request of another version.',
    example: '13',
    isReserved: true,
  },
  {
    name: 'Connection',
    says: '`close` if the gateway closes the connection after the answer.',
    example: 'close',
    replaces: 'always',
  },
];

/** The relations are those of RFC 5829, RFC 9745 section 3 and RFC 8594 section 6. */
function linksOf({ sunsetMs, successor, link }: NonNullable<Announced['deprecated']>): string | null {
  const links = [
    ...(successor === null ? [] : [`<${successor}>; rel="successor-version"`]),
    ...(link === null ? [] : [`<${link}>; rel="deprecation"`]),
    ...(link === null || sunsetMs === null ? [] : [`<${link}>; rel="sunset"`]),
  ];
  return links.length === 0 ? null : links.join(', ');
}

/** Names, in lower case, of the fields whose copies by the service are dropped for one reason. */
export function ownNames(reason: NonNullable<OwnField['replaces']>): readonly string[] {
  return OWN_FIELDS.filter(({ replaces }) => replaces === reason).map(({ name }) => name.toLowerCase());
}

/** The same for each reason. */
export const REPLACED_BY: ReadonlyMap<string, FieldNames> = new Map(
  OWN_FIELDS.flatMap(({ replaces }) =>
    replaces === undefined ? [] : [[replaces, new FieldNames(ownNames(replaces))]],
  ),
);

/** Names of the fields that pages of other origins may always read. */
export const EXPOSED: readonly string[] = OWN_FIELDS.filter(({ isExposed }) => isExposed).map(({ name }) => name);

/** The field of this name, in lower case, that no setting may set; undefined if settings may set this name. */
export function reservedField(lower: string): OwnField | undefined {
  const field = OWN_FIELDS.find(({ name }) => name.toLowerCase() === lower);
  return field?.isReserved === true || field?.replaces !== undefined ? field : undefined;
}

/** What all responses of a route announce. Plain data, as all settings: they are copied to workers, and a copy has no methods. */
export interface Announcement {
  /** Names and values in turn. */
  readonly fields: readonly string[];
  /** The settings of the route for which fields of the service are dropped (`REPLACED_BY`). */
  readonly settings: readonly string[];
}

/** @returns null for a route that announces nothing */
export function announcementOf(route: Announced): Announcement | null {
  const fields = OWN_FIELDS.flatMap(({ name, ofRoute }) => {
    const value = ofRoute?.(route) ?? null;
    return value === null ? [] : [name, value];
  });
  const settings = Object.keys(route).filter((one) => REPLACED_BY.has(one) && route[one as keyof Announced] !== null);
  return fields.length === 0 && settings.length === 0 ? null : { fields, settings };
}
