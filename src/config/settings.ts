import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import type { Plans } from '../admit/plan.ts';
import type { CorsRules } from '../annotate/cors.ts';
import { Failure } from '../failure.ts';
import type { KeyFormat } from '../identify/key-format.ts';
import type { Route } from '../routing/router.ts';
import { type Encryption, encryptionOf } from './encryption.ts';
import { type Environment, type LogLevel, readEnvironment, type Variables } from './environment.ts';
import { type Fault, printFault } from './fault.ts';
import { deepFreeze } from './frozen.ts';
import { type GatewayFile, parseGatewayFile } from './gateway-file.ts';
import { corsOf } from './gateway-schema.ts';
import { type JwtSettings, jwtOf } from './jwt.ts';
import { keyFormatsOf } from './key-formats.ts';
import { parsePlans } from './plans.ts';
import { readSettingsFile, signatureOf, versionOf } from './read-file.ts';
import { routeOf } from './routes.ts';
import { readSecret, rereadSecret } from './secrets.ts';
import { type Upstream, upstreamsOf } from './upstreams.ts';
import type { Parsed } from './yaml.ts';

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
  readonly websockets: {
    readonly maxPerKey: number;
    readonly max: number;
    readonly idleTimeoutMs: number;
    readonly finTimeoutMs: number;
  };
  /** Null: browsers let no page of another origin read answers. */
  readonly cors: CorsRules | null;
  /** Null: JSON Web Tokens are not accepted. */
  readonly jwt: JwtSettings | null;
  /** The formats of API keys that were made elsewhere. */
  readonly keyFormats: readonly KeyFormat[];
  readonly upstreams: ReadonlyMap<string, Upstream>;
  /** In the order of the file; every `upstream` is a key of `upstreams`. */
  readonly routes: readonly Route[];
  /** A hash of routes and targets. All replicas have the same, so that each recognises a request that another forwarded. */
  readonly viaByDefault: string;
  /** Absolute path of the embedded store's folder. */
  readonly dataFolder: string;
  /** Newest first; empty when not set. */
  readonly peppers: readonly string[];
  readonly logLevel: LogLevel;
  readonly workers: number | 'auto';
}

export interface Configuration {
  readonly settings: Settings;
  readonly plans: Plans;
  /** What is probably wrong but does not keep the gateway from serving, one line each. */
  readonly warnings: readonly string[];
  /** The version of each file: the beginning of the SHA-256 of its text. */
  readonly versions: { readonly settings: string; readonly plans: string };
  /** `signatureOf` both files, taken before they were read. */
  readonly signature: string;
}

/** A configuration that cannot be used. */
export interface Faulty {
  /** The faults of the environment and of both files, one printable line each. */
  readonly faults: readonly string[];
  /** The settings, if all faults are in plans.yaml. */
  readonly settings?: Settings;
}

const DEFAULT_GATEWAY_FILE = 'config/gateway.yaml';
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
export function loadConfiguration(env: Variables, isReload = false): Configuration | Faulty {
  const files = filesOf(env);
  const signature = signatureOf(files);
  const read = readEnvironment(env, isReload ? rereadSecret : readSecret);
  const gateway = parseFile(files[0], 'TOLLGATE_CONFIG', parseGatewayFile, isReload);
  const plans = parseFile(files[1], 'TOLLGATE_PLANS', parsePlans, isReload);
  const faults = [
    ...('faults' in read ? read.faults : []),
    ...('faults' in gateway ? gateway.faults : []).map(printFault),
    ...('faults' in plans ? plans.faults : []).map(printFault),
  ];
  if ('faults' in read || 'faults' in gateway) return { faults };
  const settings = deepFreeze(settingsOf(gateway.value, read.environment));
  const conflicts = conflictsOf(settings, gateway, read.environment);
  if (conflicts.length > 0) return { faults: [...conflicts, ...faults] };
  if ('faults' in plans) return { faults, settings };
  return {
    settings,
    plans: plans.value,
    warnings: [...read.warnings, ...[...gateway.warnings, ...plans.warnings].map(printFault)],
    versions: { settings: gateway.version, plans: plans.version },
    signature,
  };
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
): Parsed<T> & { readonly version: string } {
  const read = readSettingsFile(
    file,
    `Name another file in ${variable}, or start in the folder that has it.`,
    isReload,
  );
  if ('fault' in read) return { faults: [read.fault], warnings: [], version: '' };
  return { ...parse(read.text, file), version: versionOf(read.text) };
}

/** The settings of the file, where the environment does not override them. */
function settingsOf(file: GatewayFile, environment: Environment): Settings {
  const { listen, admin, redis } = file;
  const upstreams = upstreamsOf(file, environment.upstreamUrl);
  const routes = file.routes.map(routeOf);
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
    cors: corsOf(file.cors),
    jwt: jwtOf(file.jwt),
    keyFormats: keyFormatsOf(file.keys),
    websockets: {
      maxPerKey: file.websockets.maxPerKey,
      max: file.websockets.max,
      idleTimeoutMs: file.websockets.idleTimeout,
      finTimeoutMs: file.websockets.finTimeout,
    },
    upstreams,
    routes,
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
    else faults.push(printFault({ ...gateway.locate(['admin', 'port']), message }));
  }
  return faults;
}

/** As `loadConfiguration`. @throws Failure `bad_settings` with every fault on a line of its own */
export function configurationFrom(env: NodeJS.ProcessEnv): Configuration {
  const configuration = loadConfiguration(env);
  if ('faults' in configuration) throw new Failure('bad_settings', configuration.faults.join('\n'));
  return configuration;
}
