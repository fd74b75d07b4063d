import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import type { Allowance, Plans } from '../admit/plan.ts';
import { WINDOWS, windowLimit } from '../admit/windows.ts';
import type { CorsRules } from '../annotate/cors.ts';
import { Failure } from '../failure.ts';
import { fieldRulesOf } from '../http1/field-rules.ts';
import type { KeyFormat } from '../identify/api-key.ts';
import type { KeySource } from '../identify/key-sources.ts';
import { type PathChange, type PathTemplate, pathTemplateOf, patternAfter } from '../routing/path-template.ts';
import { type Route, type RouteReply, withHead } from '../routing/router.ts';
import type { Program } from '../validate/program.ts';
import type { ReadDescriptions } from './compiled-descriptions.ts';
import { describedRequests, readDescriptions } from './descriptions.ts';
import { type Environment, type LogLevel, readEnvironment, type Variables } from './environment.ts';
import { type Fault, printFault, printPlace } from './fault.ts';
import { deepFreeze } from './frozen.ts';
import { type GatewayFile, methodsOf, parseGatewayFile } from './gateway-file.ts';
import { corsOf, http2Schema } from './gateway-schema.ts';
import {
  type JwtSettings,
  jwtOf,
  keyFormatsOf,
  keySourcesOf,
  type ProxyIdentitySettings,
  proxyIdentityOf,
} from './identification.ts';
import { parsePlans } from './plans.ts';
import { readSecret, readSettingsFile, rereadSecret, signatureOf, versionOf } from './read-file.ts';
import { redirectParts, targetOf } from './values.ts';
import { isMapping, type Parsed } from './yaml.ts';

/** How the gateway runs: gateway.yaml with the environment laid over it. Deep frozen; a reload makes a new one. */
export interface Settings {
  readonly listen: {
    readonly host: string;
    readonly port: number;
    readonly headersTimeoutMs: number;
    readonly requestTimeoutMs: number;
    readonly idleTimeoutMs: number;
    readonly writeTimeoutMs: number;
    readonly maxHeaderBytes: number;
    readonly maxUrlBytes: number;
    readonly maxBodyBytes: number;
    readonly maxConnections: number;
    readonly maxConnectionsPerAddress: number;
    readonly drainDelayMs: number;
    readonly drainTimeoutMs: number;
    /** IP addresses and networks (`10.0.0.0/8`). */
    readonly trustedProxies: readonly string[];
    /** Whether the trusted proxies begin each connection with a PROXY header. */
    readonly proxyProtocol: boolean;
    /** The name in `Via`; null: `viaByDefault`. */
    readonly via: string | null;
  } & Encryption;
  readonly admin: {
    readonly host: string;
    readonly port: number;
    /** Host names that clients may use for the admin listener, besides `host` and the names of loopback. */
    readonly hosts: readonly string[];
    readonly token: string | null;
    /** Absolute path of ADMIN_TOKENS_FILE, which the admin listener reads; null if it is not set. */
    readonly tokensFile: string | null;
    /** Null: plain text. */
    readonly tls: Tls | null;
    /** Null: no identities of an authenticating proxy. */
    readonly identity: ProxyIdentitySettings | null;
    /** Whether the admin API may replace plans.yaml. */
    readonly editPlans: boolean;
  };
  readonly redis: {
    /** Null: the embedded store. */
    readonly url: string | null;
    readonly timeoutMs: number;
    readonly onFailure: 'local' | 'closed' | 'open';
    readonly staleKeysMs: number;
    /** How many Redis replicas must confirm an operator's change, and how long the gateway waits for them. */
    readonly durability: { readonly replicas: 'all' | number; readonly timeoutMs: number };
  };
  /** The record of changes: whether a change that cannot be recorded is refused, and how many changes are kept. */
  readonly audit: { readonly required: boolean; readonly keep: number };
  readonly headers: {
    /** Whether answers have RateLimit and RateLimit-Policy. */
    readonly draft: boolean;
    /** Request fields that are forwarded although their names have punctuation. */
    readonly allow: readonly string[];
  };
  /** `sample2xx`: share of the 2xx answers that get an access line, 0 to 1. */
  readonly log: { readonly sample2xx: number };
  /** How long a process may go without a turn of its main thread before it is killed; null: for ever. */
  readonly watchdog: { readonly limitMs: number | null };
  /** Whether the store keeps a history of what each consumer uses. */
  readonly usageHistory: boolean;
  readonly websockets: {
    readonly maxPerKey: number;
    readonly max: number;
    readonly idleTimeoutMs: number;
    readonly finTimeoutMs: number;
  };
  /** URL of the page that errors link to; null: errors have no link. */
  readonly errorDocs: string | null;
  /** Null: browsers let no page of another origin read answers. */
  readonly cors: CorsRules | null;
  /** Null: JSON Web Tokens are not accepted. */
  readonly jwt: JwtSettings | null;
  /** The formats of API keys that were made elsewhere. */
  readonly keyFormats: readonly KeyFormat[];
  /** Where requests may have their key; null: in Authorization alone. */
  readonly keysFrom: readonly KeySource[] | null;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  /** In the order of the file; every `upstream` is a key of `upstreams`. */
  readonly routes: readonly Route[];
  /** The OpenAPI descriptions that requests are checked against, by their files. */
  readonly descriptions: ReadonlyMap<string, Program>;
  /** A hash of routes and targets. All replicas have the same, so that each recognises a request that another forwarded. */
  readonly viaByDefault: string;
  /** Absolute path of the embedded store's folder. */
  readonly dataFolder: string;
  /** Newest first; empty when not set. */
  readonly peppers: readonly string[];
  readonly logLevel: LogLevel;
  readonly workers: number | 'auto';
}

