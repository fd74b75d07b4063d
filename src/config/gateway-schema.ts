import { z } from 'zod';
import { ERROR_FORMS } from '../errors/forms.ts';
import { CODINGS, type CompressionRules } from '../http1/content-coding.ts';
import { faultOfText } from '../http1/field-rules.ts';
import { PROTOCOL } from '../http1/fields.ts';
import { addresses, scopes } from '../model/attributes.ts';
import { limitsOf, MAX_LIMIT } from '../model/plan.ts';
import { WINDOWS } from '../model/values.ts';
import type { Brownout } from '../routing/brownouts.ts';
import type { CachedRoute } from '../routing/route.ts';
import { routeCost } from './charges.ts';
import { fieldConditions } from './conditions-schema.ts';
import { jwtSchema, keysSchema, oidcSchema, proxyIdentitySchema } from './identification.ts';
import * as values from './setting-values.ts';
import { inMs, instant, orNull } from './setting-values.ts';
import { costTables } from './tables.ts';

const { duration, host, port, size, timeout, wholeNumber } = values;

/** The limits of a route without a key, for each client address. */
const addressLimits = limitsOf(
  wholeNumber(0, MAX_LIMIT).optional().describe('Number of requests that one window admits.'),
)
  .refine(
    (limits) => Object.keys(limits).length > 0,
    `is empty; give a limit for at least one of ${WINDOWS.join(', ')}`,
  )
  .meta({ minProperties: 1 });

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;
const TIME_OF_DAY = /^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)$/;
const DATE =
  'must be a date or a time such as 2030-11-05T09:00:00Z or, with `days`, a time of day in UTC such as 09:30';

/** One brownout of a deprecated route: `{ from, to }` once, or `{ days, from, to }` each week. */
const brownout = z
  .strictObject({
    days: z
      .array(z.enum(DAYS, `must be one of ${DAYS.join(', ')}`))
      .min(1, 'must be a list of at least one day')
      .optional()
      .describe('The days of each week, in UTC. Without it, the brownout happens once.'),
    from: z
      .string(DATE)
      .describe(
        'When the brownout begins: a time such as `2030-11-05T09:00:00Z` or, with `days`, a time of day in UTC such as `09:30`.',
      ),
    to: z
      .string(DATE)
      .describe(
        'When the brownout ends, later than `from`: a time or, with `days`, a time of day in UTC; `24:00` is the end of the day.',
      ),
  })
  .transform(({ days, from, to }, context): Brownout => {
    const read = days === undefined ? momentOf : minuteOf;
    const [begins, ends] = [read(from), read(to)];
    const fault = (path: 'from' | 'to', message: string) => context.addIssue({ code: 'custom', path: [path], message });
    const allowed =
      days === undefined ? 'a date or a time such as 2030-11-05T09:00:00Z' : 'a time of day such as 09:30';
    if (begins === null) fault('from', `must be ${allowed}`);
    if (ends === null) fault('to', `must be ${allowed}`);
    if (begins === null || ends === null) return z.NEVER;
    const overMidnight =
      days === undefined ? '' : '; split a brownout over midnight in two, one to 24:00 and one from 00:00';
    if (ends <= begins) fault('to', `must be later than \`from\`${overMidnight}`);
    if (days === undefined) return { kind: 'once', fromMs: begins, toMs: ends };
    return { kind: 'weekly', days: days.map((day) => DAYS.indexOf(day)), fromMinute: begins, toMinute: ends };
  });

function momentOf(text: string): number | null {
  const read = instant().safeParse(text);
  return read.success ? read.data : null;
}

function minuteOf(text: string): number | null {
  return TIME_OF_DAY.test(text) ? Number(text.slice(0, 2)) * 60 + Number(text.slice(3)) : null;
}

const originRule = 'must be an origin such as https://app.example.com, without a path, or `*` alone';

/** `cors` in gateway.yaml. */
const cors = z
  .strictObject({
    origins: z
      .array(
        z.string(originRule).regex(/^(\*|[a-z][a-z0-9+.-]*:\/\/[a-z0-9.:[\]-]+)$/, originRule),
        'must be a list of origins',
      )
      .min(1, 'must be a list of at least one origin')
      .max(1_000, 'must not have more than 1000 origins')
      .describe(
        'Origins whose pages may read responses, in lower case and as browsers send them, such as `https://app.example.com`. `*` alone means all.',
      ),
    headers: z
      .array(values.token())
      .prefault(['Authorization', 'Content-Type', 'X-Request-Id'])
      .describe('Names of the header fields that a page may set in its requests.'),
    expose: z
      .array(values.token())
      .prefault([])
      .describe("Names of the response header fields that a page may read, besides the gateway's own."),
    credentials: z.boolean().prefault(false).describe('Whether a page may send cookies; not with `*`.'),
    maxAge: values.duration('0s', '24h').prefault('10m').describe('How long a browser may remember a preflight.'),
  })
  .transform(({ maxAge, ...rules }) => ({ ...rules, maxAgeSeconds: Math.floor(maxAge / 1000) }));

const fieldValues = () =>
  z
    .record(values.token(), values.fieldValue())
    .refine((fields) => Object.keys(fields).length <= 100, 'must not have more than 100 fields')
    .meta({ maxProperties: 100 })
    .optional();

const fieldChanges = (of: string) =>
  z
    .strictObject({
      remove: z
        .array(values.token(), 'must be a list of names of fields')
        .max(100, 'must not have more than 100 names')
        .optional()
        .describe(`Names of fields of the ${of} that are dropped.`),
      set: fieldValues().describe(
        `Fields that replace those of the same name in the ${of}. In values, \`{consumer.id}\`, \`{consumer.name}\`, \`{consumer.meta.NAME}\` (a pair of its metadata), \`{customer.id}\`, \`{customer.name}\`, \`{plan}\`, \`{request.id}\` and \`{client.address}\` stand for what the gateway knows; characters other than visible ASCII are percent-encoded. A field with a variable that the request lacks is left out.`,
      ),
      add: fieldValues().describe(`Fields that are added to those of the same name in the ${of}.`),
    })
    .optional();

/** `headers` of an upstream or a route. */
const fieldRules = z
  .strictObject({
    request: fieldChanges("client's request").describe(
      'On the way to the service. `remove` comes first, then `set`, then `add`. The fields by which the gateway says who calls, from where, and how long a message is cannot be changed.',
    ),
    response: fieldChanges("service's response").describe(
      "On the way to the client: responses of the service, but not the gateway's own errors.",
    ),
  })
  .optional();

const errorForm = z.enum(ERROR_FORMS, `must be one of ${ERROR_FORMS.join(', ')}`);
const ERROR_FORM_TEXT =
  '`openai` and `anthropic` as the official clients of these APIs read them, `problem` (RFC 9457), `json-rpc` (2.0, with the id null), `graphql`, or `own` (`{"code", "message", "status"}`). Each form has these members too, in `data` or `extensions` if the form has such a place.';
/** A value without variables: an error may be one of a request of which nothing is known. */
const errorField = z.string('must be text').superRefine((text, context) => {
  const fault = faultOfText(text);
  if (fault !== null) context.addIssue({ code: 'custom', message: fault });
});

const codingRule = `must be a list of at least one of ${CODINGS.join(', ')}`;
const COMPRESSION_RULE = 'must be `off`, or a mapping with `encodings` and `minBytes`, which may be empty';

