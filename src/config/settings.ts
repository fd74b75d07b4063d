import { createHash } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import type { CorsRules } from '../annotate/cors.ts';
import { Failure } from '../failure.ts';
import type { KeySource } from '../identify/key-sources.ts';
import type { Plans } from '../model/plan.ts';
import type { Route } from '../routing/route.ts';
import type { Program } from '../validate/program.ts';
import type { ReadDescriptions } from './compiled-descriptions.ts';
import { describedRequests, readDescriptions } from './descriptions.ts';
import { type Environment, readEnvironment, type Variables } from './environment.ts';
import { type Fault, type Path, printFault, printPlace } from './fault.ts';
import { faultOfProtocol, parseGatewayFile } from './gateway-file.ts';
import type { GatewayFile } from './gateway-schema.ts';
import { type PlacedPlans, planRoutesOf, warningsWithRoutes } from './plans-and-routes.ts';
import { parsePlans } from './plans-schema.ts';
import { type PolicyFile, type PolicySource, readPolicies } from './policy-files.ts';
import { readSecret, readSettingsFile, rereadSecret, signatureOf, versionOf } from './read-file.ts';
import { routesOf } from './routes.ts';
import { deepFreeze, type Frozen, targetOf } from './setting-values.ts';
import { certificateWarnings, ownTargets, type SettingsWarning } from './settings-warnings.ts';
import { isMapping, type ParseResult } from './yaml.ts';

/** How the gateway runs: gateway.yaml with the environment laid over it. Deep frozen; a reload makes a new one. */
export type Settings = Frozen<Omit<JoinedSettings, 'routes' | 'descriptions'>> &
  Readonly<Pick<JoinedSettings, 'routes' | 'descriptions'>>;
type JoinedSettings = ReturnType<typeof settingsOf>;
export type Upstream = Settings['upstreams'] extends ReadonlyMap<string, infer U> ? U : never;
/** TLS on the public listener with a certificate that is ordered by ACME. */
export type AcmeTls = Extract<NonNullable<Settings['listen']['tls']>, { readonly cert: null }>;
/** The same with a certificate in a file. */
export type FilesTls = Exclude<NonNullable<Settings['listen']['tls']>, AcmeTls>;
/** Where the certificate is ordered, and for what. */
export type Acme = AcmeTls['acme'];

/** gateway.yaml, or plans.yaml. */
export type SettingsFile = 'settings' | 'plans';

export interface Configuration {
  readonly settings: Settings;
  readonly plans: Plans;
  /** What is probably wrong but does not keep the gateway from serving, one line each. */
  readonly warnings: readonly string[];
  /** The version of each file: the beginning of the SHA-256 of its text. */
  readonly versions: Readonly<Record<SettingsFile, string>>;
  /** The text of plans.yaml, of which `versions.plans` is the version. */
  readonly plansText: string;
  /** `signatureOf` both files and those of `settings.descriptions` and `settings.policyFiles`, taken before they were read. */
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
  const policies = { folder: dirname(resolve(files[0])) };
  return joined({ read, gateway, plans, policies, signature, isReload }, printFault);
}

/** The content of gateway.yaml and of plans.yaml as values. */
interface GivenSettings {
  readonly gateway: unknown;
  readonly plans: unknown;
  /** The names of the policies that routes may name. */
  readonly policies?: readonly string[];
}

/**
 * As `loadConfiguration`, of values in place of files. Faults and warnings begin with `gateway: ` or `plans: ` and the path to
 * the value: `gateway: routes[0].path: …`. What JSON leaves out, such as `undefined`, counts as left out.
 */
export async function configurationOf(given: GivenSettings, env: Variables): Promise<Configuration | Faulty> {
  const gateway = parseValue(given.gateway, 'gateway', parseGatewayFile);
  const plans = parseValue(given.plans, 'plans', parsePlans);
  const policies = { given: given.policies ?? [] };
  return joined({ read: readEnvironment(env), gateway, plans, policies, signature: '', isReload: false }, printPlace);
}

interface Parts {
  readonly read: ReturnType<typeof readEnvironment>;
  readonly gateway: Versioned<GatewayFile>;
  readonly plans: Versioned<Plans>;
  readonly policies: PolicySource;
  readonly signature: string;
  /** Whether the process has read the settings before. */
  readonly isReload: boolean;
}