/** TLS and HTTP/2 on the public listener. */
interface Encryption {
  /** Null: plain text. */
  readonly tls: PublicTls | null;
  /** Null: HTTP/1.1 alone. Always null without TLS. */
  readonly http2: { readonly maxStreams: number; readonly maxResets: number } | null;
}

/** `cert`, `key` and `clientCa` are absolute paths of PEM files. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
  readonly clientCertificate: 'none' | 'optional' | 'required';
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** TLS on the public listener: the certificate is in two files, or comes by ACME. */
export type PublicTls = (Tls & { readonly acme: null }) | AcmeTls;

export interface AcmeTls extends Omit<Tls, 'cert' | 'key'> {
  readonly cert: null;
  readonly key: null;
  readonly acme: Acme;
}

/** Where the certificate is ordered, and for what. `directoryCa` and `hmacKeyFile` are absolute paths. */
export interface Acme {
  /** In lower case, each once, sorted; at least one. */
  readonly domains: readonly string[];
  readonly email: string | null;
  readonly directory: string;
  readonly directoryCa: string | null;
  readonly challenge: 'tls-alpn-01' | 'http-01';
  /** Of the listener for HTTP-01. */
  readonly httpPort: number;
  readonly eab: { readonly keyId: string; readonly hmacKeyFile: string } | null;
}

/** One service behind the gateway. */
export interface Upstream {
  readonly name: string;
  /** Origins (`http://127.0.0.1:9000`), perhaps with a base path, and sockets (`unix:/run/pets.sock`). At least one. */
  readonly targets: readonly string[];
  readonly connectTimeoutMs: number;
  /** From the request to the head of the answer. */
  readonly responseTimeoutMs: number;
  /** Longest pause between two pieces of the answer's body. */
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxQueue: number;
  /** The part of `maxConnections`, and of `maxQueue`, that one consumer may have: above 0, at most 1. */
  readonly fairShare: number;
  /** Null: no active checks. */
  readonly health: Health | null;
  /** Null: Node's defaults. */
  readonly tls: UpstreamTls | null;
}

/** The active health checks of an upstream's targets. */
interface Health {
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly unhealthyAfter: number;
  readonly healthyAfter: number;
}

/** TLS to the targets of an upstream. `ca`, `cert` and `key` are absolute paths of PEM files. */
interface UpstreamTls {
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  readonly serverName: string | null;
  readonly verify: boolean;
}