/** `compression` of an upstream or a route. */
const compression = z
  .union(
    [
      // YAML 1.1 parsers read `off` as false.
      z.literal('off'),
      z.literal(false),
      z.strictObject({
        encodings: z
          .array(z.enum(CODINGS, codingRule), codingRule)
          .min(1, codingRule)
          .prefault([...CODINGS])
          .describe('Encodings to offer, the preferred one first.'),
        minBytes: values
          .size('0B', '1GiB')
          .prefault('1KiB')
          .describe('A body whose declared length is less is sent as it is.'),
      }),
    ],
    COMPRESSION_RULE,
  )
  .transform((rules): CompressionRules | null =>
    typeof rules === 'object' ? { codings: rules.encodings, minBytes: rules.minBytes } : null,
  )
  .optional();

const shareRule = 'must be a number above 0 and at most 1';
const AT_LEAST_ONE_TARGET = 'must be a list of at least one address';

const upstreamTls = z.strictObject({
  ca: orNull(values.file()).describe(
    "PEM file with the certificate authorities that sign the targets' certificates. Without it, those that Node.js trusts. The files in `tls` are read only at startup.",
  ),
  cert: orNull(values.file()).describe(
    'PEM file with the certificate that the gateway presents to targets. Needs `key`.',
  ),
  key: orNull(values.file()).describe('PEM file with the private key of `cert`, without a passphrase.'),
  serverName: orNull(values.serverName()).describe(
    "The name that a target's certificate must have. Without it, the target's host.",
  ),
  verify: z
    .boolean()
    .prefault(true)
    .describe('`false` accepts any certificate, so an attacker on the network can read and change everything.'),
});

const health = z
  .strictObject({
    path: values
      .healthPath()
      .describe(
        'Path that the gateway requests from each target with GET, in its `protocol`. Any status from 200 to 399 is healthy. With `h2` and `h2c`, `/grpc.health.v1.Health/Check` calls the health service of gRPC, which must answer SERVING.',
      ),
    interval: values.timeout().prefault('5s').describe('Pause between two checks of a target.'),
    timeout: values.timeout().prefault('2s').describe('How long a target may take to respond to a check.'),
    unhealthyAfter: values
      .wholeNumber(1, 100)
      .prefault(2)
      .describe('Number of failed checks in a row after which a target is left out.'),
    healthyAfter: values
      .wholeNumber(1, 100)
      .prefault(2)
      .describe('Number of successful checks in a row after which a target is let back in.'),
  })
  .transform(inMs('interval', 'timeout'));

const STICKY_RULE = 'must have one of `cookie: NAME`, `key` and `address`, such as `{ cookie: session }` or `{ key }`';

/** Written `{ key }`, which YAML reads as null, or `{ key: true }`. */
const given = z.union([z.null(), z.literal(true)]).optional();

const sticky = z
  .strictObject(
    {
      cookie: z
        .string('must be the name of a cookie')
        .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'must be the name of a cookie')
        .optional()
        .describe('Requests with the same value of this cookie get the same target; those without the cookie get any.'),
      key: given.describe(
        'Requests of the same key, or of the same subject of tokens, get the same target; on a route without keys those of the same address.',
      ),
      address: given.describe('Requests of the same client address get the same target.'),
    },
    STICKY_RULE,
  )
  .refine((by) => Object.keys(by).length === 1, STICKY_RULE)
  .transform((sticky) => {
    if (sticky.cookie !== undefined) return { by: 'cookie', name: sticky.cookie } as const;
    return { by: 'key' in sticky ? 'key' : 'address' } as const;
  });

/** One entry of `upstreams` in gateway.yaml, as it is written. */
export const upstreamEntry = z.strictObject({
  targets: z
    .array(values.target(), AT_LEAST_ONE_TARGET)
    .min(1, AT_LEAST_ONE_TARGET)
    .max(1_000, 'must not have more than 1000 addresses')
    .refine(
      (targets) => targets.length === 0 || targets.some(({ weight }) => weight !== 0),
      'must have a target with a weight above 0',
    )
    .describe(
      'Addresses of the service: scheme, host and port, or `unix:/path`. A base path, as in `http://10.0.0.7:9000/store`, is put in front of the path of each request, but not of `health.path`. A request goes to the target with the fewest requests in flight. With weights, as in `{ url: http://10.0.0.2:80, weight: 5 }`, targets get requests in proportion to them, whatever they have in flight; a target without `weight` has 1, and 0 takes it out. A target that cannot be reached, or fails three times in a row to give a usable response, is left out for 1 s, then 2 s, up to 30 s, and let back in gradually. The only target of an upstream without `health` is never left out. When a target sends bytes that answer no request, the gateway logs an error and opens a new connection to it for each request during the next minute. Names are resolved for each new connection; an answer is kept for its TTL. If there is only one upstream, UPSTREAM_URL in the environment replaces its targets.',
    ),
  host: orNull(values.hostField()).describe(
    "The Host that the service gets: `keep` for the client's, or a fixed name such as `shop.internal` or `shop.internal:8080`. Without it, the authority of the target, which checks of `health` have in any case. With `keep`, a client chooses it within the rules for Host: a service must not build links of it unless its routes have `hosts`.",
  ),
  protocol: z
    .enum(['http1', 'h2', 'h2c'], 'must be http1, h2 or h2c')
    .prefault('http1')
    .describe(
      'What the service speaks: `http1` is HTTP/1.1, `h2` HTTP/2 over TLS, which the service must agree on in the handshake (ALPN), and `h2c` HTTP/2 without TLS, from the first byte on. gRPC needs one of the two. A connection then carries up to 100 requests at a time, or as many as the service allows, trailers reach the service and the client, and `maxConnections` bounds the requests instead of the connections. WebSockets and other upgrades need `http1`.',
    ),
  sticky: orNull(sticky).describe(
    'Sends requests that belong together to one target, chosen by a hash of what they share and of the address of each target, by weight. So all gateways choose the same, and when a target comes or goes, only its own requests move. While it is left out, they get the next.',
  ),
  connectTimeout: values
    .timeout()
    .prefault('2s')
    .describe('How long connecting to a target may take; then the response is 504.'),
  responseTimeout: values
    .timeout()
    .prefault('30s')
    .describe('How long the service may take to send the head of its response; then the client gets 504.'),
  bodyTimeout: values
    .timeout()
    .prefault('30s')
    .describe("How long the service may pause within the body of its response; then the client's connection is reset."),
  maxConnections: values
    .wholeNumber(1, 65_535)
    .prefault(256)
    .describe(
      'Maximum number of connections to the service at a time; with `protocol: h2` or `h2c`, of requests at a time.',
    ),
  maxQueue: values
    .wholeNumber(0, 1_000_000)
    .prefault(1024)
    .describe('Maximum number of requests that may wait for a connection. Any more get 503 `overloaded`.'),
  fairShare: z
    .number(shareRule)
    .gt(0, shareRule)
    .max(1, shareRule)
    .prefault(0.25)
    .describe(
      "The part of `maxConnections`, and of `maxQueue`, that one consumer may have at a time: a customer with all its keys, a key or a token's subject without a customer or, on a route without keys, an address. It is also at most half of what the others leave (or `fairShare` of that, if it is more). Requests beyond that get 429 `too_many_in_flight` and are not counted. Waiting requests are served in turn by consumer. 1 lets one consumer have everything, for a service that has only one.",
    ),
  health: orNull(health).describe(
    'Checks regularly whether each target is healthy. Without it, the gateway learns this from requests alone.',
  ),
  headers: fieldRules.describe(
    'Header fields to set, add or remove on all routes to this upstream, before the `headers` of the route.',
  ),
  validate: values
    .fileAsWritten()
    .optional()
    .describe(
      'OpenAPI description (3.0 or 3.1, YAML or JSON) that the requests of all routes to this upstream are checked against, as `validate` of a route says.',
    ),
  compression: compression.describe(
    'Compresses responses that the service sends plain, for clients whose Accept-Encoding asks for it. Without it, nothing is compressed. Only text, JSON, XML, JavaScript and SVG; never a response with Set-Cookie, with `no-store`, `private` or `no-transform` in Cache-Control, with a strong ETag, a digest, or a part of a body, an event stream, or any response to a request with a Cookie, because the length of compressed bytes can betray a secret in them (BREACH). At most 64 responses at a time in each worker, of one consumer at most the `fairShare` of them; any more are sent plain.',
  ),
  tls: orNull(upstreamTls).describe(
    'TLS to targets that begin with `https://`. Certificates are verified unless `verify` is false.',
  ),
});