type Versioned<T> = ParseResult<T> & { readonly version: string; readonly text: string };

async function joined(
  { read, gateway, plans, policies: source, signature, isReload }: Parts,
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
  const routes = routesOf(gateway.value);
  const described = await readDescriptions(describedRequests(routes, gateway.value), gateway, isReload);
  const decided = readPolicies(gateway.value, source, gateway);
  const ofFiles = [...described.faults, ...decided.faults];
  if (ofFiles.length > 0) return faulty(ofFiles.map(print));
  if ('faults' in read) return faulty();
  const settings = deepFreeze(
    settingsOf(gateway.value, routes, read.environment, described.programs, decided.policies),
  );
  const conflicts = conflictsOf(settings, gateway, read.environment, print);
  if (conflicts.length > 0) return faulty(conflicts);
  if ('faults' in plans) return { ...faulty(), settings };
  const together = warningsTogether(settings, { gateway, plans, environment: read.environment }, print);
  return {
    settings,
    plans: plans.value,
    warnings: [
      ...read.warnings,
      ...[...gateway.warnings, ...described.warnings, ...plans.warnings].map(print),
      ...together,
    ],
    plansText: plans.text,
    versions: { ...versions, settings: versionWith(gateway.version, described, decided.policies) },
    signature: [signature, described.signature, decided.signature].filter((part) => part !== '').join(';'),
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

/** The version of gateway.yaml with the descriptions and policies that it names. */
function versionWith(version: string, { texts }: ReadDescriptions, policies: ReadonlyMap<string, PolicyFile>): string {
  const others = [...texts, ...[...policies.values()].map((policy) => policy.version)];
  return others.length === 0 ? version : versionOf([version, ...others].join('\0'));
}

/** As `loadConfiguration`. @throws Failure `bad_settings` with every fault on a line of its own */
export async function configurationFrom(env: NodeJS.ProcessEnv): Promise<Configuration> {
  const configuration = await loadConfiguration(env);
  if ('faults' in configuration) throw new Failure('bad_settings', configuration.faults.join('\n'));
  return configuration;
}

/** The routes of gateway.yaml, for plans that are to be compared with them; null if it does not exist or has faults. */
export function readRoutes(env: Variables): readonly Route[] | null {
  const gateway = parseFile(filesOf(env)[0], 'TOLLGATE_CONFIG', parseGatewayFile);
  return 'faults' in gateway ? null : routesOf(gateway.value);
}

function parseFile<T>(
  file: string,
  variable: string,
  parse: (text: string, file: string) => ParseResult<T>,
  isReload = false,
): Versioned<T> {
  const read = readSettingsFile(
    file,
    `Name another file in ${variable}, run this in the folder that has it, or make one with \`tollgate init\`.`,
    isReload,
  );
  if ('fault' in read) return { faults: [read.fault], warnings: [], version: '', text: '' };
  return { ...parse(read.text, file), version: versionOf(read.text), text: read.text };
}

/** JSON is YAML, so a value is checked by the rules of the file. */
function parseValue<T>(
  value: unknown,
  name: string,
  parse: (text: string, file: string) => ParseResult<T>,
): Versioned<T> {
  const fault = (message: string) => ({ file: name, line: 1, column: 1, path: '', message });
  if (!isMapping(value)) return { faults: [fault('must be an object.')], warnings: [], version: '', text: '' };
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    // The first line of an error about a circle says so; the others draw it.
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { faults: [fault(`cannot be written as JSON: ${reason}.`)], warnings: [], version: '', text: '' };
  }
  return { ...parse(text, name), version: versionOf(text), text };
}

/** The settings of the file, where the environment does not override them. */
function settingsOf(
  file: GatewayFile,
  routes: readonly Route[],
  environment: Environment,
  descriptions: ReadonlyMap<string, Program>,
  policyFiles: ReadonlyMap<string, PolicyFile>,
) {
  const { keys, usage, listen, admin, ...sections } = file;
  const upstreams = upstreamsOf(file, environment.upstreamUrl);
  return {
    ...sections,
    listen: { ...listen, host: environment.host ?? listen.host, port: environment.port ?? listen.port },
    admin: {
      ...admin,
      host: environment.adminHost ?? admin.host,
      port: environment.adminPort ?? admin.port,
      token: environment.adminToken,
      /** Absolute path of ADMIN_TOKENS_FILE, which the admin listener reads; null if it is not set. */
      tokensFile: environment.adminTokensFile === null ? null : resolve(environment.adminTokensFile),
    },
    /** `url` is null for the embedded store. */
    redis: { ...file.redis, url: environment.redisUrl },
    cors: file.cors && corsOf(file.cors, keys.from ?? []),
    keyFormats: keys.formats,
    keysFrom: keys.from,
    readsCertificates: keys.certificates,
    usageHistory: usage.history,
    keepsTraffic: usage.traffic,
    keepsNetworks: usage.history && usage.networks,
    upstreams,
    /** In the order of the file; every `upstream` is a key of `upstreams`. */
    routes,
    /** The OpenAPI descriptions that requests are checked against, by their files. */
    descriptions,
    /** The policies of routes that are files, by their names in the routes. */
    policyFiles,
    /** A hash of routes and targets. All replicas have the same, so that each recognises a request that another forwarded. */
    viaByDefault: viaOf(routes, upstreams),
    /** Absolute path of the embedded store's folder. */
    dataFolder: resolve(environment.dataFolder ?? 'data'),
    /** Newest first; empty when not set. */
    peppers: environment.peppers,
    logLevel: environment.logLevel ?? 'info',
    workers: environment.workers ?? 1,
  };
}

/** A page that may call may also send its key, so the fields of `keys.from` are among those that it may set. */
function corsOf(cors: CorsRules, places: readonly KeySource[]): CorsRules {
  const ofKeys = places.flatMap((place) => (place.kind === 'header' ? [place.name] : []));
  const isNew = (name: string) => !cors.headers.some((other) => other.toLowerCase() === name.toLowerCase());
  return { ...cors, headers: [...cors.headers, ...ofKeys.filter(isNew)] };
}

/** @param url UPSTREAM_URL, which replaces the targets; null if it is not set */
function upstreamsOf(file: GatewayFile, url: string | null) {
  return new Map(
    Object.entries(file.upstreams).map(([name, entry]) => {
      // What these three say of its routes is in the routes.
      const { headers: _, validate: __, compression: ___, ...upstream } = entry;
      return [
        name,
        { name, ...upstream, targets: url === null ? upstream.targets : [{ url: targetOf(url), weight: 1 }] },
      ];
    }),
  );
}

function viaOf(
  routes: readonly Route[],
  upstreams: ReadonlyMap<string, { readonly targets: readonly { readonly url: string }[] }>,
): string {
  const urls = [...upstreams.values()].map(({ targets }) => targets.map(({ url }) => url));
  const text = JSON.stringify([routes.map(({ path }) => path), urls]);
  return `tollgate-${createHash('sha256').update(text).digest('hex').slice(0, 10)}`;
}

/** What is probably wrong although each file is sound alone. */
function warningsTogether(
  settings: Settings,
  { gateway, plans, environment }: { gateway: Placed; plans: PlacedPlans; environment: Environment },
  print: (fault: Fault) => string,
): readonly string[] {
  const inGateway = ({ path, message }: SettingsWarning) => print({ ...gateway.locate(path), message });
  const { upstreamUrl } = environment;
  return [
    ...ownTargets(settings).map((one) =>
      upstreamUrl === null ? inGateway(one) : `environment: UPSTREAM_URL: ${one.message}`,
    ),
    ...certificateWarnings(settings, Date.now()).map(inGateway),
    ...warningsWithRoutes(plans, planRoutesOf(settings.routes)).map(print),
  ];
}

interface Placed {
  locate(path: Path): Fault;
}

/** The conflicts between gateway.yaml and the environment, each of which is sound alone. */
function conflictsOf(
  { listen, admin, upstreams }: Settings,
  gateway: Placed,
  environment: Environment,
  print: (fault: Fault) => string,
): readonly string[] {
  const faults: string[] = [];
  if (environment.upstreamUrl !== null && upstreams.size !== 1) {
    const named = upstreams.size === 0 ? 'none' : 'several';
    const message = `can only replace the targets of one upstream, and gateway.yaml has ${named}; leave it unset.`;
    faults.push(`environment: UPSTREAM_URL: ${message}`);
  }
  for (const { targets, protocol } of environment.upstreamUrl === null ? [] : upstreams.values()) {
    const message = faultOfProtocol(targets[0]!.url, protocol);
    if (message !== null) faults.push(`environment: UPSTREAM_URL: ${message}`);
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