/** gateway.yaml, or plans.yaml. */
export type SettingsFile = 'settings' | 'plans';

export interface Configuration {
  readonly settings: Settings;
  readonly plans: Plans;
  /** What is probably wrong but does not keep the gateway from serving, one line each. */
  readonly warnings: readonly string[];
  /** The version of each file: the beginning of the SHA-256 of its text. */
  readonly versions: Readonly<Record<SettingsFile, string>>;
  /** `signatureOf` both files and those of `settings.descriptions`, taken before they were read. */
  readonly signature: string;
}

/** A file with faults. Those of the environment, and of the descriptions that gateway.yaml names, count among the faults of gateway.yaml. */
export interface RefusedFile {
  readonly file: SettingsFile;
  /** The version that has the faults; empty if the file could not be read. */
  readonly version: string;
  /** One printable line each; at least one. */
  readonly faults: readonly string[];
  /** How many further faults were left out; 0 unless given. */
  readonly more?: number;
}

/** A configuration that cannot be used. */
export interface Faulty {
  /** The faults of all files. */
  readonly faults: readonly string[];
  readonly files: readonly RefusedFile[];
  /** The settings, if all faults are in plans.yaml. */
  readonly settings?: Settings;
}

export const DEFAULT_GATEWAY_FILE = 'config/gateway.yaml';
export const DEFAULT_PLANS_FILE = 'plans.yaml';

/** The paths of gateway.yaml and plans.yaml: those in the environment, else the defaults. */
export function filesOf(env: Variables): readonly [gateway: string, plans: string] {
  return [env.TOLLGATE_CONFIG || DEFAULT_GATEWAY_FILE, env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE];
}

/**
 * Reads and checks the environment, gateway.yaml and plans.yaml (contract section 2). Relative paths are resolved
 * against the working directory. Both files must exist: a gateway that was started in the wrong folder reports a
 * fault instead of answering 404 to every request.
 * @param isReload whether the process has read the files before: a pipe or a device is a fault then
 * @returns the configuration, or every fault
 */
export async function loadConfiguration(env: Variables, isReload = false): Promise<Configuration | Faulty> {
  const files = filesOf(env);
  const signature = signatureOf(files);
  const read = readEnvironment(env, isReload ? rereadSecret : readSecret);
  const gateway = parseFile(files[0], 'TOLLGATE_CONFIG', parseGatewayFile, isReload);
  const plans = parseFile(files[1], 'TOLLGATE_PLANS', parsePlans, isReload);
  return joined({ read, gateway, plans, signature, isReload }, printFault);
}

/** The content of gateway.yaml and of plans.yaml as values. */
export interface GivenSettings {
  readonly gateway: unknown;
  readonly plans: unknown;
}

/**
 * As `loadConfiguration`, of values in place of files. Faults and warnings begin with `gateway: ` or `plans: ` and the path to
 * the value: `gateway: routes[0].path: …`. What JSON leaves out, such as `undefined`, counts as left out.
 */
export async function configurationOf(given: GivenSettings, env: Variables): Promise<Configuration | Faulty> {
  const gateway = parseValue(given.gateway, 'gateway', parseGatewayFile);
  const plans = parseValue(given.plans, 'plans', parsePlans);
  return joined({ read: readEnvironment(env), gateway, plans, signature: '', isReload: false }, printPlace);
}

interface Parts {
  readonly read: ReturnType<typeof readEnvironment>;
  readonly gateway: Versioned<GatewayFile>;
  readonly plans: Versioned<Plans>;
  readonly signature: string;
  /** Whether the process has read the settings before. */
  readonly isReload: boolean;
}

type Versioned<T> = Parsed<T> & { readonly version: string };