const certificateFiles = {
  cert: values
    .file()
    .describe(
      'PEM file with the certificate, followed by its intermediate certificates. It is read again within a second or two of a change. If the new pair cannot be used or has expired, the gateway keeps the previous one and logs an error.',
    ),
  key: values.file().describe('PEM file with the private key, without a passphrase. It is read again when it changes.'),
};

const handshake = {
  clientCa: orNull(values.file()).describe(
    'PEM file with the certificate authorities that sign client certificates. With it, the gateway asks each client for a certificate.',
  ),
  clientCertificate: z
    .enum(['optional', 'required'])
    .optional()
    .describe(
      'Whether a client must present a certificate. Allowed only with `clientCa`, where it is `required` by default.',
    ),
  minVersion: z
    .enum(['TLSv1.2', 'TLSv1.3'])
    .prefault('TLSv1.2')
    .describe('The oldest TLS version that the gateway accepts.'),
};

/** Without `clientCa` no client is asked for a certificate; with it, each must have one unless the setting says otherwise. */
function handshakeOf<T extends HandshakeEntry>({ clientCa, clientCertificate = 'required', ...rest }: T) {
  return { ...rest, clientCa, clientCertificate: clientCa === null ? ('none' as const) : clientCertificate };
}

interface HandshakeEntry {
  readonly clientCa: string | null;
  readonly clientCertificate?: 'optional' | 'required' | undefined;
}

const tls = z.strictObject({ ...certificateFiles, ...handshake }).transform(handshakeOf);

const TERMS =
  "must be true: the certificate authority issues nothing unless you agree to its terms of service (of Let's Encrypt: https://letsencrypt.org/repository/)";

const acme = z
  .strictObject({
    domains: z
      .array(values.provableDomain())
      .min(1, 'must name at least one domain')
      .max(100, 'must name at most 100 domains, as many as fit into a certificate')
      .overwrite((names) => [...new Set(names)].sort())
      .describe(
        'The names by which clients reach the gateway. One certificate is ordered for all of them. Each must resolve to this gateway, or to the load balancer in front of it. With other domains, the next start orders another certificate.',
      ),
    email: orNull(
      z
        .string('must be an e-mail address')
        .max(254)
        .regex(/^[!-?A-~]+@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+$/, 'must be an e-mail address such as ops@example.com'),
    ).describe('Where the certificate authority may write about the account.'),
    agreeToTerms: z
      .literal(true, TERMS)
      .describe(
        '`true` agrees to the terms of service of the certificate authority. Without it, no account can be made.',
      ),
    directory: values
      .directoryUrl()
      .prefault('https://acme-v02.api.letsencrypt.org/directory')
      .describe(
        "The `https://` URL of the authority's directory. Try the first certificate with `https://acme-staging-v02.api.letsencrypt.org/directory`, whose limits are wide. Every URL that the directory names must have its origin, and redirects are not followed.",
      ),
    directoryCa: orNull(values.file()).describe(
      'PEM file with the certificate authorities that sign the certificate of the directory itself, for an authority of your own. Without it, those that Node.js trusts.',
    ),
    challenge: z
      .enum(['tls-alpn-01', 'http-01'])
      .prefault('tls-alpn-01')
      .describe(
        'How the gateway proves that a domain is its own. `tls-alpn-01`: the authority connects to port 443 of the domain, which must reach `listen.port` with TLS unopened. `http-01`: the authority sends a request to port 80 of the domain, which must reach `httpPort`.',
      ),
    httpPort: port()
      .optional()
      .transform((port) => port ?? 80)
      .describe(
        'Port of the listener for `http-01`, 80 by default, on `listen.host`. It answers challenges, and redirects every other GET and HEAD for one of the domains to `https://` (308). Allowed only with `http-01`.',
      ),
    eab: orNull(
      z.strictObject({
        keyId: z
          .string('must be the key id that the authority has given')
          .regex(/^[!-~]{1,512}$/, 'must be the key id that the authority has given')
          .describe('The key id.'),
        hmacKeyFile: values.file().describe('File with the HMAC key, in base64url as the authority shows it.'),
      }),
    ).describe(
      'External account binding, which authorities such as ZeroSSL ask for: the account there that pays or is known.',
    ),
  })
  .transform(({ agreeToTerms: _, ...settings }) => settings);

const publicTls = z
  .strictObject({
    cert: certificateFiles.cert.optional(),
    key: certificateFiles.key.optional(),
    certificates: z
      .array(z.strictObject(certificateFiles))
      .max(100, 'must not have more than 100 certificates')
      .prefault([])
      .describe(
        'Further certificates, each for other hosts. A client gets the one that has the name which it sends in the handshake (SNI), exact names before wildcards, and otherwise that of `cert` or `acme`. A request for a host of another certificate than that of its connection gets 421, unless both have the host.',
      ),
    acme: orNull(acme).describe(
      'Orders the certificate from a certificate authority by ACME (RFC 8555) and renews it, in place of `cert` and `key`.',
    ),
    ...handshake,
  })
  .meta({
    oneOf: [
      { properties: { cert: true, key: true }, required: ['cert', 'key'] },
      { properties: { acme: true }, required: ['acme'] },
    ],
  })
  .transform(handshakeOf)
  // The check of the file has found both files where there is no `acme`.
  .transform(({ cert = '', key = '', acme, ...rest }) =>
    acme === null ? { ...rest, cert, key, acme } : { ...rest, cert: null, key: null, acme },
  );

const http2 = z.strictObject({
  maxStreams: wholeNumber(1, 1_000)
    .prefault(100)
    .describe('Maximum number of concurrent requests on one HTTP/2 connection.'),
  maxResets: wholeNumber(1, 1_000_000)
    .prefault(200)
    .describe(
      'Number of requests that a client may reset on one HTTP/2 connection in a burst, and again in each minute. Beyond that, the gateway closes the connection (rapid reset). Connections from `trustedProxies` may have 100 times as many, because one of them carries the requests of many clients.',
    ),
});

