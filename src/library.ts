import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GatewayFileInput } from './config/gateway-schema.ts';
import type { PlansFileInput } from './config/plans-schema.ts';
import { type Configuration, configurationOf } from './config/settings.ts';
import { Failure } from './failure.ts';
import { refuseUnlessRight } from './identify/pepper-record.ts';
import { urlOfListener } from './io/listening.ts';
import { checkNodeInternals } from './io/node-internals.ts';
import { storeContext } from './operations/catalogue/contexts.ts';
import { methodsOn, type OperationMethods } from './operations/catalogue/methods.ts';
import { ownRecording } from './operations/recorded.ts';
import type { Policy } from './policies/policy.ts';
import { type OwnGateway, runGateway } from './serve/gateway-process.ts';

// What `import … from 'tollgate'` has: a gateway in the process of the caller (docs/guides/embed.md). Every type that it names
// is public.

export { Failure, type FailureCode } from './failure.ts';
export type {
  Policy,
  PolicyAllowance,
  PolicyCaller,
  PolicyCustomer,
  PolicyRefusal,
  PolicyRequest,
  PolicyResult,
  PolicyRoute,
} from './policies/policy.ts';

/** What gateway.yaml may have, as an object. */
export type GatewaySettings = GatewayFileInput;
/** What plans.yaml may have, as an object. */
export type PlansSettings = PlansFileInput;

export interface CreateGatewayOptions {
  /**
   * How the gateway runs, as gateway.yaml says it. A port that is left out, in `listen` or `admin`, is a free one. Relative
   * paths are resolved against the working directory.
   */
  readonly gateway: GatewaySettings;
  /** What each plan allows, as plans.yaml says it. */
  readonly plans: PlansSettings;
  /** The policies that routes name (`policies: ['tenant']`), in place of the files that gateway.yaml names. */
  readonly policies?: Readonly<Record<string, Policy>>;
  /**
   * The variables that `tollgate serve` reads from its environment, such as REDIS_URL, KEY_PEPPER and ADMIN_TOKEN. The
   * environment of the process is not read. LOG_LEVEL is `silent` unless it is given; the log goes to standard output.
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /**
   * The folder of the embedded store, which keeps keys and counts for the next gateway that names it. If it is left out, and
   * TOLLGATE_DATA and REDIS_URL too, the store is a temporary folder, which `close` removes.
   */
  readonly dataFolder?: string;
}

/** A gateway that serves in this process. */
export interface EmbeddedGateway {
  /** Where callers reach it: `http://127.0.0.1:43373`. */
  readonly url: string;
  /** Where the admin listener is, with /metrics, /readyz and, if `env` has a token, the admin API. */
  readonly adminUrl: string;
  /** What is probably wrong with the settings but does not keep the gateway from serving, a sentence each. */
  readonly warnings: readonly string[];
  /** Every operation of operators on keys, usage, bans and records, by its name in the admin API. */
  readonly operations: OperationMethods;
  /** Finishes the requests under way, within `listen.drainTimeout`, and closes everything. Calling it again waits for the same end. */
  close(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a gateway in this process, as `tollgate serve` does in one of its own. It follows no files, handles no signals and
 * writes no log unless it is given a LOG_LEVEL. Several may run side by side.
 * @returns the gateway, which accepts requests
 * @throws Failure `bad_settings` with every fault of the objects and of `env` on a line of its own, such as
 *   `plans: plans.free.limits.minute: must be …`; `cannot_listen`, `store_owned` and others as `tollgate serve`
 */
export async function createGateway(options: CreateGatewayOptions): Promise<EmbeddedGateway> {
  const needsFolder = options.dataFolder === undefined && !options.env?.TOLLGATE_DATA && !options.env?.REDIS_URL;
  const temporary = needsFolder ? mkdtempSync(join(tmpdir(), 'tollgate-embedded-')) : null;
  const removeTemporary = () => {
    if (temporary !== null) rmSync(temporary, { recursive: true, force: true });
  };
  try {
    const dataFolder = temporary ?? options.dataFolder;
    const env = {
      LOG_LEVEL: 'silent',
      ...options.env,
      ...(dataFolder === undefined ? {} : { TOLLGATE_DATA: dataFolder }),
    };
    const configuration = await checked(options, env);
    const { listen, admin } = configuration.settings;
    const tls = listen.tls ?? admin.tls;
    const lacking = await checkNodeInternals({ tls: tls !== null, http2: listen.http2 !== null });
    const warnings = [...configuration.warnings, ...lacking];
    const running = await runGateway({ ...configuration, warnings }, env, {
      followsFiles: false,
      followsDate: true,
      policies: options.policies ?? {},
    });
    return embedded(running, { ...configuration, warnings }, removeTemporary);
  } catch (error) {
    removeTemporary();
    throw error;
  }
}

/** @throws Failure `bad_settings` */
async function checked(
  { gateway, plans, policies = {} }: CreateGatewayOptions,
  env: NodeJS.ProcessEnv,
): Promise<Configuration> {
  const names = Object.keys(policies);
  const configuration = await configurationOf({ gateway: withFreePorts(gateway), plans, policies: names }, env);
  const faults = 'faults' in configuration ? [...configuration.faults] : faultsOfEmbedding(configuration);
  for (const name of names)
    if (typeof policies[name] !== 'function') faults.push(`policies: ${name}: must be a function.`);
  if (faults.length > 0 || 'faults' in configuration) throw new Failure('bad_settings', faults.join('\n'));
  return configuration;
}

/** Tests run side by side, and a program may have its own server on 8080. What is no object stays, and is a fault later. */
function withFreePorts(gateway: unknown): unknown {
  if (!isObject(gateway)) return gateway;
  const { listen, admin } = gateway as Record<string, unknown>;
  const free = (listener: unknown) =>
    listener === undefined || isObject(listener) ? { port: 0, ...listener } : listener;
  return { ...gateway, listen: free(listen), admin: free(admin) };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What `tollgate serve` can do and a gateway in another program's process cannot. */
function faultsOfEmbedding({ settings }: Configuration): string[] {
  const faults: string[] = [];
  if (settings.workers !== 1) {
    faults.push(
      'environment: WORKERS: a gateway in your process is one; run `tollgate serve` for several, or leave it out.',
    );
  }
  if (settings.admin.editPlans) {
    faults.push('gateway: admin.editPlans: needs a plans.yaml, and these plans are an object; leave it out.');
  }
  return faults;
}

function embedded(
  running: OwnGateway,
  { settings, plans, versions, warnings }: Configuration,
  onClosed: () => void,
): EmbeddedGateway {
  const { stores } = running;
  let closed: Promise<void> | null = null;
  const context = () => {
    if (closed !== null) throw new Failure('store_unavailable', 'The gateway is closed, and its store with it.');
    refuseUnlessRight(stores.pepperState());
    return storeContext({
      ...stores,
      plans: () => plans,
      plansVersion: () => versions.plans,
      settings: () => settings,
      secretAdvice: 'Call findKey with it.',
      nowMs: () => Date.now(),
    });
  };
  const recording = ownRecording({
    audit: stores.audit,
    settings: settings.audit,
    warn: (line) => process.emitWarning(line.trim()),
    awaitsFinal: true,
  });
  const operations = methodsOn(context, recording);
  const close = () => {
    closed ??= running
      .stop()
      .then(() => {})
      .finally(onClosed);
    return closed;
  };
  return {
    url: urlOfListener(running.host, running.port, running.scheme),
    adminUrl: urlOfListener(running.adminHost, running.adminPort, running.adminScheme),
    warnings,
    operations,
    close,
    [Symbol.asyncDispose]: close,
  };
}