async function joined(
  { read, gateway, plans, signature, isReload }: Parts,
  print: (fault: Fault) => string,
): Promise<Configuration | Faulty> {
  const ofSettings = [
    ...('faults' in read ? read.faults : []),
    ...('faults' in gateway ? gateway.faults : []).map(print),
  ];
  const ofPlans = ('faults' in plans ? plans.faults : []).map(print);
  const versions = { settings: gateway.version, plans: plans.version };
  const faulty = (more: readonly string[] = []) =>
    faultyOf({ settings: [...more, ...ofSettings], plans: ofPlans }, versions);
  if ('faults' in gateway) return faulty();
  const described = await readDescriptions(describedRequests(gateway.value), gateway, isReload);
  if (described.faults.length > 0) return faulty(described.faults.map(print));
  if ('faults' in read) return faulty();
  const settings = deepFreeze(settingsOf(gateway.value, read.environment, described));
  const conflicts = conflictsOf(settings, gateway, read.environment, print);
  if (conflicts.length > 0) return faulty(conflicts);
  if ('faults' in plans) return { ...faulty(), settings };
  return {
    settings,
    plans: plans.value,
    warnings: [...read.warnings, ...[...gateway.warnings, ...described.warnings, ...plans.warnings].map(print)],
    versions: { ...versions, settings: versionWith(gateway.version, described) },
    signature: described.programs.size === 0 ? signature : `${signature};${described.signature}`,
  };
}

function faultyOf(
  faults: Readonly<Record<SettingsFile, readonly string[]>>,
  versions: Configuration['versions'],
): Faulty {
  const files = (['settings', 'plans'] as const).flatMap((file): RefusedFile[] =>
    faults[file].length === 0 ? [] : [{ file, version: versions[file], faults: faults[file] }],
  );
  return { faults: files.flatMap((one) => one.faults), files };
}

/** The version of gateway.yaml with the descriptions that it names. */
function versionWith(version: string, { texts }: ReadDescriptions): string {
  return texts.length === 0 ? version : versionOf([version, ...texts].join('\0'));
}

/** As `loadConfiguration`. @throws Failure `bad_settings` with every fault on a line of its own */
export async function configurationFrom(env: NodeJS.ProcessEnv): Promise<Configuration> {
  const configuration = await loadConfiguration(env);
  if ('faults' in configuration) throw new Failure('bad_settings', configuration.faults.join('\n'));
  return configuration;
}

/** The warnings about the routes of gateway.yaml, with their positions. */
export function routeWarningsOf(env: Variables): readonly Fault[] {
  const gateway = parseFile(filesOf(env)[0], 'TOLLGATE_CONFIG', parseGatewayFile);
  return gateway.warnings.filter(({ path }) => path.startsWith('routes['));
}

function parseFile<T>(
  file: string,
  variable: string,
  parse: (text: string, file: string) => Parsed<T>,
  isReload = false,
): Versioned<T> {
  const read = readSettingsFile(
    file,
    `Name another file in ${variable}, or run this in the folder that has it.`,
    isReload,
  );
  if ('fault' in read) return { faults: [read.fault], warnings: [], version: '' };
  return { ...parse(read.text, file), version: versionOf(read.text) };
}

/** JSON is YAML, so a value is checked by the rules of the file. */
function parseValue<T>(value: unknown, name: string, parse: (text: string, file: string) => Parsed<T>): Versioned<T> {
  const fault = (message: string) => ({ file: name, line: 1, column: 1, path: '', message });
  if (!isMapping(value)) return { faults: [fault('must be an object.')], warnings: [], version: '' };
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    // The first line of an error about a circle says so; the others draw it.
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { faults: [fault(`cannot be written as JSON: ${reason}.`)], warnings: [], version: '' };
  }
  return { ...parse(text, name), version: versionOf(text) };
}