/** `listen` in gateway.yaml, as it is written. */
export const listenEntry = z.strictObject({
  host: host()
    .prefault('127.0.0.1')
    .describe(
      'Address that clients connect to; `0.0.0.0` opens the gateway to other machines. HOST in the environment overrides it.',
    ),
  port: port()
    .prefault(8080)
    .describe('Port that clients connect to; 0 lets the system choose one. PORT in the environment overrides it.'),
  headersTimeout: timeout()
    .prefault('10s')
    .describe('How long a client may take to send the request head; then it gets 408.'),
  requestTimeout: timeout()
    .prefault('30s')
    .describe(
      'How long a client may take to send the whole request, body included, on routes without a `requestTimeout` of their own; then it gets 408.',
    ),
  idleTimeout: timeout()
    .prefault('65s')
    .describe(
      "How long a connection may stay idle between two requests. Keep it above the load balancer's own idle timeout.",
    ),
  writeTimeout: timeout()
    .prefault('30s')
    .describe('How long a client may go without reading any of its response; then its connection is closed.'),
  maxHeaderBytes: size('1KiB', '1MiB')
    .prefault('16KiB')
    .describe('Largest request head, without the request line. A larger one gets 431.'),
  maxUrlBytes: size('64B', '1MiB').prefault('8KiB').describe('Longest request target. A longer one gets 414.'),
  maxBodyBytes: size('0B', '1024GiB')
    .prefault('1MiB')
    .describe(
      'Largest request body of routes without a `maxBodyBytes` of their own, which take a change at once, and of requests without a route. A larger one gets 413.',
    ),
  maxConnections: wholeNumber(1, 1_000_000)
    .prefault(10_000)
    .describe(
      'Maximum number of client connections at a time. A new connection beyond that closes the one that has been idle longest, or is closed itself if none is idle. The process needs enough file descriptors: one for each client connection, one for each connection to an upstream, two for a WebSocket, and 100 for the gateway itself. With fewer, the gateway warns at startup and lowers this limit and `maxConnectionsPerAddress` (on Linux; to at least a quarter of the descriptors). The hard limit counts: `ulimit -Hn`, `LimitNOFILE`, `ulimits: nofile`.',
    ),
  maxConnectionsPerAddress: wholeNumber(1, 1_000_000)
    .optional()
    .describe(
      'Maximum number of connections, and of HTTP/2 streams, from one client address at a time; an IPv6 client counts by its /64. By default a quarter of `maxConnections`, but at least 64. A new connection beyond that closes the one from the same address that has been idle longest, or is closed itself if none is idle. Addresses in `trustedProxies` have no such limit: list your load balancer there, or all its clients count as one address. With the PROXY protocol, the client that the header names is the one that counts.',
    ),
  drainDelay: duration('0s', '24d')
    .optional()
    .describe(
      'How long the gateway keeps accepting requests after SIGTERM while `/readyz` is 503, so that load balancers notice, and the connections that they keep end with a response. By default 2s with `trustedProxies`, and 0s without.',
    ),
  drainTimeout: duration('0s', '24d')
    .prefault('30s')
    .describe('How long running requests may take to finish after that. Any that are left are then cut off.'),
  trustedProxies: z
    .array(values.network())
    .max(10_000)
    .prefault([])
    .describe(
      'Addresses or networks of proxies in front of the gateway. Their X-Forwarded-For, read from right to left, and X-Forwarded-Proto are trusted, and with `proxyProtocol` their PROXY headers.',
    ),
  proxyProtocol: z
    .boolean()
    .prefault(false)
    .describe(
      "`true`: each connection from `trustedProxies` begins with a PROXY header, version 1 or 2, and the client is the one that the header names. That client's own X-Forwarded-* fields are trusted only if it is in `trustedProxies` too.",
    ),
  tls: orNull(publicTls).describe(
    'Encrypts the public listener: TLS 1.2 and 1.3, with forward secrecy only. One client address may begin 100 handshakes a second in each process; further ones wait until `headersTimeout`. One that takes more than 2 ms of the processor, as some client certificates do, counts as several. A handshake may take 8 KiB of a client, its certificates included.',
  ),
  http2: z
    .union([z.boolean('must be `true`, `false` or a mapping of its settings'), http2])
    .optional()
    .describe(
      'HTTP/2 alongside HTTP/1.1. It needs `tls`, with which it is on by default; `false` turns it off. Each stream is a request like any other: same checks, same limits, same log line.',
    ),
  via: orNull(values.token()).describe(
    'Name of this gateway in the Via field, by which it recognises a loop (508). By default, the gateway derives it from its routes and targets, so that replicas share it.',
  ),
});

/**
 * Fault: a proxy that keeps its connections sends a request on one at the moment at which a stopping gateway closes it as idle, and does
 * not send a POST again. While the gateway still accepts, such a connection ends with a response.
 */
const PROXIED_DRAIN_DELAY_MS = 2_000;

const listen = listenEntry
  .transform(({ drainDelay, ...rest }) => ({
    ...rest,
    drainDelay: drainDelay ?? (rest.trustedProxies.length > 0 ? PROXIED_DRAIN_DELAY_MS : 0),
  }))
  .transform(inMs('headersTimeout', 'requestTimeout', 'idleTimeout', 'writeTimeout', 'drainDelay', 'drainTimeout'))
  .transform(({ maxConnectionsPerAddress, http2: given = true, ...rest }) => ({
    ...rest,
    maxConnectionsPerAddress: maxConnectionsPerAddress ?? Math.max(64, Math.floor(rest.maxConnections / 4)),
    http2: rest.tls === null || given === false ? null : given === true ? http2.parse({}) : given,
  }))
  .prefault({});

const admin = z
  .strictObject({
    host: host()
      .prefault('127.0.0.1')
      .describe(
        'Address of the admin listener. Keep it on loopback or an internal network. ADMIN_HOST in the environment overrides it.',
      ),
    port: port().prefault(9090).describe('Port of the admin listener. ADMIN_PORT in the environment overrides it.'),
    hosts: z
      .array(values.reachedAs())
      .max(100)
      .prefault([])
      .describe(
        "Names, without a port, by which Prometheus and operators reach the admin listener, besides its IP address, localhost and ADMIN_HOST. `/metrics`, `/admin` and `/console` answer any other Host with 421, because a web page whose own name resolves to this address could read them from an operator's browser (DNS rebinding). `/livez` and `/readyz` accept any Host.",
      ),
    tls: orNull(tls).describe(
      'Encrypts the admin listener, `/metrics` and `/readyz` included. The certificate is reloaded when its files change.',
    ),
    identity: orNull(proxyIdentitySchema).describe(
      'Accepts people whom an authenticating proxy in front of the admin listener has signed in: the proxy sends a JSON Web Token for each request, and the gateway verifies it.',
    ),
    oidc: orNull(oidcSchema).describe(
      'Lets people sign in to the console at an OpenID Connect provider, such as Keycloak, Entra ID, Okta or Google. Register `https://HOST/console/sign-in` there as the redirect URI, with the host under which browsers reach the console.',
    ),
    editPlans: z
      .boolean('must be true or false')
      .prefault(false)
      .describe(
        'Whether `PUT /admin/plans/file` may replace plans.yaml. A holder of the admin token can then change what every key may do without a commit. The gateway needs a writable folder around the file.',
      ),
  })
  .prefault({});

/** A setting that is on by default. */
function onOrOff() {
  return (
    z
      // YAML 1.1 parsers read `on` and `off` as true and false.
      .union([z.enum(['on', 'off']), z.boolean()], 'must be `on` or `off`')
      .transform((set) => set === 'on' || set === true)
      .prefault('on')
  );
}

