import { z } from 'zod';
import { brownout } from './brownouts.ts';
import { corsSchema } from './cors.ts';
import { jwtSchema } from './jwt.ts';
import { keysSchema } from './key-formats.ts';
import { addressLimits } from './limits.ts';
import { upstreamSchema } from './upstream-schema.ts';
import * as values from './values.ts';

const { duration, host, port, size, timeout, wholeNumber } = values;

const tls = z.strictObject({
  cert: values.file().describe('PEM file: the certificate, then those that lead to its root. Re-read when it changes.'),
  key: values.file().describe('PEM file: the private key, without a passphrase. Re-read when it changes.'),
  clientCa: values
    .file()
    .optional()
    .describe('PEM file: who signs the certificates of clients. Clients are asked for one where it is given.'),
  clientCertificate: z
    .enum(['optional', 'required'])
    .optional()
    .describe('Whether a client must have a certificate; required unless told. Only with clientCa.'),
  minVersion: z.enum(['TLSv1.2', 'TLSv1.3']).prefault('TLSv1.2').describe('The oldest version of TLS that is spoken.'),
});

export const http2Schema = z.strictObject({
  maxStreams: wholeNumber(1, 1_000).prefault(100).describe('Requests at a time on one HTTP/2 connection.'),
  maxResets: wholeNumber(1, 1_000_000)
    .prefault(200)
    .describe('Requests that a client may break off on one HTTP/2 connection: at once, and again in each minute.'),
});

const listen = z
  .strictObject({
    host: host().prefault('127.0.0.1').describe('Address that clients connect to. HOST in the environment beats it.'),
    port: port().prefault(8080).describe('Port that clients connect to. PORT in the environment beats it.'),
    headersTimeout: timeout().prefault('10s').describe('How long a client may take for the whole request head.'),
    requestTimeout: timeout()
      .prefault('30s')
      .describe('How long a client may take for the whole request, body included.'),
    idleTimeout: timeout().prefault('65s').describe('How long a connection may lie idle between two requests.'),
    writeTimeout: timeout().prefault('30s').describe('How long a client may go without reading any of its answer.'),
    maxHeaderBytes: size('1KiB', '1MiB').prefault('16KiB').describe('Largest request head without the request line.'),
    maxUrlBytes: size('64B', '1MiB').prefault('8KiB').describe('Longest request target.'),
    maxBodyBytes: size('0B', '1024GiB').prefault('1MiB').describe('Largest request body.'),
    maxConnections: wholeNumber(1, 1_000_000)
      .prefault(10_000)
      .describe(
        'Connections at a time. A new one beyond closes the one that has been idle longest, or is closed itself. Lowered, with a warning, where the process may not have so many files open.',
      ),
    maxConnectionsPerAddress: wholeNumber(1, 1_000_000)
      .optional()
      .describe(
        'Connections, and HTTP/2 streams, of one client address at a time (an IPv6 client: its /64); `trustedProxies` have no such limit. Left out, it is a quarter of maxConnections, and not below 64.',
      ),
    drainDelay: duration('0s', '24d')
      .prefault('0s')
      .describe('How long to keep accepting after SIGTERM, so that load balancers notice.'),
    drainTimeout: duration('0s', '24d')
      .prefault('30s')
      .describe('How long running requests may take to end after that.'),
    trustedProxies: z
      .array(values.network())
      .max(10_000)
      .prefault([])
      .describe('Addresses or networks whose X-Forwarded-For is believed, and whose PROXY header.'),
    proxyProtocol: z
      .boolean()
      .prefault(false)
      .describe('True: each connection from `trustedProxies` begins with a PROXY header that names its client.'),
    tls: tls.optional().describe('Encrypts the public listener.'),
    http2: z
      .union([z.boolean('must be `true`, `false` or a mapping of its settings'), http2Schema])
      .optional()
      .describe('HTTP/2 beside HTTP/1.1, which needs `tls`; true where there is `tls` unless told.'),
    via: values.token().optional().describe('Name in the Via field; made of routes and targets when it is left out.'),
  })
  .prefault({});

const admin = z
  .strictObject({
    host: host().prefault('127.0.0.1').describe('Address of the admin listener. ADMIN_HOST beats it.'),
    port: port().prefault(9090).describe('Port of the admin listener. ADMIN_PORT beats it.'),
    hosts: z
      .array(values.reachedAs())
      .max(100)
      .prefault([])
      .describe(
        'Names under which it is reached, without the port, such as gateway-1. Metrics and API refuse a Host that is none of them, nor an IP address, nor localhost.',
      ),
  })
  .prefault({});

const redis = z
  .strictObject({
    timeout: duration('1ms', '1m').prefault('100ms').describe('How long one request may wait for Redis in total.'),
    onFailure: z
      .enum(['local', 'closed', 'open'])
      .prefault('local')
      .describe(
        'Quotas while Redis is away, or the embedded store cannot be written: local = each gateway counts alone, closed = 503, open = not limited.',
      ),
    staleKeys: duration('0s', '24d')
      .prefault('1h')
      .describe('How long a key that was seen before keeps working while Redis is away.'),
    durability: z
      .strictObject({
        replicas: z
          .union([z.literal('all'), wholeNumber(0, 100)], {
            error: 'must be `all` or a whole number from 0 to 100',
          })
          .prefault('all')
          .describe(
            'On how many replicas a change to a key, or a lifted ban, has to be before it is acknowledged: all that there are, or a number (where there are fewer, on all of them). With fewer than all a failover may undo it. 0 waits for none.',
          ),
        timeout: duration('1ms', '1m')
          .prefault('2s')
          .describe('How long that is waited for; then the answer is 202 and says that the durability is unknown.'),
      })
      .prefault({})
      .describe('When changes made by operators count as done. Requests of callers never wait for this.'),
  })
  .prefault({});