/** The settings of the file, where the environment does not override them. */
function settingsOf(file: GatewayFile, environment: Environment, { programs }: ReadDescriptions): Settings {
  const { listen, admin, redis } = file;
  const upstreams = upstreamsOf(file, environment.upstreamUrl);
  const deprecated = storeNamesOf(file.routes.filter((entry) => entry.deprecated !== undefined));
  const keyless = storeNamesOf(file.routes.filter((entry) => entry.auth === 'none'));
  const routes = file.routes.map((entry) => routeOf(entry, file, deprecated.get(entry), keyless.get(entry)));
  return {
    listen: {
      host: environment.host ?? listen.host,
      port: environment.port ?? listen.port,
      headersTimeoutMs: listen.headersTimeout,
      requestTimeoutMs: listen.requestTimeout,
      idleTimeoutMs: listen.idleTimeout,
      writeTimeoutMs: listen.writeTimeout,
      maxHeaderBytes: listen.maxHeaderBytes,
      maxUrlBytes: listen.maxUrlBytes,
      maxBodyBytes: listen.maxBodyBytes,
      maxConnections: listen.maxConnections,
      maxConnectionsPerAddress: listen.maxConnectionsPerAddress ?? Math.max(64, Math.floor(listen.maxConnections / 4)),
      drainDelayMs: listen.drainDelay,
      drainTimeoutMs: listen.drainTimeout,
      trustedProxies: listen.trustedProxies,
      proxyProtocol: listen.proxyProtocol,
      ...encryptionOf(listen),
      via: listen.via ?? null,
    },
    admin: {
      host: environment.adminHost ?? admin.host,
      port: environment.adminPort ?? admin.port,
      hosts: admin.hosts,
      token: environment.adminToken,
      tokensFile: environment.adminTokensFile === null ? null : resolve(environment.adminTokensFile),
      tls: tlsOf(admin.tls),
      identity: proxyIdentityOf(admin.identity),
      editPlans: admin.editPlans,
    },
    redis: {
      url: environment.redisUrl,
      timeoutMs: redis.timeout,
      onFailure: redis.onFailure,
      staleKeysMs: redis.staleKeys,
      durability: { replicas: redis.durability.replicas, timeoutMs: redis.durability.timeout },
    },
    audit: file.audit,
    headers: file.headers,
    log: file.log,
    errorDocs: file.errors.docs ?? null,
    cors: corsOf(file.cors, file.keys),
    jwt: jwtOf(file.jwt),
    keyFormats: keyFormatsOf(file.keys),
    keysFrom: keySourcesOf(file.keys),
    watchdog: { limitMs: typeof file.watchdog === 'number' ? file.watchdog : null },
    usageHistory: file.usage.history === 'on' || file.usage.history === true,
    websockets: {
      maxPerKey: file.websockets.maxPerKey,
      max: file.websockets.max,
      idleTimeoutMs: file.websockets.idleTimeout,
      finTimeoutMs: file.websockets.finTimeout,
    },
    upstreams,
    routes,
    descriptions: programs,
    viaByDefault: viaOf(routes, upstreams),
    dataFolder: resolve(environment.dataFolder ?? 'data'),
    peppers: environment.peppers,
    logLevel: environment.logLevel ?? 'info',
    workers: environment.workers ?? 1,
  };
}

function viaOf(routes: Settings['routes'], upstreams: Settings['upstreams']): string {
  const text = JSON.stringify([routes.map(({ path }) => path), [...upstreams.values()].map(({ targets }) => targets)]);
  return `tollgate-${createHash('sha256').update(text).digest('hex').slice(0, 10)}`;
}

/** The conflicts between gateway.yaml and the environment, each of which is sound alone. */
function conflictsOf(
  { listen, admin, upstreams }: Settings,
  gateway: { locate(path: readonly string[]): Fault },
  environment: Environment,
  print: (fault: Fault) => string,
): readonly string[] {
  const faults: string[] = [];
  if (environment.upstreamUrl !== null && upstreams.size !== 1) {
    const message = 'can only replace the targets of one upstream, and gateway.yaml has several; leave it unset.';
    faults.push(`environment: UPSTREAM_URL: ${message}`);
  }
  const isAnyAddress = [listen.host, admin.host].some((host) => host === '0.0.0.0' || host === '::');
  if (listen.port !== 0 && listen.port === admin.port && (isAnyAddress || listen.host === admin.host)) {
    const message = `is the port of both listeners, ${listen.port}; give each its own.`;
    if (environment.adminPort !== null) faults.push(`environment: ADMIN_PORT: ${message}`);
    else if (environment.port !== null) faults.push(`environment: PORT: ${message}`);
    else faults.push(print({ ...gateway.locate(['admin', 'port']), message }));
  }
  return faults;
}