const redis = z
  .strictObject({
    timeout: duration('1ms', '1m')
      .prefault('100ms')
      .describe(
        'How long one request may wait in total for a Redis that does not answer, with the look-up of its key and the decision together. It should be at least four round trips, so a Redis in another region needs more than the default.',
      ),
    onFailure: z
      .enum(['local', 'closed', 'open'])
      .prefault('local')
      .describe(
        'What happens to requests while Redis is away or the embedded store cannot be written to. `local`: each gateway enforces the limits alone, so an outage admits at most gateways × limit. `closed`: 503. `open`: no limits, except for keys that are known to be banned.',
      ),
    leases: onOrOff().describe(
      'Whether a gateway may borrow units of a key that sends it about three requests a second or more: those of its next ten requests or of a quarter of a second, and at most a sixteenth of what is left, which the store has counted. Limits and bans stay exact, and requests from what is borrowed do not wait for Redis. Nothing is borrowed from the embedded store.',
    ),
    staleKeys: duration('0s', '24d')
      .prefault('1h')
      .describe('How long a key that the gateway has seen keeps working while Redis is away. Other keys get 503.'),
    durability: z
      .strictObject({
        replicas: z
          .union([z.literal('all'), wholeNumber(0, 100)], {
            error: 'must be `all` or a whole number from 0 to 100',
          })
          .prefault('all')
          .describe(
            'How many replicas must have a change to a key, or a lifted ban, before it is acknowledged: `all`, or a number (if there are fewer replicas, all of them). `all` includes replicas that Sentinels or the cluster know and that are away: until they are back or removed, changes are answered with 202. With fewer than all, a failover may undo an acknowledged change. 0 waits for none.',
          ),
        timeout: duration('1ms', '1m')
          .prefault('2s')
          .describe(
            'How long the gateway waits for the replicas. Then, or at once if a replica is known to be down, the response is 202 with `"durability": "unknown"`.',
          ),
      })
      .transform(inMs('timeout'))
      .prefault({})
      .describe('When a change that an operator made is acknowledged. Requests of callers never wait for this.'),
  })
  .transform(inMs('timeout', 'staleKeys'))
  .prefault({});

const audit = z
  .strictObject({
    required: z
      .boolean()
      .prefault(false)
      .describe(
        '`true` refuses a change to a key or a ban that cannot be recorded first: 503 `audit_unavailable`. It applies to commands too, so give them the same gateway.yaml. `false` makes the change anyway, logs an error and counts it in `tollgate_audit_failures_total`.',
      ),
    keep: wholeNumber(1_000, 10_000_000)
      .prefault(100_000)
      .describe(
        'How many changes the record keeps, about 600 bytes each, in the same store as the keys. Beyond that, the oldest are removed.',
      ),
  })
  .prefault({});

const log = z
  .strictObject({
    sample2xx: z
      .number('must be a number from 0 to 1')
      .min(0, 'must be a number from 0 to 1')
      .max(1, 'must be a number from 0 to 1')
      .prefault(1)
      .describe(
        'Share of the 2xx responses, other than those to preflights, that get an access line, from 0 to 1. Everything else is always logged. A sampled line gives the share as `sample`.',
      ),
  })
  .prefault({});

const headers = z
  .strictObject({
    draft: z
      .boolean()
      .prefault(true)
      .describe('`false` leaves RateLimit and RateLimit-Policy out of responses, for clients that cannot handle them.'),
    consumer: z
      .enum(['tollgate', 'kong'], 'must be `tollgate` or `kong`')
      .prefault('tollgate')
      .describe(
        "`kong` tells services who calls in the fields of Kong as well: X-Consumer-Id is the customer of the key, or the key if it has none; X-Consumer-Username its name, percent-encoded except for visible ASCII; X-Consumer-Custom-Id the pair `custom_id` of its metadata; X-Consumer-Groups its scopes; X-Credential-Identifier the key; and X-Anonymous-Consumer is `true` on a route with `auth: none`. The client's own X-Credential-*, X-Authenticated-* and X-Anonymous-Consumer are dropped.",
      ),
    allow: z
      .array(values.token(), 'must be a list of names of request fields')
      .max(1_000, 'must not have more than 1000 names')
      .prefault([])
      .describe(
        "Request fields to forward although their names have characters other than letters, digits and `-`, such as `X.Custom` or `my_field`. All other such fields are dropped, because many services read `X.Consumer.Id` as `X-Consumer-Id`. A name that could be taken for one of the gateway's own fields is a configuration error.",
      ),
  })
  .prefault({});

const deprecated = z
  .strictObject({
    since: values
      .instant()
      .describe('When the route was deprecated, for the Deprecation field (RFC 9745). A date is midnight UTC.'),
    sunset: orNull(values.instant()).describe(
      'When the route will be removed, for the Sunset field (RFC 8594). From then on, its response is 410.',
    ),
    successor: orNull(values.uriReference()).describe('What replaces the route, as Link rel="successor-version".'),
    link: orNull(values.uriReference()).describe(
      'Page that explains the deprecation, as Link rel="deprecation" and, with `sunset`, rel="sunset".',
    ),
    brownouts: z
      .array(brownout)
      .prefault([])
      .describe(
        'Short absences announced before the sunset: the response is 410 with Retry-After until the brownout ends.',
      ),
  })
  .transform(inMs('since', 'sunset'));

const rewrite = z
  .strictObject({
    stripPrefix: values
      .path()
      .optional()
      .describe(
        "The beginning of the route's path that is taken away, in whole segments: with `/v1`, `/v1/pets` becomes `/pets`. The service gets it as X-Forwarded-Prefix, after that of a trusted proxy.",
      ),
    addPrefix: values
      .path()
      .optional()
      .describe('Put in front of what remains: with `/internal`, `/pets` becomes `/internal/pets`.'),
    path: values
      .path()
      .optional()
      .describe(
        "The whole path, with the names and the `/**` of the route's path where they are wanted: `/shop/{shop}/**`.",
      ),
    location: z
      .boolean('must be true or false')
      .optional()
      .describe(
        "`true` undoes the rewrite in the service's responses: a Location that names the service becomes a path of the client's, with `stripPrefix` in front and without `addPrefix` and the base path of the target, and cookies lose a Domain of the service and have their Path changed alike. Not beside `path`.",
      ),
  })
  .refine((change) => Object.keys(change).length > 0, 'is empty; give `stripPrefix`, `addPrefix`, `path` or `location`')
  .meta({ minProperties: 1 });

const redirect = z
  .strictObject({
    to: values
      .redirectTarget()
      .describe(
        "Where the client is sent: a path, or `https://host` and a path, with the names and the `/**` of the route's path where they are wanted. The client's query follows.",
      ),
    status: z
      .union(
        [z.literal(301), z.literal(302), z.literal(303), z.literal(307), z.literal(308)],
        'must be 301, 302, 303, 307 or 308',
      )
      .prefault(308)
      .describe('301 and 308 are permanent and may be cached; 307 and 308 keep the method and the body.'),
  })
  .transform(({ to, status }) => ({ status, ...values.redirectParts(to) }));

const respond = z.strictObject({
  status: wholeNumber(200, 599).prefault(200).describe('Status of the response.'),
  body: z
    .string('must be text')
    .refine((text) => Buffer.byteLength(text) <= 65_536, 'must not be longer than 64 KiB')
    .prefault('')
    .describe('Body of the response, at most 64 KiB.'),
  contentType: values.fieldValue().prefault('text/plain; charset=utf-8').describe('Content-Type of the body.'),
  headers: fieldValues().describe(
    "Further header fields, with the same variables as `headers` of a route, `Retry-After` among them. Other fields of the gateway's own are a configuration error.",
  ),
});