const audit = z
  .strictObject({
    required: z
      .boolean()
      .prefault(false)
      .describe(
        'True refuses a change to a key or a ban that cannot be recorded first: 503 audit_unavailable. Commands read it here, too.',
      ),
    keep: wholeNumber(1_000, 10_000_000)
      .prefault(100_000)
      .describe(
        'Changes that are kept in the record, in the same store as the keys; the oldest beyond that are removed.',
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
      .describe('Share of the 2xx answers (preflights aside) that get an access line; nothing else is sampled.'),
  })
  .prefault({});

const headers = z
  .strictObject({
    draft: z.boolean().prefault(true).describe('False leaves RateLimit and RateLimit-Policy out of the answers.'),
    allow: z
      .array(values.token(), 'must be a list of names of request fields')
      .max(1_000, 'must not have more than 1000 names')
      .prefault([])
      .describe(
        'Request fields that are forwarded although their names have more than letters, digits and `-`, such as X.Custom. All others with such names are dropped.',
      ),
  })
  .prefault({});

const deprecated = z.strictObject({
  since: values.instant().describe('When it was deprecated, for the Deprecation field (RFC 9745).'),
  sunset: values
    .instant()
    .optional()
    .describe('When it will be removed, for the Sunset field (RFC 8594); from then on 410.'),
  successor: values.uriReference().optional().describe('What replaces it, as Link rel="successor-version".'),
  link: values.uriReference().optional().describe('Page about it, as Link rel="deprecation" and rel="sunset".'),
  brownouts: z
    .array(brownout)
    .prefault([])
    .describe('Announced short refusals (410 with Retry-After) before the sunset.'),
});

export const routeSchema = z.strictObject({
  path: values
    .pattern()
    .describe(
      '{name} is one segment that is not empty, a last /** is the rest; compared raw and case-sensitive. A path that matches another route when its percent-encoding is decoded is 400.',
    ),
  methods: z
    .array(values.method())
    .min(1, 'must be a list of at least one method')
    .describe('Methods that are served. GET brings HEAD.'),
  upstream: z.string('must be the name of one of `upstreams`').describe('Name of the upstream that serves it.'),
  cost: wholeNumber(1, 1_000_000_000).prefault(1).describe('How many requests one call counts for.'),
  body: z.boolean().prefault(false).describe('True lets GET, HEAD, DELETE and OPTIONS carry a body.'),
  websocket: z
    .boolean()
    .prefault(false)
    .describe('True lets a client go over to WebSocket; else Upgrade is removed and the request served as plain HTTP.'),
  auth: z
    .enum(['key', 'none'], 'must be `key` or `none`')
    .prefault('key')
    .describe('none serves callers without a key, each client address within `limits`.'),
  limits: addressLimits.optional().describe('With `auth: none`: what one client address may do on this route.'),
  deprecated: deprecated.optional().describe('Marks the route as deprecated in its answers.'),
});

const websockets = z
  .strictObject({
    maxPerKey: wholeNumber(1, 1_000_000).prefault(100).describe('WebSockets that one key may have open at a time.'),
    max: wholeNumber(1, 1_000_000).prefault(10_000).describe('WebSockets at a time; those beyond get 503 overloaded.'),
    idleTimeout: timeout().prefault('5m').describe('How long one may go without a byte in either direction.'),
    finTimeout: timeout()
      .prefault('5s')
      .describe('The same, once the client or the upstream has closed its half of the connection.'),
  })
  .prefault({});

const atLeastOne = 'must be a list of at least one route';

/** gateway.yaml (contract section 2). Durations come out as milliseconds, sizes as bytes, dates as Unix milliseconds. */
export const gatewaySchema = z
  .strictObject({
    listen: listen.describe('The public listener: where it is and what a client may cost it.'),
    admin: admin.describe("The operators' listener: health, metrics, the admin API."),
    redis: redis.describe('How Redis is used where REDIS_URL names one.'),
    headers: headers.describe('Which rate-limit fields answers have, and which request fields are forwarded.'),
    cors: corsSchema.optional().describe('Lets pages of other origins read answers. Preflights cost nothing.'),
    jwt: jwtSchema.optional().describe('Callers who bring a JSON Web Token of an issuer instead of an API key.'),
    audit: audit.describe('The record of the changes that operators make.'),
    log: log.describe('The access log.'),
    keys: keysSchema.describe('API keys that were made elsewhere.'),
    websockets: websockets.describe('The WebSockets on routes with `websocket: true`.'),
    upstreams: z
      .record(values.name(), upstreamSchema)
      .refine((upstreams) => Object.keys(upstreams).length > 0, 'is empty; name at least one upstream')
      .refine((upstreams) => Object.keys(upstreams).length <= 1_000, 'must not have more than 1000 upstreams')
      .meta({ minProperties: 1, maxProperties: 1_000, description: 'The services behind the gateway, by name.' }),
    routes: z.array(routeSchema, atLeastOne).min(1, atLeastOne).describe('What is served, and by which upstream.'),
  })
  .meta({ title: 'Tollgate gateway.yaml', description: 'How the gateway runs.' });

/** What is described for later releases; `*` is any name or index. */
export const LATER_GATEWAY_KEYS = [] as const;