function encryptionOf({ tls, http2 = true }: GatewayFile['listen']): Encryption {
  if (tls === undefined) return { tls: null, http2: null };
  return { tls: publicTlsOf(tls), http2: http2 === true ? http2Schema.parse({}) : http2 || null };
}

function publicTlsOf(tls: NonNullable<GatewayFile['listen']['tls']>): PublicTls {
  const { cert = '', key = '', acme } = tls;
  if (acme === undefined) return { cert: resolve(cert), key: resolve(key), acme: null, ...handshakeOf(tls) };
  return { cert: null, key: null, acme: acmeOf(acme), ...handshakeOf(tls) };
}

type AcmeEntry = NonNullable<NonNullable<GatewayFile['listen']['tls']>['acme']>;

function acmeOf({ domains, email, directory, directoryCa, challenge, httpPort = 80, eab }: AcmeEntry): Acme {
  return {
    domains: [...new Set(domains)].sort(),
    email: email ?? null,
    directory,
    directoryCa: directoryCa === undefined ? null : resolve(directoryCa),
    challenge,
    httpPort,
    eab: eab === undefined ? null : { keyId: eab.keyId, hmacKeyFile: resolve(eab.hmacKeyFile) },
  };
}

function tlsOf(tls: GatewayFile['admin']['tls']): Tls | null {
  return tls === undefined ? null : { cert: resolve(tls.cert), key: resolve(tls.key), ...handshakeOf(tls) };
}

function handshakeOf({
  clientCa,
  clientCertificate = 'required',
  minVersion,
}: Omit<NonNullable<GatewayFile['admin']['tls']>, 'cert' | 'key'>): Omit<Tls, 'cert' | 'key'> {
  return {
    clientCa: clientCa === undefined ? null : resolve(clientCa),
    clientCertificate: clientCa === undefined ? 'none' : clientCertificate,
    minVersion,
  };
}

type RouteEntry = GatewayFile['routes'][number];

/**
 * The names under which the store counts for these routes: the pattern, so that counts stay while a route changes, and with
 * the methods before it where several of them have that pattern.
 */
function storeNamesOf(entries: readonly RouteEntry[]): ReadonlyMap<RouteEntry, string> {
  const byPath = Map.groupBy(entries, ({ path }) => path);
  return new Map(
    entries.map((entry) => {
      const { path } = entry;
      return [entry, byPath.get(path)!.length === 1 ? path : `${methodsOf(entry).toSorted().join(',')} ${path}`];
    }),
  );
}

/**
 * @param deprecatedAs the name under which the store counts the calls of this route, if it is deprecated
 * @param keylessAs the name under which the store counts the requests of each address, if the route needs no key
 */
function routeOf(
  entry: RouteEntry,
  { upstreams }: GatewayFile,
  deprecatedAs: string | undefined,
  keylessAs: string | undefined,
): Route {
  const { path, upstream = '', cost, body, websocket, deprecated } = entry;
  const reply = replyOf(entry);
  return {
    path,
    methods: withHead(methodsOf(entry)),
    upstream,
    cost,
    allowsBody: body,
    allowsUpgrade: websocket && reply === null,
    perAddress: keylessAs === undefined ? null : perAddressOf(entry, keylessAs),
    deprecated:
      deprecated === undefined || deprecatedAs === undefined
        ? null
        : {
            countedAs: deprecatedAs,
            sinceMs: deprecated.since,
            sunsetMs: deprecated.sunset ?? null,
            successor: deprecated.successor ?? null,
            link: deprecated.link ?? null,
            brownouts: deprecated.brownouts,
          },
    rewrite: rewriteOf(path, entry.rewrite),
    requestHeaders: fieldRulesOf('request', [upstreams[upstream]?.headers?.request, entry.headers?.request]),
    timeouts: timeoutsOf(entry, upstreams[upstream]),
    retries: reply === null ? retriesOf(entry) : null,
    maxBodyBytes: entry.maxBodyBytes ?? null,
    description: reply === null ? descriptionOf(entry, upstreams) : null,
    compression: compressionOf(entry.compression ?? upstreams[upstream]?.compression),
    reply,
    responseHeaders: fieldRulesOf('response', [upstreams[upstream]?.headers?.response, entry.headers?.response]),
  };
}