const retries = z
  .strictObject({
    attempts: wholeNumber(2, 5).prefault(2).describe('Maximum number of attempts, the first one included.'),
    on: z
      .array(
        z.union(
          [z.literal('connection'), z.literal(500), z.literal(502), z.literal(503), z.literal(504)],
          'must be connection, 500, 502, 503 or 504',
        ),
      )
      .min(1, 'must be a list of at least one of connection, 500, 502, 503 and 504')
      .max(5, 'must not list anything twice')
      .prefault(['connection', 502, 503, 504])
      .describe(
        'What makes an attempt a failure: a status of the response, or `connection`, which is a connection that cannot be opened, or that breaks, or that sends something other than HTTP, before the head of the response.',
      ),
    attemptTimeout: orNull(timeout()).describe(
      'How long each attempt may take to receive the head of its response; then it has failed. It must be shorter than the response timeout. Without it, an attempt may take all the time that is left, and a slow one is not retried.',
    ),
  })
  .transform(inMs('attemptTimeout'))
  .transform(({ on, ...rest }) => ({
    ...rest,
    onConnection: on.includes('connection'),
    onStatus: on.filter((failure) => failure !== 'connection'),
  }));

const CACHE_RULE = 'must be `true`, or a mapping with `shared`, `fields` and `ttl`, which may be empty';

/** `cache` of a route. */
const routeCache = z
  .union(
    [
      z.literal(true),
      z.strictObject({
        shared: z
          .boolean()
          .prefault(false)
          .describe(
            '`true` gives all callers the same stored response. Without it, each caller gets those to its own requests alone. Say `true` only if the service gives every caller the same, or names what its response depends on in Vary.',
          ),
        fields: z
          .array(values.token(), 'must be a list of names of fields')
          .max(20, 'must not have more than 20 names')
          .prefault([])
          .transform((names): readonly string[] => names.map((name) => name.toLowerCase()))
          .describe(
            'Fields of the request that a response depends on, although the service does not name them in Vary: requests that differ in one of them get responses of their own.',
          ),
        ttl: duration('0s', '365d')
          .prefault('0s')
          .describe(
            'For how long a response is fresh that has neither Cache-Control nor Expires nor Pragma. With `0s`, such a response is not stored.',
          ),
      }),
    ],
    CACHE_RULE,
  )
  .transform(
    (rules): CachedRoute =>
      rules === true
        ? { isShared: false, fields: [], ttlSeconds: 0 }
        : { isShared: rules.shared, fields: rules.fields, ttlSeconds: Math.floor(rules.ttl / 1_000) },
  );

const POLICIES_RULE = 'must be a list of at least one file, such as [./policies/tenant.ts]';

/** One of the forms of odd paths that a route may pass. */
const oddPaths = (what: string) =>
  z
    .enum(['refuse', 'pass'], 'must be `refuse` or `pass`')
    .prefault('refuse')
    .describe(
      `\`pass\` gives the service ${what} in what the \`/**\` of the path matches, byte for byte; \`refuse\` answers 400. A path that a service may read as one of another route gets 400 all the same, whatever the rules of that route. Not with \`validate\`, \`redirect\` and \`respond\`.`,
    );

const HOSTS_RULE = 'must be a list of at least one host, such as [api.example.com, "*.example.com"]';

/** One entry of `routes` in gateway.yaml. What it shares with other routes and its upstream is joined in `routesOf`. */
export const routeEntry = z.strictObject({
  hosts: orNull(
    z
      .array(values.routeHost(), HOSTS_RULE)
      .min(1, HOSTS_RULE)
      .max(1_000, 'must not have more than 1000 hosts')
      .refine((hosts) => new Set(hosts).size === hosts.length, 'must not name a host twice')
      .meta({ uniqueItems: true }),
  ).describe(
    'Hosts that the route serves, compared with the Host of the request without its port and in any case. `*.example.com` covers all names below example.com. A request goes to the routes of its host, then to those of a wildcard that covers it (the longer one first), then to those without `hosts`: the first of these in which its path matches a route serves it. Write names outside ASCII in their form for DNS (`xn--…`).',
  ),
  path: values
    .pattern()
    .describe(
      'Path of the route. `{name}` matches one non-empty segment, and a final `/**` matches the rest of the path: `/beta/**` matches `/beta/` and `/beta/a`, and `/beta` too if no route matches that. Paths are compared exactly as sent and are case-sensitive. The more specific path wins, whatever the method: text before `{name}`, `{name}` before `/**`. Routes may have the same path if they have different methods. A path that would match another route once percent-decoded gets 400.',
    ),
  when: orNull(fieldConditions()).describe(
    'What header fields of a request must be for the route to serve it: `{ header: X-Version, is: [v2] }`, one of these values, or `{ header: X-Version }`, any value. Of a list of these all must hold. Among routes with the same path and method, the first whose `when` holds serves the request: those with more exact values come first, then those with more fields, then the earlier one in this file; a route without `when` takes the rest, and without one the rest gets 404. Values are compared as they are written, and a field with several values (`v1, v2`, or sent twice) must have only such values, or the request gets 400. A field that Connection lists counts as absent. Fields of credentials, of the connection and of the gateway itself cannot be compared.',
  ),
  methods: z
    .array(values.method())
    .min(1, 'must be a list of at least one method')
    .optional()
    .transform((methods): readonly string[] => methods ?? values.ROUTABLE_METHODS)
    .describe(
      'Methods that the route serves. GET includes HEAD. Required without `redirect` and `respond`; beside one of them, a route without `methods` has all but CONNECT and TRACE.',
    ),
  upstream: z
    .string('must be the name of one of `upstreams`')
    .optional()
    .transform((name) => name ?? '')
    .describe(
      'Name of the upstream that serves the route, one of `upstreams`. Required without `redirect` and `respond`.',
    ),
  cost: routeCost.describe(
    'How many requests one call counts for. A cost above a limit refuses every call. Or a mapping: `requests`, and for each unit that plans limit (`units` in plans.yaml) what a call charges in it, a number or a mapping.',
  ),
  body: z
    .boolean()
    .prefault(false)
    .describe('`true` lets GET, HEAD, DELETE and OPTIONS carry a body. Otherwise such a request gets 400.'),
  websocket: z
    .boolean()
    .prefault(false)
    .describe(
      '`true` lets a client upgrade to WebSocket, over HTTP/1.1 only. The request is admitted first and counted once; `websockets` bounds how many there are. A WebSocket ends within a second of its key, the secret that opened it, or the customer of its key or token being revoked, ended or suspended or expiring, but not when the key is banned; during a drain it stays open until `drainTimeout`. `false` removes Upgrade and serves the request as plain HTTP.',
    ),
  upgrades: z
    .array(z.string().regex(PROTOCOL, 'must be the name of a protocol, such as `irc/6.9`'))
    .prefault([])
    .describe(
      'Protocols besides WebSocket to which a client may upgrade, as it names them in Upgrade; case does not matter. All that is said of `websocket` applies to them. The gateway does not read what such a connection carries: name no protocol that carries HTTP, such as `h2c`, since its requests would not be counted. Any other Upgrade is removed, and the request served as plain HTTP.',
    ),
  auth: z
    .enum(['key', 'none'], 'must be `key` or `none`')
    .prefault('key')
    .describe(
      '`key` requires an API key or a token. `none` serves everyone, each client address (an IPv6 client by its /64) within `limits`; keys are neither checked nor forwarded, no address is banned, and log and metrics call the plan `public`.',
    ),
  limits: addressLimits
    .optional()
    .describe('Limits for each client address on this route. Required with `auth: none` and allowed only with it.'),
  sharedLimits: orNull(values.name()).describe(
    'A name under which routes with `auth: none` count together: an address has their `limits`, which must be the same, once for all routes with this name. Without it, once for each of them.',
  ),
  options: z
    .enum(['answer', 'pass'], 'must be `answer` or `pass`')
    .optional()
    .describe(
      'What becomes of OPTIONS: `answer` answers 204 with the methods of the path in Allow, `pass` forwards it as if it were one of `methods`. Both are identified and counted. Without it, OPTIONS gets 405 unless it is one of `methods`. With `cors`, preflights of browsers are answered in any case.',
    ),
  encodedSlashes: oddPaths('encoded slashes and backslashes (`%2F`, `%5C`)'),
  dotSegments: oddPaths('segments `.` and `..`, encoded or not, that do not lead out of the path of the route,'),
  emptySegments: oddPaths('empty segments (`//`) and segments of nothing but blanks or path parameters'),
  rewrite: orNull(rewrite).describe(
    "How the path is written for the service; without it, as the client sent it. The client's path is what is routed, checked, counted and logged. Segments are copied as they were sent and the query is kept. A base path of the target comes in front.",
  ),
  headers: fieldRules.describe('Header fields to set, add or remove, after the `headers` of the upstream.'),
  authorization: orNull(z.enum(['pass', 'drop'], 'must be `pass` or `drop`')).describe(
    "Whether the service gets the client's Authorization: `pass` forwards it even if it has the caller's key or token, `drop` never does. Without it, the service gets it on a route with `auth: none`, and on all routes if `keys.from` has neither `authorization` nor `basic` and there is no `jwt`; but never what has the form of a key, or of a token where `jwt` is set.",
  ),
  redirect: orNull(redirect).describe(
    'Sends clients elsewhere instead of forwarding. The request is identified, admitted and counted as on any route. Not together with `respond`.',
  ),
  respond: orNull(respond).describe(
    'A fixed response instead of forwarding, for example during maintenance. The request is identified, admitted and counted as on any route; `upstream` may stay, and is not asked.',
  ),
  errors: z
    .strictObject({ form: errorForm.describe(`The form of the gateway's own errors: ${ERROR_FORM_TEXT}`) })
    .optional()
    .describe("The gateway's own errors on this route, in place of `errors.form`."),
  compression: compression.describe(
    'Replaces the `compression` of the upstream; `off` for a route that must not be compressed.',
  ),
  cache: orNull(routeCache).describe(
    'Keeps responses to GET in the memory of each process, by the rules of RFC 9111 for a cache that many share: what the service says in Cache-Control, Expires and Vary decides whether and for how long. GET and HEAD are then answered from memory; they are identified, admitted and counted as before. `true` is a mapping without members. Responses have Age and Cache-Status. See `cache` for the bounds.',
  ),
  timeouts: z
    .strictObject({
      response: values
        .timeout()
        .optional()
        .describe('How long the service may take to send the head of its response, instead of `responseTimeout`.'),
      body: values
        .timeout()
        .optional()
        .describe('How long the service may pause within the body of its response, instead of `bodyTimeout`.'),
    })
    .optional()
    .describe('Deadlines of this route that replace those of its upstream.'),
  retries: orNull(retries).describe(
    'Tries GET, HEAD, OPTIONS, QUERY, PUT and DELETE again when an attempt has failed and the client has received nothing yet. Each attempt goes to another target if one is usable. `responseTimeout` is for all attempts together, and the client gets the response of the last one. Retries are not counted against the quota, and in any ten seconds there are at most a fifth as many as requests that may be retried, or twenty if that is more, for each upstream in each worker; one key causes at most half of them. A request with a body is retried only if the gateway has the whole body when it forwards the request. WebSocket upgrades are never retried.',
  ),
  maxBodyBytes: orNull(size('0B', '1024GiB')).describe(
    'Largest request body on this route, in place of `listen.maxBodyBytes`. A larger one gets 413. A declared length is refused before the request is counted.',
  ),
  requestTimeout: orNull(timeout()).describe(
    'How long a client may take to send a whole request of this route, body included, in place of `listen.requestTimeout`; then it gets 408.',
  ),
  idleTimeout: orNull(timeout()).describe(
    'How long a WebSocket of this route, or a connection of another protocol, may go without a byte, in place of `websockets.idleTimeout`.',
  ),
  validate: z
    .union([z.literal(false), values.fileAsWritten()], 'must be the path of an OpenAPI description, or `false`')
    .optional()
    .describe(
      'OpenAPI description (3.0 or 3.1, YAML or JSON) that requests are checked against once they are admitted and counted: path and query parameters, media type, and bodies of JSON up to 1 MiB. A request that does not fit gets 400 `request_invalid`, one that is not described as well. Paths are compared as the service gets them (after `rewrite`), with the path of the first server of the description in front. `false` leaves out the check of the upstream.',
    ),
  scopes: orNull(scopes.min(1, 'must be a list of at least one scope, such as [orders:write]')).describe(
    'What a caller must be allowed to do, all of it: the scopes of its key (`tollgate keys create --scope`), or those of its token (`scope`, or `scp`). Without one of them its request is counted and gets 403 `insufficient_scope`. Not with `auth: none`.',
  ),
  addresses: orNull(
    addresses.min(1, 'must be a list of at least one address or network, such as [10.0.0.0/8]'),
  ).describe(
    "The client addresses and networks from which the route may be called, with or without a key; all others get 403 `address_not_allowed`, which is not counted and costs one failed authentication of the address. The client's address is the one that the log shows: behind `trustedProxies`, the one that they name. A list says nothing of the other IP version: IPv6 clients need networks of their own.",
  ),
  policies: z
    .array(values.fileAsWritten(), POLICIES_RULE)
    .min(1, POLICIES_RULE)
    .refine((names) => names.length <= 10, 'must not have more than 10 policies')
    .refine((names) => new Set(names).size === names.length, 'must not name a policy twice')
    .meta({ maxItems: 10, uniqueItems: true })
    .optional()
    .transform((names) => names ?? null)
    .describe(
      'Modules in TypeScript or JavaScript (`.ts`, `.mts`, `.js`, `.mjs`), each with a function that decides about the requests of this route in code: whether they are allowed, their cost, and fields for the service. They run in this order once the caller is known and before the request is counted; `policies.timeout` says how long each may take. Relative paths are resolved against the folder of this file. A policy is loaded again when it or a file that it imports changes. It runs with the rights of the gateway.',
    ),
  deprecated: orNull(deprecated).describe(
    'Marks the route as deprecated: its responses have Deprecation, Sunset and Link.',
  ),
});