function descriptionOf({ validate, upstream = '' }: RouteEntry, upstreams: GatewayFile['upstreams']): string | null {
  return (validate ?? upstreams[upstream]?.validate) || null;
}

function timeoutsOf({ timeouts }: RouteEntry, upstream: UpstreamEntry | undefined): Route['timeouts'] {
  if (timeouts === undefined || upstream === undefined) return null;
  const { response = upstream.responseTimeout, body = upstream.bodyTimeout } = timeouts;
  return { responseTimeoutMs: response, bodyTimeoutMs: body };
}

function retriesOf({ retries }: RouteEntry): Route['retries'] {
  if (retries === undefined) return null;
  const { attempts, on, attemptTimeout = null } = retries;
  return {
    attempts,
    onConnection: on.includes('connection'),
    onStatus: on.filter((failure) => failure !== 'connection'),
    attemptTimeoutMs: attemptTimeout,
  };
}

function compressionOf(compression: RouteEntry['compression']): Route['compression'] {
  if (compression === undefined || compression === false || compression === 'off') return null;
  const { encodings, minBytes } = compression;
  return { codings: encodings, minBytes };
}

function replyOf({ path: pattern, redirect, respond }: RouteEntry): RouteReply | null {
  if (redirect !== undefined) {
    const { origin, path } = redirectParts(redirect.to);
    return { kind: 'redirect', status: redirect.status, origin, path: pathTemplateOf(pattern, path) };
  }
  if (respond === undefined) return null;
  return { kind: 'respond', ...respond, headers: fieldRulesOf('response', [{ set: respond.headers }]) };
}

function rewriteOf(pattern: string, change: PathChange | undefined): PathTemplate | null {
  return change === undefined ? null : pathTemplateOf(pattern, patternAfter(pattern, change));
}

/** Each route has limits of its own. The id under which the store counts them is the same on every replica. */
function perAddressOf({ limits = {} }: RouteEntry, name: string): Route['perAddress'] {
  const id = `public-${createHash('sha256').update(name).digest('hex').slice(0, 12)}`;
  const allowance: Allowance = {
    plan: 'public',
    limits: WINDOWS.flatMap((window) => {
      const limit = limits[window];
      return limit === undefined ? [] : [windowLimit(window, limit)];
    }),
    unlimited: [],
    bans: null,
  };
  return { id, allowance };
}

/** @param url UPSTREAM_URL, which replaces the targets; null if it is not set */
function upstreamsOf(file: GatewayFile, url: string | null): ReadonlyMap<string, Upstream> {
  return new Map(
    Object.entries(file.upstreams).map(([name, upstream]): [string, Upstream] => [
      name,
      {
        name,
        targets: url === null ? upstream.targets : [targetOf(url)],
        connectTimeoutMs: upstream.connectTimeout,
        responseTimeoutMs: upstream.responseTimeout,
        bodyTimeoutMs: upstream.bodyTimeout,
        maxConnections: upstream.maxConnections,
        maxQueue: upstream.maxQueue,
        fairShare: upstream.fairShare,
        health: healthOf(upstream.health),
        tls: upstreamTlsOf(upstream.tls),
      },
    ]),
  );
}

type UpstreamEntry = GatewayFile['upstreams'][string];

function healthOf(health: UpstreamEntry['health']): Health | null {
  if (health === undefined) return null;
  const { interval, timeout, ...rest } = health;
  return { ...rest, intervalMs: interval, timeoutMs: timeout };
}

function upstreamTlsOf(tls: UpstreamEntry['tls']): UpstreamTls | null {
  if (tls === undefined) return null;
  const path = (file: string | undefined) => (file === undefined ? null : resolve(file));
  return {
    ca: path(tls.ca),
    cert: path(tls.cert),
    key: path(tls.key),
    serverName: tls.serverName ?? null,
    verify: tls.verify,
  };
}