const websockets = z
  .strictObject({
    maxPerKey: wholeNumber(1, 1_000_000)
      .prefault(100)
      .describe(
        'Maximum number of WebSockets that one key may have open at a time; each worker counts its own. Any more get 503 `overloaded`. All callers of a customer have at most half of what the others leave of `max`, or `maxPerKey` if that is more.',
      ),
    max: wholeNumber(1, 1_000_000)
      .prefault(10_000)
      .describe('Maximum number of WebSockets at a time. Any more get 503 `overloaded`.'),
    idleTimeout: timeout().prefault('5m').describe('How long a WebSocket may go without a byte in either direction.'),
    finTimeout: timeout()
      .prefault('5s')
      .describe(
        'How long a WebSocket may go without a byte once the client or the upstream has closed its half of the connection.',
      ),
  })
  .transform(inMs('idleTimeout', 'finTimeout'))
  .prefault({});

const cache = z
  .strictObject({
    maxBytes: size('1MiB', '64GiB')
      .prefault('64MiB')
      .describe(
        'Bytes of all stored responses in each process (`WORKERS`). Those that were used least recently make room, and one caller fills at most a quarter.',
      ),
    maxBodyBytes: size('1KiB', '1GiB').prefault('1MiB').describe('Largest body of a response that is stored.'),
  })
  .prefault({});

const policies = z
  .strictObject({
    timeout: duration('1ms', '30s')
      .prefault('50ms')
      .describe(
        'How long a request waits for the promise that a policy returns, from the call of the policy. Then it gets 500 `policy_failed`. A result that is there counts, however long it took.',
      ),
  })
  .transform(inMs('timeout'))
  .prefault({});

const WATCHDOG_RULE = 'must be `off`, or a duration from 2s to 10m, such as 10s';
const AT_LEAST_ONE_ROUTE = 'must be a list of at least one route';

/**
 * gateway.yaml (contract section 2). What it parses to is the settings: durations in milliseconds, sizes in bytes, dates in Unix
 * milliseconds, files as absolute paths, and null for what is left out and has no default.
 */
export const gatewaySchema = z
  .strictObject({
    listen: listen.describe(
      'The public listener: where it is, and what one client may cost it. Changes take effect at the next start, except that the certificates of `tls` are reloaded automatically.',
    ),
    admin: admin.describe(
      'The listener for operators: health, metrics, the admin API and the console. Changes take effect at the next start, except that the certificates of `tls` are reloaded automatically.',
    ),
    redis: redis.describe(
      'How the gateway uses Redis if REDIS_URL is set. `onFailure` applies to the embedded store too. Changes take effect at the next start.',
    ),
    headers: headers.describe(
      'Which rate-limit fields responses have, and which request fields with unusual names are forwarded.',
    ),
    errors: z
      .strictObject({
        form: orNull(errorForm).describe(
          `The form of the gateway's own errors: ${ERROR_FORM_TEXT} Without it, \`own\`, or what \`docs\` says. A call of gRPC gets a status of gRPC in any case.`,
        ),
        headers: z
          .record(values.token(), errorField)
          .refine((fields) => Object.keys(fields).length <= 20, 'must not have more than 20 fields')
          .meta({ maxProperties: 20 })
          .prefault({})
          .describe(
            "Header fields of the gateway's own errors, beside its own. Values are sent as they are written here, without variables.",
          )
          .transform((fields) => Object.entries(fields).flat()),
        docs: orNull(values.pageUrl()).describe(
          'Page that documents the error codes, each under the code as its fragment (`#rate_limit_exceeded`). With it, the gateway\'s own errors have `Link: <page#code>; rel="help"`, and clients whose Accept names `application/problem+json`, with no lower weight than JSON, get problem details (RFC 9457) instead of the usual body.',
        ),
      })
      .prefault({})
      .transform(({ headers, ...rules }) => ({ ...rules, fields: headers }))
      .describe("The gateway's own errors."),
    cors: orNull(cors).describe(
      "Lets web pages of other origins read responses and their rate-limit fields. Preflights need no key and cost nothing. The service's own `Access-Control-*` fields are dropped.",
    ),
    jwt: orNull(jwtSchema).describe(
      'Lets callers send a JSON Web Token from your identity provider instead of an API key.',
    ),
    audit: audit.describe('The record of the changes that operators make to keys and bans.'),
    log: log.describe('The access log.'),
    watchdog: z
      // YAML 1.1 parsers read `off` as false.
      .union([z.literal('off'), z.literal(false), duration('2s', '10m')], WATCHDOG_RULE)
      .transform((limit) => ({ limitMs: typeof limit === 'number' ? limit : null }))
      .prefault('10s')
      .describe(
        'How long the main thread of a process of the gateway may go without a turn of its event loop. Then the process is killed, which is logged. A worker is replaced by its supervisor; a gateway of one process is restarted by its service manager. Time in which the whole machine or all processes stand still does not count, time in which the thread reads counts for a sixth (on Linux), and nothing is killed while a debugger is open. `off` leaves a process that hangs as it is. Not for a gateway in the process of another program. Changes take effect at the next start.',
      ),
    keys: keysSchema.describe('Where requests have their API key, and the formats of keys that were made elsewhere.'),
    websockets: websockets.describe('The WebSockets on routes with `websocket: true`.'),
    cache: cache.describe(
      'The memory for responses on routes with `cache`. A change of it, or of the routes, empties it.',
    ),
    policies: policies.describe('The policies that routes name (`policies` of a route).'),
    usage: z
      .strictObject({
        history: onOrOff().describe(
          '`on` keeps what each key uses by hour for 48 hours and by day for 92 days, counted in the step that decides, and which keys are refused at present. It takes at most 1.2 KB a key in the store. `off` keeps nothing.',
        ),
        traffic: onOrOff().describe(
          '`on` keeps requests, errors and latency of all gateways by route, plan, customer and upstream, by minute for 48 hours and by hour for 92 days, for `GET /admin/traffic/history`. It takes at most 10 MB in the store and two small records a minute from each gateway. `off` adds nothing.',
        ),
        networks: onOrOff().describe(
          '`on` keeps from which networks each key was called (a /24 of IPv4, a /48 of IPv6; 20 for each key, with how often, and first and last when) in the last 30 to 40 days, and attempts with its ended secrets, for `GET /admin/keys/ID/networks`. It takes at most 4 KB a key in the store, and is removed with the key. It is personal data in some countries. `off` adds nothing, and so does `history: off`.',
        ),
      })
      .prefault({})
      .describe('What is kept of the use of keys and of traffic.'),
    upstreams: z
      .record(values.name(), upstreamEntry.transform(inMs('connectTimeout', 'responseTimeout', 'bodyTimeout')))
      .refine((upstreams) => Object.keys(upstreams).length <= 1_000, 'must not have more than 1000 upstreams')
      .default({})
      .meta({
        maxProperties: 1_000,
        description:
          'The services behind the gateway, by name. A gateway whose routes all have `redirect` or `respond` needs none.',
      }),
    tables: costTables,
    routes: z
      .array(routeEntry, AT_LEAST_ONE_ROUTE)
      .min(1, AT_LEAST_ONE_ROUTE)
      .describe(
        'What the gateway serves, and from which upstream. `/usage` belongs to the gateway itself: a route with exactly this path is a configuration error, one such as `/{name}` gets a warning because it does not get `/usage`, and `/**` means all other paths.',
      ),
  })
  .meta({ title: 'Tollgate gateway.yaml', description: 'How the gateway runs.' });

/** What gateway.yaml says: the settings, before the environment is laid over them and routes are joined with their upstreams. */
export type GatewayFile = z.output<typeof gatewaySchema>;
/** What may be written in gateway.yaml. */
export type GatewayFileInput = z.input<typeof gatewaySchema>;
